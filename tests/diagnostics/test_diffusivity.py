"""Displacement moments, absolute diffusivity and Taylor's integral."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from observatory import (
    DT,
    FIVE_SIGMA,
    brownian_paths,
    gappy_trajectories,
    langevin_lvaf,
    langevin_msd,
    langevin_paths,
    positions_on_grid,
    slow_sums,
)

from driftbayes.data._trajectories import Trajectories
from driftbayes.diagnostics import _scales as scales
from driftbayes.diagnostics._against_lag import _weights
from driftbayes.diagnostics.averages import (
    absolute_diffusivity,
    displacement_sums,
    taylor_integral,
    taylor_shares,
    velocity_sums,
)
from driftbayes.errors import DriftbayesError

STEPS = np.array([1, 2, 3, 5, 8, 13, 20, 40])


@given(trajectories=gappy_trajectories(), max_step=st.sampled_from([0, 1, 4, 20]))
@settings(max_examples=60, deadline=None)
def test_fast_sums_agree_with_double_loops(trajectories, max_step):
    steps = np.arange(max_step + 1)
    with mock.patch.object(scales, "BATCH_SIZE", 16):
        fast = displacement_sums(trajectories, steps)
    for p, track in enumerate(positions_on_grid(trajectories)):
        for step in steps:
            second, count = slow_sums(track, step, lambda a, b: np.mean((b - a) ** 2))
            fourth, _ = slow_sums(track, step, lambda a, b: np.mean((b - a) ** 4))
            assert_allclose(fast.second[p, step], second, rtol=1e-12)
            assert_allclose(fast.fourth[p, step], fourth, rtol=1e-12)
            assert_array_equal(fast.counts[p, step], count)


def test_langevin_data_spread_as_the_langevin_model_says():
    model = {"gamma": 0.8, "k": 1.7}
    x = langevin_paths(600, 200, 2, dt=DT, seed=5, **model)
    sums = displacement_sums(Trajectories.from_arrays(x, dt=DT), STEPS)
    means = sums.second / sums.counts
    error = means.std(axis=0, ddof=1) / np.sqrt(len(means))
    exact = langevin_msd(STEPS * DT, **model)
    assert np.abs((sums.mean_square - exact) / error).max() < FIVE_SIGMA


def test_brownian_diffusivity_is_flat():
    kappa = 0.6
    x = brownian_paths(600, 200, 2, kappa=kappa, dt=DT, seed=6)
    sums = displacement_sums(Trajectories.from_arrays(x, dt=DT), STEPS)
    flat = absolute_diffusivity(sums.mean_square, STEPS * DT)
    error = (sums.second / sums.counts / (2 * STEPS * DT)).std(axis=0, ddof=1) / np.sqrt(600)
    assert np.abs((flat - kappa) / error).max() < FIVE_SIGMA


def test_steady_motion_spreads_ballistically():
    x = np.arange(30)[:, None] * DT * np.array([3.0, -4.0])
    mean_square = displacement_sums(Trajectories.from_arrays([x], dt=DT), STEPS[:5]).mean_square
    assert_allclose(mean_square, 12.5 * (STEPS[:5] * DT) ** 2, rtol=1e-12)


@pytest.mark.parametrize("n_dim", [1, 2])
def test_taylor_integral_is_half_the_central_difference_of_the_msd(n_dim):
    # All cyclic shifts of one sequence of steps: an ensemble that is exactly stationary, so that
    # the identity holds to rounding, whatever the steps.
    period, n_times = 23, 31
    steps = np.random.default_rng(7).gamma(1.0, size=(period, n_dim)) - 0.7
    shifts = (np.arange(n_times - 1) + np.arange(period)[:, None]) % period
    x = np.concatenate([np.zeros((period, 1, n_dim)), np.cumsum(steps[shifts], axis=1)], axis=1)
    trajectories = Trajectories.from_arrays(x, dt=DT)
    every = np.arange(n_times - 1)
    taylor = taylor_integral(velocity_sums(trajectories, every).lvaf, DT)
    msd = displacement_sums(trajectories, np.arange(n_times)).mean_square
    half_slope = (msd[2:] - msd[:-2]) / (4 * DT)
    assert_allclose(taylor[1:-1], half_slope[:-1], rtol=1e-10, atol=1e-12)
    assert taylor[0] == 0


def test_the_same_identity_holds_for_the_langevin_closed_forms():
    model = {"gamma": 0.8, "k": 1.7}
    n = np.arange(200)
    taylor = taylor_integral(langevin_lvaf(n, dt=DT, **model), DT)
    msd = np.concatenate([[0.0], langevin_msd(n[1:] * DT, **model)])
    assert_allclose(taylor[1:-1], (msd[2:] - msd[:-2]) / (4 * DT), rtol=1e-11)
    assert_allclose(taylor[-1], model["k"], rtol=1e-12)


def test_taylor_integral_is_unknown_beyond_a_missing_lag():
    taylor = taylor_integral(np.array([1.0, 0.5, np.nan, 0.2]), 2.0)
    assert_allclose(taylor, [0.0, 1.5, np.nan, np.nan])


def _resampled_taylor(trajectories, weights, steps, dt):
    """Taylor's integral of each resample in full: every lag of every particle is kept."""
    every = velocity_sums(trajectories, np.arange(steps.max() + 1))
    lvaf = (weights @ every.totals) / (weights @ every.counts)
    return np.array([taylor_integral(r, dt)[steps] for r in lvaf])


def test_shares_reproduce_every_resample_of_equal_trajectories_exactly():
    x = langevin_paths(30, 60, 2, gamma=1.0, k=1.0, dt=DT, seed=8)
    x[:, 17:20] = np.nan
    trajectories, steps = Trajectories.from_arrays(x, dt=DT), np.array([0, 1, 4, 9, 30])
    sums = velocity_sums(trajectories, steps)
    weights = np.concatenate(list(_weights(30, 0, 50)))
    fast = taylor_integral(sums.lvaf, DT)[steps] + weights @ taylor_shares(
        trajectories, steps, sums, DT
    )
    slow = _resampled_taylor(trajectories, weights, steps, DT)
    assert_allclose(fast, slow, rtol=1e-9, atol=1e-10)


def test_shares_give_the_spread_of_resamples_of_ragged_trajectories():
    x = langevin_paths(200, 60, 2, gamma=1.0, k=1.0, dt=DT, seed=9)
    tracks = [track[: 20 + 8 * (i % 6)] for i, track in enumerate(x)]
    trajectories, steps = Trajectories.from_arrays(tracks, dt=DT), np.array([1, 4, 9, 15, 40])
    sums = velocity_sums(trajectories, steps)
    weights = np.concatenate(list(_weights(200, 0, 400)))
    fast = (weights @ taylor_shares(trajectories, steps, sums, DT)).std(axis=0)
    slow = _resampled_taylor(trajectories, weights, steps, DT).std(axis=0)
    # The same resamples: what is left is the second order of the expansion.
    assert_allclose(fast, slow, rtol=0.05)


def test_shares_are_the_derivative_of_the_integral_by_the_weight_of_a_particle():
    x = langevin_paths(6, 40, 2, gamma=1.0, k=1.0, dt=DT, seed=11)
    x[2, 5:8] = np.nan
    tracks = [track[: 8 + 6 * i] for i, track in enumerate(x)]
    trajectories, steps = Trajectories.from_arrays(tracks, dt=DT), np.arange(34)
    sums = velocity_sums(trajectories, steps)
    nudge = 1e-5 * np.eye(6)
    high, low = (_resampled_taylor(trajectories, 1 + d, steps, DT) for d in (nudge, -nudge))
    # Batches of one particle each: most of them end before the last lag.
    with mock.patch.object(scales, "BATCH_SIZE", 1):
        shares = taylor_shares(trajectories, steps, sums, DT)
    assert_allclose(shares, (high - low) / 2e-5, rtol=1e-6, atol=1e-9)


def test_a_copy_of_every_particle_changes_no_integral():
    trajectories = Trajectories.from_arrays(
        [t[: 10 + i] for i, t in enumerate(brownian_paths(9, 20, 1, kappa=1.0, dt=1.0, seed=10))],
        dt=1.0,
    )
    steps = np.array([0, 1, 5, 18])
    sums = velocity_sums(trajectories, steps)
    shares = taylor_shares(trajectories, steps, sums, 1.0)
    assert_allclose(shares.sum(axis=0), 0.0, atol=1e-12)


def test_irregular_times_are_refused():
    irregular = Trajectories.from_arrays([np.zeros((3, 1))], times=[[0.0, 1.0, 2.7]])
    with pytest.raises(DriftbayesError, match="times are irregular"):
        displacement_sums(irregular, np.arange(2))
