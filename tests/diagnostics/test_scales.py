"""The speed and time scale of a data set."""

from unittest import mock

import numpy as np
import pytest
from numpy.testing import assert_allclose
from observatory import (
    FIVE_SIGMA,
    brownian_paths,
    langevin_lvaf,
    langevin_paths,
    positions_on_grid,
    slow_sums,
    velocities_on_grid,
)

from driftbayes.data._trajectories import Trajectories
from driftbayes.diagnostics import _scales as scales
from driftbayes.diagnostics._scales import data_scales
from driftbayes.errors import DriftbayesError

MODEL = {"gamma": 0.5, "k": 1.7}
DT = 0.1  # a twentieth of the decorrelation time


def _langevin(n_dim=2, seed=0):
    return langevin_paths(100, 500, n_dim, dt=DT, seed=seed, **MODEL)


@pytest.mark.parametrize("seed", range(6))
def test_it_agrees_with_double_loops_on_ragged_data_with_gaps(seed):
    rng = np.random.default_rng(seed)
    tracks = []
    for length in (9, 30, 41):
        track = np.cumsum(rng.normal(size=(length, 2)).cumsum(axis=0), axis=0)
        track[2:][rng.random(length - 2) < 0.15] = np.nan
        tracks.append(track)
    trajectories = Trajectories.from_arrays(tracks, dt=DT)
    velocities = [velocities_on_grid(t, DT) for t in positions_on_grid(trajectories, DT)]
    lvaf = []
    for step in range(max(len(v) for v in velocities) // 2 + 1):
        sums = [slow_sums(v, step, lambda a, b: np.sum(a * b)) for v in velocities]
        total, count = (sum(s[i] for s in sums) for i in (0, 1))
        if count == 0 or total <= 0:
            break
        lvaf.append(total / count)
    found = data_scales(trajectories)
    assert_allclose(found.u_rms, np.sqrt(lvaf[0]), rtol=1e-10)
    assert_allclose(found.timescale, DT * (0.5 + sum(lvaf[1:]) / lvaf[0]), rtol=1e-8)


@pytest.mark.parametrize("n_dim", [1, 2, 3])
def test_langevin_data_give_their_own_scales(n_dim):
    found = data_scales(Trajectories.from_arrays(_langevin(n_dim), dt=DT))
    exact = n_dim * langevin_lvaf(np.array([0]), dt=DT, **MODEL)[0]
    # 100 particles for 25 decorrelation times: the squares decorrelate in half of one.
    error = np.sqrt(2 / (100 * n_dim * 25))
    assert abs(found.u_rms**2 / exact - 1) < FIVE_SIGMA * error
    assert_allclose(found.u_rms**2, n_dim * MODEL["k"] * MODEL["gamma"], rtol=0.15)
    assert_allclose(found.timescale, 1 / MODEL["gamma"], rtol=0.2)


def test_velocities_without_memory_have_half_an_interval():
    kappa, dt = 0.6, 0.3
    x = brownian_paths(400, 300, 2, kappa=kappa, dt=dt, seed=1)
    found = data_scales(Trajectories.from_arrays(x, dt=dt))
    assert dt / 2 <= found.timescale < 0.55 * dt
    assert_allclose(found.u_rms**2 * found.timescale, 2 * kappa, rtol=0.1)


def test_scales_at_a_sampling_time_are_those_of_decimated_data():
    x = _langevin()
    x[3, 100:140] = np.nan
    tracks = Trajectories.from_arrays(x, dt=DT)
    plain, single = data_scales(tracks), data_scales(tracks, DT)
    assert single == plain
    assert plain.memory is None
    for stride in (2, 12):
        found = data_scales(tracks, stride * DT)
        other = data_scales(Trajectories.from_arrays(x[:, ::stride], dt=stride * DT))
        assert_allclose([found.u_rms, found.timescale], [other.u_rms, other.timescale], rtol=1e-12)
        # A memory that the recording interval resolves is known at any sampling time.
        assert found.memory == plain.timescale


def test_memory_is_found_behind_noise_and_noise_itself():
    sigma = 0.5
    x = langevin_paths(100, 2000, 2, dt=0.02, seed=2, gamma=1.0, k=1.0)
    x = x + np.random.default_rng(0).normal(0, sigma, x.shape)
    tracks = Trajectories.from_arrays(x, dt=0.02)
    short, long = data_scales(tracks, 0.02), data_scales(tracks, 10.24)
    assert short.timescale < 0.011
    assert_allclose(short.noise, sigma, rtol=0.02)
    assert 0.5 < long.memory < 1.6
    assert long.timescale > 5.0
    assert long.noise == 0.0


def test_steps_without_correlation_have_neither_memory_nor_noise():
    x = brownian_paths(40, 300, 2, kappa=1.0, dt=1.0, seed=1)
    found = data_scales(Trajectories.from_arrays(x, dt=1.0), 8.0)
    assert found.memory is None
    assert found.noise == 0.0


def test_a_jittering_particle_has_half_an_interval_exactly():
    x = np.array([0.0, 1.0, 0.0, 1.0, 0.0])[:, None]
    found = data_scales(Trajectories.from_arrays([x], dt=0.5))
    assert_allclose([found.u_rms, found.timescale], [2.0, 0.25], rtol=1e-14)


def test_one_step_is_enough():
    found = data_scales(Trajectories.from_arrays([np.array([[0.0, 0.0], [3.0, 4.0]])], dt=0.5))
    assert_allclose([found.u_rms, found.timescale], [10.0, 0.25])


@pytest.mark.parametrize("length", [1e-3, 7.0])
def test_changing_units_changes_only_units(length):
    x, time = _langevin(), 60.0
    plain = data_scales(Trajectories.from_arrays(x, dt=DT))
    other = data_scales(Trajectories.from_arrays(x * length, dt=DT * time))
    assert_allclose(other.u_rms, plain.u_rms * length / time, rtol=1e-9)
    assert_allclose(other.timescale, plain.timescale * time, rtol=1e-9)


def test_irregular_times_give_nearly_the_same_scales():
    rng = np.random.default_rng(2)
    x, times = _langevin(), np.arange(500) * DT
    kept = [np.sort(rng.choice(500, 250, replace=False)) for _ in x]
    jittered = Trajectories.from_arrays(
        [track[rows] for track, rows in zip(x, kept, strict=True)],
        times=[np.exp(times[rows] * 1e-3) / 1e-3 for rows in kept],
    )
    assert jittered.recording_interval is None
    found, plain = data_scales(jittered), data_scales(Trajectories.from_arrays(x, dt=DT))
    assert_allclose(found.u_rms, plain.u_rms, rtol=0.15)
    assert_allclose(found.timescale, plain.timescale, rtol=0.5)


def test_equal_steps_at_their_own_duration_are_the_regular_case():
    # Times of no common interval, but each step of nearly the same duration.
    x = _langevin()[:20]
    times = np.arange(500) * DT * (1 + 1e-5 * np.arange(500))
    bent = Trajectories.from_arrays(x, times=times)
    assert bent.recording_interval is None
    found, plain = data_scales(bent), data_scales(Trajectories.from_arrays(x, dt=DT))
    assert_allclose([found.u_rms, found.timescale], [plain.u_rms, plain.timescale], rtol=0.02)


def test_every_other_fix_missing_falls_back_on_whole_steps():
    x = _langevin()
    plain = data_scales(Trajectories.from_arrays(x[:, ::2], dt=2 * DT))
    x[:, 1::2] = np.nan
    found = data_scales(Trajectories.from_arrays(x, dt=DT))
    assert_allclose([found.u_rms, found.timescale], [plain.u_rms, plain.timescale], rtol=1e-9)


@pytest.mark.parametrize("regular", [True, False])
def test_a_long_silence_divides_a_trajectory_in_two(regular):
    x, times = _langevin()[:30], np.arange(500) * DT
    if not regular:
        times = times * (1 + 1e-5 * np.arange(500))
    late = np.where(np.arange(500) < 250, times, times + 1e6)
    halves = Trajectories.from_arrays(
        [*x[:, :250], *x[:, 250:]], times=[times[:250]] * 30 + [times[250:]] * 30
    )
    found, divided = data_scales(Trajectories.from_arrays(x, times=late)), data_scales(halves)
    # Not exactly: the silence itself takes part in the median of irregular intervals.
    assert_allclose(found.u_rms, divided.u_rms, rtol=1e-4)
    assert_allclose(found.timescale, divided.timescale, rtol=1e-4)


def test_of_very_long_data_evenly_spaced_blocks_are_used():
    x = _langevin()[0]
    blocks = data_scales(Trajectories.from_arrays([x[:100], x[200:300], x[400:]], dt=DT))
    with mock.patch.multiple(scales, MAX_POSITIONS=300, BLOCK=100):
        found = data_scales(Trajectories.from_arrays([x], dt=DT))
    assert_allclose([found.u_rms, found.timescale], [blocks.u_rms, blocks.timescale], rtol=1e-9)


def test_lonely_positions_are_refused():
    with pytest.raises(DriftbayesError, match="no trajectory has two positions"):
        data_scales(Trajectories.from_arrays([np.zeros((1, 2)), np.ones((1, 2))], dt=1.0))


def test_motionless_data_are_refused():
    with pytest.raises(DriftbayesError, match="all 8 displacements are zero"):
        data_scales(Trajectories.from_arrays(np.ones((2, 5, 1)), dt=1.0))
