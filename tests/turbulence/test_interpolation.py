"""Velocity between the points: orders, divergence, and places far from the square."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from workshop import mean_square, observed_orders, size, velocity, vorticity_modes

from driftbayes.turbulence.flow import Flow
from driftbayes.turbulence.grid import Grid
from driftbayes.turbulence.noise import random_start
from driftbayes.turbulence.particles import INTERPOLATIONS, seed_particles

SPLINES = ["cubic", "quintic"]
# Of the same code with other coefficients, which takes longer to compile.
MOSTLY_CUBIC = ["cubic", pytest.param("quintic", marks=pytest.mark.slow)]
PLACES = np.asarray(seed_particles(4000, 0)).T


@eqx.filter_jit
def _seen(interpolation, flow, zeta, x):
    """u and v at places given as x and y."""
    places = jax.lax.complex(x[0], x[1])
    w = interpolation.velocity(flow, _field(interpolation, flow, zeta), places)
    return jnp.stack([jnp.real(w), jnp.imag(w)])


def _field(interpolation, flow, zeta):
    return velocity(flow, zeta), interpolation.coefficients(flow, zeta, zeta)[0]


def _flow(n, precision="double"):
    return Flow.make(Grid(n), 0.1, precision=precision)


def _psi(x, y):
    return np.sin(3 * x + 0.4) * np.cos(2 * y) + 0.5 * np.cos(x - 4 * y)


def _exact(x, y):
    psi_y = -2 * np.sin(3 * x + 0.4) * np.sin(2 * y) + 2 * np.sin(x - 4 * y)
    psi_x = 3 * np.cos(3 * x + 0.4) * np.cos(2 * y) - 0.5 * np.sin(x - 4 * y)
    return np.stack([-psi_y, psi_x])


# A spline of degree p has an error of order p + 1, its derivative of order p.
@pytest.mark.sampled(3)
@pytest.mark.parametrize(("name", "order"), [("bilinear", 2), ("cubic", 3), ("quintic", 5)])
def test_the_order_of_the_velocity(name, order):
    errors = []
    for n in (32, 64, 128):
        flow = _flow(n)
        zeta = vorticity_modes(flow.grid, _psi)
        found = _seen(INTERPOLATIONS[name], flow, zeta, jnp.asarray(PLACES))
        errors.append(np.sqrt(np.mean((found - _exact(*PLACES)) ** 2)))
    assert_allclose(observed_orders(errors)[-1], order, atol=0.1)
    assert errors[0] < {"bilinear": 0.1, "cubic": 0.02, "quintic": 2e-3}[name]


@pytest.mark.parametrize("name", MOSTLY_CUBIC)
def test_the_velocity_of_a_spline_has_no_divergence(name):
    flow, interpolation = _flow(32), INTERPOLATIONS[name]
    zeta = jnp.asarray(random_start(flow.grid, seed=1))
    assert np.abs(_divergence(interpolation, flow, zeta)).max() < 1e-13 * _shear(flow, zeta)


def test_bilinear_velocity_has_divergence():
    flow = _flow(32)
    zeta = jnp.asarray(random_start(flow.grid, seed=1))
    found = np.asarray(_divergence(INTERPOLATIONS["bilinear"], flow, zeta))
    assert found.std() > 1e-2 * _shear(flow, zeta)


@eqx.filter_jit
def _divergence(interpolation, flow, zeta):
    x = jnp.asarray(PLACES)

    def slope(direction):
        # Moving all particles at once gives each its own derivative.
        directions = jnp.broadcast_to(direction[:, None], x.shape)
        return jax.jvp(lambda x: _seen(interpolation, flow, zeta, x), (x,), (directions,))[1]

    slopes = jax.vmap(slope)(jnp.eye(2))
    return slopes[0, 0] + slopes[1, 1]


def _shear(flow, zeta):
    return float(np.sqrt(mean_square(flow.grid, zeta)))


def test_bilinear_velocity_is_the_mean_of_the_corners_in_the_middle_of_a_cell():
    flow = _flow(8)
    zeta = jnp.asarray(random_start(flow.grid, seed=2))
    q = np.asarray(velocity(flow, zeta))
    # The last cell, whose other corners are on the far side of the square.
    middle = jnp.full((2, 1), 7.5 * flow.grid.spacing)
    expected = (q[7, 7] + q[7, 0] + q[0, 7] + q[0, 0]) / 4
    found = _seen(INTERPOLATIONS["bilinear"], flow, zeta, middle)
    assert_allclose(found[:, 0], [expected.real, -expected.imag], rtol=1e-13)


def test_bilinear_velocity_is_that_of_the_points_at_the_points():
    flow = _flow(8)
    zeta = jnp.asarray(random_start(flow.grid, seed=2))
    q = np.asarray(velocity(flow, zeta)).ravel()
    x = jnp.asarray(np.stack([along.ravel() for along in flow.grid.points]))
    found = _seen(INTERPOLATIONS["bilinear"], flow, zeta, x)
    assert_allclose(found, np.stack([q.real, -q.imag]), atol=1e-13)


@pytest.mark.parametrize("name", INTERPOLATIONS)
@pytest.mark.parametrize("periods", [1, -1, 1_000_000, -1_000_000])
def test_far_from_the_square_the_velocity_is_the_same(name, periods):
    flow = _flow(32)
    zeta = jnp.asarray(random_start(flow.grid, seed=3))
    x = np.concatenate([PLACES[:, 20:], np.zeros((2, 10)), np.full((2, 10), np.pi)], axis=1)
    far = x + 2 * np.pi * periods
    # A position is known to half a unit in its last place, in cells to a few.
    known = 4 * np.spacing(np.abs(far).max())
    here, there = (_seen(INTERPOLATIONS[name], flow, zeta, jnp.asarray(at)) for at in (x, far))
    steepest = np.abs(np.asarray(zeta)).sum() * 4 / flow.grid.n**2
    assert size(np.asarray(there) - here) < known * steepest


@pytest.mark.parametrize("name", SPLINES)
def test_coefficients_of_two_steps_are_each_their_own(name):
    flow, interpolation = _flow(32), INTERPOLATIONS[name]
    first, second = (jnp.asarray(random_start(flow.grid, seed=seed)) for seed in (4, 5))
    coefficients = eqx.filter_jit(interpolation.coefficients)
    one, other = coefficients(flow, first, second)
    assert size(one - coefficients(flow, first, first)[0]) < 1e-14 * size(one)
    assert size(other - coefficients(flow, second, second)[0]) < 1e-14 * size(other)


@pytest.mark.parametrize("name", ["bilinear", *MOSTLY_CUBIC])
def test_single_precision_is_right_to_its_digits(name):
    double, single = _flow(32), _flow(32, "single")
    zeta, x = jnp.asarray(random_start(double.grid, seed=6)), jnp.asarray(PLACES)
    exact = _seen(INTERPOLATIONS[name], double, zeta, x)
    found = _seen(INTERPOLATIONS[name], single, zeta, x)
    assert found.dtype == jnp.float32
    assert size(found - exact) < 3e-6 * size(exact)


@pytest.mark.parametrize("name", MOSTLY_CUBIC)
def test_the_gpu_branch_of_a_spline_gives_the_same_velocity(name, request):
    flow, interpolation = _flow(32), INTERPOLATIONS[name]
    zeta = jnp.asarray(random_start(flow.grid, seed=7))
    on_cpu = _seen(interpolation, flow, zeta, jnp.asarray(PLACES))
    request.getfixturevalue("gpu_branches")
    # Compiled anew: a program from before would not ask for the platform again.
    found = eqx.filter_jit(lambda *args: _seen.__wrapped__(*args))(
        interpolation, flow, zeta, jnp.asarray(PLACES)
    )
    assert size(found - on_cpu) < 1e-14 * size(on_cpu)
