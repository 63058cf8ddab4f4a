"""A velocity that turns: linear, but with axes that a filter's guide takes to be independent.

    dX = U dt,  dU_1 = (-γ U_1 - Ω U_2) dt + b dW_1,  dU_2 = (-γ U_2 + Ω U_1) dt + b dW_2

with b² = 2γ²k: each axis by itself has the variance γk of Langevin's velocity.
"""

from dataclasses import replace
from functools import cache

import jax.numpy as jnp
import numpy as np
from equations import UNIT
from scipy.linalg import expm

from driftbayes import SDE
from driftbayes.sde import Filter, ParticleDensity
from driftbayes.sde._pilot import MIN_PARTICLES, run_pilot
from driftbayes.sde._substeps import change_of

VALUES = {"gamma": 1.3, "k": 0.7, "omega": 0.8}


@cache
def spinning():
    return SDE(
        lambda x, u, t, th: -th.gamma * u + th.omega * jnp.stack([-u[1], u[0]]),
        lambda x, u, t, th: th.gamma * jnp.sqrt(2 * th.k),
        {"gamma": UNIT, "k": UNIT, "omega": UNIT},
        name="spinning",
        initial_velocity=lambda x, t, th: jnp.sqrt(th.gamma * th.k),
    )


def exact_log_likelihood(data, gamma, k, omega):
    """Ln p of exact fixes by a Kalman filter of both axes together, in NumPy."""
    tau = float(data.interval[0])
    turn = np.array([[-gamma, -omega], [omega, -gamma]])
    rates = np.block([[np.zeros((2, 2)), np.eye(2)], [np.zeros((2, 2)), turn]])
    noise = np.diag([0, 0, 1, 1]) * 2 * gamma**2 * k
    # Van Loan: propagator and covariance by one exponential.
    both = expm(np.block([[-rates, noise], [np.zeros((4, 4)), rates.T]]) * tau)
    propagator = both[4:, 4:].T
    cov = propagator @ both[:4, 4:]
    total, first = 0.0, 0
    for size in data.row_sizes:
        mean, spread = np.zeros(4), np.diag([0, 0, 1, 1]) * gamma * k
        for dx in data.dx[first : first + size]:
            mean, spread = propagator @ mean, propagator @ spread @ propagator.T + cov
            seen, error = spread[:2, :2], dx - mean[:2]
            gain = np.linalg.solve(seen, spread[:2]).T
            total -= 0.5 * error @ np.linalg.solve(seen, error)
            total -= 0.5 * np.log(np.linalg.det(2 * np.pi * seen))
            mean, spread = mean + gain @ error, spread - gain @ spread[:2]
            mean[:2], spread[:2], spread[:, :2] = 0, 0, 0
        first += size
    return total


def spinning_bias(data, values, n, seed=0):
    """Bias of ln L by the filter that the evidence uses, extrapolated, and its standard error."""
    first = ParticleDensity(data, Filter(MIN_PARTICLES), 1, seed)
    pilot = run_pilot(first, spinning().template(), values)
    print(
        pilot.density.particle_filter, pilot.density.repeats, pilot.density.substeps, pilot.variance
    )
    columns = {name: np.full(n, value) for name, value in values.items()}
    m, total, variance = pilot.density.substeps, 0.0, 0.0
    coarse = replace(pilot.density, seed=seed + 1).log_densities(spinning().template(), columns)
    ratio = np.exp(coarse - exact_log_likelihood(data, **values))
    total, variance = np.log(ratio.mean()), ratio.var(ddof=1) / ratio.mean() ** 2 / n
    point = {name: np.array([value]) for name, value in values.items()}
    for level, weight in ((0, 1.0), (1, 2.0)):
        finer = replace(pilot.density, substeps=m << level, seed=seed + 2 + level)
        change = change_of(finer, spinning().template(), point, n)[0]
        total += weight * change.mean()
        variance += weight**2 * change.var(ddof=1) / n
    return total, np.sqrt(variance)
