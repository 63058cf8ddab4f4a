"""The velocity autocovariance against double loops and against the Langevin model's own."""

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
    langevin_paths,
    positions_on_grid,
    slow_sums,
    velocities_on_grid,
)

from driftbayes.data._trajectories import Trajectories
from driftbayes.diagnostics import _scales as scales
from driftbayes.diagnostics._scales import autocorrelate
from driftbayes.diagnostics.averages import velocity_sums
from driftbayes.errors import DriftbayesError


@given(trajectories=gappy_trajectories(), max_step=st.sampled_from([0, 1, 4, 20]))
@settings(max_examples=60, deadline=None)
def test_fast_sums_agree_with_double_loops(trajectories, max_step):
    steps = np.arange(max_step + 1)
    # Tiny batches, so that particles of different lengths meet in one and fall into several.
    with mock.patch.object(scales, "BATCH_SIZE", 16):
        fast = velocity_sums(trajectories, steps)
    slow = np.zeros((2, trajectories.n_trajectories, len(steps)))
    for p, track in enumerate(positions_on_grid(trajectories)):
        velocity = velocities_on_grid(track)
        for step in steps:
            slow[:, p, step] = slow_sums(velocity, step, lambda a, b: np.mean(a * b))
    scale = slow[0, :, 0].max()
    assert_allclose(fast.totals, slow[0], rtol=1e-10, atol=1e-12 * scale)
    assert_array_equal(fast.counts, slow[1])
    assert_allclose(fast.pooled_totals, slow[0].sum(axis=0), rtol=1e-10, atol=1e-12 * scale)
    assert_array_equal(fast.pooled_counts, slow[1].sum(axis=0))


def test_chosen_lags_are_picked_from_all_lags():
    x = brownian_paths(5, 40, 2, kappa=1.0, dt=DT, seed=1)
    trajectories = Trajectories.from_arrays(x, dt=DT)
    every = velocity_sums(trajectories, np.arange(31))
    some = velocity_sums(trajectories, np.array([0, 3, 30]))
    assert_allclose(some.totals, every.totals[:, [0, 3, 30]])
    assert_allclose(some.lvaf, every.lvaf)
    assert_allclose(every.totals.sum(axis=0) / every.counts.sum(axis=0), every.lvaf)


def test_langevin_data_give_the_langevin_autocovariance():
    model = {"gamma": 0.8, "k": 1.7}
    x = langevin_paths(600, 200, 2, dt=DT, seed=2, **model)
    steps = np.array([0, 1, 2, 3, 5, 8, 13, 20, 40])
    sums = velocity_sums(Trajectories.from_arrays(x, dt=DT), steps)
    means = sums.totals / sums.counts
    error = means.std(axis=0, ddof=1) / np.sqrt(len(means))
    exact = langevin_lvaf(steps, dt=DT, **model)
    assert np.abs((sums.lvaf[steps] - exact) / error).max() < FIVE_SIGMA


def test_brownian_velocities_have_no_memory():
    kappa = 0.6
    x = brownian_paths(500, 100, 2, kappa=kappa, dt=DT, seed=3)
    steps = np.arange(10)
    lvaf = velocity_sums(Trajectories.from_arrays(x, dt=DT), steps).lvaf
    # Products of independent Gaussians: variance r(0)² each, twice that of a square.
    error = 2 * kappa / DT / np.sqrt(500 * (99 - steps) * 2) * np.where(steps == 0, np.sqrt(2), 1)
    assert np.abs((lvaf - np.where(steps == 0, 2 * kappa / DT, 0.0)) / error).max() < FIVE_SIGMA


def test_steady_motion_has_a_constant_autocovariance():
    time = np.arange(30)[:, None] * DT
    drifting = [1e6 + time * np.array([3.0, -4.0]), time[:11] * np.array([3.0, -4.0])]
    lvaf = velocity_sums(Trajectories.from_arrays(drifting, dt=DT), np.arange(25)).lvaf
    assert_allclose(lvaf, 12.5, rtol=1e-8)


def test_autocorrelation_does_not_wrap_around():
    values = np.zeros((1, 1, 8))
    values[0, 0, [0, 7]] = 1.0
    products, _ = autocorrelate(values, np.ones((1, 8)), 8)
    assert_allclose(products[0], [2, 0, 0, 0, 0, 0, 0, 1], atol=1e-14)


def test_a_long_silence_costs_no_memory_and_changes_nothing():
    x = brownian_paths(1, 21, 1, kappa=1.0, dt=1.0, seed=4)[0]
    times = np.arange(21.0)
    times[10:] += 1e9
    sums = velocity_sums(Trajectories.from_arrays([x], times=[times]), np.arange(5))
    halves = velocity_sums(Trajectories.from_arrays([x[:10], x[10:]], dt=1.0), np.arange(5))
    assert_allclose(sums.lvaf, halves.lvaf, rtol=1e-9)


def test_times_regular_in_name_only_are_refused():
    # Two fixes one second apart, every thousand seconds.
    times = (1000.0 * np.arange(200)[:, None] + [0.0, 1.0]).ravel()
    x = brownian_paths(1, 400, 1, kappa=1.0, dt=1.0, seed=5)
    trajectories = Trajectories.from_arrays(x, times=times)
    assert trajectories.recording_interval == 1.0
    with pytest.raises(DriftbayesError, match=r"fill only a fraction 1\.0e-03 .* round the times"):
        velocity_sums(trajectories, np.array([0, 5000]))


def test_irregular_times_are_refused():
    irregular = Trajectories.from_arrays([np.zeros((3, 1))], times=[[0.0, 1.0, 2.7]])
    with pytest.raises(DriftbayesError, match="times are irregular"):
        velocity_sums(irregular, np.arange(2))
