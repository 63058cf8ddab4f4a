"""Newton's method with differences: derivatives by hand, and every kind of start."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from driftbayes.inference._newton import derivatives, maximise, stencil

MATRIX = np.array([[2.0, 0.6], [0.6, 1.0]])
TOP = np.array([0.7, -1.3])


def square(z):
    return np.einsum("ni,ij,nj->n", z - TOP, MATRIX, z - TOP)


def gaussian(z):
    return 5.0 - 0.5 * square(z)


def log_gamma_density(z):
    """Logarithm of a gamma variable, in each direction: skewed, concave."""
    return np.sum(3.0 * z - 2.0 * np.exp(z), axis=1)


def student(z):
    """Concave only near its top."""
    return -3.0 * np.log1p(square(z))


def banana(z):
    return -((1 - z[:, 0]) ** 2) - 20 * (z[:, 1] - z[:, 0] ** 2) ** 2


def two_tops(z):
    return -((z[:, 0] ** 2 - 1.0) ** 2) - z[:, 1] ** 2


def top_of(f, *starts):
    return maximise(lambda z, _: f(z), np.array(starts, dtype=float))


places = st.lists(st.floats(-4, 4), min_size=2, max_size=2)


@given(place=places)
def test_derivatives_are_those_done_by_hand(place):
    z, h = np.array(place), 1e-2
    gradient, hessian = derivatives(banana(z + h * stencil(2)), 2)
    x, y = z
    slope = [2 * (1 - x) + 80 * x * (y - x**2), -40 * (y - x**2)]
    bend = [[-2 + 80 * y - 240 * x**2, 80 * x], [80 * x, -40]]
    # A polynomial of fourth order: exact but for rounding.
    size = 1e-11 * (1 + abs(banana(z[None])[0]))
    assert_allclose(gradient / h, slope, atol=size / h)
    assert_allclose(hessian / h**2, bend, atol=10 * size / h**2)


@given(start=places)
def test_top_of_a_gaussian_is_found_from_anywhere(start):
    (found,) = top_of(gaussian, start)
    assert found.converged
    assert_allclose(found.z, TOP, atol=1e-7)
    assert_allclose(found.value, 5.0, rtol=1e-14)
    assert_allclose(found.hessian, -MATRIX, atol=1e-9)


@given(start=places)
@pytest.mark.parametrize(
    ("f", "top"),
    [(log_gamma_density, np.full(2, np.log(1.5))), (student, TOP), (banana, np.ones(2))],
)
def test_top_is_found_where_newton_alone_would_run_away(f, top, start):
    (found,) = top_of(f, start)
    assert found.converged
    # Differences of fourth order over 0.03 widths, and values rounded to 1e-16.
    assert_allclose(found.z, top, atol=2e-6)
    assert found.value >= f(np.array([start]))[0]


def test_each_start_finds_its_own_top():
    left, right = top_of(two_tops, [-0.6, 0.5], [0.4, -0.3])
    assert left.converged
    assert right.converged
    assert_allclose([left.z, right.z], [[-1, 0], [1, 0]], atol=1e-6)


def test_a_search_that_joins_another_ends_where_it_ended():
    first, second = top_of(two_tops, [1.0, 0.0], [1.4, 2.0])
    assert_allclose(first.z, second.z, atol=1e-6)
    assert second.converged


def test_function_without_a_top_does_not_converge():
    assert not top_of(lambda z: z.sum(axis=1), [0.0, 0.0])[0].converged
    assert not top_of(lambda z: z[:, 0] + 0.5 * np.sin(z[:, 0]), [0.0])[0].converged


def test_function_that_is_nowhere_finite_does_not_converge():
    for value in (np.nan, -np.inf):
        (found,) = top_of(lambda z, value=value: np.full(len(z), value), [0.0, 0.0])
        assert not found.converged
