"""Linear models against matrix exponentials of others, of 60 digits, and of closed forms."""

import celerite2.terms
import equinox as eqx
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import expm

from driftbayes.models import (
    MODELS,
    ConfinedLangevin,
    Langevin,
    OscillatingLangevin,
    SecondOrderLangevin,
)
from driftbayes.models._matrix_exponential import exponential_integrals

CASES = [
    SecondOrderLangevin(gamma=0.8, accel=2.0, k=1.3),  # oscillates
    SecondOrderLangevin(gamma=0.8, accel=3.2, k=1.3),  # critical
    SecondOrderLangevin(gamma=0.01, accel=5.0, k=1.3),  # slow and fast
    OscillatingLangevin(gamma=0.5, omega=3.0, k=1.3),
    OscillatingLangevin(gamma=0.5, omega=0.01, k=1.3),
    ConfinedLangevin(gamma=2.0, well=0.3, k=1.3),
    ConfinedLangevin(gamma=0.5, well=3.0, k=1.3),
]
# Compiled as one program each: call by call, JAX would compile every operation.
dynamics_of = eqx.filter_jit(lambda model: model.dynamics())
transition_of = eqx.filter_jit(lambda model, t: model.transition(t))
autocovariance = eqx.filter_jit(lambda model, lags, tau: model.increment_autocovariance(lags, tau))
velocity_autocovariance = eqx.filter_jit(lambda model, t: model.lvaf(t))
spread_of = eqx.filter_jit(lambda model, t: model.mean_square_displacement(t))
cases = pytest.mark.parametrize("model", CASES, ids=lambda m: f"{m.name}-{CASES.index(m)}")


def state_equation(model):
    """F and D of the whole state, position first."""
    rates, intensity, _ = (np.asarray(part) for part in dynamics_of(model))
    f, d = np.zeros((3, 3)), np.zeros((3, 3))
    f[0, 1], f[1:, 1:], d[1:, 1:] = 1.0, rates, intensity
    return f, d


def van_loan(f, d, t, exponential):
    """A and Q from the exponential of one matrix of twice the size."""
    n = len(f)
    zero = np.zeros_like(f)
    whole = exponential(t * np.block([[-f, d], [zero, f.T]]))
    propagator = whole[n:, n:].T
    return propagator, propagator @ whole[:n, n:]


def precise(matrix):
    with mpmath.workdps(60):
        return np.array(mpmath.expm(mpmath.matrix(matrix.tolist())).tolist())


@cases
def test_dynamics_are_stationary(model):
    rates, intensity, stationary = (np.asarray(part) for part in dynamics_of(model))
    assert_allclose(rates @ stationary + stationary @ rates.T, -intensity, atol=1e-14)


@cases
def test_transition_is_that_of_scipys_exponential(model):
    a, q = transition_of(model, np.asarray(0.7))
    expected_a, expected_q = van_loan(*state_equation(model), 0.7, expm)
    assert_allclose(a, expected_a, rtol=1e-12, atol=1e-15)
    assert_allclose(q, expected_q, rtol=1e-9, atol=1e-13 * float(q[1, 1]))


@cases
@pytest.mark.parametrize("t", [1e-6, 1e-3, 1.0])
def test_every_element_of_the_noise_keeps_its_digits_at_short_times(model, t):
    a, q = transition_of(model, np.asarray(t))
    with mpmath.workdps(60):
        expected_a, expected_q = van_loan(*state_equation(model), t, precise)
    assert_allclose(a, expected_a.astype(float), rtol=1e-12)
    present = np.abs(expected_q.astype(float)) > 1e-40
    assert_allclose(np.asarray(q)[present], expected_q.astype(float)[present], rtol=1e-12)
    assert_allclose(np.asarray(q)[~present], 0.0, atol=1e-15 * float(q[1, 1]))


@pytest.mark.parametrize("ratio", [1e2, 1e5, 1e8])
def test_slow_motion_keeps_its_digits_beside_a_fast_one(ratio):
    rates = np.array([[0.0, np.sqrt(ratio)], [-np.sqrt(ratio), -ratio]])
    found = exponential_integrals(jnp.asarray(rates))
    with mpmath.workdps(60):
        expected = precise(rates) - np.eye(2)
    assert_allclose(found.change, expected.astype(float), rtol=1e-13)


def test_second_order_velocity_is_two_exponentials_or_a_damped_oscillation():
    t = np.linspace(0, 5, 11)
    for accel in (10.0, 0.9):
        model = SecondOrderLangevin(gamma=0.8, accel=accel, k=1.3)
        found = velocity_autocovariance(model, t)
        root = np.sqrt(accel**2 / 4 - 0.8 * accel + 0j)
        slow, fast = accel / 2 - root, accel / 2 + root
        shape = (fast * np.exp(-slow * t) - slow * np.exp(-fast * t)) / (fast - slow)
        assert_allclose(found, 1.3 * 0.8 * shape.real, rtol=1e-12, atol=1e-14)


def test_oscillating_velocity_is_a_complex_term_of_celerite():
    t = np.linspace(0, 5, 11)
    variance = 1.3 * (0.8**2 + 2.1**2) / 0.8
    term = celerite2.terms.ComplexTerm(a=variance, b=0.0, c=0.8, d=2.1)
    found = velocity_autocovariance(OscillatingLangevin(gamma=0.8, omega=2.1, k=1.3), t)
    assert_allclose(found, term.get_value(t), rtol=1e-12, atol=1e-14)


def test_second_order_velocity_is_the_oscillator_of_celerite():
    t = np.linspace(0, 5, 11)
    omega = np.sqrt(0.8 * 2.0)
    term = celerite2.terms.SHOTerm(sigma=np.sqrt(1.3 * 0.8), w0=omega, Q=omega / 2.0)
    found = velocity_autocovariance(SecondOrderLangevin(gamma=0.8, accel=2.0, k=1.3), t)
    assert_allclose(found, term.get_value(t), rtol=1e-12, atol=1e-14)


def test_confined_position_is_the_oscillator_of_celerite():
    t = np.linspace(0.1, 5, 11)
    omega = np.sqrt(2.0 * 0.3)
    term = celerite2.terms.SHOTerm(sigma=np.sqrt(1.3 / 0.3), w0=omega, Q=omega / 2.0)
    found = spread_of(ConfinedLangevin(gamma=2.0, well=0.3, k=1.3), t)
    assert_allclose(found, 2 * (1.3 / 0.3 - term.get_value(t)), rtol=1e-12)


def test_strong_friction_makes_a_confined_particle_brownian():
    t = np.array([1e-3, 0.1, 1.0, 1e3])
    found = spread_of(ConfinedLangevin(gamma=1e10, well=0.3, k=1.3), t)
    brownian = spread_of(MODELS["confined_brownian"](well=0.3, kappa=1.3), t)
    assert_allclose(found, brownian, rtol=1e-6)


@pytest.mark.parametrize("x", [1e-8, 1e-4, 1.0, 1e4, 1e8])
def test_limit_of_langevin_holds_at_all_gamma_tau(x):
    lags, tau = np.arange(5.0), np.asarray(1.0)
    expected = np.asarray(autocovariance(Langevin(gamma=x, k=1.3), lags, tau))
    for model in (
        SecondOrderLangevin(gamma=x, accel=1e10 * max(x, 1), k=1.3),
        OscillatingLangevin(gamma=x, omega=1e-9 * x, k=1.3),
        ConfinedLangevin(gamma=x, well=1e-12 * min(x, 1), k=1.3),
    ):
        found = autocovariance(model, lags, tau)
        assert_allclose(found, expected, rtol=1e-9, atol=1e-11 * expected[0])
