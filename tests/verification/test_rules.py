"""Scores of ensembles against brute force, closed forms and exchangeability."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

from driftbayes.prediction._predict import ScaleMixture
from driftbayes.prediction.rules import energy_score
from driftbayes.verification import _rules as rules


@pytest.mark.parametrize("n_members", [3, 4, 7, 20])
@pytest.mark.parametrize("n_dim", [1, 2, 3])
def test_energy_scores_are_those_of_all_pairs(n_members, n_dim):
    x = np.random.default_rng(1).normal(size=(6, n_members, n_dim))
    pairs = np.linalg.norm(x[:, :, None] - x[:, None], axis=-1).sum(axis=(1, 2))
    known = np.linalg.norm(x, axis=-1).mean(axis=1)
    known -= pairs / (2 * n_members * (n_members - 1))
    assert_allclose(rules.energy_scores(x), known, rtol=1e-13)


def test_the_mean_energy_score_is_that_of_the_gaussian_for_any_number_of_members():
    rng = np.random.default_rng(2)
    y = np.array([0.8, -0.5])
    mixture = ScaleMixture(np.array([1.3**2]), np.ones(1), 2)
    known = float(energy_score(mixture, np.array([np.hypot(*y)]))[0])
    for n_members in (3, 30):
        found = rules.energy_scores(1.3 * rng.normal(size=(40_000, n_members, 2)) - y)
        assert abs(found.mean() - known) < 4 * found.std() / np.sqrt(len(found))


def test_log_scores_are_those_of_the_shrunk_gaussian():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(5, 12, 2)) @ np.array([[2.0, 0.3], [0.0, 0.5]]) + 0.4
    found = rules.log_scores(x)
    for case, value in zip(x, found, strict=True):
        sample = np.cov(case.T, bias=True)
        # Chen, Wiesel, Eldar & Hero (2010), equation 23, with p = 2.
        above = np.trace(sample) ** 2
        below = 12 * (np.trace(sample @ sample) - 0.5 * np.trace(sample) ** 2)
        weight = min(above / below, 1.0)
        shrunk = (1 - weight) * sample + weight * 0.5 * np.trace(sample) * np.eye(2)
        covariance = shrunk * (12 / 11) * (13 / 12)
        known = multivariate_normal(case.mean(axis=0), covariance).logpdf(np.zeros(2))
        assert_allclose(value, known, rtol=1e-12)


@pytest.mark.parametrize("n_members", [4, 19])
def test_ranks_are_uniform_and_coverage_exact_if_the_ensemble_is_right(n_members):
    rng = np.random.default_rng(4)
    n = 20_000
    x = rng.normal(size=(n, n_members + 1, 2)) * np.array([1.0, 3.0]) + 5.0
    ranks = rules.depth_ranks(x[:, 1:] - x[:, :1])
    counts = np.bincount(ranks, minlength=n_members + 1)
    expected = n / (n_members + 1)
    assert np.sum((counts - expected) ** 2 / expected) < n_members + 4 * np.sqrt(2 * n_members)
    for level in (0.5, 0.95):
        inside = rules.coverage(ranks, n_members, level)
        assert abs(inside.mean() - level) < 4 * inside.std() / np.sqrt(n)


def test_the_variogram_score_of_a_path_is_by_pairs_of_times():
    rng = np.random.default_rng(5)
    paths, observed = rng.normal(size=(4, 3, 2)), rng.normal(size=(3, 2))
    terms = []
    for i in range(3):
        for j in range(i):
            model = [np.sqrt(np.hypot(*(p[i] - p[j]))) for p in paths]
            seen = np.sqrt(np.hypot(*(observed[i] - observed[j])))
            apart = [(a - b) ** 2 for a in model for b in model]
            # Half of the mean over pairs of different members, as in the energy score.
            terms.append(np.mean([(seen - a) ** 2 for a in model]) - sum(apart) / (2 * 4 * 3))
    assert_allclose(rules.variogram_scores(paths, observed), np.mean(terms), rtol=1e-13)


def test_the_mean_variogram_score_does_not_depend_on_the_number_of_members():
    rng = np.random.default_rng(6)
    observed = rng.normal(size=(3, 2))
    found = {
        n: np.array([rules.variogram_scores(x, observed) for x in rng.normal(size=(6000, n, 3, 2))])
        for n in (3, 20)
    }
    errors = [own.std() / np.sqrt(len(own)) for own in found.values()]
    few, many = (own.mean() for own in found.values())
    assert abs(few - many) < 4 * np.hypot(*errors)


def test_energy_and_variogram_scores_are_those_of_scoringrules():
    """Numbers of scoringrules 0.10.0, estimator "fair", for the same draws."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=(3, 8, 2)) * np.array([1.0, 2.0]) + 0.3
    known = [0.5011773981611609, 0.6043955787173413, 0.33821544586980945]
    assert_allclose(rules.energy_scores(x), known, rtol=1e-13)
    paths, observed = rng.normal(size=(8, 5)).cumsum(axis=1), rng.normal(size=5).cumsum()
    found = rules.variogram_scores(paths[..., None], observed[:, None])
    # Theirs is the sum over all ordered pairs of the five variables.
    assert_allclose(found, 0.9941765828416256 / 20, rtol=1e-12)


def test_the_skill_of_liu_and_weisberg():
    assert_allclose(rules.separation_skill(np.array([1.0, 2.0]), np.array([4.0, 8.0])), 0.75)
    assert rules.separation_skill(np.array([10.0]), np.array([4.0])) == 0.0
    assert np.isnan(rules.separation_skill(np.array([1.0]), np.array([0.0])))
