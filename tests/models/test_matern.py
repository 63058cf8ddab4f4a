"""Matérn model against Bessel functions of others, and the models it has among its members."""

import equinox as eqx
import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import gamma as gamma_function
from scipy.special import kv

from driftbayes.models import Langevin, MaternVelocity, SecondOrderLangevin
from driftbayes.models._gaussian_mixture import gaussian_spread, gaussian_step_covariance

NU = pytest.mark.parametrize("nu", [0.05, 0.2, 0.7, 2.0, 6.0])


# Compiled as one program each: call by call, JAX would compile every operation.
velocity_autocovariance = eqx.filter_jit(lambda model, t: model.lvaf(t))
spread_of = eqx.filter_jit(lambda model, t: model.mean_square_displacement(t))
autocovariance = eqx.filter_jit(lambda model, lags, tau: model.increment_autocovariance(lags, tau))


def rate(gamma, nu):
    return gamma * np.sqrt(np.pi) * gamma_function(nu + 0.5) / gamma_function(nu)


@NU
def test_velocity_autocovariance_is_that_of_scipys_bessel_function(nu):
    t = np.array([1e-4, 0.01, 0.5, 3.0, 20.0])
    x = rate(0.8, nu) * t
    expected = 1.3 * 0.8 * 2 ** (1 - nu) / gamma_function(nu) * x**nu * kv(nu, x)
    found = velocity_autocovariance(MaternVelocity(gamma=0.8, smoothness=nu, k=1.3), t)
    assert_allclose(found, expected, rtol=1e-11, atol=1e-15)


@pytest.mark.sampled(2)
@NU
@pytest.mark.parametrize("t", [1e-4, 0.5, pytest.param(5.0, marks=pytest.mark.slow)])
def test_mean_square_displacement_is_the_double_integral_in_20_digits(nu, t):
    with mpmath.workdps(20):
        order, scale = mpmath.mpf(nu), mpmath.mpf(rate(0.8, nu))

        def integrand(s):
            x = scale * s
            return (t - s) * x**order * mpmath.besselk(order, x)

        points = [t * mpmath.mpf(part) for part in ("0", "1e-6", "1e-3", "0.05", "0.3", "1")]
        integral = mpmath.quad(integrand, points) * 2 ** (1 - order) / mpmath.gamma(order)
    found = spread_of(MaternVelocity(gamma=0.8, smoothness=nu, k=1.3), np.asarray(t))
    assert_allclose(found, 2 * 1.3 * 0.8 * float(integral), rtol=1e-12)


@pytest.mark.parametrize("tau", [1e-6, 1e-3, 0.1, 1.0, 30.0, 1e6])
def test_members_of_the_family_are_langevin_and_second_order(tau):
    lags, at = np.arange(32.0), np.asarray(tau)
    for nu, other in (
        (0.5, Langevin(gamma=0.8, k=1.3)),
        (1.5, SecondOrderLangevin(gamma=0.8, accel=3.2, k=1.3)),
    ):
        model = MaternVelocity(gamma=0.8, smoothness=nu, k=1.3)
        expected = np.asarray(autocovariance(other, lags, at))
        found = autocovariance(model, lags, at)
        assert_allclose(found, expected, rtol=1e-11, atol=1e-14 * expected[0])


@jax.jit
def hessian(theta):
    def total(theta):
        model = MaternVelocity(gamma=theta[0], smoothness=theta[1], k=theta[2])
        return jnp.sum(model.increment_autocovariance(jnp.arange(6.0), jnp.asarray(1.0)))

    return jax.hessian(total)(theta)


@pytest.mark.parametrize("x", [1e-8, 1e-3, 1.0, 1e3, 1e8])
@pytest.mark.slow
def test_second_derivatives_are_finite_at_all_gamma_tau_and_smoothness(x):
    for nu in (0.1, 0.5, 2.0, 10.0):
        assert np.isfinite(hessian(jnp.asarray([x, nu, 1.3]))).all()


LAGS = (0, 1, 2, 9, 24)


def step_covariances_in_50_digits(nu, x):
    """Covariances of steps in units of k γ τ², from the power series of the Bessel function.

    The correlation is F(1 - nu) - Γ(1-nu)/Γ(1+nu) (y/2)^(2 nu) F(1 + nu), with F a 0F1; each term
    is integrated twice, and the second difference taken. For nu that is no integer.
    """
    longest = float(rate(x, nu)) * (max(LAGS) + 1)
    with mpmath.workdps(int(50 + longest + (3 * nu if nu > 20 else 0))):
        order, half = mpmath.mpf(nu), mpmath.mpf("0.5")
        y = x * mpmath.sqrt(mpmath.pi) * mpmath.gamma(order + half) / mpmath.gamma(order)

        def twice_integrated(n_steps):
            t = abs(n_steps) * y
            regular = mpmath.hyper([half, 1], [3 * half, 2, 1 - order], t**2 / 4)
            singular = mpmath.hyper([order + half], [order + 3 * half, order + 2], t**2 / 4)
            factor = mpmath.gamma(1 - order) / mpmath.gamma(1 + order) * (t / 2) ** (2 * order)
            factor /= (2 * order + 1) * (order + 1)
            return t**2 / 2 * (regular - factor * singular)

        spread = {n: twice_integrated(n) for lag in LAGS for n in (lag - 1, lag, lag + 1)}
        differences = [spread[lag + 1] - 2 * spread[lag] + spread[lag - 1] for lag in LAGS]
        return np.array([float(difference / y**2) for difference in differences])


@jax.jit
def first_covariances(gamma, nu):
    model = MaternVelocity(gamma=gamma, smoothness=nu, k=1.0)
    return model.first_autocovariances(max(LAGS) + 1, jnp.asarray(1.0)) / gamma


# Either side of the change from lattice to series, at 24, and far from it.
@pytest.mark.parametrize(
    "nu",
    [
        *(1e-10, 0.3, 23.9, 24.1),
        *(pytest.param(nu, marks=pytest.mark.slow) for nu in (1e-3, 1.3, 6.7, 40.3, 150.5)),
    ],
)
def test_covariances_of_steps_are_those_of_50_digits(nu):
    for x in (1e-8, 1e-3, 0.1, 2.0):
        expected = step_covariances_in_50_digits(nu, x)
        found = np.asarray(first_covariances(np.asarray(x), np.asarray(nu)))[list(LAGS)]
        assert_allclose(found, expected, rtol=0, atol=3e-14 * expected[0])


@pytest.mark.parametrize("nu", [1e-3, 0.5, 1.0, 23.9, 24.1, 1e3, 1e6])
def test_long_steps_diffuse_and_touch_only_their_neighbours(nu):
    for x in (1e6, 1e8):
        row = np.asarray(first_covariances(np.asarray(x), np.asarray(nu)))
        # λ/γ, also where the gamma functions overflow.
        lam = rate(1.0, nu) if nu < 100 else np.sqrt(np.pi * nu) * (1 - 1 / (8 * nu))
        neighbour = 2 * nu / (lam * x) ** 2
        assert_allclose(row[0], 2 / x - 2 * neighbour, rtol=1e-13)
        assert_allclose(row[1], neighbour, rtol=1e-6)
        assert_allclose(row[2:], 0.0, atol=1e-16 * row[0])


@jax.jit
def gaussian_law(z):
    return gaussian_spread(z), gaussian_step_covariance(jnp.arange(1.0, 4.0), z[None])


@pytest.mark.parametrize("x", [0.01, 1.0, 3.0])
def test_smoothest_members_have_a_gaussian_autocovariance(x):
    spread, apart = gaussian_law(np.asarray(0.5 * np.sqrt(np.pi) * x))
    found = np.asarray(first_covariances(np.asarray(x), np.asarray(1e9)))
    assert_allclose(found[0], spread, rtol=1e-7)
    assert_allclose(found[1:4], apart, rtol=1e-6, atol=1e-12)


@jax.jit
def slopes(theta):
    """Derivatives of all covariances, and second ones of their sum."""

    def first(theta):
        rows = jax.jacfwd(lambda theta: first_covariances(theta[0], theta[1]))(theta)
        return jnp.sum(rows, axis=0), rows

    second, rows = jax.jacfwd(first, has_aux=True)(theta)
    return rows, second


@pytest.mark.slow
@pytest.mark.sampled(4)
@pytest.mark.parametrize("nu", [1e-8, 0.5, 23.9, 24.1, 1e3])
@pytest.mark.parametrize("x", [1e-8, 1e-3, 1.0, 1e3, 1e8])
def test_derivatives_of_all_covariances_at_once_are_finite(nu, x):
    assert all(np.isfinite(part).all() for part in slopes(jnp.asarray([x, nu])))


@pytest.mark.parametrize("nu", [0.3, 23.9, 24.1])
def test_derivatives_of_all_covariances_are_those_of_differences(nu):
    theta, h = np.array([0.4, nu]), 1e-3
    first, second = (np.asarray(part) for part in slopes(theta))

    def difference(function, i):
        """Of fourth order."""
        at = {n: np.asarray(function(theta + n * h * np.eye(2)[i])) for n in (-2, -1, 1, 2)}
        return (8 * (at[1] - at[-1]) - (at[2] - at[-2])) / (12 * h)

    for i in range(2):
        rows = difference(lambda theta: first_covariances(*theta), i)
        assert_allclose(first[:, i], rows, rtol=1e-6, atol=1e-9)
        ends = difference(lambda theta: np.asarray(slopes(theta)[0]).sum(axis=0), i)
        assert_allclose(second[i], ends, rtol=1e-6, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("nu", [0.3, 23.9, 24.1, 200.0])
def test_derivatives_of_all_covariances_are_those_of_single_lags(nu):
    def row(theta):
        model = MaternVelocity(gamma=theta[0], smoothness=theta[1], k=1.0)
        lags = jnp.arange(max(LAGS) + 1.0)
        return model.increment_autocovariance(lags, jnp.asarray(1.0)) / theta[0]

    theta = jnp.asarray([0.4, nu])
    first, second = slopes(theta)
    assert_allclose(first, jax.jacfwd(row)(theta), rtol=1e-9, atol=1e-11)
    expected = jax.jit(jax.hessian(lambda theta: jnp.sum(row(theta))))(theta)
    assert_allclose(second, expected, rtol=1e-9, atol=1e-10)
