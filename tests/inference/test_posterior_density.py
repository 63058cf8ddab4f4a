"""Densities of single parameters: from the exact integral, or from draws where there is none."""

import numpy as np
import pytest
from court import BROWNIAN, LANGEVIN, langevin_data, langevin_fit, log_density, steps
from numpy.testing import assert_allclose
from scipy import stats

from driftbayes.data._sampling import Displacements
from driftbayes.inference import posterior_draws
from driftbayes.inference._marginals import posterior_density

TAU = 0.5


def turns(density):
    """How often a curve changes between rising and falling."""
    slopes = np.sign(np.diff(density))
    return int(np.sum(slopes[1:] != slopes[:-1]))


@pytest.fixture(scope="module")
def draws():
    return posterior_draws(LANGEVIN, langevin_data(TAU), n_draws=2000)


def test_langevin_is_as_a_fine_grid_of_the_slow_filter_says(draws):
    gamma, density = posterior_density(draws, "gamma")
    k, other = posterior_density(draws, "k")
    # The joint density on a grid, by the filter in NumPy, which knows nothing of lattices.
    rows, columns = np.geomspace(0.2, 6.0, 160), np.log(np.geomspace(0.08, 12.0, 400))
    joint = np.array(
        [
            langevin_fit(steps(TAU), TAU, g)(columns) + log_density(LANGEVIN.priors["gamma"], g)
            for g in rows
        ]
    )
    joint += log_density(LANGEVIN.priors["k"], np.exp(columns))
    # With the Jacobians of ln γ and ln k, in which the grid is even.
    mass = np.exp(joint - joint.max()) * np.exp(columns) * rows[:, None]
    of_gamma, of_k = mass.sum(axis=1) / rows, mass.sum(axis=0) / np.exp(columns)
    for x, found, grid, values in (
        (gamma, density, rows, of_gamma),
        (k, other, np.exp(columns), of_k),
    ):
        values = values / np.trapezoid(values, grid)
        expected = np.interp(x, grid, values)
        assert_allclose(found, expected, atol=4e-3 * expected.max())
        assert turns(found) == 1


def test_brownian_is_its_closed_form():
    x = np.random.default_rng(0).normal(0, 1.0, (20, 5, 1))
    one = posterior_draws(BROWNIAN, Displacements.from_array(x, TAU), n_draws=10)
    kappa, density = posterior_density(one, "kappa")
    # An inverse gamma density times the exponential prior, normalised by a fine grid.
    grid = np.linspace(0.3, 4.0, 200_001)

    def closed(value):
        likelihood = stats.invgamma(x.size / 2 - 1, scale=np.sum(x**2) / (4 * TAU))
        return likelihood.pdf(value) * np.exp(-value)

    assert_allclose(density, closed(kappa) / np.trapezoid(closed(grid), grid), rtol=2e-4, atol=1e-4)


def test_a_narrow_scale_has_no_ripples():
    # 20,000 steps determine k given γ much better than k alone.
    many = posterior_draws(LANGEVIN, langevin_data(0.1, (200, 100, 1)), n_draws=10)
    for name in ("gamma", "k"):
        x, density = posterior_density(many, name)
        assert turns(density) == 1
        assert_allclose(np.trapezoid(density, x), 1.0, atol=2e-3)
        estimate = many.evidence.parameters[name]
        assert_allclose(np.trapezoid(x * density, x), estimate.mean, rtol=2e-3)


@pytest.mark.parametrize("method", ["laplace_is", pytest.param("bridge", marks=pytest.mark.slow)])
def test_a_sampler_has_a_smooth_density_from_its_draws(draws, method):
    # A record keeps 1,000 draws; those of the bridge are drawn twice if more are asked for.
    n_draws = 1000 if method == "bridge" else 2000
    sampled = posterior_draws(LANGEVIN, langevin_data(TAU), n_draws=n_draws, method=method)
    assert sampled.quadrature is None
    for name in ("gamma", "k"):
        x, density = posterior_density(sampled, name)
        exact = np.interp(x, *posterior_density(draws, name))
        assert_allclose(density, exact, atol=0.12 * exact.max())
