"""The trapezoid rule in a box that finds its own size, on integrals that are known."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import gammaln

from driftbayes.inference import trapezoid
from driftbayes.inference.trapezoid import integrate

# Nodes of the first try and of the refined one.
REFINEMENTS = (1, 4)


@partial(jax.jit, static_argnames="refinement")
def _grid_of(index, center, basis, refinement):
    # One program for all densities: compiling each on its own would take longer than all the rest.
    def log_f(z):
        return jax.lax.switch(index, list(DENSITIES.values()), z), jnp.sum(z)

    return integrate(log_f, center, basis, refinement)


def grid_of(name, center, basis, refinement=1):
    return _grid_of(list(DENSITIES).index(name), center, basis, refinement)


def gaussian(z):
    return -0.5 * jnp.sum(z**2) - 0.5 * z.shape[0] * np.log(2 * np.pi)


def correlated(z):
    if len(z) != 2:
        return gaussian(z)
    precision = jnp.asarray([[2.0, 1.2], [1.2, 1.0]])
    return -0.5 * z @ precision @ z - np.log(2 * np.pi) + 0.5 * np.log(0.56)


def log_gamma(z):
    """Logarithm of a gamma variable of shape 0.7: a tail like exp(0.7 z) to the left."""
    return jnp.sum(0.7 * z - jnp.exp(z)) - z.shape[0] * gammaln(0.7)


def mixture(z):
    """Two peaks eight widths apart, one with a tenth of the mass."""
    one, other = gaussian(z) + np.log(0.9), gaussian(z - 8.0) + np.log(0.1)
    return jnp.logaddexp(one, other)


def logistic(z):
    """Exponential tails on both sides."""
    return jnp.sum(jax.nn.log_sigmoid(z) + jax.nn.log_sigmoid(-z))


def everywhere_one(z):
    return jnp.zeros_like(z[0])


def nowhere_finite(z):
    return jnp.sum(z) * jnp.nan


def half_plane(z):
    """Bounded on one side only."""
    return jnp.sum(jax.nn.log_sigmoid(z))


DENSITIES = {
    f.__name__: f
    for f in (
        gaussian,
        correlated,
        log_gamma,
        mixture,
        logistic,
        everywhere_one,
        half_plane,
        nowhere_finite,
    )
}


def check(grid, tolerance=1e-9):
    """Every density here integrates to one."""
    assert bool(grid.contained)
    assert abs(float(grid.log_integral)) <= tolerance
    # The error is an estimate with room to spare, and rounding is not in it.
    assert abs(float(grid.log_integral)) <= float(grid.error) + 1e-13


@pytest.mark.parametrize("n_dim", [1, 2, 3])
def test_gaussian_integrates_to_one(n_dim):
    check(grid_of("gaussian", jnp.zeros(n_dim), jnp.eye(n_dim)), 1e-12)


@pytest.mark.parametrize("width", [0.01, 0.1, 10.0, 100.0])
def test_width_may_be_wrong_by_a_factor_of_100(width):
    check(grid_of("gaussian", jnp.zeros(1), width * jnp.eye(1)), 1e-12)
    # Nodes are spread over the widths assumed, so that few are left where all happens.
    check(grid_of("gaussian", jnp.zeros(2), width * jnp.eye(2)), 1e-9)


@pytest.mark.parametrize("offset", [-30.0, -3.0, 3.0, 30.0])
def test_start_may_be_off_centre(offset):
    check(grid_of("gaussian", jnp.full(1, offset), jnp.eye(1)), 1e-12)
    check(grid_of("gaussian", jnp.asarray([offset, 0.0]), jnp.eye(2)), 1e-12)


def test_whitening_undoes_a_correlation():
    precision = np.array([[2.0, 1.2], [1.2, 1.0]])
    basis = jnp.asarray(np.linalg.cholesky(np.linalg.inv(precision)))
    check(grid_of("correlated", jnp.zeros(2), basis), 1e-12)
    check(grid_of("correlated", jnp.zeros(2), jnp.eye(2)))


@pytest.mark.parametrize("name", ["log_gamma", "logistic", "mixture"])
@pytest.mark.parametrize("n_dim", [1, 2])
def test_skewed_heavy_and_double_peaks_integrate_to_one_when_refined(name, n_dim):
    center, basis = jnp.zeros(n_dim), jnp.eye(n_dim)
    coarse, fine = (grid_of(name, center, basis, refinement) for refinement in REFINEMENTS)
    check(fine)
    # The coarse answer is as good as its error says.
    assert abs(float(coarse.log_integral)) <= float(coarse.error) + 1e-13


def test_error_is_no_smaller_than_it_is_said_to_be_wherever_the_nodes_lie():
    # Logarithms of gamma variables, from far skewed to near Gaussian, in boxes that differ in
    # centre and width: by accident of phase a plain difference of two sums may vanish.
    rng = np.random.default_rng(0)
    shape = 10 ** rng.uniform(-1, 2, 500)
    center = np.log(shape) + rng.normal(size=500) / np.sqrt(shape)
    width = 10 ** rng.uniform(-0.5, 0.5, 500) / np.sqrt(shape)

    def one(shape, center, width):
        def log_f(z):
            return jnp.sum(shape * z - jnp.exp(z)) - jax.scipy.special.gammaln(shape), None

        return integrate(log_f, center[None], width[None, None])

    grids = jax.jit(jax.vmap(one))(*map(jnp.asarray, (shape, center, width)))
    actual = np.abs(grids.log_integral)
    fit = np.asarray(grids.contained)
    assert fit.mean() > 0.8
    assert (actual <= grids.error + 1e-12)[fit].all()
    # Not so careful as to be of no use: the error is known to 1e-8 for most.
    assert (grids.error < 1e-8)[fit & (shape > 3)].mean() > 0.9


def test_nodes_and_what_was_kept_of_them_belong_together():
    grid = grid_of("correlated", jnp.zeros(2), jnp.eye(2))
    assert_allclose(grid.extras, jnp.sum(grid.nodes, axis=1))
    # The nodes stand for volumes that grow with their distance: d sinh(w) = cosh(w) dw.
    volume = np.sum(np.log(np.hypot(1.0, np.asarray(grid.nodes) / trapezoid.EVEN)), axis=1)
    expected = np.asarray(jax.vmap(correlated)(grid.nodes)) + volume
    assert_allclose(grid.log_values, expected, rtol=1e-12)
    weights = np.exp(grid.log_values) / np.exp(grid.log_values).sum()
    cov = np.linalg.inv([[2.0, 1.2], [1.2, 1.0]])
    assert_allclose(np.einsum("n,ni,nj->ij", weights, grid.nodes, grid.nodes), cov, atol=1e-7)


@pytest.mark.parametrize("name", ["everywhere_one", "half_plane"])
def test_what_cannot_be_normalised_is_not_contained(name):
    grid = grid_of(name, jnp.zeros(1), jnp.eye(1))
    assert not bool(grid.contained)


def test_integrand_that_is_nowhere_finite_is_not_contained():
    grid = grid_of("nowhere_finite", jnp.zeros(1), jnp.eye(1))
    assert not bool(grid.contained)
    assert not np.isfinite(grid.log_integral)
