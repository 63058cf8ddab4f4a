"""Nested sampling: evidences known in closed form, honest errors, plateaus, and what it says."""

import sys
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from court import BROWNIAN, LANGEVIN, ONE_PEAK, TWO_PEAKS, langevin_data, one_peak
from jaxtyping import Array, Float
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

from driftbayes.errors import DriftbayesError, Status
from driftbayes.inference import Batch, Hypothesis, exact
from driftbayes.inference import nested as module
from driftbayes.inference.nested import live_counts, nested, simulated_log_shares
from driftbayes.inference.target import AbstractTarget, PosteriorTarget
from driftbayes.models import Brownian
from driftbayes.priors import Gamma
from driftbayes.testing.targets import BimodalTarget, ConstantTarget, GaussianTarget

# Tolerance of Monte Carlo tests, in standard errors.
FIVE_SIGMA = 5.0
SEEDS = 24
TARGETS = {
    "gaussian-1": GaussianTarget.make(1),
    "gaussian-4": GaussianTarget.make(4),
    "bimodal-2": BimodalTarget.make(2),
    "one-peak": ONE_PEAK,
    "two-peaks": TWO_PEAKS,
}


class StepTarget(AbstractTarget):
    """Prior N(0, 1), ln L = -(sharp (z - 1))² / 2 for z > 1 and `low` below."""

    low: Float[Array, ""]
    sharp: Float[Array, ""]

    @classmethod
    def make(cls, low, sharp=0.0):
        return cls(jnp.asarray(low), jnp.asarray(sharp))

    @property
    def n_dim(self):
        return 1

    def log_prior(self, z):
        return -0.5 * jnp.sum(z**2) - 0.5 * np.log(2 * np.pi)

    def log_likelihood(self, z):
        return jnp.where(z[0] > 1, -0.5 * (self.sharp * (z[0] - 1)) ** 2, self.low)

    def sample_prior(self, key):
        return jax.random.normal(key, (1,))


class Nowhere(StepTarget):
    """Prior N(0, 1), and no likelihood."""

    def log_likelihood(self, z):
        return jnp.where(z[0] > jnp.inf, 0.0, -jnp.inf)


# One number of points for all, so that each kind of target is compiled once.
N_LIVE = 100


@cache
def found_for(name):
    """The result for one target, computed once."""
    return nested(TARGETS[name], jax.random.key(0), n_live=N_LIVE)


def assert_found(estimate, log_evidence):
    assert estimate.status is Status.OK, estimate.warnings
    assert abs(estimate.log_evidence - log_evidence) < FIVE_SIGMA * estimate.log_evidence_err


# --- Evidences known in closed form -------------------------------------------------------------


SLOW = [pytest.param(n, marks=pytest.mark.slow) for n in ("gaussian-1", "gaussian-4", "bimodal-2")]


@pytest.mark.parametrize("name", ["one-peak", "two-peaks", *SLOW])
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
    sd = np.asarray(target.sd / jnp.sqrt(1 + target.sd**2))
    mean = np.asarray(target.mean / (1 + target.sd**2))
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
    assert_found(nested(target, jax.random.key(0)), target.log_evidence)


@pytest.mark.slow
@pytest.mark.parametrize("hypothesis", [BROWNIAN, LANGEVIN], ids=lambda h: h.name)
def test_evidence_of_displacements_is_the_exact_one(hypothesis):
    batch = Batch.of(langevin_data(1.0))
    found = nested(PosteriorTarget(hypothesis, batch.data), jax.random.key(0))
    expected = exact(hypothesis, batch)
    assert_found(found, expected.log_evidence)
    theta = np.exp(found.z)
    for i, name in enumerate(hypothesis.names):
        error = expected.posterior_sd[name] / np.sqrt(found.diagnostics["ess"])
        mean = found.weights @ theta[:, i]
        assert abs(mean - expected.posterior_mean[name]) < FIVE_SIGMA * error


def test_prior_that_draws_with_scipy():
    hypothesis = Hypothesis(Brownian, kappa=Gamma(shape=2.0, mean=3.0))
    target = PosteriorTarget(hypothesis, Batch.of(langevin_data(1.0)).data)
    drawn = np.exp(module._prior_draws(target, jax.random.split(jax.random.key(0), 300)))
    assert drawn.shape == (300, 1)
    # Mean 3 and variance 3² / 2.
    assert abs(drawn.mean() - 3) < FIVE_SIGMA * 3 / np.sqrt(2 * 300)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gaussian-1", "gaussian-4", "bimodal-2", "langevin"])
def test_reported_error_is_the_scatter_over_seeds(name):
    if name == "langevin":
        batch = Batch.of(langevin_data(1.0))
        target = PosteriorTarget(LANGEVIN, batch.data)
        expected = exact(LANGEVIN, batch).log_evidence
    else:
        target = TARGETS[name]
        expected = target.log_evidence
    found = [nested(target, jax.random.key(seed)) for seed in range(100, 100 + SEEDS)]
    z = np.array([(e.log_evidence - expected) / e.log_evidence_err for e in found])
    assert abs(z.mean()) < FIVE_SIGMA / np.sqrt(SEEDS)
    # The logarithm of a standard deviation from n values has the error 1 / sqrt(2 (n - 1)).
    assert abs(np.log(z.std(ddof=1))) < FIVE_SIGMA / np.sqrt(2 * (SEEDS - 1))
    assert all(e.status is Status.OK for e in found)


# --- Plateaus -----------------------------------------------------------------------------------


def test_constant_likelihood_gives_the_prior():
    found = nested(ConstantTarget(jnp.zeros(3)), jax.random.key(0))
    assert found.status is Status.OK
    assert_allclose(found.log_evidence, 0.0, atol=1e-12)
    assert_allclose(found.log_evidence_err, 0.0, atol=1e-12)
    # Nothing to compress: the first points are the answer.
    assert found.n_evaluations == 500
    assert found.diagnostics["rest"] == pytest.approx(1.0)
    assert np.all(np.abs(found.weights @ found.z) < FIVE_SIGMA / np.sqrt(500))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("low", [-3.0, -np.inf])
def test_two_plateaus(low):
    found = nested(StepTarget.make(low), jax.random.key(0))
    above = norm.sf(1)
    assert_found(found, np.log(above + (1 - above) * np.exp(low)))


def test_region_without_likelihood():
    found = nested(StepTarget.make(-np.inf, sharp=10.0), jax.random.key(0))
    # L is that of N(1, 0.1²) without its constant; z given by both is N(1 / 1.01, 0.01 / 1.01), of
    # which this much lies above 1.
    above = norm.sf(1, 1 / 1.01, np.sqrt(0.01 / 1.01))
    constant = 0.1 * np.sqrt(2 * np.pi)
    assert_found(found, norm.logpdf(1, 0, np.sqrt(1.01)) + np.log(constant * above))


def test_no_likelihood_anywhere_is_said():
    lost = nested(Nowhere.make(0.0), jax.random.key(0))
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


# --- What it says -------------------------------------------------------------------------------


def test_one_key_gives_one_result():
    one = found_for("one-peak")
    same, other = (nested(ONE_PEAK, jax.random.key(seed), n_live=N_LIVE) for seed in (0, 2))
    assert one.log_evidence == same.log_evidence
    assert one.log_evidence_err == same.log_evidence_err
    assert_array_equal(one.z, same.z)
    assert_array_equal(one.log_weights, same.log_weights)
    assert one.log_evidence != other.log_evidence


def test_targets_of_one_shape_share_a_program():
    found_for("one-peak")
    traced = []
    original = module._algorithm

    def counting(*args):
        traced.append(args)
        return original(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_algorithm", counting)
        other = one_peak(-ONE_PEAK.first, 2 * ONE_PEAK.sd)
        found = nested(other, jax.random.key(0), n_live=N_LIVE)
    assert np.isfinite(found.log_evidence)
    assert traced == []


def test_stopping_early_is_said():
    found = nested(ONE_PEAK, jax.random.key(0), n_live=N_LIVE, max_evaluations=2000)
    assert found.status is Status.SAMPLER_NOT_CONVERGED
    assert "stopped after" in found.warnings[0]
    assert "raise max_evaluations" in found.warnings[0]
    assert found.diagnostics["rest"] > 0.01


def judged(**faults):
    """What is said of a run of forty points from the prior that has these faults."""
    rng = np.random.default_rng(0)
    fits = np.sort(rng.normal(size=40))
    run = {"ranks": rng.uniform(size=1000), "stuck": 0.0, "finished": True, **faults}
    points = module._Points(fits[:, None], fits, np.full(40, np.nan))
    return module._estimate(module._Run(points, n_live=40, n_evaluations=40, **run), rng)


def test_run_without_fault_is_not_blamed():
    assert judged().status is Status.OK
    assert judged().warnings == ()


@pytest.mark.parametrize(
    ("faults", "complaint"),
    [
        ({"stuck": 0.05}, "5% of the new points are copies of others"),
        ({"ranks": np.linspace(0, 0.8, 1000)}, "raise n_inner or n_live"),
        ({"finished": False}, "raise max_evaluations"),
    ],
)
def test_fault_of_a_run_is_said(faults, complaint):
    found = judged(**faults)
    assert found.status is Status.SAMPLER_NOT_CONVERGED
    assert len(found.warnings) == 1
    assert complaint in found.warnings[0]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"n_live": 10}, "n_live must be at least 20"),
        ({"n_live": 100, "n_delete": 51}, "n_delete must be between 1 and half"),
        ({"n_live": 100, "n_delete": 0}, "n_delete must be between 1 and half"),
        ({"n_inner": 0}, "n_inner must be 1 or more"),
    ],
)
def test_options_out_of_range_are_refused(options, complaint):
    with pytest.raises(DriftbayesError, match=complaint):
        nested(TARGETS["gaussian-1"], jax.random.key(0), **options)


def test_missing_blackjax_is_said_in_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "blackjax", None)
    with pytest.raises(DriftbayesError, match=r"^nested sampling needs blackjax: pip install"):
        nested(TARGETS["gaussian-1"], jax.random.key(0))
