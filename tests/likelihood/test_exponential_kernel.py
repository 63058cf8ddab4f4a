"""Transitions from the compiled kernel, against the models' own and against SciPy's exponential."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import expm

from driftbayes.inference import Hypothesis
from driftbayes.inference.formulas import Rows
from driftbayes.kernels.exponential import exponential_kernel
from driftbayes.models import MODELS, model_named
from driftbayes.priors import Exponential

CASES = {
    "confined": {"gamma": 1.3, "well": 0.02, "k": 2.0},
    "second_order": {"gamma": 0.7, "accel": 30.0, "k": 1.0},
    "oscillating": {"gamma": 0.1, "omega": 2.0, "k": 1.0},
}


def _kernel(model, intervals):
    drift, intensity = (np.asarray(part)[None] for part in model.generator())
    n = drift.shape[-1]
    out = np.empty((len(intervals), 2, n, n, 1))
    exponential_kernel(n)(drift, intensity, intervals, out)
    return out[:, 0, ..., 0], out[:, 1, ..., 0]


def _size(noise):
    """Standard deviations of the two components, multiplied."""
    sd = np.sqrt(np.diagonal(noise, axis1=-2, axis2=-1))
    return sd[..., :, None] * sd[..., None, :]


@pytest.mark.parametrize("name", CASES)
def test_equals_the_models_own_transition_over_nine_decades(name):
    model = MODELS[name](**CASES[name])
    intervals = np.geomspace(1e-6, 1e3, 37)
    propagator, noise = _kernel(model, intervals)
    expected, spread = map(np.asarray, jax.vmap(model.transition)(jnp.asarray(intervals)))
    np.testing.assert_allclose(propagator, expected, rtol=1e-11, atol=1e-13)
    # Over 1,000 either is off by 9e-12 of 60 digits: sixteen doublings, each of which rounds.
    assert np.max(np.abs(noise - spread) / _size(spread)) < 3e-11


@pytest.mark.parametrize("name", CASES)
def test_equals_van_loans_exponential(name):
    model = MODELS[name](**CASES[name])
    drift, intensity = map(np.asarray, model.generator())
    n = len(drift)
    # Short: the growing half of the block matrix takes digits from SciPy's.
    intervals = np.array([0.01, 0.03, 0.1])
    propagator, noise = _kernel(model, intervals)
    for i, t in enumerate(intervals):
        block = np.block([[-drift, intensity], [np.zeros((n, n)), drift.T]])
        whole = expm(block * t)
        transposed = whole[n:, n:]
        np.testing.assert_allclose(propagator[i], transposed.T, rtol=1e-10, atol=1e-12)
        expected = transposed.T @ whole[:n, n:]
        assert np.max(np.abs(noise[i] - expected) / _size(expected)) < 1e-8


def test_parameters_that_are_no_numbers_give_none():
    model = MODELS["confined"](**{**CASES["confined"], "gamma": np.nan})
    propagator, noise = _kernel(model, np.array([1.0, 2.0]))
    assert np.isnan(propagator[:, 1, 1]).all()
    assert np.isnan(noise[:, 1, 1]).all()


@pytest.mark.parametrize("name", ["confined+noise", "confined+mean", "second_order", "langevin"])
def test_lanes_are_the_models_own_transitions(name):
    model = model_named(name, MODELS, 2)
    priors = {parameter: Exponential(1.0) for parameter in model.parameters}
    hypothesis = Hypothesis(model, **priors)
    theta = np.random.default_rng(0).uniform(0.2, 2.0, (11, len(hypothesis.names)))
    intervals = np.linspace(0.1, 3.0, 20)
    # (block, interval, 2, state, state, lane): the last lanes repeat the last row.
    lanes = np.moveaxis(Rows(hypothesis, theta).lanes(intervals), -1, 1)
    found = lanes.reshape(-1, *lanes.shape[2:])
    for row in range(16):
        one = hypothesis.at(jnp.asarray(theta[min(row, 10)]))
        expected = jax.vmap(one.transition)(jnp.asarray(intervals))
        for k in range(2):
            np.testing.assert_allclose(found[row, :, k], expected[k], rtol=1e-9, atol=1e-12)
