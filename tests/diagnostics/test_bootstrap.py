"""Error bars from resampling particles against the errors of theory."""

from unittest import mock

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from observatory import DT, FIVE_SIGMA, brownian_paths

from driftbayes.data._trajectories import Trajectories
from driftbayes.diagnostics import _against_lag as against_lag
from driftbayes.diagnostics._against_lag import bootstrap_sd, describe_error_bars
from driftbayes.diagnostics.averages import displacement_sums, kurtosis
from driftbayes.errors import DriftbayesError


def _ratio(total, count):
    return total / count


def _normal_sums(n_particles, n_lags, seed):
    return np.random.default_rng(seed).normal(size=(n_particles, n_lags))


def test_the_error_of_a_mean_is_its_textbook_standard_error():
    values, n_resamples = _normal_sums(100, 50, 0), 1000
    found = bootstrap_sd(_ratio, values, counts=np.ones_like(values), n_resamples=n_resamples)
    textbook = values.std(axis=0, ddof=1) / np.sqrt(100)
    # A standard deviation of B replicates has a relative error of 1/sqrt(2 B).
    assert np.abs(found / textbook - 1).max() < FIVE_SIGMA / np.sqrt(2 * n_resamples)


def test_three_particles_do_not_understate_the_variance():
    n_lags = 20_000
    values = _normal_sums(3, n_lags, 1)
    variance = bootstrap_sd(_ratio, values, counts=np.ones_like(values)) ** 2
    # Lags stand for independent data sets; their resamples are shared, hence the 200.
    error = variance.std() / np.sqrt(n_lags) + np.sqrt(2 / 200) / 3
    assert abs(variance.mean() - 1 / 3) < FIVE_SIGMA * error
    assert variance.mean() > 0.28  # without the factor n/(n - 1) it would be 0.22


def test_errors_of_moments_of_independent_gaussian_steps():
    n_particles, n_dim, kappa, n_resamples = 5000, 2, 0.7, 1000
    x = brownian_paths(n_particles, 2, n_dim, kappa=kappa, dt=DT, seed=2)
    sums = displacement_sums(Trajectories.from_arrays(x, dt=DT), np.array([1]))
    n = n_particles * n_dim
    msd_sd = bootstrap_sd(_ratio, sums.second, counts=sums.counts, n_resamples=n_resamples)
    # dX² has variance 2 (2 kappa dt)² and kurtosis 15, dX⁴ heavier tails still.
    tolerance = FIVE_SIGMA * np.sqrt(14 / (4 * n) + 1 / (2 * n_resamples))
    assert_allclose(msd_sd, 2 * kappa * DT * np.sqrt(2 / n), rtol=tolerance)
    kurtosis_sd = bootstrap_sd(
        kurtosis, sums.second, sums.fourth, counts=sums.counts, n_resamples=n_resamples
    )
    assert_allclose(kurtosis_sd, np.sqrt(24 / n), rtol=0.25)


def test_the_same_seed_gives_the_same_errors_and_another_does_not():
    values = _normal_sums(20, 3, 3)
    first, again, other = (
        bootstrap_sd(_ratio, values, counts=np.ones_like(values), seed=s) for s in (5, 5, 6)
    )
    assert_array_equal(first, again)
    assert (first != other).all()


def test_blocks_of_replicates_draw_the_same_particles():
    values = _normal_sums(20, 3, 4)
    whole = bootstrap_sd(_ratio, values, counts=np.ones_like(values))
    with mock.patch.object(against_lag, "BLOCK_SIZE", 100):
        blocks = bootstrap_sd(_ratio, values, counts=np.ones_like(values))
    assert_allclose(whole, blocks, rtol=1e-12)


def test_every_replicate_draws_as_many_particles_as_there_are():
    (weights,) = against_lag._weights(17, 0, 30)
    assert weights.shape == (30, 17)
    assert_array_equal(weights.sum(axis=1), 17)


def test_a_lag_that_one_particle_reaches_has_no_error_bar():
    totals, counts = _normal_sums(6, 3, 5), np.ones((6, 3))
    counts[1:, 1] = 0
    counts[:, 2] = 0
    error = bootstrap_sd(_ratio, np.where(counts > 0, totals, 0.0), counts=counts)
    assert_array_equal(np.isnan(error), [False, True, True])


def test_replicates_without_a_pair_are_left_out():
    totals, counts = np.zeros((50, 1)), np.zeros((50, 1))
    totals[:2, 0], counts[:2, 0] = [1.0, 3.0], 1.0
    # Two of fifty reach the lag: a seventh of the replicates has neither.
    error = bootstrap_sd(_ratio, totals, counts=counts, n_resamples=2000)
    assert 0.8 < error[0] < 1.3


def test_one_trajectory_cannot_be_resampled():
    assert np.isnan(bootstrap_sd(_ratio, np.ones((1, 4)), counts=np.ones((1, 4)))).all()
    assert "more than one trajectory" in describe_error_bars(1, 200)
    assert "200 resamples of the 7 trajectories" in describe_error_bars(7, 200)


@pytest.mark.parametrize("bad", [1, 0, 2.5])
def test_too_few_resamples_are_refused(bad):
    with pytest.raises(DriftbayesError, match="n_resamples must be a whole number, 2 or more"):
        bootstrap_sd(_ratio, np.ones((2, 1)), counts=np.ones((2, 1)), n_resamples=bad)


def test_a_negative_seed_is_refused():
    with pytest.raises(DriftbayesError, match="seed must be a whole number, 0 or more, got -1"):
        bootstrap_sd(_ratio, np.ones((2, 1)), counts=np.ones((2, 1)), seed=-1)
