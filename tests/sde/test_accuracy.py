"""Estimated likelihoods against Kalman's and against a grid solution of Chapman and Kolmogorov."""

from dataclasses import replace
from functools import cache
from itertools import pairwise

import jax.numpy as jnp
import numpy as np
import pytest
from equations import UNIT, brownian, data_of, langevin
from scipy.integrate import simpson

from driftbayes import SDE, Brownian, Displacements, Hypothesis, Langevin, Noise, Status, evidence
from driftbayes.models import MODELS, model_named
from driftbayes.sde import Filter, ParticleDensity

THETA = {"gamma": 1.3, "k": 0.7}
TAU = 0.5


def estimates(model, data, values, how, substeps, n):
    """Ln of n independent estimates of the likelihood."""
    columns = {name: np.full(n, value) for name, value in values.items()}
    return ParticleDensity(data, how, substeps, 0).log_densities(model, columns)


def described(log_ratio):
    """Bias of the mean estimate in nats, its standard error, and mean and sd of z of each."""
    n = len(log_ratio)
    ratio = np.exp(log_ratio)
    bias, error = np.log(ratio.mean()), ratio.std(ddof=1) / ratio.mean() / np.sqrt(n)
    z = (ratio - 1) / max(ratio.std(ddof=1), 1e-9)
    print(
        f"bias {bias:.4f} ± {error:.4f}, z {z.mean():.2f} ± {z.std(ddof=1):.2f}, "
        f"Var ln L {log_ratio.var():.2g}"
    )
    return bias, error


FILTERS = {
    "foresight": (Filter(8), 2, 128),
    "guided": (Filter(128, lookahead=False), 2, 512),
    "bootstrap": (Filter(1024, guided=False), 1, 512),
}


@pytest.mark.slow
@pytest.mark.parametrize("how", FILTERS)
@pytest.mark.parametrize("name", ["brownian", "langevin", "langevin+noise"])
def test_filters_are_unbiased_where_kalman_is_exact(name, how):
    data = data_of(langevin(), THETA, n_particles=4, n_steps=8)
    noise = 0.3
    if name == "brownian":
        model, values, exact = brownian().template(), {"kappa": 0.7}, Brownian(0.7)
    elif name == "langevin":
        model, values, exact = langevin().template(), THETA, Langevin(**THETA)
    else:
        model, values = model_named("sde_langevin+noise", MODELS), {**THETA, "sigma": noise}
        exact = Noise(Langevin(**THETA), noise)
    if how == "bootstrap" and name != "langevin+noise":
        # Without guidance no particle reaches an exact fix.
        data = replace(data, position_sd=np.full(int((data.row_sizes + 1).sum()), noise))
    wanted = float(exact.log_likelihood(data))
    chosen, substeps, n = FILTERS[how]
    log_ratio = estimates(model, data, values, chosen, substeps, n) - wanted
    print(name, how, end=": ")
    bias, error = described(log_ratio)
    assert abs(bias) < max(4 * error, 1e-9)
    assert error < 0.05
    assert abs(bias) < 0.05 + 2 * error


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


def well_data():
    x = well_positions()[:, :, None]
    return Displacements.from_array(np.diff(x, axis=1), TAU, start=x[:, 0])


@pytest.mark.slow
@pytest.mark.parametrize("a", [0.5, 1.0, 2.0])
def test_a_double_well_has_the_likelihood_of_a_grid_solution(a):
    wanted = grid_log_likelihood(a)
    assert abs(wanted - grid_log_likelihood(a, 256)) < 0.003
    print()
    biases = {}
    for substeps in (4, 16, 32):
        template = double_well().template()
        found = estimates(template, well_data(), {"a": a}, Filter(64), substeps, 256) - wanted
        print(f"a = {a}, {substeps} substeps", end=": ")
        biases[substeps] = described(found)
    (coarse, coarse_error), (fine, fine_error) = biases[16], biases[32]
    # The error of finite substeps is of first order: twice the change when they are doubled.
    limit, error = 2 * fine - coarse, np.hypot(2 * fine_error, coarse_error)
    print(f"extrapolated: bias {limit:.4f} ± {error:.4f}")
    assert error < 0.05
    assert abs(limit) < 3 * error + 0.02
    assert abs(coarse) < 2 * abs(fine - coarse) + 3 * error
    assert abs(fine) < 0.2 * abs(biases[4][0])


@pytest.mark.slow
def test_the_evidence_of_a_double_well_is_that_of_a_grid_solution():
    a = np.linspace(0.0, 2.8, 29)
    log_f = np.array([grid_log_likelihood(float(value)) for value in a]) - a
    wanted = np.log(simpson(np.exp(log_f - log_f.max()), x=a)) + log_f.max()
    coarse = np.log(simpson(np.exp(log_f[::2] - log_f.max()), x=a[::2])) + log_f.max()
    assert abs(wanted - coarse) < 0.005
    print(f"\nln Z of the grid {wanted:.4f}")
    for method in ("laplace_is", "smc"):
        for seed in range(3):
            found = evidence(Hypothesis(double_well()), well_data(), method=method, seed=seed)
            off, error = found.log_evidence - wanted, found.log_evidence_err
            print(f"{method} seed {seed}: off by {off:.3f} ± {error:.3f}", found.diagnostics)
            assert found.status is Status.OK
            assert abs(off) < 3 * error + 0.02
