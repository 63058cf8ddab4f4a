"""Nested sampling: evidences known in closed form, honest errors, plateaus, and what it says."""

from functools import cache

import numpy as np
import pytest
from court import BROWNIAN, LANGEVIN, ONE_PEAK, TWO_PEAKS, langevin_data
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import kstest, norm
from targets import ConstantTarget, GaussianTarget

from driftbayes.errors import DriftbayesError, Status
from driftbayes.inference import Batch, Hypothesis, exact
from driftbayes.inference import _nested as module
from driftbayes.inference._density import Density
from driftbayes.inference._nested import live_counts, nested, simulated_log_shares
from driftbayes.inference._target import Points, PosteriorTarget
from driftbayes.models import Brownian
from driftbayes.priors import Gamma

# Tolerance of Monte Carlo tests, in standard errors.
FIVE_SIGMA = 5.0
SEEDS = 24
TARGETS = {
    "gaussian-1": GaussianTarget.make(1),
    "gaussian-4": GaussianTarget.make(4),
    "one-peak": ONE_PEAK,
    "two-peaks": TWO_PEAKS,
}


class StepTarget(ConstantTarget):
    """Prior N(0, 1), ln L = -(sharp (z - 1))² / 2 for z > 1 and `low` below."""

    def __init__(self, low, sharp=0.0):
        super().__init__(1)
        self.low, self.sharp = low, sharp

    def log_densities(self, z):
        peak = -0.5 * (self.sharp * (z[:, 0] - 1)) ** 2
        return super().log_densities(z)[0], np.where(z[:, 0] > 1, peak, self.low)


class Nowhere(ConstantTarget):
    """Prior N(0, 1), and no likelihood."""

    def log_densities(self, z):
        return super().log_densities(z)[0], np.full(len(z), -np.inf)


def posterior(hypothesis, batch):
    return PosteriorTarget(Density(hypothesis, batch.engine(0, hypothesis.model)))


def seeded(seed):
    return np.random.default_rng(seed)


N_LIVE = 100


@cache
def found_for(name):
    """The result for one target, computed once."""
    return nested(TARGETS[name], seeded(0), n_live=N_LIVE)


def assert_found(estimate, log_evidence):
    assert estimate.status is Status.OK, estimate.warnings
    assert abs(estimate.log_evidence - log_evidence) < FIVE_SIGMA * estimate.log_evidence_err


# --- Evidences known in closed form -------------------------------------------------------------


@pytest.mark.parametrize("name", TARGETS)
def test_evidence_is_that_in_closed_form(name):
    found = found_for(name)
    assert_found(found, TARGETS[name].log_evidence)
    # Skilling's formula for the error, which neglects that the number of points varies.
    information = found.diagnostics["information"]
    assert_allclose(found.log_evidence_err, np.sqrt(information / N_LIVE), rtol=0.25)


def test_information_and_moments_of_the_gaussian():
    target, found = GaussianTarget.make(2), found_for("one-peak")
    expected = target.expected_log_likelihood - target.log_evidence
    ess = found.diagnostics["ess"]
    # H is known no better than ln Z itself.
    assert abs(found.diagnostics["information"] - expected) < FIVE_SIGMA * found.log_evidence_err
    assert_allclose(found.weights.sum(), 1.0, rtol=1e-12)
    sd = target.sd / np.sqrt(1 + target.sd**2)
    mean = target.mean / (1 + target.sd**2)
    assert np.all(np.abs(found.weights @ found.z - mean) < FIVE_SIGMA * sd / np.sqrt(ess))
    variance = found.weights @ (found.z - mean) ** 2
    assert np.all(np.abs(variance / sd**2 - 1) < FIVE_SIGMA * np.sqrt(2 / ess))


def test_both_modes_are_found():
    found = found_for("two-peaks")
    share = found.weights @ (found.z[:, 0] > 0)
    # The modes are filled by the points of the prior: as uncertain as a count of n_live.
    assert abs(share - 0.5) < FIVE_SIGMA * 0.5 / np.sqrt(N_LIVE)


@pytest.mark.slow
def test_ten_dimensions():
    target = GaussianTarget.make(10)
    assert_found(nested(target, seeded(0)), target.log_evidence)


@pytest.mark.parametrize(
    ("hypothesis", "options"),
    [
        pytest.param(LANGEVIN, {"n_live": N_LIVE, "n_delete": N_LIVE // 2}, id="langevin-few"),
        pytest.param(BROWNIAN, {}, id="brownian", marks=pytest.mark.slow),
        pytest.param(LANGEVIN, {}, id="langevin", marks=pytest.mark.slow),
    ],
)
def test_evidence_of_displacements_is_the_exact_one(hypothesis, options):
    batch = Batch.of(langevin_data(1.0))
    found = nested(posterior(hypothesis, batch), seeded(0), **options)
    expected = exact(hypothesis, batch)
    assert_found(found, expected.log_evidence)
    theta = np.exp(found.z)
    for i, name in enumerate(hypothesis.names):
        error = expected.posterior_sd[name] / np.sqrt(found.diagnostics["ess"])
        mean = found.weights @ theta[:, i]
        assert abs(mean - expected.posterior_mean[name]) < FIVE_SIGMA * error


def test_prior_that_draws_with_scipy():
    hypothesis = Hypothesis(Brownian, kappa=Gamma(shape=2.0, mean=3.0))
    target = posterior(hypothesis, Batch.of(langevin_data(1.0)))
    drawn = np.exp(target.sample_prior(seeded(0), 300))
    assert drawn.shape == (300, 1)
    # Mean 3 and variance 3² / 2.
    assert abs(drawn.mean() - 3) < FIVE_SIGMA * 3 / np.sqrt(2 * 300)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gaussian-1", "gaussian-4", "two-peaks", "langevin"])
def test_reported_error_is_the_scatter_over_seeds(name):
    if name == "langevin":
        batch = Batch.of(langevin_data(1.0))
        target = posterior(LANGEVIN, batch)
        expected = exact(LANGEVIN, batch).log_evidence
    else:
        target = TARGETS[name]
        expected = target.log_evidence
    found = [nested(target, seeded(seed)) for seed in range(100, 100 + SEEDS)]
    z = np.array([(e.log_evidence - expected) / e.log_evidence_err for e in found])
    assert abs(z.mean()) < FIVE_SIGMA / np.sqrt(SEEDS)
    # The logarithm of a standard deviation from n values has the error 1 / sqrt(2 (n - 1)).
    assert abs(np.log(z.std(ddof=1))) < FIVE_SIGMA / np.sqrt(2 * (SEEDS - 1))
    assert all(e.status is Status.OK for e in found)


# --- Plateaus -----------------------------------------------------------------------------------


def test_constant_likelihood_gives_the_prior():
    found = nested(ConstantTarget(3), seeded(0))
    assert found.status is Status.OK
    assert_allclose(found.log_evidence, 0.0, atol=1e-12)
    assert_allclose(found.log_evidence_err, 0.0, atol=1e-12)
    # Nothing to compress: the first points are the answer.
    assert found.n_evaluations == 500
    assert found.diagnostics["rest"] == pytest.approx(1.0)
    assert np.all(np.abs(found.weights @ found.z) < FIVE_SIGMA / np.sqrt(500))


@pytest.mark.parametrize("low", [-3.0, -np.inf])
def test_two_plateaus(low):
    found = nested(StepTarget(low), seeded(0))
    above = norm.sf(1)
    assert_found(found, np.log(above + (1 - above) * np.exp(low)))


def test_region_without_likelihood():
    found = nested(StepTarget(-np.inf, sharp=10.0), seeded(0))
    # L is that of N(1, 0.1²) without its constant; z given by both is N(1 / 1.01, 0.01 / 1.01), of
    # which this much lies above 1.
    above = norm.sf(1, 1 / 1.01, np.sqrt(0.01 / 1.01))
    constant = 0.1 * np.sqrt(2 * np.pi)
    assert_found(found, norm.logpdf(1, 0, np.sqrt(1.01)) + np.log(constant * above))


def test_no_likelihood_anywhere_is_said():
    lost = nested(Nowhere(1), seeded(0))
    assert lost.status is Status.NOT_FINITE
    assert lost.log_evidence == -np.inf
    assert "not one of 500 draws" in lost.warnings[0]


def test_points_on_a_plateau_die_before_any_is_born_there():
    nan = np.nan
    # Four from the prior, two of them at 0; two born above 0.
    births = np.array([nan, nan, nan, nan, 0.0, 0.0])
    deaths = np.array([0.0, 0.0, 1.0, 2.0, 3.0, 4.0])
    assert live_counts(births, deaths).tolist() == [4, 3, 4, 3, 2, 1]


def test_volumes_shrink_as_they_should():
    rng = np.random.default_rng(0)
    shares = np.exp(simulated_log_shares(np.array([3, 2, 1]), 200_000, rng))
    assert_allclose(shares.sum(axis=0), 1.0, rtol=1e-12)
    # Means of X: 3/4, 1/2, 1/4; each point takes half of the way to its neighbours.
    expected = [1 - (0.75 + 0.5) / 2, (0.75 - 0.25) / 2, (0.5 + 0.25) / 2]
    assert_allclose(shares.mean(axis=1), expected, atol=FIVE_SIGMA * 0.3 / np.sqrt(200_000))


def test_covariance_is_that_of_finite_points():
    z = seeded(0).normal(size=(50, 3)) * [1, 10, 0.1]
    factor = module._covariance_factor(np.concatenate([z, [[0, -np.inf, 0]]]))
    assert_allclose(factor @ factor.T, np.cov(z.T), rtol=1e-10)
    # Points on a line.
    factor = module._covariance_factor(z[:, :1] * [1, 2])
    assert_allclose(factor @ factor.T, z[:, 0].var(ddof=1) * np.array([[1, 2], [2, 4]]), rtol=1e-10)


# --- What it says -------------------------------------------------------------------------------


def test_one_seed_gives_one_result():
    one = found_for("one-peak")
    same, other = (nested(ONE_PEAK, seeded(seed), n_live=N_LIVE) for seed in (0, 2))
    assert one.log_evidence == same.log_evidence
    assert one.log_evidence_err == same.log_evidence_err
    assert_array_equal(one.z, same.z)
    assert_array_equal(one.log_weights, same.log_weights)
    assert one.log_evidence != other.log_evidence


def test_chains_are_evaluated_together():
    sizes = []

    class Counting(GaussianTarget):
        def log_densities(self, z):
            sizes.append(len(z))
            return super().log_densities(z)

    found = nested(Counting.make(2), seeded(0), n_live=N_LIVE)
    assert sum(sizes) == found.n_evaluations
    # A quarter of the points is replaced at a time.
    assert np.mean(sizes) > N_LIVE / 8


def test_stopping_early_is_said():
    found = nested(ONE_PEAK, seeded(0), n_live=N_LIVE, max_evaluations=2000)
    assert found.status is Status.SAMPLER_NOT_CONVERGED
    assert "stopped after" in found.warnings[0]
    assert "raise max_evaluations" in found.warnings[0]
    assert found.diagnostics["rest"] > 0.01


def judged(**faults):
    """What is said of a run of forty points from the prior that has these faults."""
    rng = np.random.default_rng(0)
    fits = np.sort(rng.normal(size=40))
    run = {"ranks": rng.uniform(size=1000), "n_stuck": 0, "finished": True, **faults}
    finished, ranks = run.pop("finished"), run.pop("ranks")
    live = Points(fits[:, None], np.zeros(40), fits)
    counts = {"n_ranks": 1000.0, "n_evaluations": 40}
    state = module._State(live, np.full(40, np.nan), ranks=[ranks], **counts, **run)
    return module._estimate(state, rng, finished=finished)


def test_run_without_fault_is_not_blamed():
    assert judged().status is Status.OK
    assert judged().warnings == ()


@pytest.mark.parametrize(
    ("faults", "complaint"),
    [
        ({"n_stuck": 50}, "5% of the new points are copies of others"),
        ({"ranks": np.linspace(0, 0.8, 1000)}, "raise inner or live"),
        ({"finished": False}, "raise max_evaluations"),
    ],
)
def test_fault_of_a_run_is_said(faults, complaint):
    found = judged(**faults)
    assert found.status is Status.SAMPLER_NOT_CONVERGED
    assert len(found.warnings) == 1
    assert complaint in found.warnings[0]


@pytest.mark.parametrize("power", [1.02, 1.1, 1.2])
def test_p_value_of_ranks_is_that_of_scipy(power):
    ranks = seeded(0).uniform(size=1000) ** power
    found = module._uniformity(ranks, 1000.0)
    assert_allclose(found, kstest(ranks, "uniform").pvalue, rtol=0.02)
    # Ranks among a sample are worth less than those in a distribution.
    assert module._uniformity(ranks, 750.0) > found


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"n_live": 10}, "live must be at least 20"),
        ({"n_live": 100, "n_delete": 51}, "delete must be between 1 and half"),
        ({"n_live": 100, "n_delete": 0}, "delete must be between 1 and half"),
        ({"n_inner": 0}, "inner must be 1 or more"),
    ],
)
def test_options_out_of_range_are_refused(options, complaint):
    with pytest.raises(DriftbayesError, match=complaint):
        nested(TARGETS["gaussian-1"], seeded(0), **options)
