"""Replicas and innovations: each undoes the other, and second moments are the model's."""

from dataclasses import replace
from functools import cache

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from cases import LANGEVIN, gappy_data, langevin_data
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import toeplitz

from driftbayes.checks._innovations import (
    Layout,
    Whitener,
    carried,
    colour,
    drift,
    replica_engine,
    whiten,
)
from driftbayes.checks._replicas import Replicator
from driftbayes.errors import DriftbayesError
from driftbayes.inference import Hypothesis, PosteriorDraws, evidence
from driftbayes.inference._formulas import Rows
from driftbayes.likelihood._engines import FilterEngine, ToeplitzEngine
from driftbayes.likelihood._hermitian import hermitian_column_terms
from driftbayes.likelihood._runs import make_runs
from driftbayes.models import MODELS, Langevin, model_named
from driftbayes.priors import Exponential, Fixed, Uniform
from sums_of import of_sums

THETA = np.array([0.7, 1.3])
UNIT = Exponential(mean=1.0)


def noisy(data, sd):
    n_positions = int((data.row_sizes + 1).sum())
    return replace(data, position_sd=np.full(n_positions, sd))


# Compiled as one program each: call by call, JAX would compile every operation.
spread_of = eqx.filter_jit(lambda model, lags: model.mean_square_displacement(lags))


@cache
def some_record():
    return evidence(LANGEVIN, langevin_data(), method="laplace")


def made_draws(hypothesis, values, n):
    """Draws that are all alike, with no inference behind them."""
    theta = np.tile(np.asarray(values, dtype=float), (n, 1))
    return PosteriorDraws(hypothesis, theta, np.zeros(n), some_record(), 0)


CASES = {
    "regular": lambda: langevin_data(),
    "ragged": lambda: gappy_data("split"),
    "irregular": lambda: gappy_data("keep"),
    "noisy": lambda: noisy(gappy_data("keep"), 0.3),
}


def coloured(hypothesis, theta, layout, kicks):
    """Steps (set, run, step, dim) from kicks of the same shape."""
    rows = Rows(hypothesis, np.tile(theta, (len(kicks), 1)))
    engine = replica_engine(hypothesis.model, layout.data)
    return layout.pad(colour(engine, rows, kicks[:, layout.valid]))


@pytest.mark.parametrize("case", CASES)
def test_whitening_undoes_colouring(case):
    layout = Layout(CASES[case]())
    # More data sets than a kernel takes at a time.
    kicks = np.random.default_rng(3).standard_normal((11, layout.n_runs, layout.n_steps, 2))
    dx = coloured(LANGEVIN, THETA, layout, kicks)
    white = Whitener(LANGEVIN, THETA, layout)(dx)
    assert_allclose(white, kicks * layout.valid[..., None], atol=1e-10)


@pytest.mark.parametrize("case", CASES)
def test_the_innovations_square_to_the_likelihood(case):
    data = CASES[case]()
    layout = Layout(data)
    white = Whitener(LANGEVIN, THETA, layout)(layout.pad(data.dx)[None])
    model = Langevin(gamma=0.7, k=1.3)
    (expected,) = of_sums(model, data, lambda model, sums: (model.terms(sums).quadratic,), "kalman")
    assert_allclose(np.sum(white**2), expected, rtol=1e-9)


@pytest.mark.parametrize("error", [0.0, 0.09])
@pytest.mark.parametrize("n_rows", [1, 11])
def test_filters_and_state_space_colour_and_whiten_alike(n_rows, error):
    runs = make_runs(gappy_data("split"))
    runs = replace(runs, error=np.full_like(runs.error, error))
    steps = np.random.default_rng(3).standard_normal((11, *runs.columns.shape))
    theta = np.array([0.7, 1.3]) * np.linspace(1.0, 2.0, n_rows)[:, None]
    rows = Rows(LANGEVIN, theta)
    kalman, filters = FilterEngine(runs), ToeplitzEngine(runs)
    for one, other in zip(kalman.whiten(rows, steps), filters.whiten(rows, steps), strict=True):
        assert_allclose(one, other, atol=1e-12)
    assert_allclose(kalman.colour(rows, steps), filters.colour(rows, steps), atol=1e-12)


@pytest.mark.parametrize("sd", [0.0, 0.3])
def test_colouring_is_by_the_cholesky_factor_of_the_covariance(sd):
    data = noisy(gappy_data("keep"), sd)
    layout = Layout(data)
    first = slice(0, int(data.row_sizes[0]))
    n = len(data.dx)
    # The response to one kick at a time.
    kicks = np.eye(n)[first][..., None] * np.ones(2)
    rows = Rows(LANGEVIN, np.tile(THETA, (len(kicks), 1)))
    found = colour(replica_engine(Langevin, data), rows, kicks)[:, first, 0].T
    times = np.concatenate([[0.0], np.cumsum(data.interval[first])])
    model = Langevin(gamma=0.7, k=1.3)
    lags = jnp.asarray(np.abs(times[:, None] - times))
    spread = np.asarray(spread_of(model, lags))
    covariance = -0.5 * np.diff(np.diff(spread, axis=0), axis=1)
    covariance += np.diff(np.diff(sd**2 * np.eye(len(times)), axis=0), axis=1)
    assert_allclose(found, np.linalg.cholesky(covariance), atol=1e-12)
    white, _ = whiten(replica_engine(Langevin, data), Rows(LANGEVIN, THETA[None]), data.dx[None])
    expected = np.linalg.solve(np.linalg.cholesky(covariance), data.dx[first])
    assert_allclose(white[0, first], expected, atol=1e-11)
    assert_allclose(layout.pad(white)[0, 0, first], expected, atol=1e-11)


def test_a_long_memory_is_coloured_by_the_cholesky_factor_too():
    hypothesis = Hypothesis(
        MODELS["fractional"], hurst=Uniform(0.0, 1.0), kappa=UNIT, reference=Fixed(1.0)
    )
    theta = np.array([0.7, 1.3])[None]
    data = langevin_data()
    engine = replica_engine(hypothesis.model, data)
    kicks = np.zeros((10, *data.dx.shape))
    kicks[:, :10, 0] = np.eye(10)
    found = engine.colour(Rows(hypothesis, np.tile(theta, (10, 1))), kicks)[:, :10, 0].T
    row = Rows(hypothesis, theta).autocovariances(data.tau, 10)[0]
    assert_allclose(found, np.linalg.cholesky(toeplitz(row)), atol=1e-12)


def test_replicas_depend_on_seed_and_number_alone():
    layout = Layout(langevin_data())
    few, many = (Replicator(made_draws(LANGEVIN, THETA, n), layout, 5) for n in (2, 4))
    assert_array_equal(few([1]), many([1]))
    assert_allclose(few([0, 1]), many([3, 0, 1])[1:], rtol=1e-12)
    other = Replicator(made_draws(LANGEVIN, THETA, 2), layout, 6)
    assert np.all(few([1]) != few([0]))
    assert np.all(few([1]) != other([1]))


def hypothesis_of(name):
    family = model_named(name, MODELS)
    priors = {
        name: Uniform(0.0, parameter.upper) if np.isfinite(parameter.upper) else UNIT
        for name, parameter in family.parameters.items()
    }
    return Hypothesis(family, **priors)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("brownian+noise", {"kappa": 1.0, "sigma": 0.4}),
        ("langevin+anisotropic", {"gamma": 1.0, "k": 1.0, "h1": 0.5, "h2": 0.3}),
        ("brownian+scatter", {"kappa": 1.0, "scatter": 0.3}),
        ("brownian+student", {"kappa": 1.0, "tail": 0.1}),
        ("brownian*2", {"kappa": 1.0, "ratio_2": 0.1, "share_2": 0.5}),
    ],
)
@pytest.mark.parametrize("gaps", ["split", "keep"])
def test_replicas_have_the_variance_of_the_model(name, values, gaps):
    hypothesis = hypothesis_of(name)
    theta = [values[parameter] for parameter in hypothesis.names]
    layout = Layout(gappy_data(gaps))
    n = 100
    replicate = Replicator(made_draws(hypothesis, theta, n), layout, 1)
    dx = replicate(np.arange(n))
    model = hypothesis.at(jnp.asarray(theta))
    # By the mean square displacement over each step's own duration, which the noise adds to.
    expected = np.asarray(spread_of(model, jnp.asarray(layout.interval)))
    expected = expected + 2 * float(model.fix_variance())
    if "scatter" in values:
        a = values["scatter"] ** -2
        expected = expected * a / (a - 1)
    if "h1" in values:
        expected = expected * 0.5 * np.trace(np.asarray(model.shape_tensor()))
    ratio = np.sum(dx**2, axis=(1, 2, 3)) / (2 * np.sum(expected[layout.valid]))
    assert abs(ratio.mean() - 1) < 4 * ratio.std() / np.sqrt(n)


def test_the_flow_of_replicas_is_the_one_observed():
    data = gappy_data("keep")
    drift = np.array([3.0, -2.0])
    carried = replace(data, dx=data.dx + data.interval[:, None] * drift)
    hypothesis = Hypothesis(model_named("brownian+mean", MODELS), kappa=UNIT, flow=UNIT)
    layout = Layout(carried)
    replicate = Replicator(made_draws(hypothesis, [1.0, 5.0], 50), layout, 1)
    flows = replicate(np.arange(50)).sum(axis=(1, 2)) / data.interval.sum()
    own = carried.dx.sum(axis=0) / data.interval.sum()
    assert_allclose(np.mean(flows, axis=0), own, atol=4 * np.std(flows) / np.sqrt(50) + 0.02)


@pytest.mark.parametrize("case", ["ragged", "irregular"])
@pytest.mark.parametrize("name", ["mean", "linear"])
def test_taking_the_flow_away_undoes_carrying(case, name):
    layout = Layout(CASES[case]())
    rng = np.random.default_rng(3)
    flow = rng.normal(size={"mean": 2, "linear": 6}[name])
    kicks = rng.standard_normal((layout.n_runs, layout.n_steps, 2)) * layout.valid[..., None]
    dx = carried(layout, kicks, flow) * layout.valid[..., None]
    white = (dx - drift(layout, dx, flow)) * layout.valid[..., None]
    assert_allclose(white, kicks, atol=1e-10)
    # A batch of data sets is as many data sets.
    assert_allclose(drift(layout, dx[None], flow) - drift(layout, dx, flow), 0.0, atol=1e-12)


def test_the_gradient_of_replicas_is_the_one_observed():
    data = gappy_data("keep")
    data = replace(data, start=3 * np.random.default_rng(1).normal(size=data.start.shape))
    flow = np.array([3.0, -0.1, 0.3, -2.0, -0.2, 0.1])
    layout = Layout(data)
    dx = carried(layout, layout.pad(data.dx), flow)[layout.valid]
    layout = Layout(replace(data, dx=dx))
    hypothesis = Hypothesis(
        model_named("brownian+linear", MODELS), kappa=UNIT, flow=UNIT, gradient=UNIT
    )

    def fitted(dx):
        whole = replace(data, dx=dx)
        regressors = np.column_stack([np.ones(len(dx)), whole.origin - whole.centre])
        return np.linalg.lstsq(regressors * data.interval[:, None], dx)[0].T.ravel()

    replicate = Replicator(made_draws(hypothesis, [1.0, 5.0, 1.0], 50), layout, 1)
    found = np.array([fitted(dx[layout.valid]) for dx in replicate(np.arange(50))])
    error = found.std(axis=0) / np.sqrt(50)
    # Gradients, whose meaning does not move with the centre of each replica.
    for place in (1, 2, 4, 5):
        assert abs(found[:, place].mean() - fitted(dx)[place]) < 4 * error[place] + 0.02


def test_a_model_without_state_space_is_refused_for_irregular_times():
    layout = Layout(gappy_data("keep"))
    with pytest.raises(DriftbayesError, match="fractional has no state-space form, so"):
        replica_engine(MODELS["fractional"], layout.data)


TURNING = model_named("langevin&oscillating+rotating+mean", MODELS)
TURNING_THETA = {
    "gamma_langevin": 0.4,
    "gamma_oscillating": 0.3,
    "omega_oscillating": 1.9,
    "share_oscillating": 0.2,
    "k": 1.3,
}


def turning_hypothesis():
    priors = {**dict.fromkeys(TURNING_THETA, UNIT), "share_oscillating": Uniform(0.0, 1.0)}
    return Hypothesis(TURNING, **priors, flow=Fixed(0.5))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("sense", [1.0, -1.0])
@pytest.mark.parametrize("case", ["regular", "noisy"])
def test_whitening_undoes_colouring_of_a_rotation_of_either_sense(case, sense):
    layout = Layout(CASES[case]())
    kicks = np.random.default_rng(3).standard_normal((3, layout.n_runs, layout.n_steps, 2))
    hypothesis = turning_hypothesis()
    values = np.array([TURNING_THETA[name] for name in hypothesis.names])
    dx = coloured(hypothesis, values, layout, kicks)
    mirror, valid = np.array([1.0, sense]), layout.valid[..., None]
    white = Whitener(hypothesis, values, layout)(dx * mirror)
    assert_allclose(white, kicks * mirror * valid, atol=1e-9)


def _squares_by_sense(model, sums):
    return [terms.steps for terms in hermitian_column_terms(sums.parts[0])]


def test_innovations_of_a_rotation_square_to_the_likelihood():
    data = CASES["noisy"]()
    layout, hypothesis = Layout(data), turning_hypothesis()
    values = np.array([TURNING_THETA[name] for name in hypothesis.names])
    white = Whitener(hypothesis, values, layout)(layout.pad(data.dx)[None])
    model = hypothesis.at(jnp.asarray(values))
    both = of_sums(model, data, _squares_by_sense)
    assert_allclose(np.sum(white**2), min(map(float, both)), rtol=1e-9)


@pytest.mark.slow
def test_replicas_of_a_rotation_turn_as_the_data_do():
    data = langevin_data()
    layout, hypothesis = Layout(data), turning_hypothesis()
    values = [TURNING_THETA[name] for name in hypothesis.names]
    kicks = np.random.default_rng(1).standard_normal((1, *layout.pad(data.dx).shape))
    own = coloured(hypothesis, values, layout, kicks)[0]

    def turning(dx):
        return np.sum(dx[..., :-1, 0] * dx[..., 1:, 1] - dx[..., :-1, 1] * dx[..., 1:, 0])

    for mirror in (1.0, -1.0):
        seen = replace(data, dx=(own * [1.0, mirror])[layout.valid])
        draws = made_draws(hypothesis, values, 20)
        replicas = Replicator(draws, Layout(seen), 5)(range(20))
        same = [turning(one) * turning(own) * mirror > 0 for one in replicas]
        assert sum(same) >= 19
