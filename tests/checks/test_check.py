"""Goodness of fit: a true model is rarely contradicted, a wrong one is, and by what it lacks."""

import json
import re
from dataclasses import replace

import jax
import numpy as np
import pytest
from cases import (
    BROWNIAN,
    LANGEVIN,
    SHAPE,
    TAU,
    UNIT,
    brownian_data,
    gappy_data,
    langevin_data,
)
from numpy.testing import assert_allclose
from scipy import stats
from scipy.linalg import toeplitz

from driftbayes.checks import check_fit
from driftbayes.checks._calibrate import (
    adjusted_p_values,
    data_leverage,
    deviations,
    fit_deviation,
)
from driftbayes.checks._innovations import Layout, Score
from driftbayes.checks._replicas import Replicator
from driftbayes.checks._statistics import quantities, statistics
from driftbayes.data._sampling import Displacements
from driftbayes.errors import DriftbayesError, Status
from driftbayes.inference import Hypothesis
from driftbayes.models import MODELS, model_named
from driftbayes.priors import Fixed, Uniform

# A p-value cannot be uniform to better than this many data sets tell.
UNLIKELY = 1e-3
N = 100


def check(hypothesis, data, **options):
    # Laplace's method compiles fastest, and at equal fit it does not matter where draws come from.
    options = {"n_replicas": N, "method": "laplace", **options}
    return check_fit([hypothesis], data, **options).models[hypothesis.name]


def p_values(hypothesis, data, **options):
    return check(hypothesis, data, **options).p_values


def uniformity(hypothesis, make, n):
    """Of each quantity, the p-value of Kolmogorov and Smirnov that its p-values are uniform."""
    checks = [check(hypothesis, make(seed), seed=seed) for seed in range(n)]
    found = {
        name: stats.kstest([one.deviations[name].p_value for one in checks], "uniform").pvalue
        for name in checks[0].deviations
        if name != "fit"
    }
    return {**found, "all": stats.kstest([one.p_value for one in checks], "uniform").pvalue}


# Calibration


def test_the_true_model_is_rarely_blamed():
    found = [check(LANGEVIN, langevin_data(seed), seed=seed) for seed in range(4)]
    # By chance twice in four once in seventeen hundred times.
    assert sum(one.p_value < 0.01 for one in found) <= 1
    assert max(one.p_value for one in found) > 0.05
    assert all(one.is_at_equal_fit for one in found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("hypothesis", "make"),
    [
        (LANGEVIN, langevin_data),
        (BROWNIAN, brownian_data),
        (LANGEVIN, lambda seed: gappy_data("keep", seed)),
    ],
    ids=["langevin", "brownian", "irregular"],
)
def test_p_values_of_the_true_model_are_uniform(hypothesis, make):
    found = uniformity(hypothesis, make, 100)
    # What a Brownian fit determines by itself, the variance, is never surprising; its lags are.
    assert min(found.values()) > UNLIKELY / len(found), found


def test_statistics_fixed_by_the_fit_are_not_checked():
    rng = np.random.default_rng(0)
    fits = rng.standard_normal((200, 1))
    noise = rng.standard_normal((200, 1))
    both = np.concatenate([2 * fits + 1, fits + noise], axis=1)
    one = deviations(np.array([1.0, 0.0]), both, np.zeros(1), fits)
    assert_allclose(one.z[0], 0, atol=1e-9)
    assert one.p_values[0] == 1
    assert abs(one.z[1]) < 0.3
    wide, narrow = one.band[2] - one.band[0], one.fitted_band[2] - one.fitted_band[0]
    assert narrow[1] < 0.85 * wide[1]
    far = deviations(np.array([1.0, 9.0]), both, np.zeros(1), fits)
    assert far.p_value == 1 / 201


def test_the_adjusted_p_values_hold_their_level_over_all_quantities():
    rng = np.random.default_rng(0)
    n_sets, n_replicas, level = 100, 100, 0.1
    smallest = np.empty(n_sets)
    for i in range(n_sets):
        # Three numbers that share a part, one with heavy tails, and many more.
        common = rng.standard_normal((n_replicas + 1, 1))
        groups = {
            "alike": common + 0.3 * rng.standard_normal((n_replicas + 1, 3)),
            "tails": rng.standard_t(3, (n_replicas + 1, 1)),
            **{f"other {j}": rng.standard_normal((n_replicas + 1, 4)) for j in range(8)},
        }
        fits = rng.standard_normal((n_replicas, 1))
        many = {name: deviations(v[0], v[1:], np.zeros(1), fits) for name, v in groups.items()}
        smallest[i] = min(adjusted_p_values(many).values())
    share = np.mean(smallest <= level)
    assert abs(share - level) < 4 * np.sqrt(level * (1 - level) / n_sets)
    assert stats.kstest(smallest, "uniform").pvalue > UNLIKELY


def test_a_fit_outside_those_of_the_replicas_is_a_failure():
    rng = np.random.default_rng(0)
    fits = rng.standard_normal((200, 2)) @ np.array([[1.0, 0.99], [0.0, 0.1]])
    assert fit_deviation(np.zeros(2), fits).p_value > 0.9
    # Within the range of each number, but not of both together.
    across = fit_deviation(np.array([1.0, -1.0]), fits)
    assert across.p_value == 1 / 201
    assert np.all(np.abs(across.z) < 1.5)
    assert data_leverage(np.zeros(2), fits) < 0.1
    assert data_leverage(np.array([1.0, -1.0]), fits) > 1
    covariance = np.cov(fits.T, bias=True)
    away = np.array([1.0, -1.0]) - fits.mean(axis=0)
    assert_allclose(across.largest, np.sqrt(away @ np.linalg.solve(covariance, away)), rtol=1e-9)


# Power


def test_brownian_motion_does_not_explain_memory():
    found = p_values(BROWNIAN, langevin_data())
    for name in ("autocovariance", "innovation_whiteness", "msd"):
        assert found[name] < 0.01


def test_one_diffusivity_does_not_explain_two():
    kappa = np.where(np.arange(20) % 2, 0.2, 2.0)
    found = p_values(BROWNIAN, brownian_data(kappa=kappa))
    for name in ("kurtosis", "particles", "innovation_particles", "distribution"):
        assert found[name] < 0.01
    assert found["innovation_whiteness"] > 0.01


def test_heavy_tails_are_not_explained():
    steps = np.random.default_rng(0).standard_t(3, size=(20, 10, 2))
    found = p_values(BROWNIAN, Displacements.from_array(steps, TAU))
    for name in ("kurtosis", "innovation_shape"):
        assert found[name] < 0.01


def simulated(name, shape=SHAPE, seed=0, **theta):
    model = model_named(name, MODELS)(**theta)
    n_particles, n_steps, n_dim = shape
    positions = model.simulate(
        jax.random.key(seed), n_particles=n_particles, n_steps=n_steps, n_dim=n_dim, tau=TAU
    )
    return Displacements.from_array(np.diff(np.asarray(positions), axis=1), TAU)


@pytest.mark.parametrize("case", ["subdiffusive", "noise"])
def test_langevin_does_not_explain_negative_correlation_against_its_prior(case):
    # The prior of gamma holds it below what the data ask for: no extrapolation hides that.
    shape = (40, 20, 2)
    if case == "subdiffusive":
        data = simulated("fractional", shape, hurst=0.25, kappa=1.0, reference=1.0)
    else:
        data = simulated("brownian+noise", shape, kappa=0.01, sigma=1.0)
    found = check(LANGEVIN, data, method="auto")
    assert not found.is_at_equal_fit
    assert found.p_value == 1 / (N + 1)
    for name in ("fit", "autocovariance", "innovation_whiteness"):
        assert found.p_values[name] < 0.01
    assert "the autocovariance of displacements (lag 1: -" in found.verdict
    assert "; its prior conflicts with the data, which pull gamma = " in found.verdict
    assert " up by " in found.verdict


def test_drift_is_not_explained_without_a_mean():
    data = brownian_data()
    moved = replace(data, dx=data.dx + TAU * np.array([1.0, 0.0]))
    found = check(BROWNIAN, moved)
    assert found.unexplained[0].name == "mean"
    assert "the mean displacement (axis 1: " in found.verdict
    assert p_values(BROWNIAN, data)["mean"] > 0.01


def test_unlike_axes_are_not_explained():
    data = brownian_data()
    found = p_values(BROWNIAN, replace(data, dx=data.dx * np.array([1.5, 1.0])))
    assert found["axes"] < 0.01
    # Axes at 45 degrees to the unlike ones: their covariance tells.
    turned = (data.dx * np.array([1.5, 1.0])) @ np.array([[1.0, 1.0], [-1.0, 1.0]]) / np.sqrt(2)
    assert p_values(BROWNIAN, replace(data, dx=turned))["axes"] < 0.01
    assert p_values(BROWNIAN, data)["axes"] > 0.01


def test_shared_motion_is_not_explained_if_times_are_known():
    data = brownian_data()
    common = 0.5 * np.random.default_rng(1).standard_normal((10, 2))
    shared = replace(data, dx=data.dx + np.tile(common, (20, 1)))
    found = check(BROWNIAN, shared, start_times=np.zeros(20))
    assert found.unexplained[0].name == "together"
    assert check(BROWNIAN, data, start_times=np.zeros(20)).p_values["together"] > 0.01
    # Without times, or one after the other, no steps are known to be simultaneous.
    assert "together" not in p_values(BROWNIAN, shared)
    assert "together" not in p_values(BROWNIAN, shared, start_times=100.0 * np.arange(20))
    with pytest.raises(DriftbayesError, match="start_times must hold 20 finite times"):
        check(BROWNIAN, data, start_times=np.zeros(3))


@pytest.mark.slow
@pytest.mark.parametrize("gaps", ["split", "keep"])
def test_gaps_and_irregular_times_are_checked_too(gaps):
    data = gappy_data(gaps, seed=3)
    result = check_fit([BROWNIAN, LANGEVIN], data, n_replicas=N, method="laplace")
    assert result.models["brownian"].p_values["autocovariance"] < 0.01
    assert result.models["langevin"].p_value > 0.01


# Words and numbers


def test_the_verdict_says_that_no_model_explains_the_data():
    result = check_fit([BROWNIAN], langevin_data(2), n_replicas=N, seed=4)
    assert result.verdict.startswith("brownian is the only model checked, but it does not explain ")
    assert result.comparison.fit_p_values == {"brownian": result.models["brownian"].p_value}
    assert ", but brownian does not explain the data (goodness of fit p = " in (
        result.comparison.verdict
    )
    # Confined motion: anticorrelated steps, which neither model makes.
    rng = np.random.default_rng(0)
    dx = np.diff(rng.normal(size=(60, 31, 2)), axis=1)
    data = Displacements.from_array(dx, 1.0)
    both = check_fit([BROWNIAN, LANGEVIN], data, n_replicas=N, seed=4)
    best = both.comparison.best
    assert re.match(
        f"among the models compared, {best} is the best of the set.*, but none explains the data: "
        "it does not explain ",
        both.verdict,
    )
    assert both.to_json()["verdict"] == both.verdict


def test_the_verdict_names_what_is_not_explained():
    result = check_fit([BROWNIAN, LANGEVIN], langevin_data(2), n_replicas=N, seed=4)
    assert result.comparison.best == "langevin"
    assert result.verdict.startswith("langevin is the best of the set, and nothing checked contra")
    assert result.verdict.endswith("; 100 replicas, seed 4")
    brownian = result.models["brownian"]
    assert brownian.verdict.startswith("it does not explain the ")
    about = brownian.deviations["autocovariance"]
    worst = int(np.abs(about.z).argmax())
    low, _, high = about.fitted_band[:, worst]
    assert (
        f"the autocovariance of displacements (lag {worst + 1}: {about.observed[worst]:.3g}, "
        f"expected {low:.3g} to {high:.3g}, z = {about.z[worst]:.1f}, p < 0.01)"
    ) in brownian.verdict
    assert brownian.p_value == min(brownian.p_values.values())
    names = [quantity.name for quantity in brownian.unexplained]
    assert set(names) == {q for q, p in brownian.p_values.items() if p < 0.01}
    found = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert found["models"]["brownian"]["unexplained"] == names
    assert found["models"]["langevin"]["seed"] == 4
    kurtosis = found["models"]["langevin"]["quantities"]["kurtosis"]
    assert len(kurtosis["at"]) == len(kurtosis["observed"]) == len(kurtosis["low"])


def test_the_same_seed_gives_the_same_numbers():
    many = [p_values(LANGEVIN, langevin_data(), seed=seed) for seed in (1, 1, 2)]
    assert many[0] == many[1]
    assert many[0] != many[2]


def test_units_of_length_and_time_change_no_deviation():
    data = langevin_data()
    layout = Layout(data)
    chosen = quantities(layout)
    dx = layout.pad(data.dx)[None]
    plain = statistics(chosen, layout, dx, dx)
    scaled = statistics(chosen, layout, 7 * dx, 7 * dx)
    for name, power in (("msd", 2), ("autocovariance", 2), ("kurtosis", 0), ("particles", 0)):
        assert_allclose(scaled[name], 7**power * plain[name], rtol=1e-12)


def test_statistics_are_those_written_out_run_by_run():
    data = gappy_data("split")
    layout = Layout(data)
    chosen = quantities(layout)
    dx = layout.pad(data.dx)[None]
    found = statistics(chosen, layout, dx, dx)
    runs = np.split(data.dx, np.cumsum(data.row_sizes)[:-1])
    at = {quantity.name: quantity.at.astype(int) for quantity in chosen}
    for i, lag in enumerate(at["msd"]):
        moved = np.stack(
            [run[j : j + lag].sum(axis=0) for run in runs for j in range(len(run) - lag + 1)]
        )
        assert_allclose(found["msd"][0, i], np.mean(moved**2))
        assert_allclose(found["kurtosis"][0, i], np.mean(moved**4) / np.mean(moved**2) ** 2)
    for i, lag in enumerate(at["autocovariance"]):
        pairs = np.concatenate([run[lag:] * run[:-lag] for run in runs if len(run) > lag])
        assert_allclose(found["autocovariance"][0, i], np.mean(pairs))


@pytest.mark.slow
@pytest.mark.sampled(2)
@pytest.mark.parametrize("shape", [(8, 1, 1), (1, 30, 2)], ids=["single steps", "one particle"])
def test_short_and_few_have_fewer_quantities(shape):
    data = brownian_data(shape=shape)
    names = [quantity.name for quantity in quantities(Layout(data))]
    assert ("autocovariance" in names) == (shape[1] > 1)
    assert ("particles" in names) == (shape[0] > 1)
    assert all(0 < p <= 1 for p in p_values(BROWNIAN, data).values())


def test_statistics_of_axes_and_pairs_are_those_written_out():
    data = gappy_data("split")
    starts = np.random.default_rng(5).integers(0, 3, len(data.row_sizes)) * TAU
    layout = Layout(data, starts)
    chosen = quantities(layout)
    dx = layout.pad(data.dx)[None]
    found = statistics(chosen, layout, dx, 2 * dx)
    assert_allclose(found["mean"][0], data.dx.sum(axis=0) / data.interval.sum())
    covariance = data.dx.T @ data.dx
    mean = np.trace(covariance) / 2
    expected = [covariance[0, 0] / mean - 1, covariance[0, 1] / mean]
    assert_allclose(found["axes"][0], expected, atol=1e-12)
    first = np.cumsum(data.row_sizes) - data.row_sizes
    steps = np.arange(len(data.dx)) - np.repeat(first, data.row_sizes)
    begin = np.rint(np.repeat(starts, data.row_sizes) / TAU).astype(int) + steps
    pairs = [
        data.dx[i] @ data.dx[j]
        for i in range(len(begin))
        for j in range(len(begin))
        if i != j and begin[i] == begin[j]
    ]
    expected = np.mean(pairs) / np.mean(np.sum(data.dx**2, axis=1))
    assert_allclose(found["together"][0], [expected, expected])


def dense_score(data, theta, step=1e-5):
    """Derivatives of the Langevin log-density in ln θ, by differences of a dense Gaussian."""
    n = data.n_steps

    def log_density(gamma, k):
        a = gamma * TAU
        lags = np.arange(1, n)
        later = k / gamma * (1 - np.exp(-a)) ** 2 * np.exp(-a * (lags - 1))
        covariance = toeplitz([2 * k / gamma * (a + np.expm1(-a)), *later])
        rows = np.moveaxis(data.as_array(), 2, 1).reshape(-1, n)
        return stats.multivariate_normal(cov=covariance).logpdf(rows).sum()

    logs = np.log(theta)
    return [
        (
            log_density(*np.exp(logs + step * np.eye(2)[i]))
            - log_density(*np.exp(logs - step * np.eye(2)[i]))
        )
        / (2 * step)
        for i in range(2)
    ]


def test_scores_are_those_of_a_dense_gaussian():
    many = [langevin_data(seed) for seed in range(3)]
    theta = np.array([0.7, 1.3])
    layout = Layout(many[0])
    score = Score(LANGEVIN, theta, layout)
    assert score.names == ("gamma", "k")
    found = score(np.stack([layout.pad(data.dx) for data in many]))
    assert_allclose(found, [dense_score(data, theta) for data in many], rtol=1e-5, atol=1e-4)


# What cannot be checked


def irregular_brownian_data(n_particles=20, n_steps=12):
    rng = np.random.default_rng(8)
    interval = rng.uniform(0.1, 0.4, size=n_particles * n_steps)
    return Displacements(
        dx=rng.normal(size=(len(interval), 2)) * np.sqrt(2 * interval)[:, None],
        interval=interval,
        row_sizes=np.full(n_particles, n_steps),
        trajectory=np.arange(n_particles),
        tau=0.25,
    )


def test_a_model_without_replicas_has_a_status_and_leaves_the_others_alone():
    priors = {"hurst": Uniform(0.0, 1.0), "kappa": UNIT, "reference": Fixed(1.0)}
    fractional = Hypothesis(MODELS["fractional"], **priors)
    data = irregular_brownian_data(n_particles=5, n_steps=4)
    result = check_fit([BROWNIAN, fractional], data, n_replicas=N, method="laplace")
    failed = result.models["fractional"]
    assert failed.status is Status.NOT_CHECKED
    assert failed.verdict.startswith("it could not be checked: fractional has no state-space")
    assert np.isnan(failed.p_value)
    found = json.loads(json.dumps(result.to_json(), allow_nan=False))["models"]
    assert found["fractional"]["status"] == "not_checked"
    assert found["fractional"]["p_value"] is None
    assert found["brownian"]["status"] == "ok"
    assert result.models["brownian"].p_value > 0.01
    assert "not checked" in str(result)
    with pytest.raises(DriftbayesError, match="has no state-space form"):
        check_fit([fractional], data, n_replicas=N, method="laplace")


def test_replicas_that_are_not_finite_are_no_basis_for_a_verdict(monkeypatch):
    def broken(self, numbers):
        dx = original(self, numbers)
        if self._draws.hypothesis.name == "langevin":
            dx[3] = np.nan
        return dx

    original = Replicator.__call__
    monkeypatch.setattr(Replicator, "__call__", broken)
    result = check_fit([BROWNIAN, LANGEVIN], brownian_data(), n_replicas=N, method="laplace")
    failed = result.models["langevin"]
    assert failed.status is Status.NOT_CHECKED
    assert failed.reason.startswith("1 of 100 replicas of langevin are not finite")
    assert result.models["brownian"].status is Status.OK


def test_too_few_replicas_are_refused():
    with pytest.raises(DriftbayesError, match="n_replicas must be a whole number, 100 or more"):
        check_fit([BROWNIAN], brownian_data(), n_replicas=50)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["langevin+noise", "brownian*2", "langevin+mean"])
def test_data_of_another_size_compile_nothing(name):
    family = model_named(name, MODELS)
    priors = {
        parameter: Uniform(0.0, about.upper) if np.isfinite(about.upper) else UNIT
        for parameter, about in family.parameters.items()
    }
    hypothesis = Hypothesis(
        family, **{**priors, **({"flow": Fixed(1.0)} if "+mean" in name else {})}
    )
    compiled = []

    def heard(event, duration, **_):
        if event == "/jax/core/compile/backend_compile_duration":
            compiled.append(duration)

    def check(shape):
        return check_fit([hypothesis], langevin_data(shape=shape), n_replicas=N)

    check((20, 10, 2))
    jax.monitoring.register_event_duration_secs_listener(heard)
    try:
        found = check((13, 17, 2))
        n_compiled = len(compiled)
        # What is compiled would be heard.
        jax.jit(lambda x: x + 1.0)(np.zeros(3))
    finally:
        jax.monitoring.unregister_event_duration_listener(heard)
    assert n_compiled == 0
    assert compiled
    assert found.models[name].status is Status.OK
