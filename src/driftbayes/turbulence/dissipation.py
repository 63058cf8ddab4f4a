r"""The linear terms and the filter: what takes energy and enstrophy out of the flow."""

__all__ = ["Dissipation", "Filter", "exponential_filter"]

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from driftbayes.turbulence.grid import Grid
from driftbayes.typing import FloatArray

Filter = Literal["per-step", "rate", "none"]


@dataclass(frozen=True)
class Dissipation:
    r"""Linear terms of the vorticity equation, $\partial_t\hat\zeta = \dots + L(k)\,\hat\zeta$.

    $$L = -A\,k^{-2} - \mu - \nu k^2 - \nu_h k^{2p} + i\beta k_x/k^2$$

    Args:
        hypofriction: A of the term $A\psi$, the paper's large-scale friction (A_lsf).
        drag: Linear drag $\mu$.
        viscosity: $\nu$.
        hyperviscosity: $\nu_h$.
        hyperviscosity_power: p.
        beta: Gradient of the Coriolis parameter; makes L complex.
    """

    hypofriction: float = 0.0
    drag: float = 0.0
    viscosity: float = 0.0
    hyperviscosity: float = 0.0
    hyperviscosity_power: int = 4
    beta: float = 0.0

    def rate(self, grid: Grid) -> NDArray[np.float64] | NDArray[np.complex128]:
        """L(k) on the half-plane; 0 at k = 0."""
        k2, inverse = grid.k2, grid.inverse_k2
        rate = -(
            self.hypofriction * inverse
            + self.drag
            + self.viscosity * k2
            + self.hyperviscosity * k2**self.hyperviscosity_power
        ) * (k2 > 0)
        if self.beta:
            return rate + 1j * self.beta * grid.kx * inverse
        return np.asarray(rate)


def exponential_filter(
    grid: Grid, *, cutoff: float = 0.65, strength: float = 23.6, order: int = 4
) -> FloatArray:
    r"""The paper's filter, by which a mode is multiplied once per step.

    $$F(k) = \exp(-23.6\,(k\Delta x - 0.65\pi)^4) \quad\text{for}\quad k\Delta x > 0.65\pi$$

    Args:
        grid: The grid.
        cutoff: Where it begins, as a fraction of π.
        strength: The factor, 23.6.
        order: The power, 4.
    """
    beyond = np.maximum(grid.kmag * grid.spacing - cutoff * np.pi, 0.0)
    return np.exp(-strength * beyond**order)
