"""A plain pseudo-spectral solver whose kicks may break the symmetry of a real field's transform."""

__all__ = ["NaiveFlow", "hermitian_part", "naive_flow"]

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from driftbayes.reproduce.discrepancies.paper import HYPOFRICTION, ring_sum
from driftbayes.turbulence.flow import Dissipation, exponential_filter
from driftbayes.turbulence.grid import Grid
from driftbayes.turbulence.start import random_start
from driftbayes.typing import FloatArray

Modes = NDArray[np.complex128]
# Of the starts, near what the flows will have.
_ENERGY = 0.06


class NaiveFlow(NamedTuple):
    """Small flows whose kicks are drawn independently on the half-plane.

    Args:
        t: Times.
        counted: Energy (flow, time) by the sum over the half-plane.
        energy: Energy of the velocity at the points.
        lost_rate: Energy per unit time of what is not Hermitian in the kicks, on average.
        path_error: Greatest difference between the anti-Hermitian part in the flows and the same
            noise damped by friction alone, relative to its greatest value.
        vorticity: At the points, at the end (flow, y, x).
    """

    t: FloatArray
    counted: FloatArray
    energy: FloatArray
    lost_rate: float
    path_error: float
    vorticity: FloatArray


def naive_flow(
    *,
    n: int,
    k_f: float,
    width: float,
    epsilon: float,
    dt: float,
    n_flows: int,
    n_steps: int,
    seed: int,
    hermitian: bool = False,
    n_records: int = 50,
) -> NaiveFlow:
    """A plain pseudo-spectral solver with real transforms: AB3, hypofriction, the paper's filter.

    Not this package's own, which packs two real fields into one complex transform and would not
    drop an anti-Hermitian part.

    Args:
        n: Points along each side.
        k_f: Radius of the forcing ring.
        width: Half its width.
        epsilon: Rate of energy injection, the part that does not reach the flow included.
        dt: Time step.
        n_flows: Flows, stepped together.
        n_steps: Steps.
        seed: Of starts and kicks.
        hermitian: Whether to take the Hermitian part of each kick, of the same draws.
        n_records: Records of the energies.
    """
    grid = Grid(n)
    rng = np.random.default_rng([seed, 1])
    decay = np.exp(Dissipation(hypofriction=HYPOFRICTION).rate(grid) * dt)
    damping = grid.resolved * exponential_filter(grid)
    rows, columns = np.nonzero(np.abs(grid.kmag - k_f) <= width)
    kmag = grid.kmag[rows, columns]
    sd = np.sqrt(epsilon * dt * n**4 / kmag / ring_sum(k_f, width, -3))
    zeta = np.stack([random_start(grid, seed + i, _ENERGY) * grid.resolved for i in range(n_flows)])
    alone = np.zeros((n_flows, n), dtype=np.complex128)
    # Euler's step begins: a start of lower order does no harm here.
    now = _advection(grid, zeta)
    older = (now, now)
    every = max(n_steps // n_records, 1)
    records, error, scale, lost_energy = [], 0.0, 0.0, 0.0
    for step in range(1, n_steps + 1):
        zeta = decay * (
            zeta + dt / 12 * (23 * now - 16 * decay * older[0] + 5 * decay**2 * older[1])
        )
        zeta *= damping
        kick = np.zeros_like(zeta)
        kick[:, rows, columns] = sd * (
            rng.standard_normal((n_flows, len(sd), 2)) @ np.array([1, 1j])
        )
        lost = kick[:, :, 0] - hermitian_part(kick)[:, :, 0]
        lost_energy += 0.5 * float(np.sum(np.abs(lost) ** 2 * grid.inverse_k2[:, 0])) / n**4
        alone = decay[:, 0] * alone + lost
        zeta += hermitian_part(kick) if hermitian else kick
        older, now = (now, older[0]), _advection(grid, zeta)
        if step % every == 0:
            records.append((step * dt, *_energies(grid, zeta)))
            found = zeta[:, :, 0] - hermitian_part(zeta)[:, :, 0]
            error = max(error, float(np.abs(found - alone).max()))
            scale = max(scale, float(np.abs(alone).max()))
    t, counted, energy = zip(*records, strict=True)
    return NaiveFlow(
        t=np.array(t),
        counted=np.stack(counted, axis=-1),
        energy=np.stack(energy, axis=-1),
        lost_rate=lost_energy / (n_flows * n_steps * dt),
        path_error=error / scale,
        vorticity=np.fft.irfft2(zeta),
    )


def hermitian_part(modes: Modes) -> Modes:
    r"""What a real inverse transform keeps of modes on the half-plane.

    On the column $k_x = 0$ it is $\tfrac12[\hat f(0, k_y) + \hat f^*(0, -k_y)]$, the mean of the
    two values that should be conjugates: NumPy's `irfft2` transforms along y first, and of the
    result at $k_x = 0$ its transform along x takes the real part and ignores the rest. The other
    columns have no partner on the half-plane and are kept; the Nyquist column must be zero.
    """
    mirrored = np.roll(modes[..., ::-1, 0], 1, axis=-1)
    kept = modes.copy()
    kept[..., 0] = 0.5 * (modes[..., 0] + np.conj(mirrored))
    return kept


def _advection(grid: Grid, zeta: Modes) -> Modes:
    r"""Transform of $-\mathbf u\cdot\nabla\zeta$ as a divergence, by five real transforms."""
    psi = -zeta * grid.inverse_k2
    u, v, vorticity = (
        np.fft.irfft2(modes) for modes in (-1j * grid.ky * psi, 1j * grid.kx * psi, zeta)
    )
    flux = grid.kx * np.fft.rfft2(u * vorticity) + grid.ky * np.fft.rfft2(v * vorticity)
    return np.asarray(-1j * flux * grid.resolved)


def _energies(grid: Grid, zeta: Modes) -> tuple[FloatArray, FloatArray]:
    """Energy of each flow by the sum over the half-plane, and of the velocity at the points."""
    psi = -zeta * grid.inverse_k2
    weighted = grid.weights * np.abs(zeta) ** 2 * grid.inverse_k2
    counted = 0.5 * np.sum(weighted, axis=(-2, -1)) / grid.n**4
    u, v = np.fft.irfft2(-1j * grid.ky * psi), np.fft.irfft2(1j * grid.kx * psi)
    return counted, 0.5 * np.mean(u**2 + v**2, axis=(-2, -1))
