"""Brownian model: independent normal displacements."""

import jax.numpy as jnp
import numpy as np
from hypothesis import given
from numpy.testing import assert_allclose
from scipy.stats import norm

from driftbayes.data._sampling import Displacements
from driftbayes.models import Brownian
from driftbayes.testing import reference
from driftbayes.testing import strategies as some


@given(model=some.brownian(), data=some.regular())
def test_likelihood_is_a_product_of_normal_densities(model, data):  # [eq:brownian-likelihood]
    sd = np.sqrt(2 * float(model.kappa) * data.tau)
    expected = norm.logpdf(data.dx, scale=sd).sum()
    assert_allclose(model.log_likelihood(data), expected, rtol=1e-12, atol=1e-10)


@given(model=some.brownian(), data=some.regular())
def test_likelihood_is_that_of_the_slow_reference(model, data):
    slow = reference.brownian_log_likelihood(data.as_array(), data.tau, float(model.kappa))
    assert_allclose(model.log_likelihood(data), slow, rtol=1e-12, atol=1e-10)


@given(data=some.irregular())
def test_each_step_is_judged_by_its_own_interval(data):
    expected = norm.logpdf(data.dx, scale=np.sqrt(2 * 1.3 * data.interval)[:, None]).sum()
    assert_allclose(Brownian(kappa=1.3).log_likelihood(data), expected, rtol=1e-12, atol=1e-10)


@given(data=some.ragged())
def test_best_diffusivity_is_the_mean_square_over_two_tau(data):
    best = np.mean(data.dx**2) / (2 * data.tau)
    ratio = np.array([0.5, 0.9, 1.1, 2.0])
    found = [Brownian(kappa=r * best).log_likelihood(data) for r in (1.0, *ratio)]
    # The fall on both sides of the best value, from the two terms that cancel there.
    fall = 0.5 * (np.log(ratio) + 1 / ratio - 1)
    assert_allclose((found[0] - np.array(found[1:])) / data.n_displacements, fall, atol=1e-12)


def test_steps_are_uncorrelated():
    found = Brownian(kappa=1.3).increment_autocovariance(jnp.arange(4.0), jnp.asarray(0.7))
    assert_allclose(found, [2 * 1.3 * 0.7, 0, 0, 0])


def test_velocity_is_white_noise():
    found = Brownian(kappa=1.3).lvaf(jnp.asarray([0.0, 1e-9, 1.0]))
    assert_allclose(found, [np.inf, 0, 0])


def test_order_of_steps_does_not_matter():
    dx = reference.simulate_brownian(np.random.default_rng(1), 3, 6, 2, 0.7, 1.3)
    shuffled = np.random.default_rng(2).permutation(dx.reshape(-1)).reshape(dx.shape)
    one, other = (
        Brownian(kappa=0.8).log_likelihood(Displacements.from_array(steps, 0.7))
        for steps in (dx, shuffled)
    )
    assert_allclose(one, other, rtol=1e-14)
