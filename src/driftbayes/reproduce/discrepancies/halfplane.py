r"""A mode that is counted but does not flow: noise drawn independently on the half-plane.

On the column $k_x = 0$ of a real transform the modes at $\pm k_y$ are conjugates. Kicks drawn
independently there have a part that is not, $g = \tfrac12[\hat\zeta(0,k_y) - \hat\zeta^*(0,-k_y)]$.
Transforms to physical space drop it, so advection never sees it; only friction damps it,
$$\mathrm{d}g = -\lambda g\,\mathrm{d}t + \mathrm{noise}, \qquad \lambda = A/k^2$$
and a sum over the half-plane counts it with energy $e_k = |g|^2/(k^2N^4)$ for each pair:
$$\langle e_k\rangle = \frac{\varepsilon_k}{2\lambda}\,(1 - e^{-2\lambda t}), \qquad
  \varepsilon_k = \varepsilon\,\frac{S(k)/k^2}{\sum_{\mathbf k} S(k)/k^2}$$
with S = 1/k and the sum over the whole ring. Each $e_k$ is exponentially distributed.
"""

__all__ = [
    "SpuriousMode",
    "mode_energy",
    "mode_mean_energy",
    "mode_rates",
    "spurious_mode",
    "variance_of_time_mean",
]

from dataclasses import dataclass
from typing import Any

import numpy as np

from driftbayes.reproduce.discrepancies.naive import naive_flow
from driftbayes.reproduce.discrepancies.paper import (
    ENERGY_PUBLISHED,
    ENSTROPHY_PUBLISHED,
    EPSILON,
    HYPOFRICTION,
    K_F,
    TAU_ZETA,
    WIDTH,
    measured_flow,
    ring_sum,
)
from driftbayes.typing import FloatArray

# The paper's averages.
_FROM, _TO = 500.0, 1000.0
# What leaves the edges of the ring out.
_EDGE = 1e-6
# A flow in which friction takes k_f²/2A = 50 instead of 2048.
_SMALL: dict[str, Any] = {"n": 64, "k_f": 10.0, "width": 2.0, "epsilon": 0.00636, "dt": 1.25e-2}


@dataclass(frozen=True, eq=False)
class SpuriousMode:
    r"""Energy and enstrophy per unit area that a sum over the half-plane counts in excess.

    Args:
        k: Wavenumbers of the spurious modes, all on the axis, each in a ring of its own.
        t: Times.
        energy: Expected excess of energy at these times.
        energy_sd: Its standard deviation over realisations of the noise.
        enstrophy: Expected excess of enstrophy.
        energy_final: Expected excess of energy after a very long time.
        energy_mean: Expected mean excess of energy over t = 500 to 1000, and its standard deviation
            over realisations.
        enstrophy_mean: The same for enstrophy.
        energy_mean_open: That of energy if the edges of the ring, |k| = 62 and 66, are left out.
        enstrophy_mean_open: The same for enstrophy.
        energy_mean_drawn: Mean and standard deviation over drawn realisations of the same.
        enstrophy_mean_drawn: The same for enstrophy.
        energy_published: Published mean less that of our realisations, and the standard
            deviation of the latter over realisations.
        enstrophy_published: The same for enstrophy.
        turnover_time: $\tau_\zeta$ from the published enstrophy, and from that of the flow.
        diffusivity_scale: $2E\tau_\zeta$, the prior mean of both diffusivities, likewise.
        ring_energy: Expected excess of the spectrum in each of the rings at t = 500.
        background: The spectrum at k = 64 without it, and its standard deviation over our
            realisations.
        paths: Some realisations of the excess of energy at the times `t`.
        flow_t: Times of a small flow.
        flow_counted: Energy of each small flow (flow, time) by the sum over the half-plane.
        flow_energy: Energy of its velocity at the points.
        flow_expected: Expected difference.
        flow_expected_sd: Its standard deviation over realisations, of one flow.
        flow_rate: Energy per unit time that the small flows' kicks put where it does not flow: as
            drawn, as expected, and the standard error of the first.
        flow_path_error: Greatest difference between the anti-Hermitian part in the flow and the
            same noise damped by friction alone, relative to its greatest value.
        flow_difference: Greatest difference of vorticity at the points, after a short time, between
            a flow and one whose kicks are the Hermitian part of the same kicks, relative to the
            rms vorticity.
        k_f_small: Wavenumber of the small flow's forcing.
        seed: Of all draws.
    """

    k: FloatArray
    t: FloatArray
    energy: FloatArray
    energy_sd: FloatArray
    enstrophy: FloatArray
    energy_final: float
    energy_mean: tuple[float, float]
    enstrophy_mean: tuple[float, float]
    energy_mean_open: tuple[float, float]
    enstrophy_mean_open: tuple[float, float]
    energy_mean_drawn: tuple[float, float]
    enstrophy_mean_drawn: tuple[float, float]
    energy_published: tuple[float, float]
    enstrophy_published: tuple[float, float]
    turnover_time: tuple[float, float]
    diffusivity_scale: tuple[float, float]
    ring_energy: FloatArray
    background: tuple[float, float]
    paths: FloatArray
    flow_t: FloatArray
    flow_counted: FloatArray
    flow_energy: FloatArray
    flow_expected: FloatArray
    flow_expected_sd: FloatArray
    flow_rate: tuple[float, float, float]
    flow_path_error: float
    flow_difference: float
    k_f_small: float
    seed: int


def mode_rates(epsilon: float, k_f: float, width: float) -> tuple[FloatArray, FloatArray]:
    """The rate at which each spurious mode gains energy, and its wavenumber."""
    k = np.arange(np.ceil(k_f - width), np.floor(k_f + width) + 1)
    return epsilon * k**-3 / ring_sum(k_f, width, -3), k


def mode_energy(rate: FloatArray, k: FloatArray, t: FloatArray) -> FloatArray:
    """Expected energy of each spurious mode (mode, time), from none at t = 0."""
    damping = 2 * HYPOFRICTION / k[:, None] ** 2
    return np.asarray(-rate[:, None] / damping * np.expm1(-damping * t))


def mode_mean_energy(rate: FloatArray, k: FloatArray, a: float, b: float) -> FloatArray:
    """Its mean over the time from a to b."""
    m = 2 * HYPOFRICTION / k**2
    return np.asarray(rate / m * (1 - (np.exp(-m * a) - np.exp(-m * b)) / (m * (b - a))))


def variance_of_time_mean(rate: FloatArray, k: FloatArray, a: float, b: float) -> FloatArray:
    r"""Variance, over realisations, of the mean of each mode's energy over the time from a to b.

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


def spurious_mode(
    seed: int = 0, *, n_drawn: int = 4000, n_flows: int = 8, n_steps: int = 2000
) -> SpuriousMode:
    """The excess at the paper's parameters, and in a small flow that is forced in the same way.

    Args:
        seed: Of all draws.
        n_drawn: Realisations of the spurious modes at the paper's parameters.
        n_flows: Small flows.
        n_steps: Steps of each.
    """
    rate, k = mode_rates(EPSILON, K_F, WIDTH)
    t = np.linspace(0.0, _TO, 101)
    energy = mode_energy(rate, k, t)
    paths = _drawn_energies(np.random.default_rng([seed, 0]), rate, k, t, n_drawn)
    late = t >= _FROM
    means = np.trapezoid(paths[:, :, late], t[late]) / (_TO - _FROM)
    energy_mean, enstrophy_mean = _expected_means(rate, k)
    energy_open, enstrophy_open = _expected_means(*mode_rates(EPSILON, K_F, WIDTH - _EDGE))
    energy_drawn, enstrophy_drawn = (
        (float(drawn.mean()), float(drawn.std(ddof=1))) for drawn in (means @ k**0, means @ k**2)
    )
    small = naive_flow(**_SMALL, n_flows=n_flows, n_steps=n_steps, seed=seed)
    small_rate, small_k = mode_rates(_SMALL["epsilon"], _SMALL["k_f"], _SMALL["width"])
    small_energy = mode_energy(small_rate, small_k, small.t)
    flow = measured_flow()
    return SpuriousMode(
        k=k,
        t=t,
        energy=energy.sum(axis=0),
        energy_sd=np.sqrt(np.sum(energy**2, axis=0)),
        enstrophy=k**2 @ energy,
        energy_final=float(np.sum(rate * k**2) / (2 * HYPOFRICTION)),
        energy_mean=energy_mean,
        enstrophy_mean=enstrophy_mean,
        energy_mean_open=energy_open,
        enstrophy_mean_open=enstrophy_open,
        energy_mean_drawn=energy_drawn,
        enstrophy_mean_drawn=enstrophy_drawn,
        energy_published=(ENERGY_PUBLISHED - flow.energy[0], flow.energy[1]),
        enstrophy_published=(ENSTROPHY_PUBLISHED - flow.enstrophy[0], flow.enstrophy[1]),
        turnover_time=(TAU_ZETA, flow.turnover_time),
        diffusivity_scale=(
            2 * ENERGY_PUBLISHED * TAU_ZETA,
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
            float(np.sqrt(np.sum(small_rate**2) / (n_flows * n_steps))),
        ),
        flow_path_error=small.path_error,
        flow_difference=_difference(seed),
        k_f_small=_SMALL["k_f"],
        seed=seed,
    )


def _drawn_energies(
    rng: np.random.Generator, rate: FloatArray, k: FloatArray, t: FloatArray, n_drawn: int
) -> FloatArray:
    """Energies (realisation, mode, time) of the spurious modes, drawn exactly."""
    # |g|² is the energy if the complex noise has the mode's rate as its variance per unit time.
    decay = np.exp(-HYPOFRICTION / k**2 * (t[1] - t[0]))
    sd = np.sqrt(0.5 * mode_energy(rate, k, t[1:2])[:, 0])
    g = np.zeros((n_drawn, len(k)), dtype=np.complex128)
    energies = [np.zeros(g.shape)]
    for _ in t[1:]:
        noise = rng.standard_normal((*g.shape, 2)) @ np.array([1, 1j])
        g = decay * g + sd * noise
        energies.append(np.abs(g) ** 2)
    return np.stack(energies, axis=-1)


def _expected_means(rate: FloatArray, k: FloatArray) -> list[tuple[float, float]]:
    """Mean and standard deviation of energy and of enstrophy over the paper's averages."""
    mean = mode_mean_energy(rate, k, _FROM, _TO)
    variance = variance_of_time_mean(rate, k, _FROM, _TO)
    return [(float(k**p @ mean), float(np.sqrt(k ** (2 * p) @ variance))) for p in (0, 2)]


def _difference(seed: int) -> float:
    """How far apart two flows are whose kicks differ in what is not Hermitian."""
    options = {**_SMALL, "n_flows": 1, "n_steps": 200, "seed": seed}
    naive, kept = (naive_flow(**options, hermitian=h).vorticity for h in (False, True))
    return float(np.abs(naive - kept).max() / np.sqrt(np.mean(kept**2)))
