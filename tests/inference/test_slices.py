"""Slice moves: they leave the prior above a threshold as it is, and end in every case."""

from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import kstest, norm
from targets import ConstantTarget, GaussianTarget, PeaksTarget

from driftbayes.inference import _slices as slices
from driftbayes.inference._slices import move_in_slices
from driftbayes.inference._target import Points

# Below the chance of five standard errors.
MIN_P = 6e-7
N = 1000
TARGETS = {
    "gaussian": (GaussianTarget.make(2), -3.0),
    # Two separate pieces.
    "peaks": (PeaksTarget.make(2), -4.0),
    "prior": (ConstantTarget(2), -1.0),
}


@cache
def draws_above(name):
    """Draw from the prior above the threshold, by rejection."""
    target, threshold = TARGETS[name]
    found = Points.at(target, target.sample_prior(np.random.default_rng(1), 100_000))
    return found.take(np.flatnonzero(found.log_likelihood > threshold)[: 2 * N])


@pytest.mark.parametrize("name", TARGETS)
# Brackets that are too narrow, so that the limit on their width counts; fitting; too wide.
@pytest.mark.parametrize("width", [0.02, 1.0, 30.0])
def test_draws_above_a_threshold_remain_so(name, width):
    (target, threshold), draws = TARGETS[name], draws_above(name)
    assert len(draws.z) == 2 * N
    start, others = draws.take(np.arange(N)), draws.take(np.arange(N, 2 * N))
    factor = width * np.linalg.cholesky(np.cov(draws.z.T))
    rng = np.random.default_rng(0)
    found, n_evaluations = move_in_slices(target, start, threshold, factor, 3, rng)
    assert n_evaluations > 3 * N
    assert np.all(found.log_likelihood > threshold)
    assert np.all(np.any(found.z != start.z, axis=1))
    log_prior, log_likelihood = target.log_densities(found.z)
    assert_allclose(found.log_prior, log_prior, rtol=1e-14)
    assert_allclose(found.log_likelihood, log_likelihood, rtol=1e-14)
    for direction in ([1, 0], [0, 1], [1, 1], [1, -1]):
        assert kstest(found.z @ direction, others.z @ direction).pvalue > MIN_P
    assert kstest(found.log_prior, others.log_prior).pvalue > MIN_P


# The limit on the width counts here, and must be shared at random between both ends.
@pytest.mark.parametrize("width", [0.1, 0.3])
def test_many_moves_leave_a_normal_prior(width):
    target, rng = ConstantTarget(1), np.random.default_rng(0)
    start = Points.at(target, target.sample_prior(rng, 4 * N))
    found, _ = move_in_slices(target, start, -1.0, np.array([[width]]), 20, rng)
    assert kstest(found.z[:, 0], norm.cdf).pvalue > MIN_P


def test_chains_forget_where_they_started():
    target, n = GaussianTarget.make(2), 500
    start = Points.at(target, np.tile(target.mean, (n, 1)))
    found, _ = move_in_slices(target, start, -1e9, np.eye(2), 20, np.random.default_rng(0))
    # The threshold is below everything: what remains is the prior.
    for values in found.z.T:
        assert kstest(values, norm.cdf).pvalue > MIN_P


class Needle(ConstantTarget):
    """No likelihood but at the origin."""

    def log_densities(self, z):
        return super().log_densities(z)[0], np.where(np.all(z == 0, axis=1), 0.0, -np.inf)


def test_moves_without_a_way_out_end():
    target = Needle(2)
    start = Points.at(target, np.zeros((3, 2)))
    found, n_evaluations = move_in_slices(
        target, start, -1.0, np.eye(2), 4, np.random.default_rng(0)
    )
    assert_array_equal(found.z, start.z)
    assert n_evaluations <= 3 * 4 * (2 + slices._MAX_CANDIDATES)


def test_singular_covariance_leaves_a_line():
    target = ConstantTarget(2)
    start = Points.at(target, np.ones((50, 2)))
    factor = np.array([[1.0, 0.0], [0.0, 0.0]])
    found, _ = move_in_slices(target, start, -1.0, factor, 5, np.random.default_rng(0))
    assert_array_equal(found.z[:, 1], 1.0)
    assert np.all(found.z[:, 0] != 1.0)
