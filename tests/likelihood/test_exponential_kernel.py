"""Transitions from the compiled kernel, against the models' own and against SciPy's exponential."""

import equinox as eqx
import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import expm

from driftbayes._kernels.exponential import exponential_kernel
from driftbayes._kernels.filter import LANES
from driftbayes.inference import Hypothesis
from driftbayes.inference._formulas import Rows
from driftbayes.models import MODELS, model_named
from driftbayes.priors import Exponential, Uniform

CASES = {
    "confined": {"gamma": 1.3, "well": 0.02, "k": 2.0},
    "second_order": {"gamma": 0.7, "accel": 30.0, "k": 1.0},
    "oscillating": {"gamma": 0.1, "omega": 2.0, "k": 1.0},
}

NAMES = (
    "brownian",
    "langevin",
    "second_order",
    "two_scale",
    "oscillating",
    "confined",
    "confined_brownian",
    "langevin+noise",
    "brownian&langevin",
    "langevin+noise*2",
)


# Compiled as one program each: call by call, JAX would compile every operation.
autocovariance = eqx.filter_jit(lambda model, lags, tau: model.increment_autocovariance(lags, tau))
generator = eqx.filter_jit(lambda model: model.generator())


def _kernel(model, intervals):
    both = [np.asarray(part) for part in generator(model)]
    drift, intensity = (np.repeat(part[..., None], LANES, axis=-1) for part in both)
    n = drift.shape[0]
    out = np.empty((len(intervals), 2, n, n, LANES))
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
    expected, spread = map(np.asarray, jax.jit(jax.vmap(model.transition))(intervals))
    np.testing.assert_allclose(propagator, expected, rtol=1e-11, atol=1e-13)
    # Over 1,000 either is off by 9e-12 of 60 digits: sixteen doublings, each of which rounds.
    assert np.max(np.abs(noise - spread) / _size(spread)) < 3e-11


@pytest.mark.parametrize("name", CASES)
def test_equals_van_loans_exponential(name):
    model = MODELS[name](**CASES[name])
    drift, intensity = map(np.asarray, generator(model))
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


def _hypothesis(text):
    model = model_named(text, MODELS)
    own = {
        name: Uniform(0.0, p.upper) if np.isfinite(p.upper) else Exponential(1.0)
        for name, p in model.parameters.items()
    }
    return Hypothesis(model, **own)


def _parameters(hypothesis, n, seed=0):
    rng = np.random.default_rng(seed)
    columns = []
    for name in hypothesis.names:
        upper = hypothesis.model.parameters[name].upper
        columns.append(upper * rng.random(n) if np.isfinite(upper) else np.exp(rng.normal(0, 1, n)))
    return np.stack(columns, axis=1)


def _by_rows(lanes, n_rows):
    n_blocks = len(lanes)
    apart = np.moveaxis(lanes, -1, 1).reshape(n_blocks * lanes.shape[-1], *lanes.shape[1:-1])
    return apart[:n_rows, :, 0], apart[:n_rows, :, 1]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("text", NAMES)
def test_matrices_are_those_of_the_models_formulas(text):
    """Nine decades of durations; where the model has a closed form it is a second derivation."""
    hypothesis = _hypothesis(text)
    rows = Rows(hypothesis, _parameters(hypothesis, 11))
    intervals = np.geomspace(1e-5, 1e4, 60)
    propagator, noise = _by_rows(rows.lanes(intervals), rows.n_rows)
    expected_propagator, expected_noise = rows.transitions(intervals)
    assert_allclose(propagator, expected_propagator, rtol=1e-11, atol=1e-13)
    sd = np.sqrt(np.einsum("...ii->...i", expected_noise))
    apart = np.abs(noise - expected_noise) / (sd[..., :, None] * sd[..., None, :] + 1e-300)
    assert apart.max() < 1e-11


@pytest.mark.parametrize("text", ["second_order", "oscillating", "confined"])
def test_noise_over_a_long_interval_is_that_of_50_digits(text):
    """Rate times duration of 1e6: rounding that is not symmetric would grow with each doubling."""
    hypothesis = _hypothesis(text)
    theta = _parameters(hypothesis, 1)
    t = 3.0e5
    _, noise = _by_rows(Rows(hypothesis, theta).lanes(np.array([t])), 1)
    drift, intensity = (np.asarray(x) for x in hypothesis.at(jnp.asarray(theta[0])).generator())
    n = len(drift)
    with mpmath.workdps(50):
        # Van Loan: the exponential of a block matrix holds Q, over a step that is then doubled.
        f, d = mpmath.matrix(drift.tolist()), mpmath.matrix(intensity.tolist())
        n_doublings = 24
        step = mpmath.mpf(t) / 2**n_doublings
        block = mpmath.zeros(2 * n)
        block[:n, :n], block[:n, n:], block[n:, n:] = f * step, d * step, -f.T * step
        whole = mpmath.expm(block)
        move = mpmath.matrix(whole[:n, :n])
        q = mpmath.matrix(whole[:n, n:]) * move.T
        for _ in range(n_doublings):
            q, move = move * q * move.T + q, move * move
        expected = np.array(q.tolist(), dtype=float)
    sd = np.sqrt(np.diag(expected))
    assert np.abs((noise[0, 0] - expected) / np.outer(sd, sd)).max() < 1e-9
    assert_allclose(noise[0, 0], noise[0, 0].T, rtol=0, atol=0)


def test_one_impossible_value_leaves_its_neighbours_alone():
    hypothesis = _hypothesis("langevin")
    theta = _parameters(hypothesis, 8)
    intervals = np.array([0.1, 3.0])
    alone = _by_rows(Rows(hypothesis, theta).lanes(intervals), 8)
    theta[3, 0] = np.inf
    beside = _by_rows(Rows(hypothesis, theta).lanes(intervals), 8)
    others = np.arange(8) != 3
    for one, other in zip(alone, beside, strict=True):
        assert_allclose(one[others], other[others], rtol=1e-14)
    assert np.isnan(beside[0][3]).any()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("text", NAMES)
@pytest.mark.parametrize("tau", [1e-4, 0.3, 1e3])
def test_autocovariances_of_steps_are_those_of_the_models_formula(text, tau):
    hypothesis = _hypothesis(text)
    rows = Rows(hypothesis, _parameters(hypothesis, 5))
    found = rows.autocovariances(tau, 20)
    for i, theta in enumerate(rows.theta):
        components = hypothesis.at(jnp.asarray(theta)).components()
        for c, model in enumerate(components):
            expected = np.asarray(autocovariance(model, np.arange(20.0), np.asarray(tau)))
            row = found[i * len(components) + c]
            assert np.abs(row - expected).max() < 1e-12 * expected[0]
