"""A position between two wells with multiplicative noise: its likelihood and evidence by a grid."""

from functools import cache
from itertools import pairwise

import jax.numpy as jnp
import numpy as np
from equations import UNIT
from scipy.integrate import simpson

from driftbayes import SDE, Displacements

TAU = 0.5


@cache
def double_well():
    """A position between two wells, whose noise grows with the distance from the middle."""
    return SDE(
        lambda x, t, theta: theta.a * (x - x**3),
        lambda x, t, theta: 0.6 * jnp.sqrt(1 + 0.5 * x**2),
        {"a": UNIT},
        hidden_velocity=False,
        name="double_well",
    )


def transition_matrix(a, grid, n_short):
    """Density of a position on a grid after TAU from each point of it, by squaring short steps.

    A short step is Gaussian; its error is of first order in its length, and is removed by
    extrapolation of ln p from two lengths.
    """
    h = TAU / n_short
    mean = grid + h * a * (grid - grid**3)
    sd = 0.6 * np.sqrt(h * (1 + 0.5 * grid**2))
    step = np.exp(-0.5 * ((grid[None] - mean[:, None]) / sd[:, None]) ** 2)
    step /= sd[:, None] * np.sqrt(2 * np.pi)
    width = grid[1] - grid[0]
    step *= width
    for _ in range(int(np.log2(n_short))):
        step = step @ step
    return step / width


@cache
def grid_log_likelihood(a, n_short=128):
    """Ln p of the data, extrapolated from two lengths of the short step."""
    positions = well_positions()
    grid = np.linspace(-4, 4, 801)

    def at(n_short):
        density = transition_matrix(a, grid, n_short)
        total = 0.0
        for track in positions:
            for x0, x1 in pairwise(track):
                row, left = _row(density, grid, x0), np.searchsorted(grid, x1)
                near = slice(left - 3, left + 3)
                total += np.polynomial.Polynomial.fit(grid[near], np.log(row[near]), 5)(x1)
        return total

    return 2 * at(2 * n_short) - at(n_short)


def _row(density, grid, x0):
    """Density from a start between two points of the grid, by cubic interpolation of ln p."""
    left = np.searchsorted(grid, x0)
    near = np.arange(left - 2, left + 2)
    weights = [
        np.prod([(x0 - grid[j]) / (grid[i] - grid[j]) for j in near if j != i]) for i in near
    ]
    return np.exp(np.array(weights) @ np.log(np.maximum(density[near], 1e-300)))


@cache
def well_positions():
    """Simulated by Euler's method with 500 steps, in NumPy."""
    rng = np.random.default_rng(2)
    x = rng.uniform(-1.2, 1.2, 6)
    h = TAU / 500
    found = [x]
    for _ in range(10):
        for _ in range(500):
            noise = 0.6 * np.sqrt(h * (1 + 0.5 * x**2))
            x = x + h * (x - x**3) + noise * rng.normal(size=len(x))
        found.append(x)
    return np.stack(found, axis=1)


def well_data(n_dim=1):
    """The tracks, or as many of them at a time as the axes of one."""
    x = np.moveaxis(well_positions().reshape(-1, n_dim, 11), 1, 2)
    return Displacements.from_array(np.diff(x, axis=1), TAU, start=x[:, 0])


@cache
def grid_log_evidence():
    """Ln Z by Simpson's rule over the grid solution, and by every second node."""
    a = np.linspace(0.0, 2.8, 29)
    log_f = np.array([grid_log_likelihood(float(value)) for value in a]) - a
    each = [simpson(np.exp(log_f[::n] - log_f.max()), x=a[::n]) for n in (1, 2)]
    return tuple(float(np.log(one) + log_f.max()) for one in each)
