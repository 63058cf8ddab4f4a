"""Matérn model against Bessel functions of others, and the models it has among its members."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import gamma as gamma_function
from scipy.special import kv

from driftbayes.models import Langevin, MaternVelocity, SecondOrderLangevin

NU = pytest.mark.parametrize("nu", [0.05, 0.2, 0.7, 2.0, 6.0])


def rate(gamma, nu):
    return gamma * np.sqrt(np.pi) * gamma_function(nu + 0.5) / gamma_function(nu)


@NU
def test_velocity_autocovariance_is_that_of_scipys_bessel_function(nu):
    t = np.array([1e-4, 0.01, 0.5, 3.0, 20.0])
    x = rate(0.8, nu) * t
    expected = 1.3 * 0.8 * 2 ** (1 - nu) / gamma_function(nu) * x**nu * kv(nu, x)
    found = MaternVelocity(gamma=0.8, smoothness=nu, k=1.3).lvaf(jnp.asarray(t))
    assert_allclose(found, expected, rtol=1e-11, atol=1e-15)


@NU
@pytest.mark.parametrize("t", [1e-4, 0.5, 5.0])
def test_mean_square_displacement_is_the_double_integral_in_20_digits(nu, t):
    with mpmath.workdps(20):
        order, scale = mpmath.mpf(nu), mpmath.mpf(rate(0.8, nu))

        def integrand(s):
            x = scale * s
            return (t - s) * x**order * mpmath.besselk(order, x)

        points = [t * mpmath.mpf(part) for part in ("0", "1e-6", "1e-3", "0.05", "0.3", "1")]
        integral = mpmath.quad(integrand, points) * 2 ** (1 - order) / mpmath.gamma(order)
    found = MaternVelocity(gamma=0.8, smoothness=nu, k=1.3).mean_square_displacement(jnp.asarray(t))
    assert_allclose(found, 2 * 1.3 * 0.8 * float(integral), rtol=1e-12)


@pytest.mark.parametrize("tau", [1e-6, 1e-3, 0.1, 1.0, 30.0, 1e6])
def test_members_of_the_family_are_langevin_and_second_order(tau):
    lags, at = jnp.arange(32.0), jnp.asarray(tau)
    for nu, other in (
        (0.5, Langevin(gamma=0.8, k=1.3)),
        (1.5, SecondOrderLangevin(gamma=0.8, accel=3.2, k=1.3)),
    ):
        model = MaternVelocity(gamma=0.8, smoothness=nu, k=1.3)
        expected = other.increment_autocovariance(lags, at)
        found = model.increment_autocovariance(lags, at)
        assert_allclose(found, expected, rtol=1e-11, atol=1e-14 * float(expected[0]))


@jax.jit
def hessian(theta):
    def total(theta):
        model = MaternVelocity(gamma=theta[0], smoothness=theta[1], k=theta[2])
        return jnp.sum(model.increment_autocovariance(jnp.arange(6.0), jnp.asarray(1.0)))

    return jax.hessian(total)(theta)


@pytest.mark.parametrize("x", [1e-8, 1e-3, 1.0, 1e3, 1e8])
def test_second_derivatives_are_finite_at_all_gamma_tau_and_smoothness(x):
    for nu in (0.1, 0.5, 2.0, 10.0):
        assert np.isfinite(hessian(jnp.asarray([x, nu, 1.3]))).all()
