"""Local linearisation: closed forms against mpmath and the matrix exponential."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import expm

from driftbayes.sde import _linear as linear
from driftbayes.sde._linear import Coefficients

# Compiled as one program each: call by call, JAX would compile every operation.
first_order, second_order = jax.jit(linear.first_order), jax.jit(linear.second_order)

RATES = [-3, -0.7, -0.201, -0.199, -1e-3, -1e-9, 0.0, 1e-12, 1e-4, 0.199, 0.201, 2.0, 40.0, 900.0]


def van_loan(drift, noise, h):
    """Propagator and covariance by one matrix exponential."""
    n = len(drift)
    block = np.zeros((2 * n, 2 * n))
    block[:n, :n], block[:n, n:], block[n:, n:] = -drift, noise, drift.T
    found = expm(block * h)
    propagator = found[n:, n:].T
    return propagator, propagator @ found[:n, n:]


@pytest.mark.parametrize("rate", [-3.0, -0.5, 1e-4, 0.3, 0.7, 2.0])
def test_the_solution_is_that_of_the_matrix_exponential(rate):
    h, b2, c = 0.8, 1.7, 0.6
    drift = np.array([[0.0, 1.0], [0.0, -rate]])
    propagator, cov = van_loan(drift, np.diag([0.0, b2]), h)
    found = second_order(Coefficients(*map(jnp.array, (rate, c, b2))), jnp.asarray(h))
    assert_allclose([found.fxx, found.fxu, found.fuu], propagator[[0, 0, 1], [0, 1, 1]], rtol=1e-12)
    assert_allclose([found.qxx, found.qxu, found.quu], cov[[0, 0, 1], [0, 1, 1]], rtol=1e-9)
    # The constant drives a third component that never changes.
    bigger = expm(h * np.array([[0, 1, 0], [0, -rate, c], [0, 0, 0.0]]))
    assert_allclose([found.ox, found.ou], bigger[:2, 2], rtol=1e-12)


@pytest.mark.parametrize("rate", RATES)
def test_no_digits_are_lost_at_any_rate(rate):
    mpmath.mp.dps = 120
    x = mpmath.mpf(rate) if rate else mpmath.mpf("1e-30")
    e = mpmath.exp(-x)
    phi = (1 - e) / x
    exact = {
        "fxu": phi,
        "ox": (1 - phi) / x,
        "qxx": (x - 2 * (1 - e) + (1 - e**2) / 2) / x**3,
        "qxu": phi**2 / 2,
        "quu": (1 - e**2) / (2 * x),
    }
    found = second_order(
        Coefficients(jnp.asarray(float(rate)), jnp.ones(()), jnp.ones(())), jnp.ones(())
    )
    for name, value in exact.items():
        assert_allclose(getattr(found, name), float(value), rtol=2e-13, err_msg=name)


def test_a_position_alone_follows_ornstein_and_uhlenbeck():
    rate, c, b2, h = 0.9, 0.4, 1.3, 0.7
    found = first_order(Coefficients(*map(jnp.array, (rate, c, b2))), jnp.asarray(h))
    assert_allclose(found.fxx, np.exp(-rate * h), rtol=1e-14)
    assert_allclose(found.ox, c / rate * (1 - np.exp(-rate * h)), rtol=1e-14)
    assert_allclose(found.qxx, b2 / (2 * rate) * (1 - np.exp(-2 * rate * h)), rtol=1e-14)
