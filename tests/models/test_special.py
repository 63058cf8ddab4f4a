"""varphi and friends against 50-digit values, from x = 1e-8 to 1e6, with two derivatives."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_allclose

from driftbayes.models.special import varphi, varphi_complement, varphi_curvature
from driftbayes.testing import strategies as some

FUNCTIONS = {"varphi": varphi, "varphi_complement": varphi_complement, "q": varphi_curvature}
# Reached: 5e-16 for values, 2e-15 and 2e-14 for first and second derivatives.
TOLERANCE = (1e-14, 1e-14, 1e-13)


def derivative(f, order):
    for _ in range(order):
        f = jax.grad(f)
    return f


@cache
def program(name):
    return jax.jit(
        jax.vmap(lambda x: [derivative(FUNCTIONS[name], order)(x) for order in range(3)])
    )


def value_and_derivatives(name, x):
    """The function and two derivatives, (order, x), by one program for up to 128 values."""
    x = np.atleast_1d(x)
    return np.array(program(name)(np.pad(x, (0, 128 - len(x)), mode="edge")))[:, : len(x)]


@pytest.fixture(params=FUNCTIONS)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def cases(golden):
    return golden("special")["cases"]


@pytest.mark.parametrize("order", [0, 1, 2])
def test_values_and_derivatives_keep_their_digits_at_all_x(name, order, cases):
    found = value_and_derivatives(name, [case["x"] for case in cases])[order]
    expected = [float(case[name][order]) for case in cases]
    assert_allclose(found, expected, rtol=TOLERANCE[order])


def test_batches_compiled_or_not_give_the_numbers_of_single_calls(name, cases):
    x = np.array([case["x"] for case in cases[::7]])
    one_by_one = [float(FUNCTIONS[name](jnp.asarray(value))) for value in x]
    assert_allclose(FUNCTIONS[name](jnp.asarray(x)), one_by_one, rtol=1e-15)
    assert_allclose(jax.jit(FUNCTIONS[name])(jnp.asarray(x)[:, None])[:, 0], one_by_one, rtol=1e-15)


def test_limits_at_zero_are_those_of_the_series(name):
    limits = {
        "varphi": (1, -1 / 2, 1 / 3),
        "varphi_complement": (0, 1 / 2, -1 / 3),
        "q": (0, 0, 2 / 3),
    }
    assert_allclose(value_and_derivatives(name, 0.0)[:, 0], limits[name], rtol=1e-15)


@pytest.mark.parametrize("x", [1e-300, 1e300])
def test_no_overflow_in_the_branch_not_taken_spoils_a_derivative(name, x):
    assert np.isfinite(value_and_derivatives(name, x)).all()


@given(x=some.scales(1e-8, 1e6))
def test_curvature_is_a_difference_of_complements(x):
    twice, once = (varphi_complement(jnp.asarray(y)) for y in (2 * x, x))
    # The difference itself loses the digits that x lacks.
    assert_allclose(2 * once - twice, varphi_curvature(jnp.asarray(x)), rtol=1e-15 / min(x, 0.1))


@given(x=some.scales(1e-8, 1e6))
def test_varphi_and_its_complement_add_to_one(x):
    value = jnp.asarray(x)
    assert_allclose(varphi(value) + varphi_complement(value), 1.0, rtol=4e-16)
