"""Three engines, two slow filters and 50-digit values: one likelihood."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

from driftbayes.data._sampling import Displacements, displacements
from driftbayes.data._trajectories import Trajectories
from driftbayes.errors import DriftbayesError
from driftbayes.models import Brownian, Langevin
from driftbayes.priors import Exponential
from driftbayes.testing import reference
from driftbayes.testing import strategies as some

NAN = float("nan")
ENGINES = ("moments", "kalman", "dense")
# Agreement of the engines for gamma * tau >= 1e-5. Below, rounding of the data's second moments and
# of the state's covariance is magnified by 1 / (gamma * tau): 1e-15 / (gamma * tau) is reached, by
# the dense engine for a few steps only.
RTOL = 1e-9


# Compiled as one program each: call by call, JAX would compile every operation.
autocovariance = eqx.filter_jit(lambda model, lags, tau: model.increment_autocovariance(lags, tau))
spread_of = eqx.filter_jit(lambda model, t: model.mean_square_displacement(t))


def rtol(x):
    return RTOL if x >= 1e-5 else 1e-14 / x


def by_filter(model, data):
    """Run by run with the slow filter for any times and errors."""
    total, start, start_sd = 0.0, 0, 0
    for n in data.row_sizes:
        times = np.concatenate([[0.0], np.cumsum(data.interval[start : start + n])])
        x = np.concatenate([np.zeros((1, data.n_dim)), np.cumsum(data.dx[start : start + n], 0)])
        sd = 0.0 if data.position_sd is None else data.position_sd[start_sd : start_sd + n + 1]
        total += reference.kalman_log_likelihood_irregular(
            x, times, float(model.gamma), float(model.k), sd
        )
        start, start_sd = start + n, start_sd + n + 1
    return total


def draw(shape, x, *, tau=0.7, k=1.3, seed=0):
    rng = np.random.default_rng(seed)
    return reference.simulate_langevin(rng, *shape, tau, x / tau, k)


# --- Regular data ------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_engine_agrees_with_50_digit_values(engine, golden):
    for case in golden("langevin_likelihood")["cases"]:
        data = Displacements.from_array(case["dx"], case["tau"])
        found = Langevin(gamma=case["gamma"], k=case["k"]).log_likelihood(data, engine=engine)
        tolerance = rtol(case["gamma"] * case["tau"])
        assert_allclose(found, float(case["log_likelihood"]), rtol=tolerance)


@given(model=some.langevin(), data=some.regular())
def test_multivariate_normal_and_filter_of_the_paper_agree_with_the_engines(model, data):
    theta = data.tau, float(model.gamma), float(model.k)
    dense = reference.langevin_log_likelihood(data.as_array(), *theta)
    filtered = reference.kalman_log_likelihood(data.as_array(), *theta)
    assert_allclose(filtered, dense, rtol=RTOL, atol=1e-8)
    for engine in ENGINES:
        found = model.log_likelihood(data, engine=engine)
        assert_allclose(found, filtered, rtol=RTOL, atol=1e-8)


@pytest.mark.parametrize("x", [1e-8, 1e-7, 1e-6])
@pytest.mark.parametrize("drawn_with", ["the model", "a rougher model"])
def test_below_gamma_tau_of_1e_5_digits_are_lost_no_faster_than_one_over_gamma_tau(x, drawn_with):
    dx = draw((3, 6, 2), x if drawn_with == "the model" else 1.0)
    data, model = Displacements.from_array(dx, 0.7), Langevin(gamma=x / 0.7, k=1.3)
    exact = reference.kalman_log_likelihood(dx, 0.7, x / 0.7, 1.3)
    for engine in ("moments", "kalman"):
        assert_allclose(model.log_likelihood(data, engine=engine), exact, rtol=1e-14 / x)


@given(model=some.langevin(), data=some.ragged())
def test_runs_of_different_lengths_are_independent(model, data):
    parts = np.split(data.dx, np.cumsum(data.row_sizes)[:-1])
    expected = sum(
        reference.kalman_log_likelihood(part[None], data.tau, float(model.gamma), float(model.k))
        for part in parts
    )
    for engine in ENGINES:
        found = model.log_likelihood(data, engine=engine)
        assert_allclose(found, expected, rtol=RTOL, atol=1e-8)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("x", [1e-3, 1.0, 30.0])
@pytest.mark.parametrize("n_steps", [50, 1000, pytest.param(100, marks=pytest.mark.slow)])
def test_windows_of_32_steps_lose_nothing_of_long_runs(n_steps, x):
    dx = draw((2, n_steps, 2), x)
    data, model = Displacements.from_array(dx, 0.7), Langevin(gamma=x / 0.7, k=1.3)
    exact = reference.kalman_log_likelihood(dx, 0.7, x / 0.7, 1.3)
    assert_allclose(model.log_likelihood(data, engine="moments"), exact, rtol=1e-11)
    assert_allclose(model.log_likelihood(data, engine="kalman"), exact, rtol=1e-11)


# The filter of reference is a loop in Python: the longest runs for the slow tests.
@pytest.mark.parametrize(
    ("x", "n_steps"),
    [
        (1.0, 10_000),
        *(pytest.param(x, 100_000, marks=pytest.mark.slow) for x in (1e-2, 1.0)),
    ],
)
def test_one_trajectory_of_many_steps_is_judged_exactly(x, n_steps):
    dx = draw((1, n_steps, 1), x)
    data, model = Displacements.from_array(dx, 0.7), Langevin(gamma=1.1 * x / 0.7, k=1.0)
    exact = reference.kalman_log_likelihood(dx, 0.7, 1.1 * x / 0.7, 1.0)
    assert_allclose(model.log_likelihood(data, engine="moments"), exact, rtol=1e-11)
    assert_allclose(model.log_likelihood(data, engine="kalman"), exact, rtol=1e-11)


def test_single_displacement_is_one_normal_density():
    data, model = Displacements.from_array([[[0.4]]], 0.7), Langevin(gamma=1.1, k=1.3)
    variance = float(spread_of(model, jnp.asarray(0.7)))
    expected = -0.5 * np.log(2 * np.pi * variance) - 0.5 * 0.4**2 / variance
    for engine in ENGINES:
        assert_allclose(model.log_likelihood(data, engine=engine), expected, rtol=1e-13)


# --- Irregular times, gaps, errors -------------------------------------------------------------


@given(model=some.langevin(), data=some.irregular())
def test_irregular_times_agree_with_the_slow_filter(model, data):
    expected = by_filter(model, data)
    for engine in ("auto", "kalman", "dense"):
        found = model.log_likelihood(data, engine=engine)
        assert_allclose(found, expected, rtol=RTOL, atol=1e-8)


@given(model=some.langevin(), data=some.noisy())
def test_error_of_each_position_agrees_with_the_slow_filter(model, data):
    expected = by_filter(model, data)
    for engine in ("auto", "kalman", "dense"):
        found = model.log_likelihood(data, engine=engine)
        assert_allclose(found, expected, rtol=RTOL, atol=1e-8)


@given(model=some.langevin(), data=some.regular(), sd=some.scales(0.01, 10.0))
def test_one_error_for_all_positions_is_each_having_it(model, data, sd):
    n_fixes = len(data.dx) + len(data.row_sizes)
    expected = by_filter(model, replace(data, position_sd=np.full(n_fixes, sd)))
    for engine in ("auto", "kalman", "dense"):
        found = model.log_likelihood(data, engine=engine, noise_sd=sd)
        assert_allclose(found, expected, rtol=RTOL, atol=1e-8)


def test_noise_of_the_data_and_of_the_call_add_in_quadrature():
    x = np.cumsum(draw((2, 6, 1), 1.0), axis=1)
    model = Langevin(gamma=1.1, k=1.3)
    three, four, five = (
        displacements(Trajectories.from_arrays(x, dt=0.7, position_sd=np.full((2, 6), sd)), 0.7)
        for sd in (0.3, 0.4, 0.5)
    )
    expected = model.log_likelihood(five)
    assert_allclose(model.log_likelihood(three, noise_sd=0.4), expected, rtol=1e-12)
    assert_allclose(model.log_likelihood(four, noise_sd=0.3), expected, rtol=1e-12)


def gappy(**attributes):
    x = np.cumsum(draw((1, 9, 2), 0.8), axis=1)
    x[0, 4] = NAN
    return Trajectories.from_arrays(x, dt=0.7, **attributes)


@pytest.mark.parametrize("engine", ENGINES)
def test_split_at_a_gap_is_the_sum_over_the_pieces(engine):
    x, model = gappy(), Langevin(gamma=1.1, k=1.3)
    steps = np.diff(x.positions, axis=0)
    pieces = [Displacements.from_array(part[None], 0.7) for part in (steps[:3], steps[5:])]
    expected = sum(by_filter(model, piece) for piece in pieces)
    found = model.log_likelihood(displacements(x, 0.7, gaps="split"), engine=engine)
    assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("engine", ["auto", "kalman", "dense"])
@pytest.mark.parametrize("model", [Brownian(kappa=1.3), Langevin(gamma=1.1, k=1.3)])
def test_kept_gap_is_the_density_of_the_sum_of_the_steps_it_spans(engine, model):
    x = gappy()
    # Steps without the gap have covariance S; those with it are sums B of them: B S Bᵀ.
    lags = jnp.arange(8.0)
    full = np.asarray(autocovariance(model, lags, jnp.asarray(0.7)))
    cov = full[np.abs(np.subtract.outer(np.arange(8), np.arange(8)))]
    joined = np.delete(np.eye(8), 4, axis=0)
    joined[3, 4] = 1.0
    steps = np.diff(np.delete(x.positions, 4, axis=0), axis=0)
    expected = multivariate_normal.logpdf(steps.T, np.zeros(7), joined @ cov @ joined.T).sum()
    found = model.log_likelihood(displacements(x, 0.7, gaps="keep"), engine=engine)
    assert_allclose(found, expected, rtol=1e-12)


def test_position_of_huge_error_is_a_gap():
    sd = np.zeros((1, 9))
    sd[0, 4] = 1e6
    model, kept = Langevin(gamma=1.1, k=1.3), displacements(gappy(), 0.7, gaps="keep")
    filled = np.where(np.isnan(gappy().positions), 0.0, gappy().positions)
    vague = Trajectories.from_arrays(filled[None], dt=0.7, position_sd=sd)
    found = model.log_likelihood(displacements(vague, 0.7))
    # Two axes, each with the density of an observation of variance 1e12.
    expected = model.log_likelihood(kept) - np.log(2 * np.pi * 1e12)
    assert_allclose(found, expected, rtol=1e-8)


def test_no_information_in_where_a_track_begins():
    rng = np.random.default_rng(4)
    x, sd = rng.normal(size=(1, 6, 2)), rng.uniform(0.1, 1.0, size=(1, 6))
    model = Langevin(gamma=1.1, k=1.3)
    near, far = (
        model.log_likelihood(
            displacements(Trajectories.from_arrays(x + shift, dt=0.7, position_sd=sd), 0.7)
        )
        for shift in (0.0, 1e6)
    )
    assert_allclose(near, far, rtol=1e-8)


# --- What each engine refuses ------------------------------------------------------------------


def test_statistics_engine_refuses_gaps_and_errors_and_names_the_other():
    kept = displacements(gappy(), 0.7, gaps="keep")
    with pytest.raises(DriftbayesError, match="use engine='auto' for gaps"):
        Langevin(gamma=1.0, k=1.0).log_likelihood(kept, engine="moments")


def test_priors_in_place_of_numbers_are_refused():
    data = Displacements.from_array(draw((1, 3, 1), 1.0), 0.7)
    with pytest.raises(DriftbayesError, match="needs numbers as parameters to have a likelihood"):
        Langevin(gamma=Exponential(1.0), k=2.0).log_likelihood(data)


# --- Programs ----------------------------------------------------------------------------------


def test_likelihood_is_compiled_once_for_many_parameters_and_data():
    Langevin(gamma=1.0, k=1.0).log_likelihood(Displacements.from_array(draw((3, 6, 2), 0.8), 0.7))
    events = []
    jax.monitoring.register_event_duration_secs_listener(lambda name, *_, **__: events.append(name))
    for gamma, n_steps in ((0.3, 6), (0.7, 11), (2.1, 20)):
        data = Displacements.from_array(draw((4, n_steps, 2), 0.8), 0.5)
        Langevin(gamma=gamma, k=1.0).log_likelihood(data)
    counted = len([name for name in events if "compile" in name])
    jax.jit(lambda x: x + 1)(jnp.zeros(7))  # that the listener hears a compilation at all
    assert counted == 0
    assert any("compile" in name for name in events)
