r"""Rate of energy injection implied by the printed amplitude of the forcing.

If the real and the imaginary part of the unnormalised transform of each step's increment of
vorticity have variance $\sigma^2(k)$, energy and enstrophy per unit area grow by
$$\varepsilon = \frac{1}{N^4\,\mathrm{d}t}\sum_{\mathbf k}\frac{\sigma^2(k)}{k^2}, \qquad
  \eta = \frac{1}{N^4\,\mathrm{d}t}\sum_{\mathbf k}\sigma^2(k)$$
The paper prints $\sigma^2 = A_F/(2\pi k)$ and states neither the normalisation of the transform nor
whether F is an increment or a tendency.

Friction $A\psi$ removes energy at the rate $A\langle\psi^2\rangle$ and enstrophy at the rate $2AE$;
the filter removes both, only beyond $k_c$, and so at least $k_c^2$ times as much enstrophy as
energy.
With $\langle\psi^2\rangle \le 2E$, a stationary flow without aliasing has
$$\frac{\varepsilon - \eta/k_c^2}{2A} \le E \le \frac{\eta}{2A}$$
"""

from types import SimpleNamespace
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from driftbayes.reproduce.discrepancies._published import (
    A_F,
    DT,
    GRID,
    HYPOFRICTION,
    K_F,
    WIDTH,
    complex_noise,
    kinetic_energy,
    measured_flow,
    ring_sum,
)
from driftbayes.reproduce.turbulence.experiment import PUBLISHED
from driftbayes.turbulence.budgets import energy_mean
from driftbayes.turbulence.config import RunConfig
from driftbayes.turbulence.forcing import ring_modes
from driftbayes.turbulence.grid import Grid
from driftbayes.turbulence.march import begin, march
from driftbayes.turbulence.noise import random_start
from driftbayes.turbulence.particles import INTERPOLATIONS

# Name, meaning, amplitude, variance times k / amplitude, factor of the variance.
_READINGS: tuple[tuple[str, str, float, float, float], ...] = (
    ("a", "increment per step, variance A_F/(2πk) as printed", A_F, 0.5 / np.pi, 1.0),
    ("b", "increment per step, variance A_F/(πk), A_F = 8.93e8", 8.93e8, 1 / np.pi, 1.0),
    ("c", "tendency, times dt", A_F, 0.5 / np.pi, DT**2),
    ("d", "tendency of white noise, times √dt", A_F, 0.5 / np.pi, DT),
    ("e", "transform divided by N², increment", A_F, 0.5 / np.pi, GRID**4),
    ("f", "transform divided by N², tendency times dt", A_F, 0.5 / np.pi, GRID**4 * DT**2),
    ("g", "transform divided by N², tendency times √dt", A_F, 0.5 / np.pi, GRID**4 * DT),
    ("h", "transform divided by N, tendency times dt", A_F, 0.5 / np.pi, GRID**2 * DT**2),
    (
        "i",
        "integral over the domain, tendency times dt",
        A_F,
        0.5 / np.pi,
        (GRID / (2 * np.pi)) ** 4 * DT**2,
    ),
)
# Readings whose energy is also measured from drawn kicks.
_DRAWN = ("a", "b")

# Cutoff of the filter, and a margin that leaves the edges of the ring out.
_K_CUT, _EDGE = 0.65 * GRID / 2, 1e-6

# A small flow, started near its stationary energy, for the dependence of energy on ε.
_SMALL: dict[str, Any] = {"grid": 64, "k_f": 12.0, "dt": 8e-3}
_SMALL_EPSILON, _SMALL_ENERGY, _BLOCKS = 0.00636, 0.07, 8


class ForcingReadings(SimpleNamespace):
    r"""Consequences of each reading of the printed forcing, per unit area.

    Args:
        names: Short names of the readings.
        meanings: Interpretation of the printed formula.
        epsilon: Rate of energy injection.
        epsilon_open: The same without the edges of the ring, |k| = 62 and 66.
        energy_least: Minimum stationary energy.
        energy_most: Maximum stationary energy.
        is_possible: Whether the published energy lies between the two.
        energy_scaled: Energy by the power law of the small flow, from that of our realisations
            at the reading "b"; NaN where the published energy is impossible.
        epsilon_drawn: Rate measured in physical space from drawn kicks; NaN where not measured.
        epsilon_drawn_error: Its standard error.
        small_energies: Stationary energies of a small flow at a rate of injection and at half of
            it.
        small_errors: Standard errors of these energies.
        energy_ratio: The second over the first.
        energy_ratio_error: Its standard error.
        energy_ratio_scaling: The ratio if $E \propto \varepsilon^{3/4}A^{-1/4}$, by dimensional
            analysis without the scale of the forcing.
        exponent: Exponent of the power law of energy in ε, from the ratio.
        seed: Random seed.
    """


def forcing_readings(
    seed: int = 0, *, n_draws: int = 16, duration: float = 200.0
) -> ForcingReadings:
    """Compute the rate of energy injection of every reading, and the energies it can sustain.

    Args:
        seed: Random seed of the kicks and the small flow.
        n_draws: Number of realisations of the kicks from rest.
        duration: Duration of the small flow at each rate.
    """
    factors = np.array([amplitude * share * scale for *_, amplitude, share, scale in _READINGS])
    per_time = factors / (GRID**4 * DT)
    epsilon, eta = (per_time * ring_sum(K_F, WIDTH, power) for power in (-3, -1))
    least = (epsilon - eta / _K_CUT**2) / (2 * HYPOFRICTION)
    most = eta / (2 * HYPOFRICTION)
    published = PUBLISHED.energy_mean
    is_possible = (least <= published) & (published <= most)
    names = tuple(name for name, *_ in _READINGS)
    drawn, error = np.full((2, len(names)), np.nan)
    for i in (names.index(name) for name in _DRAWN):
        rng = np.random.default_rng([seed, i])
        rates = [_drawn_rate(rng, factors[i]) for _ in range(n_draws)]
        drawn[i], error[i] = np.mean(rates), np.std(rates, ddof=1) / np.sqrt(n_draws)
    (full, full_error), (half, half_error) = (
        _stationary_energy(_SMALL_EPSILON / part, seed, duration) for part in (1, 2)
    )
    ratio = half / full
    exponent = -np.log2(ratio)
    scaled = measured_flow().energy[0] * (epsilon / epsilon[names.index("b")]) ** exponent
    return ForcingReadings(
        names=names,
        meanings=tuple(meaning for _, meaning, *_ in _READINGS),
        epsilon=epsilon,
        epsilon_open=per_time * ring_sum(K_F, WIDTH - _EDGE, -3),
        energy_least=least,
        energy_most=most,
        is_possible=is_possible,
        energy_scaled=np.where(is_possible, scaled, np.nan),
        epsilon_drawn=drawn,
        epsilon_drawn_error=error,
        small_energies=np.array([full, half]),
        small_errors=np.array([full_error, half_error]),
        energy_ratio=ratio,
        energy_ratio_error=float(ratio * np.hypot(full_error / full, half_error / half)),
        energy_ratio_scaling=float(0.5**0.75),
        exponent=float(exponent),
        seed=seed,
    )


def _drawn_rate(rng: np.random.Generator, factor: float) -> float:
    """Return the kinetic energy after four kicks from rest, per unit time."""
    grid, n_steps = Grid(GRID), 4
    kx, ky = ring_modes(K_F, WIDTH).T
    sd = np.sqrt(factor / np.hypot(kx, ky))
    kicks = sd * complex_noise(rng, n_steps, len(sd))
    zeta = np.zeros(grid.shape, dtype=np.complex128)
    zeta[ky, kx] = kicks.sum(axis=0)
    axis = kx == 0
    zeta[-ky[axis], 0] = np.conj(zeta[ky[axis], 0])
    return float(kinetic_energy(grid, zeta) / (n_steps * DT))


_energy_mean = eqx.filter_jit(energy_mean)


def _stationary_energy(epsilon: float, seed: int, duration: float) -> tuple[float, float]:
    """Return the mean energy of a small forced flow and its error, without the first quarter."""
    dt = _SMALL["dt"]
    short: dict[str, Any] = {"spin_up": 0.0, "duration": 40 * dt, "snapshot_every": 0.0}
    config = RunConfig(
        **_SMALL, **short, record_every=4 * dt, diagnose_every=4 * dt, epsilon=epsilon
    )
    flow, bilinear, no_particles = config.flow(), INTERPOLATIONS["bilinear"], jnp.zeros((0, 2))
    # Start near the stationary energy, to save time.
    energy = _SMALL_ENERGY * (epsilon / _SMALL_EPSILON) ** 0.75
    zeta = random_start(flow.grid, seed=seed, energy=energy)
    state, _ = begin(flow, flow.start(jnp.asarray(zeta), seed), no_particles, bilinear)
    n_pairs = 62
    energies = []
    for _ in range(round(duration / (2 * n_pairs * dt))):
        state = march(flow, state, no_particles, bilinear, 1, n_pairs)[0]
        energies.append(float(_energy_mean(flow.grid, state.zeta)))
    kept = np.array(energies[len(energies) // 4 :])
    blocks = np.array([block.mean() for block in np.array_split(kept, _BLOCKS)])
    return float(kept.mean()), float(blocks.std(ddof=1) / np.sqrt(_BLOCKS))
