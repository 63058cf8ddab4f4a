"""Marginal densities and quantiles from lattices, against those that are known."""

import numpy as np
import peaks
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.optimize import brentq

from driftbayes.errors import DriftbayesError
from driftbayes.inference._node_lattice import integrate
from driftbayes.inference._quantiles import marginal_density, marginal_quantiles

PROBABILITIES = np.array([0.025, 0.16, 0.5, 0.84, 0.975])


def lattice_of(log_density, n_dim, tolerance, basis=None, center=None):
    center = 0.2 * np.random.default_rng(n_dim).standard_normal(n_dim) if center is None else center
    basis = np.eye(n_dim) if basis is None else basis
    return integrate(
        peaks.with_sum(log_density), center, basis, tolerance=tolerance, max_nodes=30_000
    )


def quantiles_of(*arguments):
    return marginal_quantiles([lattice_of(*arguments)], PROBABILITIES)


def log_gamma_quantiles(shape):
    return np.sqrt(shape) * np.log(stats.gamma.ppf(PROBABILITIES, shape) / shape)


@pytest.mark.parametrize(
    ("n_dim", "tolerance", "accuracy"),
    [(1, 1e-8, 1e-8), (2, 1e-8, 1e-4), (2, 1e-3, 1e-3), (3, 1e-3, 1e-3), (4, 1e-3, 1e-3)],
)
@pytest.mark.parametrize("correlation", [0.0, 0.6, -0.95, 0.999])
def test_gaussian(n_dim, tolerance, accuracy, correlation):
    signs = np.where(np.arange(n_dim) == 0, np.sign(correlation) or 1.0, 1.0)
    covariance = np.where(np.eye(n_dim) == 1, 1.0, abs(correlation)) * np.outer(signs, signs)
    basis = np.linalg.cholesky(covariance)

    def log_density(z):
        whitened = np.linalg.solve(basis, z.T).T
        return peaks.gaussian(whitened) - np.sum(np.log(np.diag(basis)))

    found = quantiles_of(log_density, n_dim, tolerance, basis, basis @ np.full(n_dim, 0.1))
    expected = np.tile(stats.norm.ppf(PROBABILITIES), (n_dim, 1))
    assert_allclose(found, expected, atol=accuracy)


@pytest.mark.parametrize(
    ("shape", "n_dim", "tolerance", "accuracy"),
    [
        # Splines of degree five through nodes half a width apart: measured, 5e-7.
        (5.0, 1, 1e-8, 1e-6),
        (1.0, 1, 1e-8, 1e-6),
        (5.0, 2, 1e-8, 2e-4),
        (1.0, 2, 1e-8, 2e-4),
        (50.0, 3, 1e-3, 1e-3),
        (5.0, 3, 1e-3, 5e-3),
        (50.0, 4, 1e-3, 1e-3),
    ],
)
def test_skewed(shape, n_dim, tolerance, accuracy):
    found = quantiles_of(peaks.log_gamma(shape), n_dim, tolerance)
    assert_allclose(found, np.tile(log_gamma_quantiles(shape), (n_dim, 1)), atol=accuracy)


def test_heavy_tails():
    expected = stats.t(3).ppf(PROBABILITIES)
    assert_allclose(quantiles_of(peaks.student(3.0), 1, 1e-8)[0], expected, atol=1e-5)
    found = quantiles_of(peaks.student(3.0), 2, 1e-8)
    assert_allclose(found, np.tile(expected, (2, 1)), atol=3e-4)


def test_a_sum_of_skewed_variables():
    """The second coordinate is 0.8 x + 0.6 y: its distribution is a convolution."""
    basis = np.array([[1.0, 0.0], [0.8, 0.6]])

    def log_density(z):
        return peaks.log_gamma(5.0)(np.linalg.solve(basis, z.T).T) - np.log(0.6)

    def cumulative(x):
        return stats.loggamma(5.0).cdf(x / np.sqrt(5.0) + np.log(5.0))

    x = np.arange(-15.0, 6.0, 0.02)
    weights = 0.02 * np.exp(peaks.log_gamma(5.0)(x[:, None]))

    def below(z):
        return weights @ cumulative((z - 0.8 * x) / 0.6)

    found = quantiles_of(log_density, 2, 1e-8, basis)
    expected = [brentq(lambda z, p=p: below(z) - p, -6, 4) for p in PROBABILITIES]
    assert_allclose(found[0], log_gamma_quantiles(5.0), atol=2e-4)
    assert_allclose(found[1], expected, atol=2e-4)


@pytest.mark.parametrize("share", [0.5, 0.3])
def test_parts_are_weighted(share):
    def at(place, width, mass):
        constant = np.log(mass) + 7.0 - 2 * np.log(width)
        return lambda z: peaks.gaussian((z - place) / width) + constant

    lattices = [
        lattice_of(at(0.0, 1.0, 1 - share), 2, 1e-6, np.eye(2), np.zeros(2)),
        lattice_of(at(20.0, 0.1, share), 2, 1e-6, 0.1 * np.eye(2), np.full(2, 20.0)),
    ]
    found = marginal_quantiles(lattices, PROBABILITIES)

    def below(z):
        return (1 - share) * stats.norm.cdf(z) + share * stats.norm.cdf(z, 20.0, 0.1)

    assert_allclose(below(found[0]), PROBABILITIES, atol=1e-4)
    assert_allclose(below(found[1]), PROBABILITIES, atol=1e-4)


def test_densities():
    lattice = lattice_of(peaks.log_gamma(5.0), 2, 1e-8)
    grid = np.linspace(-4.0, 2.5, 40)
    expected = np.exp(peaks.log_gamma(5.0)(grid[:, None]))
    for axis in (0, 1):
        assert_allclose(marginal_density([lattice], axis, grid), expected, atol=2e-4)


def test_bad_input_is_refused():
    lattice = lattice_of(peaks.gaussian, 2, 1e-3)
    with pytest.raises(DriftbayesError, match="probabilities must lie between 0 and 1"):
        marginal_quantiles([lattice], np.array([0.0, 0.5]))
    with pytest.raises(DriftbayesError, match="expected one or more lattices"):
        marginal_quantiles([], np.array([0.5]))
    with pytest.raises(DriftbayesError, match="expected one or more lattices"):
        marginal_density([], 0, np.zeros(3))
