r"""Spurious energy of noise drawn independently on the half-plane of wavenumbers.

On the column $k_x = 0$ of a real transform the modes at $\pm k_y$ are conjugates. Kicks drawn
independently there have a part that is not, $g = \tfrac12[\hat\zeta(0,k_y) - \hat\zeta^*(0,-k_y)]$.
Transforms to physical space drop it, so that it is not advected; only friction damps it,
$$\mathrm{d}g = -\lambda g\,\mathrm{d}t + \mathrm{noise}, \qquad \lambda = A/k^2$$
and a sum over the half-plane counts it with energy $e_k = |g|^2/(k^2N^4)$ for each pair:
$$\langle e_k\rangle = \frac{\varepsilon_k}{2\lambda}\,(1 - e^{-2\lambda t}), \qquad
  \varepsilon_k = \varepsilon\,\frac{S(k)/k^2}{\sum_{\mathbf k} S(k)/k^2}$$
with S = 1/k and the sum over the whole ring. Each $e_k$ is exponentially distributed.
"""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from driftbayes._typing import FloatArray
from driftbayes.reproduce.discrepancies._published import (
    EPSILON,
    HYPOFRICTION,
    K_F,
    TAU_ZETA,
    WIDTH,
    complex_noise,
    kinetic_energy,
    measured_flow,
    ring_sum,
)
from driftbayes.reproduce.turbulence.experiment import PUBLISHED
from driftbayes.turbulence.flow import Dissipation, exponential_filter
from driftbayes.turbulence.grid import Grid
from driftbayes.turbulence.noise import random_start

Modes = NDArray[np.complex128]

# Interval of the paper's averages.
_FROM, _TO = 500.0, 1000.0
# Margin that leaves the edges of the ring out.
_EDGE = 1e-6
# Energy of the starts, near the stationary one.
_START_ENERGY = 0.06
# Numbers of drawn realisations, of small flows, and of records of their energies.
_N_DRAWN, _N_FLOWS, _N_RECORDS = 4000, 8, 50


@dataclass(frozen=True)
class ForcedFlow:
    """A small flow forced on a ring.

    Args:
        n: Points along each side.
        k_f: Radius of the forcing ring.
        width: Half width of the ring.
        epsilon: Rate of energy injection, including the part that does not reach the flow.
        dt: Time step.
    """

    n: int
    k_f: float
    width: float
    epsilon: float
    dt: float


# A flow in which friction takes k_f²/2A = 50 instead of 2048.
_SMALL = ForcedFlow(n=64, k_f=10.0, width=2.0, epsilon=0.00636, dt=1.25e-2)


class SpuriousMode(SimpleNamespace):
    r"""Spurious energy and enstrophy per unit area in a sum over the half-plane.

    Args:
        k: Wavenumbers of the spurious modes, all on the axis, each in a different ring.
        t: Times.
        energy: Expected excess of energy at these times.
        energy_sd: Its standard deviation over realisations of the noise.
        enstrophy: Expected excess of enstrophy.
        energy_final: Expected excess of energy after a very long time.
        energy_mean: Expected mean excess of energy over t = 500 to 1000, and its standard deviation
            over realisations. Each `energy_...` has a counterpart `enstrophy_...`.
        energy_mean_open: The same without the edges of the ring, |k| = 62 and 66.
        energy_mean_drawn: The same from drawn realisations.
        energy_published: Published mean minus the mean of our realisations, and the standard
            deviation of the latter over realisations.
        turnover_time: $\tau_\zeta$ from the published enstrophy, and from that of the flow.
        diffusivity_scale: $2E\tau_\zeta$, the prior mean of both diffusivities, from both.
        ring_energy: Expected excess of the spectrum in each of the rings at t = 500.
        background: The spectrum at k = 64 without it, and its standard deviation over our
            realisations.
        paths: A few realisations of the excess of energy at the times `t`.
        flow_t: Times of a small flow.
        flow_counted: Energy of each small flow (flow, time) by the sum over the half-plane.
        flow_energy: Energy of its velocity at the points.
        flow_expected: Expected difference.
        flow_expected_sd: Its standard deviation over realisations, of one flow.
        flow_rate: Energy per unit time of the anti-Hermitian part of the kicks: drawn, expected,
            and the standard error of the first.
        flow_path_error: As `NaiveFlow.path_error`.
        flow_difference: Maximum difference of vorticity at the points, after a short time, between
            a flow and one with the Hermitian part of the same kicks, relative to the rms vorticity.
        k_f_small: Wavenumber of the small flow's forcing.
        seed: Random seed.
    """


def mode_rates(epsilon: float, k_f: float, width: float) -> tuple[FloatArray, FloatArray]:
    """Return the rate of energy gain of each spurious mode, and its wavenumber."""
    k = np.arange(np.ceil(k_f - width), np.floor(k_f + width) + 1)
    return epsilon * k**-3 / ring_sum(k_f, width, -3), k


def mode_energy(rate: FloatArray, k: FloatArray, t: FloatArray) -> FloatArray:
    """Return the expected energy of each spurious mode (mode, time), zero at t = 0."""
    damping = 2 * HYPOFRICTION / k[:, None] ** 2
    return np.asarray(-rate[:, None] / damping * np.expm1(-damping * t))


def mode_mean_energy(rate: FloatArray, k: FloatArray, a: float, b: float) -> FloatArray:
    """Return the mean of that energy over the time from a to b."""
    m = 2 * HYPOFRICTION / k**2
    return np.asarray(rate / m * (1 - (np.exp(-m * a) - np.exp(-m * b)) / (m * (b - a))))


def variance_of_time_mean(rate: FloatArray, k: FloatArray, a: float, b: float) -> FloatArray:
    r"""Return the variance over realisations of the mean of each mode's energy from a to b.

    For circular Gaussian g the covariance of energies is the square of that of g,
    $\mathrm{Cov}(e(s), e(t)) = \langle e(s)\rangle^2\,e^{-2\lambda(t-s)}$ for $t \ge s$. With
    $m = 2\lambda$ the double integral is
    $$\frac{2}{(b-a)^2 m}\int_a^b \langle e(s)\rangle^2\,(1 - e^{-m(b-s)})\,\mathrm{d}s$$
    """
    m = 2 * HYPOFRICTION / k**2
    length, fall = b - a, np.exp(-m * a) - np.exp(-m * b)
    whole = length - 2 * fall / m + (np.exp(-2 * m * a) - np.exp(-2 * m * b)) / (2 * m)
    rise = np.exp(m * b) - np.exp(m * a)
    end = np.exp(-m * b) * (rise / m - 2 * length + fall / m)
    return np.asarray(2 * (rate / m) ** 2 * (whole - end) / (m * length**2))


def spurious_mode(seed: int = 0, *, n_steps: int = 2000) -> SpuriousMode:
    """Compute the excess at the paper's parameters, and in a small flow forced in the same way.

    Args:
        seed: Random seed.
        n_steps: Number of steps of each small flow.
    """
    rate, k = mode_rates(EPSILON, K_F, WIDTH)
    t = np.linspace(0.0, _TO, 101)
    energy = mode_energy(rate, k, t)
    paths = _draw_energies(np.random.default_rng([seed, 0]), rate, k, t)
    late = t >= _FROM
    means = np.trapezoid(paths[:, :, late], t[late]) / (_TO - _FROM)
    flow = measured_flow()
    moments = {}
    for name, power, published in (
        ("energy", 0, PUBLISHED.energy_mean),
        ("enstrophy", 2, PUBLISHED.enstrophy_mean),
    ):
        drawn, (measured, sd) = means @ k**power, getattr(flow, name)
        whole, open_ring = (mode_rates(EPSILON, K_F, width) for width in (WIDTH, WIDTH - _EDGE))
        moments[f"{name}_mean"] = _expected_mean(*whole, power)
        moments[f"{name}_mean_open"] = _expected_mean(*open_ring, power)
        moments[f"{name}_mean_drawn"] = (float(drawn.mean()), float(drawn.std(ddof=1)))
        moments[f"{name}_published"] = (published - measured, sd)
    small = naive_flow(_SMALL, n_flows=_N_FLOWS, n_steps=n_steps, seed=seed)
    small_rate, small_k = mode_rates(_SMALL.epsilon, _SMALL.k_f, _SMALL.width)
    small_energy = mode_energy(small_rate, small_k, small.t)
    return SpuriousMode(
        k=k,
        t=t,
        energy=energy.sum(axis=0),
        energy_sd=np.sqrt(np.sum(energy**2, axis=0)),
        enstrophy=k**2 @ energy,
        energy_final=float(np.sum(rate * k**2) / (2 * HYPOFRICTION)),
        **moments,
        turnover_time=(TAU_ZETA, flow.turnover_time),
        diffusivity_scale=(
            2 * PUBLISHED.energy_mean * TAU_ZETA,
            2 * flow.energy[0] * flow.turnover_time,
        ),
        ring_energy=mode_energy(rate, k, np.array([_FROM]))[:, 0],
        background=flow.ring_energy,
        paths=paths[:5].sum(axis=1),
        flow_t=small.t,
        flow_counted=small.counted,
        flow_energy=small.energy,
        flow_expected=small_energy.sum(axis=0),
        flow_expected_sd=np.sqrt(np.sum(small_energy**2, axis=0)),
        flow_rate=(
            small.lost_rate,
            float(small_rate.sum()),
            float(np.sqrt(np.sum(small_rate**2) / (_N_FLOWS * n_steps))),
        ),
        flow_path_error=small.path_error,
        flow_difference=_flow_difference(seed),
        k_f_small=_SMALL.k_f,
        seed=seed,
    )


def _draw_energies(
    rng: np.random.Generator, rate: FloatArray, k: FloatArray, t: FloatArray
) -> FloatArray:
    """Draw energies (realisation, mode, time) of the spurious modes exactly."""
    # |g|² is the energy if the complex noise has the mode's rate as its variance per unit time.
    decay = np.exp(-HYPOFRICTION / k**2 * (t[1] - t[0]))
    sd = np.sqrt(0.5 * mode_energy(rate, k, t[1:2])[:, 0])
    g = np.zeros((_N_DRAWN, len(k)), dtype=np.complex128)
    energies = [np.zeros(g.shape)]
    for _ in t[1:]:
        g = decay * g + sd * complex_noise(rng, *g.shape)
        energies.append(np.abs(g) ** 2)
    return np.stack(energies, axis=-1)


def _expected_mean(rate: FloatArray, k: FloatArray, power: int) -> tuple[float, float]:
    """Return mean and sd of energy times a power of k, averaged over the paper's interval."""
    mean = mode_mean_energy(rate, k, _FROM, _TO)
    variance = variance_of_time_mean(rate, k, _FROM, _TO)
    return float(k**power @ mean), float(np.sqrt(k ** (2 * power) @ variance))


def _flow_difference(seed: int) -> float:
    """Return the difference of two flows whose kicks differ in the anti-Hermitian part."""
    naive, kept = (
        naive_flow(_SMALL, n_flows=1, n_steps=200, seed=seed, hermitian=h).vorticity
        for h in (False, True)
    )
    return float(np.abs(naive - kept).max() / np.sqrt(np.mean(kept**2)))


class NaiveFlow(NamedTuple):
    """Small flows whose kicks are drawn independently on the half-plane.

    Args:
        t: Times.
        counted: Energy (flow, time) by the sum over the half-plane.
        energy: Energy of the velocity at the points.
        lost_rate: Mean energy per unit time of the anti-Hermitian part of the kicks.
        path_error: Maximum difference between the anti-Hermitian part in the flows and the same
            noise damped by friction alone, relative to its maximum.
        vorticity: Final vorticity at the points (flow, y, x).
    """

    t: FloatArray
    counted: FloatArray
    energy: FloatArray
    lost_rate: float
    path_error: float
    vorticity: FloatArray


def naive_flow(
    flow: ForcedFlow, *, n_flows: int, n_steps: int, seed: int, hermitian: bool = False
) -> NaiveFlow:
    """Run a plain pseudo-spectral solver: real transforms, AB3, hypofriction, the paper's filter.

    This package's own solver packs two real fields into one complex transform and would not drop an
    anti-Hermitian part.

    Args:
        flow: The flow.
        n_flows: Number of flows, stepped together.
        n_steps: Number of steps.
        seed: Random seed of starts and kicks.
        hermitian: Whether to take the Hermitian part of each kick, of the same draws.
    """
    n, dt = flow.n, flow.dt
    grid = Grid(n)
    rng = np.random.default_rng([seed, 1])
    decay = np.exp(Dissipation(hypofriction=HYPOFRICTION).rate(grid) * dt)
    damping = grid.resolved * exponential_filter(grid)
    rows, columns = np.nonzero(np.abs(grid.kmag - flow.k_f) <= flow.width)
    kmag = grid.kmag[rows, columns]
    sd = np.sqrt(flow.epsilon * dt * n**4 / kmag / ring_sum(flow.k_f, flow.width, -3))
    starts = [random_start(grid, seed + i, _START_ENERGY) for i in range(n_flows)]
    zeta = np.stack([start * grid.resolved for start in starts])
    alone = np.zeros((n_flows, n), dtype=np.complex128)
    # Begin with an Euler step, whose lower order is good enough here.
    now = _advection(grid, zeta)
    older = (now, now)
    every = max(n_steps // _N_RECORDS, 1)
    records, error, scale, lost_energy = [], 0.0, 0.0, 0.0
    for step in range(1, n_steps + 1):
        zeta = decay * (
            zeta + dt / 12 * (23 * now - 16 * decay * older[0] + 5 * decay**2 * older[1])
        )
        zeta *= damping
        kick = np.zeros_like(zeta)
        kick[:, rows, columns] = sd * complex_noise(rng, n_flows, len(sd))
        lost = kick[:, :, 0] - hermitian_part(kick)[:, :, 0]
        lost_energy += 0.5 * float(np.sum(np.abs(lost) ** 2 * grid.inverse_k2[:, 0])) / n**4
        alone = decay[:, 0] * alone + lost
        zeta += hermitian_part(kick) if hermitian else kick
        older, now = (now, older[0]), _advection(grid, zeta)
        if step % every == 0:
            records.append((step * dt, *_energies(grid, zeta)))
            spurious = zeta[:, :, 0] - hermitian_part(zeta)[:, :, 0]
            error = max(error, float(np.abs(spurious - alone).max()))
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
    r"""Return the part of modes on the half-plane that a real inverse transform keeps.

    On the column $k_x = 0$ it is $\tfrac12[\hat f(0, k_y) + \hat f^*(0, -k_y)]$, the mean of the
    two values that should be conjugates: NumPy's `irfft2` transforms along y first, and then takes
    the real part at $k_x = 0$. The other columns have no partner on the half-plane and are kept;
    the Nyquist column must be zero.
    """
    mirrored = np.roll(modes[..., ::-1, 0], 1, axis=-1)
    kept = modes.copy()
    kept[..., 0] = 0.5 * (modes[..., 0] + np.conj(mirrored))
    return kept


def _advection(grid: Grid, zeta: Modes) -> Modes:
    r"""Compute $-\mathbf u\cdot\nabla\zeta$ as a divergence, by five real transforms."""
    psi = -zeta * grid.inverse_k2
    u, v, vorticity = (
        np.fft.irfft2(modes) for modes in (-1j * grid.ky * psi, 1j * grid.kx * psi, zeta)
    )
    flux = grid.kx * np.fft.rfft2(u * vorticity) + grid.ky * np.fft.rfft2(v * vorticity)
    return np.asarray(-1j * flux * grid.resolved)


def _energies(grid: Grid, zeta: Modes) -> tuple[FloatArray, FloatArray]:
    """Return each flow's energy by the sum over the half-plane, and from velocities at points."""
    weighted = grid.weights * np.abs(zeta) ** 2 * grid.inverse_k2
    counted = 0.5 * np.sum(weighted, axis=(-2, -1)) / grid.n**4
    return counted, kinetic_energy(grid, zeta)
