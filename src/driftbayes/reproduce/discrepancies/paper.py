"""Numbers of the paper's turbulence experiment."""

__all__ = [
    "A_F",
    "DT",
    "ENERGY_PUBLISHED",
    "ENSTROPHY_PUBLISHED",
    "EPSILON",
    "GRID",
    "HYPOFRICTION",
    "K_F",
    "TAU_ZETA",
    "U_RMS",
    "WIDTH",
    "plain",
    "ring_sum",
]

from dataclasses import fields
from typing import Any

import numpy as np

from driftbayes.turbulence.forcing import ring_modes

# Printed in the paper.
GRID = 1024
DT = 2.5e-4
K_F, WIDTH = 64.0, 2.0
A_F = 8.9e8
HYPOFRICTION = 1.0

# Found by recomputing the published series, per unit area: the rate of energy injection, and the
# published means over t = 500 to 1000.
EPSILON = 0.00636
ENERGY_PUBLISHED, ENSTROPHY_PUBLISHED = 0.2315, 185.2
U_RMS = float(np.sqrt(2 * ENERGY_PUBLISHED))
TAU_ZETA = float(1 / np.sqrt(ENSTROPHY_PUBLISHED))


def ring_sum(k_f: float, width: float, power: float) -> float:
    r"""$\sum |\mathbf k|^p$ over all wavenumbers of the plane with $||\mathbf k| - k_f| \le w$."""
    return float(2 * np.sum(np.hypot(*ring_modes(k_f, width).T) ** power))


def plain(record: Any) -> dict[str, Any]:
    """The fields of a record as numbers, text and lists, for JSON; NaN becomes None."""

    def value(thing: Any) -> Any:
        if isinstance(thing, np.ndarray):
            return value(thing.tolist())
        if isinstance(thing, (list, tuple)):
            return [value(part) for part in thing]
        if isinstance(thing, float) and not np.isfinite(thing):
            return None
        return thing

    return {field.name: value(getattr(record, field.name)) for field in fields(record)}
