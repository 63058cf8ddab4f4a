"""Particles: order in time, what they conserve, and where they begin."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from workshop import FIVE_SIGMA, mean_square, observed_orders

from driftbayes.errors import DriftbayesError
from driftbayes.turbulence.flow import Flow
from driftbayes.turbulence.grid import Grid
from driftbayes.turbulence.noise import random_start
from driftbayes.turbulence.particles import INTERPOLATIONS, Interpolation, advect, seed_particles


class _Waves(Interpolation):
    """Exact velocity of psi = a sin x sin y + b cos(x + 2 y); the field is (a, b)."""

    def coefficients(self, flow, middle, end):
        return None, None

    def velocity(self, flow, field, x):
        a, b = field
        x, y = jnp.real(x), jnp.imag(x)
        psi_x = a * jnp.cos(x) * jnp.sin(y) - b * jnp.sin(x + 2 * y)
        psi_y = a * jnp.sin(x) * jnp.cos(y) - 2 * b * jnp.sin(x + 2 * y)
        return jax.lax.complex(-psi_y, psi_x)


@eqx.filter_jit
def _begin(n_particles, seed):
    x, y = seed_particles(n_particles, seed).T
    return jax.lax.complex(x, y)


def _at(t):
    return jnp.cos(3 * t), 0.5 + jnp.sin(2 * t)


def _two_steps(flow, t, x):
    return advect(flow, _Waves(), tuple(_at(t + i * flow.dt) for i in range(3)), x)


def _one_step(flow, fields, x):
    """Runge--Kutta over a step, with a field for each stage."""
    h, places, total = flow.dt, x, 0.0
    for field, weight, ahead in zip(fields, (1, 2, 2, 1), (0.5, 0.5, 1.0, 0.0), strict=True):
        u = _Waves().velocity(flow, field, places)
        total, places = total + weight / 6 * u, x + ahead * h * u
    return x + h * total


def _papers(flow, t, x):
    for start in (t, t + flow.dt):
        now, later = _at(start), _at(start + flow.dt)
        x = _one_step(flow, (now, later, later, later), x)
    return x


def _mean_in_the_middle(flow, t, x):
    for start in (t, t + flow.dt):
        now, later = _at(start), _at(start + flow.dt)
        middle = tuple((a + b) / 2 for a, b in zip(now, later, strict=True))
        x = _one_step(flow, (now, middle, middle, later), x)
    return x


@eqx.filter_jit
def _carried(scheme, flow, n_steps):
    x = _begin(50, 1)

    def pair(i, x):
        return scheme(flow, 2 * i * flow.dt, x)

    return jax.lax.fori_loop(0, n_steps // 2, pair, x)


@pytest.mark.parametrize(
    ("scheme", "order"), [(_two_steps, 4.0), (_papers, 1.0), (_mean_in_the_middle, 2.0)]
)
def test_the_order_in_time_of_this_scheme_and_of_two_others(scheme, order):
    def end(scheme, n_steps):
        return _carried(scheme, Flow.make(Grid(8), 1 / n_steps), jnp.asarray(n_steps))

    reference = np.asarray(end(_two_steps, 4096))
    errors = [np.abs(np.asarray(end(scheme, n)) - reference).max() for n in (64, 128, 256)]
    assert_allclose(observed_orders(errors)[-1], order, atol=0.1)


def _psi(grid, zeta, x):
    """The stream function of the modes themselves at some places."""
    amplitude = -np.asarray(zeta) * grid.inverse_k2 * grid.weights / grid.n**2
    (row, column) = np.nonzero(amplitude)
    phase = np.outer(np.real(x), grid.kx[0, column]) + np.outer(np.imag(x), grid.ky[row, 0])
    return np.real(np.exp(1j * phase) @ amplitude[row, column])


@eqx.filter_jit
def _carried_by_a_frozen_flow(interpolation, flow, zeta, n_pairs):
    field = flow.velocity(zeta), interpolation.coefficients(flow, zeta, zeta)[0]
    x = _begin(50, 2)
    return jax.lax.fori_loop(
        0, n_pairs, lambda _, x: advect(flow, interpolation, (field, field, field), x), x
    )


def _drift(name, t):
    """How far from their streamlines particles are in a frozen flow, in units of rms psi."""
    flow = Flow.make(Grid(64), 0.005)
    zeta = jnp.asarray(random_start(flow.grid, seed=1) * (flow.grid.kmag < 6))
    end = _carried_by_a_frozen_flow(INTERPOLATIONS[name], flow, zeta, jnp.asarray(100 * t))
    change = _psi(flow.grid, zeta, end) - _psi(flow.grid, zeta, _begin(50, 2))
    scale = np.sqrt(mean_square(flow.grid, zeta, flow.grid.inverse_k2**2))
    return np.sqrt(np.mean(change**2)) / scale


@pytest.mark.parametrize(
    ("name", "most"), [("cubic", 3e-5), pytest.param("quintic", 3e-7, marks=pytest.mark.slow)]
)
def test_on_a_spline_particles_stay_on_their_streamlines(name, most):
    early, late = _drift(name, 1), _drift(name, 20)
    assert late < 1.5 * early
    assert late < most


def test_with_bilinear_velocity_particles_leave_their_streamlines():
    early, late = _drift("bilinear", 1), _drift("bilinear", 40)
    assert late > 2 * early
    assert late > 100 * _drift("cubic", 20)


def test_the_first_particles_are_the_same_for_every_number():
    assert_array_equal(np.asarray(seed_particles(1000, 5))[:10], seed_particles(10, 5))
    assert seed_particles(0, 5).shape == (0, 2)


def test_particles_begin_uniformly_over_the_square():
    n = 20_000
    x = np.asarray(seed_particles(n, 6)) / (2 * np.pi)
    for along in x.T:
        assert stats.kstest(along, "uniform").pvalue > 1e-4
    covariance = np.mean((x[:, 0] - 0.5) * (x[:, 1] - 0.5))
    assert abs(covariance) < FIVE_SIGMA / 12 / np.sqrt(n)


def test_seeds_give_different_particles():
    assert np.all(np.asarray(seed_particles(10, 1)) != np.asarray(seed_particles(10, 2)))


@pytest.mark.parametrize("n_particles", [-1, 2.5])
def test_a_number_of_particles_that_cannot_be_is_refused(n_particles):
    with pytest.raises(DriftbayesError, match=f"whole number, 0 or more, got {n_particles}"):
        seed_particles(n_particles, 0)
