"""Checks of fitted models: silent if the model is true, and loud about what it leaves out."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from touchstone import BROWNIAN, LANGEVIN, TAU, brownian_data, gappy_data, langevin_data

from driftbayes.checks import check_fit
from driftbayes.checks.calibrate import deviations, overall
from driftbayes.checks.innovations import Layout
from driftbayes.checks.statistics import quantities, statistics
from driftbayes.errors import DriftbayesError
from driftbayes.sampling import Displacements

# A p-value cannot be uniform to better than this many data sets tell.
UNLIKELY = 1e-3
N = 100


def p_values(hypothesis, data, **options):
    # Laplace's method compiles fastest, and at equal fit it does not matter where draws come from.
    result = check_fit([hypothesis], data, n_replicas=N, method="laplace", **options)
    return result.models[hypothesis.name].p_values


def uniformity(hypothesis, make, n):
    """Of each quantity, the p-value of Kolmogorov and Smirnov that its p-values are uniform."""
    many = [p_values(hypothesis, make(seed), seed=seed) for seed in range(n)]
    return {q: stats.kstest([one[q] for one in many], "uniform").pvalue for q in many[0]}


# Calibration


def test_the_true_model_is_rarely_blamed():
    found = [min(p_values(LANGEVIN, langevin_data(seed), seed=seed).values()) for seed in range(6)]
    # Eight quantities of six data sets: with independent ones 0.01 would be met four times in ten.
    assert sum(p < 0.01 for p in found) <= 3
    assert max(found) > 0.05


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
    assert abs(one.z[1]) < 0.3
    wide, narrow = one.band[2] - one.band[0], one.fitted_band[2] - one.fitted_band[0]
    assert narrow[1] < 0.85 * wide[1]
    far = deviations(np.array([1.0, 9.0]), both, np.zeros(1), fits)
    assert far.p_value == overall([one, far]) == 1 / 201


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


@pytest.mark.slow
@pytest.mark.parametrize("gaps", ["split", "keep"])
def test_gaps_and_irregular_times_are_checked_too(gaps):
    data = gappy_data(gaps, seed=3)
    result = check_fit([BROWNIAN, LANGEVIN], data, n_replicas=N, method="laplace")
    assert result.models["brownian"].p_values["autocovariance"] < 0.01
    assert result.models["langevin"].p_value > 0.01


# Words and numbers


def test_the_verdict_names_what_is_not_explained():
    result = check_fit([BROWNIAN, LANGEVIN], langevin_data(1), n_replicas=N, seed=4)
    assert result.comparison.best == "langevin"
    assert result.verdict.startswith("langevin is the best of the set, and nothing checked contra")
    assert result.verdict.endswith("; 100 replicas, seed 4")
    brownian = result.models["brownian"]
    assert brownian.verdict.startswith("it does not explain the ")
    assert "the autocovariance of displacements (p < 0.01)" in brownian.verdict
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


@pytest.mark.parametrize("shape", [(8, 1, 1), (1, 30, 2)], ids=["single steps", "one particle"])
def test_short_and_few_have_fewer_quantities(shape):
    data = brownian_data(shape=shape)
    names = [quantity.name for quantity in quantities(Layout(data))]
    assert ("autocovariance" in names) == (shape[1] > 1)
    assert ("particles" in names) == (shape[0] > 1)
    assert all(0 < p <= 1 for p in p_values(BROWNIAN, data).values())


def test_too_few_replicas_are_refused():
    with pytest.raises(DriftbayesError, match="n_replicas must be a whole number, 100 or more"):
        check_fit([BROWNIAN], brownian_data(), n_replicas=50)
