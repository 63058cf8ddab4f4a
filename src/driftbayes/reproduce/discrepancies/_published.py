"""Numbers of the paper's turbulence experiment, and of realisations without its errors."""

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from driftbayes._typing import FloatArray
from driftbayes.reproduce.turbulence.experiment import PUBLISHED
from driftbayes.reproduce.turbulence.results import load_results
from driftbayes.turbulence.forcing import ring_modes
from driftbayes.turbulence.grid import Grid

# From the paper.
GRID = 1024
DT = 2.5e-4
K_F, WIDTH = 64.0, 2.0
A_F = 8.9e8
HYPOFRICTION = 1.0

# Rate of energy injection per unit area, from the published series.
EPSILON = 0.00636
U_RMS, TAU_ZETA = PUBLISHED.u_rms, PUBLISHED.eddy_turnover_time


def ring_sum(k_f: float, width: float, power: float) -> float:
    r"""Sum $|\mathbf k|^p$ over all wavenumbers of the plane with $||\mathbf k| - k_f| \le w$."""
    return float(2 * np.sum(np.hypot(*ring_modes(k_f, width).T) ** power))


def complex_noise(rng: np.random.Generator, *shape: int) -> NDArray[np.complex128]:
    """Draw complex numbers with independent standard normal parts."""
    return rng.standard_normal((*shape, 2)) @ np.array([1, 1j])


def kinetic_energy(grid: Grid, zeta: NDArray[np.complex128]) -> FloatArray:
    """Return the energy per unit area at the grid points, from the transform of the vorticity."""
    psi = -zeta * grid.inverse_k2
    u, v = np.fft.irfft2(-1j * grid.ky * psi), np.fft.irfft2(1j * grid.kx * psi)
    return np.asarray(0.5 * np.mean(u**2 + v**2, axis=(-2, -1)))


class MeasuredFlow(NamedTuple):
    """Means over t = 500 to 1000, and their standard deviations over realisations, per unit area.

    Args:
        energy: Energy.
        enstrophy: Enstrophy.
        ring_energy: Energy spectrum at the forcing's wavenumber.
    """

    energy: tuple[float, float]
    enstrophy: tuple[float, float]
    ring_energy: tuple[float, float]

    @property
    def turnover_time(self) -> float:
        r"""$\tau_\zeta$."""
        return float(1 / np.sqrt(self.enstrophy[0]))


@cache
def measured_flow() -> MeasuredFlow:
    """Measure the flow in the packaged results."""
    results = load_results()
    scalings = [results.scaling(name) for name in results.realisations]
    rings = [float(d["energy_spectrum"].values[int(K_F)]) for d in results.realisations.values()]

    def summary(values: list[float]) -> tuple[float, float]:
        return float(np.mean(values)), float(np.std(values, ddof=1))

    return MeasuredFlow(
        energy=summary([s.energy_mean for s in scalings]),
        enstrophy=summary([s.enstrophy_mean for s in scalings]),
        ring_energy=summary(rings),
    )
