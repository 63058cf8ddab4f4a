"""Scores of unseen trajectories: closed forms against brute force, and the chain rule."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.integrate import quad
from scipy.special import hyp1f1

from driftbayes.comparison import compare_hypotheses, make_hypotheses
from driftbayes.data._sampling import Cut, Displacements, displacements
from driftbayes.data._trajectories import Trajectories
from driftbayes.errors import DriftbayesError
from driftbayes.inference import evidence, posterior_draws
from driftbayes.likelihood import second_moments
from driftbayes.models import Preparation
from driftbayes.prediction import _subsets as subsets
from driftbayes.prediction import rules
from driftbayes.prediction._predict import AVERAGE, ScaleMixture
from driftbayes.prediction._scores import held_out, leave_one_out, prequential
from driftbayes.prediction._tables import TrajectoryScores
from driftbayes.prediction.rules import crps, energy_score, log_score
from driftbayes.priors import Fixed
from driftbayes.testing import reference
from sums_of import log_likelihood
from verdicts import N_STEPS, langevin_data, langevin_tracks, unit_hypotheses

MEANS = {"kappa": 1.0, "gamma": 1.0, "k": 1.0}
# Thirteen data sets or more are one shape to compile for.
N = 16
some_variances = st.lists(st.floats(0.01, 100), min_size=1, max_size=5)


def mixture(variances, n_dim=1, weights=None) -> ScaleMixture:
    variances = np.asarray(variances, dtype=float)
    weights = np.full(len(variances), 1 / len(variances)) if weights is None else weights
    return ScaleMixture(variances, np.asarray(weights), n_dim)


# Rules


@given(sd=st.floats(0.01, 100), z=st.floats(-20, 20))
def test_crps_of_a_gaussian_is_the_textbooks(sd, z):
    expected = sd * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi))
    assert_allclose(crps(mixture([sd**2]), sd * z), expected, rtol=1e-10)


@given(variances=some_variances, y=st.floats(-10, 10))
def test_crps_of_a_mixture_is_the_integral_that_defines_it(variances, y):
    m, far = mixture(variances), 50 * math.sqrt(max(variances)) + abs(y)
    below = quad(lambda x: m.cdf(x) ** 2, -far, y, limit=400)[0]
    above = quad(lambda x: m.cdf(-x) ** 2, y, far, limit=400)[0]
    assert_allclose(crps(m, y), below + above, rtol=1e-6)


@pytest.mark.parametrize("n_dim", [1, 2, 3])
def test_energy_score_is_that_of_a_large_sample(n_dim):
    rng = np.random.default_rng(n_dim)
    weights, variances, n = np.array([0.2, 0.5, 0.3]), np.array([0.3, 1.0, 4.0]), 400_000

    def sample():
        sd = np.sqrt(rng.choice(variances, size=n, p=weights))
        return sd[:, None] * rng.standard_normal((n, n_dim))

    m, apart = mixture(variances, n_dim, weights), np.linalg.norm(sample() - sample(), axis=1)
    for length in (0.0, 0.7, 5.0):
        y = np.zeros(n_dim)
        y[0] = length
        near = np.linalg.norm(sample() - y, axis=1)
        brute = near.mean() - 0.5 * apart.mean()
        error = math.hypot(near.std(), 0.5 * apart.std()) / math.sqrt(n)
        assert abs(energy_score(m, length) - brute) < 5 * error


@given(x=st.floats(0.0, 20.0), n_dim=st.sampled_from([1, 2, 3]))
def test_the_mean_of_a_noncentral_chi_is_a_confluent_hypergeometric_function(x, n_dim):
    constant = math.sqrt(2) * math.gamma((n_dim + 1) / 2) / math.gamma(n_dim / 2)
    expected = constant * hyp1f1(-0.5, n_dim / 2, -0.5 * x**2)
    assert_allclose(rules._chi_mean(np.array(x), n_dim), expected, rtol=1e-9)


def test_very_unlikely_displacements_have_finite_scores():
    for n_dim in (1, 2, 3):
        m = mixture([1.0, 2.0], n_dim)
        assert_allclose(energy_score(m, 1e6), 1e6, rtol=1e-5)
        assert np.isfinite(log_score(m, 1e6))


@given(variances=some_variances, y=st.floats(0, 10), n_dim=st.sampled_from([1, 2, 3]))
def test_the_log_score_is_the_density_of_the_mixture(variances, y, n_dim):
    parts = [
        stats.multivariate_normal(np.zeros(n_dim), v * np.eye(n_dim)).pdf(np.eye(n_dim)[0] * y)
        for v in variances
    ]
    found = log_score(mixture(variances, n_dim), y)
    assert_allclose(np.exp(found), np.mean(parts), rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize("rule", [log_score, crps, energy_score])
def test_many_are_scored_as_one_by_one(rule, monkeypatch):
    m, y = mixture([0.5, 1.0, 2.0], 2), np.linspace(0, 4, 12).reshape(4, 3)
    whole = rule(m, y)
    monkeypatch.setattr(rules, "_BLOCK", 7)
    assert_allclose(rule(m, y), whole, rtol=1e-13)
    assert_allclose(whole[2, 1], rule(m, y[2, 1]), rtol=1e-13)


@pytest.mark.parametrize("n_dim", [1, 2, 3])
def test_rules_are_proper_the_true_variance_scores_best(n_dim):
    y = np.random.default_rng(0).standard_normal((20_000, n_dim))
    length = np.linalg.norm(y, axis=1)
    for wrong in (0.6, 1.6):
        for better, worse in (
            (
                energy_score(mixture([1.0], n_dim), length),
                energy_score(mixture([wrong], n_dim), length),
            ),
            (
                -log_score(mixture([1.0], n_dim), length),
                -log_score(mixture([wrong], n_dim), length),
            ),
        ):
            gap = worse - better
            assert gap.mean() > 5 * gap.std() / np.sqrt(len(gap))


# Tables


def test_standard_errors_take_the_trajectory_as_the_unit():
    rng = np.random.default_rng(0)
    values = {"a": rng.normal(size=50), "b": rng.normal(size=50)}
    table = TrajectoryScores("x", 1.0, values, np.ones(50), np.arange(50), larger_is_better=True)
    mean, error = table.mean("a")
    assert_allclose((mean, error), (values["a"].mean(), stats.sem(values["a"])))
    gap = values["b"] - values["a"]
    assert_allclose(table.difference("b", "a"), (gap.mean(), stats.sem(gap)))
    assert_allclose(table.total("a"), values["a"].sum())


def test_trajectories_count_by_their_number_of_predictions():
    # Scores of one each, whatever the length: no spread at all.
    counts = np.array([1.0, 5.0, 9.0])
    table = TrajectoryScores("x", 1.0, {"a": counts}, counts, np.arange(3), larger_is_better=False)
    assert_allclose(table.mean("a"), (1.0, 0.0), atol=1e-15)
    one = TrajectoryScores(
        "x", 1.0, {"a": np.ones(1)}, np.ones(1), np.arange(1), larger_is_better=False
    )
    assert math.isnan(one.mean("a")[1])
    plain = json.loads(json.dumps(one.to_json(), allow_nan=False))
    assert plain["models"]["a"] == {"total": 1.0, "total_se": None, "mean": 1.0, "se": None}


# Whole trajectories


@pytest.fixture(scope="module")
def data():
    return langevin_data(0.5, n_particles=N, n_dim=2)


@pytest.fixture(scope="module")
def step(data):
    return prequential(unit_hypotheses(), data)


@pytest.fixture(scope="module")
def left(data):
    return leave_one_out(unit_hypotheses(), data)


def test_the_chain_rule_holds_to_1e_9(data, step):
    whole = compare_hypotheses(unit_hypotheses(), data).evidences
    for name, record in whole.items():
        assert len(step.values[name]) == N
        assert_allclose(step.total(name), record.log_evidence, rtol=0, atol=1e-9)
    assert step.warnings == ()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("model", ["brownian", "langevin"])
def test_increments_are_predictive_densities_by_brute_force(data, step, model):
    dx = data.as_array()
    means = {n: MEANS[n] for n in (("kappa",) if model == "brownian" else ("gamma", "k"))}

    def log_z(n):
        return reference.exact_evidence_quadrature(dx[:n], 0.5, model, means) if n else 0.0

    for n in (1, 2, N):
        assert_allclose(step.values[model][n - 1], log_z(n) - log_z(n - 1), atol=1e-7)


def test_the_sum_does_not_depend_on_the_order(data, step):
    turned = Displacements.from_array(data.as_array()[::-1], data.tau)
    again = prequential(unit_hypotheses(), turned)
    for name in step.values:
        assert_allclose(again.total(name), step.total(name), atol=1e-8)
        assert np.abs(again.values[name][::-1] - step.values[name]).max() > 0.01


@pytest.mark.parametrize("model", [0, 1])
def test_leaving_one_out_is_a_fit_of_the_others(data, left, model):
    hypothesis = unit_hypotheses()[model]
    whole = evidence(hypothesis, data).log_evidence
    for n in (0, 7, N - 1):
        others = Displacements.from_array(np.delete(data.as_array(), n, axis=0), data.tau)
        expected = whole - evidence(hypothesis, others).log_evidence
        assert_allclose(left.values[hypothesis.name][n], expected, atol=1e-8)


def test_the_last_increment_is_the_last_left_out(step, left):
    for name in step.values:
        assert_allclose(step.values[name][-1], left.values[name][-1], atol=1e-8)


def test_the_true_model_predicts_unseen_trajectories_better(left):
    gap, error = left.difference("langevin", "brownian")
    assert gap > 3 * error > 0
    plain = json.loads(json.dumps(left.to_json(), allow_nan=False))
    assert plain["rule"] == "leave-one-out log density"
    assert_allclose(plain["differences"]["langevin:brownian"]["total"], N * gap)
    assert "probability" not in json.dumps(plain)


def ragged() -> Displacements:
    """Runs of 3 to 50 steps, some trajectories with a gap and one that never moves."""
    x = langevin_tracks(n_particles=6, n_positions=51).positions.reshape(6, 51, 2).copy()
    x[1, 20] = x[4, 45] = np.nan
    x[3] = 1.0
    parts = [x[0], x[1], x[2, :4], x[3, :21], x[4], x[5, :33]]
    whole = Trajectories.from_arrays(parts, times=[np.arange(len(p)) * 0.1 for p in parts])
    return displacements(whole, 0.1)


@pytest.mark.parametrize("memory", [32, 256])
def test_moments_of_trajectories_add_up_to_those_of_the_whole(memory):
    data = ragged()
    numbers = np.unique(data.trajectory)
    whole, parts = second_moments(data, memory), list(subsets._own_moments(data, numbers, memory))
    assert len(parts) == 6
    assert_allclose(sum(p.forms for p in parts), whole.forms, rtol=1e-9, atol=1e-12)
    assert_array_equal(sum(p.predicted for p in parts), whole.predicted)
    assert not parts[3].forms.any()
    assert parts[3].predicted.sum() == 40
    # Each set, regrouped by itself, gives the same likelihood.
    model = unit_hypotheses()[1].model(gamma=0.8, k=1.3)
    way = Preparation("summed", "moments", memory)
    for n, subset in enumerate(list(subsets.without_each(data, numbers, way))[1:]):
        others = subsets.subset(data, data.trajectory != n)
        assert_allclose(log_likelihood(model, subset), model.log_likelihood(others), rtol=1e-11)


def noisy_data() -> Displacements:
    x = langevin_tracks(n_particles=4, n_positions=9).positions.reshape(4, 9, 2)
    noise = np.random.default_rng(1).normal(size=x.shape)
    tracks = Trajectories.from_arrays(x + 0.02 * noise, dt=0.1, position_sd=np.full((4, 9), 0.02))
    return displacements(tracks, 0.1)


def test_noisy_positions_are_scored_by_the_state_space_engine():
    data, hypothesis = noisy_data(), unit_hypotheses()[0]
    step, left = prequential([hypothesis], data), leave_one_out([hypothesis], data)
    whole = evidence(hypothesis, data).log_evidence
    assert_allclose(step.total("brownian"), whole, atol=1e-9)
    for n in range(4):
        others = subsets.subset(data, data.trajectory != n)
        expected = whole - evidence(hypothesis, others).log_evidence
        assert_allclose(left.values["brownian"][n], expected, atol=1e-7)


def test_one_trajectory_cannot_be_left_out():
    alone = langevin_data(0.5, n_particles=1)
    with pytest.raises(DriftbayesError, match="needs two or more trajectories, got 1"):
        leave_one_out(unit_hypotheses(), alone)


# Single displacements over other times


@pytest.fixture(scope="module")
def tracks():
    return langevin_tracks(n_particles=20, n_positions=21)


@pytest.fixture(scope="module")
def singles(tracks):
    return held_out(
        tracks, unit_hypotheses()[:1], 0.2, [0.1, 0.4], n_folds=2, n_draws=300, cut=Cut(N_STEPS)
    )


def test_held_out_displacements_are_scored_with_a_fit_of_the_other_folds(tracks, singles):
    assert [(s.tau, s.rule) for s in singles] == [
        (pytest.approx(tau), rule)
        for tau in (0.1, 0.4)
        for rule in ("log density", "CRPS", "energy score")
    ]
    fitted = displacements(tracks, 0.2, n_tau=N_STEPS).as_array()
    for odd in (0, 1):
        rest = Displacements.from_array(fitted[1 - odd :: 2], 0.2)
        kappa = posterior_draws(unit_hypotheses()[0], rest, n_draws=300, seed=0).theta[:, 0]
        for table in singles:
            dx = displacements(tracks, table.tau).as_array()[odd::2]
            m = mixture(2 * kappa * table.tau, 2)
            length = np.linalg.norm(dx, axis=2)
            expected = {
                "log density": log_score(m, length).sum(axis=1),
                "CRPS": crps(m, dx).sum(axis=(1, 2)),
                "energy score": energy_score(m, length).sum(axis=1),
            }[table.rule]
            for name in ("brownian", AVERAGE):
                assert_allclose(table.values[name][odd::2], expected, rtol=1e-9)


def test_counts_are_of_components_or_of_vectors(singles):
    for table in singles:
        n_steps = round(2.0 / table.tau)
        assert_array_equal(table.counts, n_steps * (2 if table.rule == "CRPS" else 1))
        assert table.larger_is_better == (table.rule == "log density")


def test_an_observed_displacement_has_the_errors_of_both_its_ends(tracks):
    x = tracks.positions.reshape(20, 21, 2)
    sd = np.full((20, 21), 0.1)
    noisy = Trajectories.from_arrays(x, dt=0.1, position_sd=sd)
    brownian = unit_hypotheses()[0]
    options = {"n_draws": 50, "method": "laplace"}
    found = held_out(noisy, [brownian], 0.2, [0.4], n_folds=2, **options)[0]
    data = displacements(noisy, 0.2)
    draws = posterior_draws(brownian, subsets.subset(data, data.trajectory % 2 == 1), **options)
    m = mixture(2 * draws.theta[:, 0] * 0.4 + 2 * 0.1**2, 2)
    dx = displacements(noisy, 0.4).as_array()[::2]
    expected = log_score(m, np.linalg.norm(dx, axis=2)).sum(axis=1)
    assert_allclose(found.values["brownian"][::2], expected, rtol=1e-9)
    sd[0, 0] = 0.2
    mixed = Trajectories.from_arrays(x, dt=0.1, position_sd=sd)
    with pytest.raises(DriftbayesError, match=r"one measurement error for all .* got 0.1 to 0.2"):
        held_out(mixed, [brownian], 0.2, [0.4])


@pytest.mark.parametrize("wrong", [0, 1, 2.5])
def test_folds_must_divide(tracks, wrong):
    with pytest.raises(DriftbayesError, match="n_folds must be a whole number, 2 or more"):
        held_out(tracks, unit_hypotheses(), 0.2, [0.4], n_folds=wrong)


def test_a_model_that_would_fill_the_memory_is_refused_before_it_is_scored():
    (hypothesis,) = make_hypotheses(
        ["matern+blur"], priors={"exposure": Fixed(0.1)}, u_rms=1.0, timescale=1.0
    ).hypotheses
    data = Displacements.from_array(np.ones((3, 4, 2)), 0.5)
    with pytest.raises(DriftbayesError, match=r"a score cannot take matern\+blur: .* memory"):
        prequential([hypothesis], data)
