"""Langevin model: the paper's formulas reached by other ways, and its two limits."""

import equinox as eqx
import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_allclose
from scipy.linalg import toeplitz

from driftbayes.data._sampling import Displacements
from driftbayes.models import Brownian, Langevin
from driftbayes.testing import reference
from driftbayes.testing import strategies as some


# Compiled as one program: call by call, JAX would compile every operation.
@eqx.filter_jit
def law(model, lags, t, tau):
    """Covariances of steps; spread and diffusivity; and the state-space form."""
    spread, diffusivity = model.mean_square_displacement(t), model.absolute_diffusivity(t)
    state = (*model.transition(tau), model.initial_covariance())
    return model.increment_autocovariance(lags, tau), spread, diffusivity, state


LAGS, TIMES = np.arange(6.0), np.array([0.1, 1.0, 10.0])


@given(model=some.models(Langevin, 1e-4, 1e4))
def test_autocovariance_is_the_papers(model):  # [eq:langevin-cov]
    found, *_ = law(model, LAGS, TIMES, np.asarray(0.7))
    expected = reference.langevin_covariance(6, 0.7, float(model.gamma), float(model.k))
    # Below the smallest normal number some processors have zero.
    assert_allclose(toeplitz(found), expected, rtol=1e-13, atol=1e-307)


@given(model=some.models(Langevin, 1e-4, 1e4))
def test_transition_is_that_of_the_appendix(model):  # [eq:var1], [eq:var1-noise]
    *_, (propagate, diffuse, start) = law(model, LAGS, TIMES, np.asarray(0.7))
    a, c, v = reference.var1_matrices(0.7, float(model.gamma), float(model.k))
    assert_allclose(propagate, a + np.diag([1.0, 0.0]), rtol=1e-13)
    assert_allclose(diffuse, c, rtol=1e-13)
    # Displacement and velocity after one step from rest in the origin [eq:stationary-variance].
    assert_allclose(propagate @ start @ propagate.T + diffuse, v, rtol=1e-12)


@pytest.mark.parametrize("engine", ["moments", "kalman"])
def test_diffusive_limit_is_brownian(engine):  # [eq:diffusive-limit]
    data = Displacements.from_array(np.random.default_rng(0).normal(size=(3, 6, 2)), 0.7)
    brownian = Brownian(kappa=1.3).log_likelihood(data, engine=engine)
    nearly = Langevin(gamma=1e9, k=1.3).log_likelihood(data, engine=engine)
    assert_allclose(nearly, brownian, rtol=1e-8)
    exactly = Langevin(gamma=1e18, k=1.3).log_likelihood(data, engine=engine)
    assert_allclose(exactly, brownian, rtol=1e-15)


def test_ballistic_limit_is_motion_at_constant_velocity():
    model = Langevin(gamma=1e-9, k=1e9)  # velocity of variance 1
    row, spread, *_ = law(model, LAGS, TIMES, np.asarray(1.0))
    assert_allclose(spread, TIMES**2, rtol=1e-8)
    assert_allclose(row, 1.0, rtol=1e-8)


def test_absolute_diffusivity_is_the_papers():  # [eq:absolute-diffusivity-ou]
    gamma, k = 0.8, 1.3
    expected = k * (1 - (1 - np.exp(-gamma * TIMES)) / (gamma * TIMES))
    _, _, found, _ = law(Langevin(gamma=gamma, k=k), LAGS, TIMES, np.asarray(0.7))
    assert_allclose(found, expected, rtol=1e-13)


@pytest.mark.parametrize("engine", ["moments", "kalman"])
@pytest.mark.parametrize("x", [1e-8, 1e-4, 1.0, 1e4, 1e6])
def test_likelihood_about_any_gamma_tau_is_that_of_the_slow_reference(x, engine):
    rng = np.random.default_rng(3)
    dx = reference.simulate_langevin(rng, 3, 6, 2, 0.7, max(x, 1e-4) / 0.7, 1.3)
    data = Displacements.from_array(dx, 0.7)
    # Around each point too, so that differences are right.
    for gamma in np.array([0.9, 1.0, 1.1]) * x / 0.7:
        found = Langevin(gamma=gamma, k=1.3).log_likelihood(data, engine=engine)
        # The condition number of the covariance is about 1 / x.
        slow = reference.kalman_log_likelihood(dx, 0.7, gamma, 1.3)
        assert_allclose(found, slow, rtol=max(1e-12, 1e-15 / x))
