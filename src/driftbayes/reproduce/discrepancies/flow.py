"""The flow without the errors: what our own realisations give."""

__all__ = ["Flow", "measured_flow"]

from dataclasses import dataclass
from functools import cache

import numpy as np

from driftbayes.reproduce.turbulence.results import load_results


@dataclass(frozen=True)
class Flow:
    """Means over t = 500 to 1000 and over realisations, per unit area.

    Args:
        energy: Mean energy, and its standard deviation over realisations.
        enstrophy: Mean enstrophy, likewise.
        ring_energy: Spectrum at the forcing's wavenumber, likewise.
    """

    energy: tuple[float, float]
    enstrophy: tuple[float, float]
    ring_energy: tuple[float, float]

    @property
    def turnover_time(self) -> float:
        r"""$\tau_\zeta$."""
        return float(1 / np.sqrt(self.enstrophy[0]))


@cache
def measured_flow(k_f: int = 64) -> Flow:
    """From the results that come with the package.

    Args:
        k_f: The forcing's wavenumber.
    """
    results = load_results()
    scalings = [results.scaling(name) for name in results.realisations]
    rings = [float(d["energy_spectrum"].values[k_f]) for d in results.realisations.values()]

    def summary(values: list[float]) -> tuple[float, float]:
        return float(np.mean(values)), float(np.std(values, ddof=1))

    return Flow(
        energy=summary([s.energy_mean for s in scalings]),
        enstrophy=summary([s.enstrophy_mean for s in scalings]),
        ring_energy=summary(rings),
    )
