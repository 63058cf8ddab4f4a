"""Trajectories: every slip is refused with advice, and time stamps are taken for what they are."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from driftbayes.data._trajectories import Trajectories
from driftbayes.errors import DriftbayesError, DriftbayesWarning

NAN = float("nan")


def line(*x, dt=1.0, **attributes):
    """One trajectory along one axis."""
    return Trajectories.from_arrays(
        [np.reshape(np.asarray(x, float), (-1, 1))], dt=dt, **attributes
    )


def at(times, **attributes):
    """One trajectory seen at the given times."""
    return Trajectories.from_arrays(
        [np.arange(len(times), dtype=float)[:, None]], times=[times], **attributes
    )


# --- Making one --------------------------------------------------------------------------------


def test_cube_and_list_of_tracks_give_the_same_trajectories():
    x = np.random.default_rng(0).normal(size=(3, 4, 2))
    cube = Trajectories.from_arrays(x, dt=0.5)
    tracks = Trajectories.from_arrays(list(x), times=0.5 * np.arange(4))
    assert cube.fingerprint == tracks.fingerprint
    assert (cube.n_trajectories, cube.n_dim) == (3, 2)
    assert_array_equal(cube.starts, [0, 4, 8, 12])
    assert_array_equal(cube.trajectory_index, np.repeat([0, 1, 2], 4))
    assert_array_equal(cube.ids, [0, 1, 2])


def test_ragged_tracks_keep_their_own_times_and_errors():
    made = Trajectories.from_arrays(
        [np.zeros((2, 1)), np.ones((3, 1))],
        times=[[0.0, 1.0], [5.0, 6.0, 8.0]],
        ids=["a", "b"],
        position_sd=[[0.1, 0.2], [0.3, 0.4, 0.5]],
        length_unit="m",
        time_unit="s",
    )
    assert_array_equal(made.row_sizes, [2, 3])
    assert_array_equal(made.intervals, [1.0, 1.0, 2.0])
    assert_array_equal(made.position_sd, [0.1, 0.2, 0.3, 0.4, 0.5])


def test_callers_array_is_left_untouched_and_writable():
    x = np.arange(6.0).reshape(1, 3, 2)
    rows, times = x[0], np.arange(3.0)
    made = Trajectories(positions=rows, times=times, row_sizes=np.array([3]), ids=np.array([0]))
    made.unwrap(400.0)
    rows[0, 0] = 7.0
    times[0] = -1.0
    assert rows.flags.writeable
    assert_array_equal(x[0, 1:], [[2.0, 3.0], [4.0, 5.0]])


def test_positions_cannot_be_written_through_the_trajectories():
    made = line(0, 1, 2)
    with pytest.raises(ValueError, match="read-only"):
        made.positions[0, 0] = 1.0
    with pytest.raises(AttributeError):
        made.length_unit = "m"


def test_repr_says_how_many_how_often_and_what_is_missing():
    assert repr(line(0, 1, NAN, 3, dt=0.5, time_unit="s")) == (
        "<Trajectories: 1 in 1D, 4 points, every 0.5 s, 1 missing>"
    )
    assert "irregular times" in repr(at([0.0, 1.0, 2.5, 3.1]))


# --- Refusals ----------------------------------------------------------------------------------

SLIPS = {
    "give either dt .* or times, got": lambda: Trajectories.from_arrays(np.zeros((1, 2, 1))),
    "dt must be a positive number, got 0": lambda: line(0, 1, dt=0),
    "dt must be a positive number, got nan": lambda: line(0, 1, dt=NAN),
    r"x has 2 axes, expected \(particle, time, dim\)": lambda: Trajectories.from_arrays(
        np.zeros((2, 2)), dt=1.0
    ),
    r"track 1 has 1 axes, expected \(time, dim\)": lambda: Trajectories.from_arrays(
        [np.zeros((2, 1)), np.zeros(2)], dt=1.0
    ),
    "mixed dimensions: track 1 has 2 coordinates where track 0 has 1": (
        lambda: Trajectories.from_arrays([np.zeros((2, 1)), np.zeros((2, 2))], dt=1.0)
    ),
    "there are no trajectories; expected at least one position": (
        lambda: Trajectories.from_arrays([], dt=1.0)
    ),
    "times is empty; expected one time per position": lambda: Trajectories.from_arrays(
        np.zeros((1, 2, 1)), times=[]
    ),
    "times has 3 entries, but trajectories have 2 positions": (
        lambda: Trajectories.from_arrays(np.zeros((1, 2, 1)), times=[0.0, 1.0, 2.0])
    ),
    r"positions have shape \(2, 4\), expected \(observation, dim\) with 1 to 3 dimensions": (
        lambda: Trajectories.from_arrays(np.zeros((1, 2, 4)), dt=1.0)
    ),
    r"times has shape \(3,\), expected \(2,\), one row per position": (
        lambda: Trajectories.from_arrays(np.zeros((1, 2, 1)), times=[[0.0, 1.0, 2.0]])
    ),
    "row_sizes must be positive and sum to the number of rows 2, got a sum of 3": (
        lambda: Trajectories(np.zeros((2, 1)), np.arange(2.0), np.array([3]), np.array([0]))
    ),
    "got 2 ids for 1 trajectories": lambda: line(0, 1, ids=["a", "b"]),
    "id 'a' names 2 trajectories; every trajectory needs a unique id": (
        lambda: Trajectories.from_arrays(np.zeros((2, 2, 1)), dt=1.0, ids=["a", "a"])
    ),
    r"position_sd has shape \(3,\), expected \(2,\)": lambda: line(0, 1, position_sd=[[1, 1, 1]]),
    "trajectory '0' at time 1 has x but no y: all observations need the same 2 coordinates": (
        lambda: Trajectories.from_arrays(np.array([[[0.0, 0.0], [1.0, NAN]]]), dt=1.0)
    ),
    "trajectory '0' at time 1 has an infinite coordinate; write NaN for a missing position": (
        lambda: line(0, np.inf)
    ),
    r"trajectory '0' at time nan has a time that is not a number \(row 1\)": lambda: at([0.0, NAN]),
    "duplicate times: trajectory '0' has time 1 twice; times must increase strictly": (
        lambda: at([0.0, 1.0, 1.0])
    ),
    "decreasing times: trajectory '0' has time 0.5 after 1; times must increase strictly": (
        lambda: at([0.0, 1.0, 0.5])
    ),
    "has a position with the measurement error -1; it must be 0 or more": (
        lambda: line(0, 1, position_sd=[[0, -1]])
    ),
    "has a position with the measurement error nan; it must be 0 or more": (
        lambda: line(0, 1, position_sd=[[0, NAN]])
    ),
    r"period must have one entry per axis \(1\), got 2": lambda: line(0, 1).unwrap([1.0, 1.0]),
    "period must be a positive number, got -1": lambda: line(0, 1).unwrap(-1.0),
    "no trajectory has 3 or more positions; nothing is left": lambda: line(0, 1).drop_short(3),
    r"trajectory '0' has only one position; a displacement needs two: .*\.drop_short\(\)": (
        lambda: line(0, NAN).check_usable()
    ),
    r"trajectory '0' and 1 others has no position at all \(all NaN\)": (
        lambda: Trajectories.from_arrays(np.full((2, 2, 1), NAN), dt=1.0).check_usable()
    ),
    r"times are irregular \(intervals from 1 s to 1\.5 s\); .* \(in Python: tau='all'\)": (
        lambda: at([0.0, 1.0, 2.5, 3.6], time_unit="s").grid_index
    ),
    "every trajectory has only one position; a sampling time needs at least two": (
        lambda: line(0).grid_index
    ),
}


@pytest.mark.parametrize(("message", "slip"), SLIPS.items(), ids=range(len(SLIPS)))
def test_slip_is_refused_with_what_to_do(message, slip):
    with pytest.raises(DriftbayesError, match=message):
        slip()


def test_error_of_a_missing_position_is_not_asked_for():
    assert line(0, NAN, 2, position_sd=[[0.1, NAN, 0.1]]).observed.sum() == 2


# --- Times -------------------------------------------------------------------------------------


def test_stamps_rounded_to_few_digits_still_give_the_true_interval():
    dt = 1 / 3
    times = np.round(np.arange(1000) * dt, 4)
    found = at(times).recording_interval
    assert_allclose(found, dt, rtol=1e-7)
    assert_array_equal(at(times).grid_index, np.arange(1000))


def test_one_short_step_after_a_long_gap_sets_the_interval():
    assert at([0.0, 200.0, 201.0]).recording_interval == 1.0


def test_gap_of_whole_intervals_is_regular():
    assert at([0.0, 1.0, 4.0, 5.0]).recording_interval == 1.0
    assert_array_equal(at([0.0, 1.0, 4.0, 5.0]).grid_index, [0, 1, 4, 5])


@pytest.mark.parametrize(
    "times", [[0.0, 1.0, 2.5], [0.0, 1.0, 2.01, 3.0], [0.0, 1e-17, 1.0], [3.0]]
)
def test_irregular_times_have_no_interval(times):
    assert at(times).recording_interval is None


def odd_times(n, *odd):
    """Times 6 apart, with one more at each of `odd`."""
    return np.sort(np.concatenate([6.0 * np.arange(n), odd]))


def test_a_few_odd_intervals_do_not_set_the_interval():
    # The last fix of a particle that was deleted between two records.
    found = at(odd_times(500, 6.0 * 499 + 1.0))
    assert found.recording_interval == 6.0
    assert found.n_strays == 1
    assert_array_equal(np.flatnonzero(found.strays), [500])
    assert found.stray_note == (
        "1 of 500 intervals is not a multiple of the recording interval 6 and counts as a gap; "
        "1 position is not used"
    )
    hours = at(1800 * odd_times(500, 6.0 * 499 + 1.0), time_unit="s").stray_note
    assert "a multiple of the recording interval 3 h and counts" in hours


def test_an_odd_fix_between_two_others_does_not_part_them():
    found = at(odd_times(1000, 61.0, 62.5, 3001.0))
    assert found.recording_interval == 6.0
    assert_array_equal(found.grid_index[found.on_grid], np.arange(1000))


def test_after_an_odd_interval_times_are_counted_anew():
    times = 6.0 * np.arange(1000) + np.where(np.arange(1000) < 400, 0.0, 2.5)
    found = at(times)
    assert found.recording_interval == 6.0
    assert found.on_grid.all()
    assert_array_equal(np.unique(found.grid_start), [0, 400])
    assert_array_equal(found.grid_steps, [*range(400), *range(600)])
    # No lag spans it.
    assert found.grid_index[400] - found.grid_index[399] > 600


@pytest.mark.parametrize("share", [0.02, 0.4])
def test_more_than_a_few_odd_intervals_count(share):
    intervals = np.where(np.arange(1000) < 1000 * share, 1.0, 6.0)
    assert at(np.cumsum(intervals)).recording_interval == 1.0
    assert at(np.cumsum(np.where(intervals == 1.0, np.pi, 6.0))).recording_interval is None


def test_times_far_from_zero_lose_no_step():
    # Seconds since 1970: float64 spaces them by 2e-7.
    times = 1.7e9 + 0.01 * np.arange(500)
    assert_allclose(at(times).recording_interval, 0.01, rtol=1e-7)


@given(dt=st.floats(-6, 6).map(lambda e: 10**e), steps=st.lists(st.integers(1, 50), min_size=1))
def test_any_times_on_a_grid_are_recognised(dt, steps):
    index = np.concatenate([[0], np.cumsum([1, *steps])])
    made = at(dt * index)
    assert_allclose(made.recording_interval, dt, rtol=1e-12)
    assert_array_equal(made.grid_index, index)


def test_each_trajectory_counts_from_its_own_start():
    made = Trajectories.from_arrays(np.zeros((2, 3, 1)), times=[[0, 1, 2], [0.4, 1.4, 2.4]])
    assert made.recording_interval == 1.0
    assert_array_equal(made.grid_index, [0, 1, 2, 0, 1, 2])


# --- Fingerprints ------------------------------------------------------------------------------


def test_fingerprint_changes_with_data_times_errors_and_units_but_not_with_provenance():
    base = dict(length_unit="m", time_unit="s")
    same = line(0, 1, 2, **base, provenance={"file": "elsewhere"}).fingerprint
    others = [
        line(0, 1, 2.0000001, **base),
        line(0, 1, 2, dt=2.0, **base),
        line(0, 1, 2, **base, position_sd=[[0, 0, 1]]),
        line(0, 1, 2, length_unit="km", time_unit="s"),
        line(0, 1, 2, length_unit="m", time_unit="h"),
        Trajectories.from_arrays(
            [np.array([[0.0], [1.0]]), np.array([[2.0]])], times=[[0, 1], [2]]
        ),
    ]
    prints = [other.fingerprint for other in others]
    assert line(0, 1, 2, **base).fingerprint == same
    assert len({same, *prints}) == len(prints) + 1


def test_fingerprint_sees_a_missing_fix_but_not_the_bits_of_its_nan():
    other_nan = np.array([0x7FF8000000000123], dtype=np.uint64).view(np.float64)[0]
    assert line(0, NAN, 2).fingerprint == line(0, other_nan, 2).fingerprint
    assert line(0, NAN, 2).fingerprint != line(0, 1, 2).fingerprint


# --- Unwrapping and short tracks ---------------------------------------------------------------


@given(seed=st.integers(0, 1000), missing=st.booleans())
def test_wrapping_is_undone_up_to_whole_periods_of_each_trajectory(seed, missing):
    rng = np.random.default_rng(seed)
    period = np.array([1.0, 7.5])
    path = np.cumsum(rng.uniform(-0.19, 0.19, size=(3, 20, 2)) * period, axis=1)
    if missing:  # two steps stay below 0.4 of a period
        path[:, 5::7] = NAN
    wrapped = Trajectories.from_arrays(path % period, dt=1.0)
    unwrapped = wrapped.unwrap([1.0, 7.5]).positions.reshape(3, 20, 2)
    offset = path[:, :1] - path[:, :1] % period
    assert_allclose(unwrapped, path - offset, atol=1e-12)


def test_axis_without_a_period_is_left_alone():
    x = np.array([[[0.9, 0.9], [0.1, 0.1]]])
    unwrapped = Trajectories.from_arrays(x, dt=1.0).unwrap([1.0, None])
    assert_allclose(unwrapped.positions, [[0.9, 0.9], [1.1, 0.1]])
    assert unwrapped.provenance["unwrapped"] == [1.0, None]


def test_steps_near_half_a_period_warn_of_ambiguity():
    with pytest.warns(DriftbayesWarning, match="steps of up to 45% of the period along x"):
        line(0, 0.45).unwrap(1.0)


def test_drop_short_keeps_ids_errors_and_says_how_many_went():
    made = Trajectories.from_arrays(
        np.array([[[0.0], [1.0], [2.0]], [[5.0], [NAN], [NAN]], [[7.0], [NAN], [8.0]]]),
        dt=1.0,
        ids=["a", "b", "c"],
        position_sd=[[1, 1, 1], [2, 2, 2], [3, 3, 3]],
    ).drop_short()
    assert list(made.ids) == ["a", "c"]
    assert_array_equal(made.position_sd, [1, 1, 1, 3, 3, 3])
    assert made.provenance["dropped_short"] == 1
    made.check_usable()


# --- One trajectory, or some ------------------------------------------------------------------


def test_trajectories_have_a_length_and_are_found_by_number_id_slice_and_mask():
    x = np.arange(24.0).reshape(3, 4, 2)
    tracks = Trajectories.from_arrays(x, dt=1.0, ids=["a", "b", "c"], position_sd=x[..., 0])
    assert len(tracks) == 3
    assert_array_equal(tracks[1].positions, x[1])
    assert_array_equal(tracks[-1].positions, x[2])
    assert_array_equal(tracks["b"].position_sd, x[1, :, 0])
    assert tracks[1:].ids.tolist() == ["b", "c"]
    assert tracks[[2, 0]].ids.tolist() == ["c", "a"]
    assert tracks[["c", "a"]].ids.tolist() == ["c", "a"]
    assert tracks[np.array([True, False, True])].ids.tolist() == ["a", "c"]
    assert [one.ids[0] for one in tracks] == ["a", "b", "c"]
    assert tracks[:2].provenance["selected"] == "2 of 3"
    with pytest.raises(DriftbayesError, match="there is no trajectory 'd'"):
        tracks["d"]
    with pytest.raises(DriftbayesError, match="selects none of"):
        tracks[5:]
    with pytest.raises(IndexError):
        tracks[3]
    with pytest.raises(DriftbayesError, match="an index of trajectories must be a number, an id"):
        tracks[1.5]
