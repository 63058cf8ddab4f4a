"""The climb to the mode: exact derivatives, and every kind of start."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from driftbayes.inference.newton import climb, derivatives

MATRIX = jnp.asarray([[2.0, 0.6], [0.6, 1.0]])
TOP = jnp.asarray([0.7, -1.3])


def gaussian(z):
    return 5.0 - 0.5 * (z - TOP) @ MATRIX @ (z - TOP)


def log_gamma_density(z):
    """Logarithm of a gamma variable, in each direction: skewed, concave."""
    return jnp.sum(3.0 * z - 2.0 * jnp.exp(z))


def student(z):
    """Concave only near its top."""
    return -3.0 * jnp.log1p((z - TOP) @ MATRIX @ (z - TOP))


def banana(z):
    return -((1 - z[0]) ** 2) - 20 * (z[1] - z[0] ** 2) ** 2


def saddle(z):
    """Flat at the start, with two tops."""
    return -((z[0] ** 2 - 1.0) ** 2) - z[1] ** 2


def up(f, start):
    return climb(lambda z: derivatives(f, z), start)


climb_to = {
    f: jax.jit(lambda start, f=f: up(f, start))
    for f in (gaussian, log_gamma_density, student, banana, saddle)
}
sweep_banana = jax.jit(lambda z: derivatives(banana, z))
places = st.lists(st.floats(-4, 4), min_size=2, max_size=2).map(jnp.asarray)


@given(z=places)
def test_derivatives_are_those_done_by_hand(z):
    value, gradient, hessian = sweep_banana(z)
    assert_allclose(value, banana(z), rtol=1e-14, atol=1e-14)
    x, y = np.asarray(z)
    slope = [2 * (1 - x) + 80 * x * (y - x**2), -40 * (y - x**2)]
    assert_allclose(gradient, slope, rtol=1e-12, atol=1e-12)
    bend = [[-2 + 80 * y - 240 * x**2, 80 * x], [80 * x, -40]]
    assert_allclose(hessian, bend, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n", [1, 2])
def test_derivatives_of_several_functions_at_once_are_those_of_each(n):
    def both(z):
        return jnp.stack([jnp.sum(jnp.sin(z)), z[0] ** 2 * z[n - 1]])

    z = np.array([0.7, -1.3])[:n]
    value, first, second = jax.jit(lambda z: derivatives(both, z))(jnp.asarray(z))
    x, y = z[0], z[-1]
    slope, bend = (
        ([3 * x**2], [[6 * x]]) if n == 1 else ([2 * x * y, x**2], [[2 * y, 2 * x], [2 * x, 0]])
    )
    assert_allclose(value, [np.sin(z).sum(), x**2 * y], rtol=1e-14)
    assert_allclose(first, [np.cos(z), slope], rtol=1e-13)
    assert_allclose(second, [np.diag(-np.sin(z)), bend], rtol=1e-13, atol=1e-15)


@given(start=places)
def test_top_of_a_gaussian_is_found_from_anywhere(start):
    mode = climb_to[gaussian](start)
    assert mode.converged
    assert_allclose(mode.z, TOP, atol=1e-7)
    assert_allclose(mode.value, 5.0, rtol=1e-14)
    assert_allclose(mode.hessian, -MATRIX, atol=1e-12)


def test_gaussian_takes_one_step_when_it_is_near():
    mode = climb_to[gaussian](TOP + 0.5)
    assert mode.n_steps <= 3


@given(start=places)
@pytest.mark.parametrize(
    ("f", "top"),
    [(log_gamma_density, np.full(2, np.log(1.5))), (student, TOP), (banana, np.ones(2))],
)
def test_top_is_found_where_newton_alone_would_run_away(f, top, start):
    mode = climb_to[f](start)
    assert mode.converged
    assert_allclose(mode.z, top, atol=1e-6)
    # No worse than where it began.
    assert float(mode.value) >= float(f(start))


def test_flat_point_is_no_mode():
    mode = climb_to[saddle](jnp.asarray([0.0, 0.5]))
    # On the ridge between two tops the gradient vanishes, but it is not a peak.
    assert not mode.converged or abs(float(mode.z[0])) == pytest.approx(1.0)
    away = climb_to[saddle](jnp.asarray([0.01, 0.5]))
    assert away.converged
    assert_allclose(jnp.abs(away.z), [1.0, 0.0], atol=1e-6)


def test_function_without_a_top_does_not_converge():
    assert not up(jnp.sum, jnp.zeros(2)).converged
    assert not up(lambda z: jnp.sum(z + 0.5 * jnp.sin(z)), jnp.zeros(1)).converged


def test_function_that_is_nowhere_finite_does_not_converge():
    assert not up(lambda z: jnp.sum(z) * jnp.nan, jnp.zeros(1)).converged
    assert not up(lambda z: jnp.sum(z) - jnp.inf, jnp.zeros(1)).converged


def test_step_into_a_region_without_values_is_taken_back():
    # NaN beyond z = 1; the top lies just before.
    mode = up(lambda z: 3 * jnp.log1p(-z[0]) + 30 * z[0], jnp.asarray([-3.0]))
    assert mode.converged
    assert_allclose(mode.z, [0.9], atol=1e-7)


def test_large_values_do_not_hide_the_top_in_their_rounding():
    # ln p of a million displacements: one unit in the last place is 1e-9.
    mode = up(lambda z: 1e7 - 5e5 * jnp.sum(jnp.exp(z - 0.3) - 1 - (z - 0.3)), jnp.zeros(1))
    assert mode.converged
    assert_allclose(mode.z, [0.3], atol=1e-6)
