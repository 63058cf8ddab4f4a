"""Importance sampling: known evidences, honest errors, the tail of the weights."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from driftbayes.errors import Status
from driftbayes.inference.importance import Proposals, importance, pareto_shape, propose, resample
from driftbayes.inference.target import Guide
from driftbayes.testing.targets import BimodalTarget, ConstantTarget, GaussianTarget

SIGMA = 4.5


def _guide(target):
    """The exact posterior of a Gaussian target; the prior's shape for others."""
    if isinstance(target, GaussianTarget):
        variance = target.sd**2 / (1 + target.sd**2)
        center = target.mean / (1 + target.sd**2)
        return Guide(center, jnp.diag(jnp.sqrt(variance)), jnp.asarray(True))
    n = target.n_dim
    return Guide(jnp.zeros(n), 3.0 * jnp.eye(n), jnp.asarray(True))


@pytest.mark.parametrize(
    "target",
    [GaussianTarget.make(1), GaussianTarget.make(4), BimodalTarget.make(2)],
    ids=["gaussian-1", "gaussian-4", "bimodal-2"],
)
def test_known_evidences_are_found_within_the_error(target):
    estimate = importance(propose(target, _guide(target), jax.random.key(0), 8000))
    assert estimate.status is Status.OK
    assert estimate.log_evidence_err < 0.1
    off = estimate.log_evidence - target.log_evidence
    assert abs(off) < SIGMA * estimate.log_evidence_err
    assert estimate.n_evaluations == 8000


def test_a_constant_likelihood_has_evidence_one():
    target = ConstantTarget(jnp.zeros(3))
    guide = Guide(jnp.zeros(3), jnp.eye(3), jnp.asarray(True))
    estimate = importance(propose(target, guide, jax.random.key(1), 4000))
    assert abs(estimate.log_evidence) < SIGMA * estimate.log_evidence_err


@pytest.mark.slow
def test_errors_are_honest_over_seeds():
    """z-scores of 60 seeds: mean 0 ± 0.13, standard deviation 1 ± 0.09."""
    target = GaussianTarget.make(4)
    guide = _guide(target)
    z = []
    for seed in range(60):
        estimate = importance(propose(target, guide, jax.random.key(seed), 1000))
        z.append((estimate.log_evidence - target.log_evidence) / estimate.log_evidence_err)
    assert abs(np.mean(z)) < 4 / np.sqrt(60)
    assert abs(np.std(z, ddof=1) - 1) < 4 / np.sqrt(120)


def test_the_same_key_gives_the_same_numbers():
    target = GaussianTarget.make(2)
    one, two = (propose(target, _guide(target), jax.random.key(3), 100) for _ in range(2))
    assert (np.asarray(one.log_weights) == np.asarray(two.log_weights)).all()


@pytest.mark.parametrize("k", [0.2, 0.5, 1.0])
def test_the_shape_of_a_pareto_tail(k):
    """The estimate is drawn towards 0.5 by ten of about 420 points; its error is (1 + k)/√420."""
    found = [
        pareto_shape(np.random.default_rng(seed).pareto(1 / k, 20_000) + 1) for seed in range(20)
    ]
    error = (1 + k) / np.sqrt(420)
    # The excess of a Pareto law over a threshold is a generalised Pareto law, exactly.
    shrunk = (420 * k + 5) / 430
    assert abs(np.mean(found) - shrunk) < 4 * error / np.sqrt(20) + 0.02


def test_weights_that_are_alike_have_no_tail():
    assert pareto_shape(np.ones(1000)) == -np.inf
    assert np.isnan(pareto_shape(np.ones(3)))


def test_a_proposal_that_is_too_narrow_is_found_out():
    target = GaussianTarget(jnp.zeros(4), jnp.full(4, 100.0))
    narrow = Guide(jnp.zeros(4), 0.05 * jnp.eye(4), jnp.asarray(True))
    estimate = importance(propose(target, narrow, jax.random.key(0), 2000))
    assert estimate.status is Status.SAMPLER_NOT_CONVERGED
    assert "use method='bridge'" in estimate.warnings[0]


def test_points_where_nothing_is_do_not_spoil_the_rest():
    weights = jnp.array([0.0, jnp.nan, -jnp.inf, 0.0])
    estimate = importance(Proposals(jnp.zeros((4, 1)), jnp.zeros(4), weights))
    assert_allclose(estimate.log_evidence, np.log(0.5))
    nothing = importance(Proposals(jnp.zeros((4, 1)), jnp.zeros(4), jnp.full(4, -jnp.inf)))
    assert nothing.status is Status.NOT_FINITE


def test_resampling_follows_the_weights():
    rng = np.random.default_rng(0)
    log_weights = np.log(np.linspace(1, 3, 20_000))
    chosen = resample(log_weights, 500, rng)
    assert len(set(chosen.tolist())) == 500
    # Density proportional to 1 + 2x on (0, 1): mean 7/12, variance 11/144.
    place = chosen / 20_000
    assert abs(place.mean() - 7 / 12) < SIGMA * np.sqrt(11 / 144 / 500)
    few = resample(np.array([0.0, -np.inf, 0.0]), 10, rng)
    assert set(few.tolist()) <= {0, 2}
