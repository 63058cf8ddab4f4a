"""Displacements: where the steps come from, what a gap does, and which tau they are at."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from driftbayes.data._sampling import Displacements, displacements, snap_taus
from driftbayes.data._trajectories import Trajectories
from driftbayes.errors import DriftbayesError

NAN = float("nan")
NO_DATA = "there are no displacements at this tau; use a smaller tau or longer trajectories"


def line(*x, dt=1.0, **attributes):
    """One trajectory along one axis."""
    return Trajectories.from_arrays(
        [np.reshape(np.asarray(x, float), (-1, 1))], dt=dt, **attributes
    )


def at(times, **attributes):
    """One trajectory, its positions the squares of the times."""
    times = np.asarray(times, float)
    return Trajectories.from_arrays([times[:, None] ** 2], times=[times], **attributes)


def runs(data):
    """The steps of each run, along the first axis."""
    return [part.tolist() for part in np.split(data.dx[:, 0], np.cumsum(data.row_sizes)[:-1])]


@st.composite
def gappy(draw):
    """Trajectories on a grid, some fixes missing, some rows left out, starting anywhere."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    tracks, times = [], []
    for _ in range(draw(st.integers(1, 4))):
        n = draw(st.integers(4, 20))
        x = rng.normal(size=(n, 2))
        x[1:-1][rng.random(n - 2) < 0.25] = NAN
        kept = np.concatenate([[0, 1], 2 + np.flatnonzero(rng.random(n - 2) < 0.8)])
        x[:2] = rng.normal(size=(2, 2))
        tracks.append(x[kept])
        times.append(0.5 * (kept + draw(st.integers(-3, 3))))
    return Trajectories.from_arrays(tracks, times=times)


# --- Subsampling -------------------------------------------------------------------------------


def test_an_odd_interval_splits_a_run_and_is_kept_exactly():
    """A shift of the grid against the two parts read apart; a stray fix against a file without."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1000, 2)).cumsum(axis=0)
    times = 6.0 * np.arange(1000) + np.where(np.arange(1000) < 400, 0.0, 2.5)
    shifted = Trajectories.from_arrays([x], times=[times])
    parts = Trajectories.from_arrays([x[:400], x[400:]], times=[times[:400], times[400:]])
    for tau in (6.0, 18.0):
        found, expected = displacements(shifted, tau), displacements(parts, tau)
        np.testing.assert_array_equal(found.dx, expected.dx)
        np.testing.assert_array_equal(found.row_sizes, expected.row_sizes)
    kept = displacements(shifted, 18.0, gaps="keep")
    rows = [*range(0, 400, 3), *range(400, 1000, 3)]
    np.testing.assert_array_equal(kept.dx, np.diff(x[rows], axis=0))
    np.testing.assert_allclose(kept.interval, np.diff(times[rows]))

    more = np.append(6.0 * np.arange(1000), 61.0)
    order = np.argsort(more)
    values = np.concatenate([x, [[1e3, 1e3]]])[order]
    stray = Trajectories.from_arrays([values], times=[more[order]])
    plain = Trajectories.from_arrays([x], dt=6.0)
    for tau in (6.0, 12.0):
        assert displacements(stray, tau).fingerprint == displacements(plain, tau).fingerprint


def test_gaps_and_not_the_length_may_leave_no_step():
    times = np.cumsum([0.0, 1.0, *[3.0, 2.0] * 50])
    tracks = Trajectories.from_arrays([np.arange(102.0)[:, None]], times=[times])
    with pytest.raises(DriftbayesError, match="at two successive multiples of 5 from its first"):
        displacements(tracks, 5.0)


def test_steps_at_tau_are_differences_of_every_stride_th_position():
    data = displacements(line(0, 1, 3, 6, 10, 15, 21), tau=2.0)
    assert runs(data) == [[3.0, 7.0, 11.0]]
    assert data.tau == 2.0
    assert_array_equal(data.interval, [2.0, 2.0, 2.0])
    assert (data.n_particles, data.n_steps, data.n_dim, data.n_displacements) == (1, 3, 1, 3)
    assert data.is_regular


def test_tau_is_derived_from_the_stamps_and_not_taken_as_asked():
    times = np.round(np.arange(300) / 3, 4)
    data = displacements(at(times), tau=2.00001)
    assert_allclose(data.tau, 2.0, rtol=1e-6)
    assert data.is_regular


def test_late_start_does_not_cost_the_first_steps():
    x = line(NAN, 1, 2, 4, 7)
    assert runs(displacements(x, tau=2.0)) == [[3.0]]  # from 1 to 4, not from the missing fix
    early = Trajectories.from_arrays(
        np.zeros((2, 3, 1)) + np.arange(3.0)[:, None], times=[[0, 1, 2], [7, 8, 9]]
    )
    assert runs(displacements(early, tau=1.0)) == [[1.0, 1.0], [1.0, 1.0]]


@given(trajectories=gappy(), stride=st.integers(1, 3))
def test_every_step_joins_two_fixes_tau_apart(trajectories, stride):
    tau = 0.5 * stride
    try:
        data = displacements(trajectories, tau)
    except DriftbayesError as error:
        assert "no trajectory has two positions" in str(error)  # noqa: PT017
        return
    seen = {}
    for i in range(trajectories.n_trajectories):
        rows = slice(*trajectories.starts[i : i + 2])
        fixes = dict(zip(trajectories.times[rows], trajectories.positions[rows], strict=True))
        fixes = {t: x for t, x in fixes.items() if not np.isnan(x[0])}
        first = min(fixes)
        seen[i] = [
            fixes[t + tau] - x
            for t, x in fixes.items()
            if t + tau in fixes and (t - first) % tau == 0
        ]
    expected = np.concatenate([np.reshape(steps, (-1, 2)) for steps in seen.values()])
    assert_array_equal(data.dx, expected)
    assert data.n_unused == sum(not steps for steps in seen.values())


@given(trajectories=gappy())
def test_kept_gaps_lose_no_fix_and_sum_to_the_whole_path(trajectories):
    data = displacements(trajectories, 0.5, gaps="keep")
    observed = trajectories.observed
    assert data.row_sizes.sum() == observed.sum() - trajectories.n_trajectories
    for i, total in enumerate(np.add.reduceat(data.dx, np.cumsum(data.row_sizes) - data.row_sizes)):
        rows = np.flatnonzero(observed & (trajectories.trajectory_index == i))
        assert_allclose(
            total, np.diff(trajectories.positions[rows[[0, -1]]], axis=0)[0], atol=1e-12
        )


# --- Gaps, windows -----------------------------------------------------------------------------


def test_gap_splits_a_run_in_two():
    data = displacements(line(0, 1, NAN, 3, 5, 8), tau=1.0)
    assert runs(data) == [[1.0], [2.0, 3.0]]
    assert_array_equal(data.trajectory, [0, 0])
    assert data.n_particles == 1


def test_missing_row_is_a_gap_like_a_row_of_nan():
    absent = displacements(at([0, 1, 3, 4, 5]), tau=1.0)
    assert runs(absent) == [[1.0], [7.0, 9.0]]


def test_kept_gap_is_one_longer_step():
    data = displacements(line(0, 1, NAN, 3, 5), tau=1.0, gaps="keep")
    assert runs(data) == [[1.0, 2.0, 2.0]]
    assert_array_equal(data.interval, [1.0, 2.0, 1.0])
    assert not data.is_regular


def test_no_tau_takes_every_fix_at_its_own_interval():
    data = displacements(at([0.0, 1.0, 2.5, 3.1]))
    assert_allclose(data.interval, [1.0, 1.5, 0.6])
    assert_allclose(data.tau, 3.1 / 3)
    assert_allclose(data.dx[:, 0], np.diff(np.square([0.0, 1.0, 2.5, 3.1])))


def test_first_window_gives_a_fixed_volume_and_all_windows_the_rest():
    x = Trajectories.from_arrays(
        [np.arange(8.0)[:, None] ** 2, np.arange(4.0)[:, None], np.arange(2.0)[:, None]], dt=1.0
    )
    first = displacements(x, tau=1.0, n_tau=3)
    assert runs(first) == [[1.0, 3.0, 5.0], [1.0, 1.0, 1.0]]
    assert first.n_unused == 1
    every = displacements(x, tau=1.0, n_tau=3, windows="all")
    assert runs(every) == [[1.0, 3.0, 5.0], [7.0, 9.0, 11.0], [1.0, 1.0, 1.0]]
    assert_array_equal(every.trajectory, [0, 0, 1])
    assert every.as_array().shape == (3, 3, 1)


def test_first_window_is_the_first_that_is_long_enough():
    assert runs(displacements(line(0, 1, NAN, 3, 5, 8), tau=1.0, n_tau=2)) == [[2.0, 3.0]]


def test_errors_of_position_travel_with_their_fixes():
    x = line(0, 1, NAN, 3, 5, position_sd=[[0.1, 0.2, NAN, 0.4, 0.5]])
    assert_array_equal(displacements(x, tau=1.0).position_sd, [0.1, 0.2, 0.4, 0.5])
    assert_array_equal(displacements(x, 1.0, gaps="keep").position_sd, [0.1, 0.2, 0.4, 0.5])
    assert not displacements(x, tau=1.0).is_regular


# --- Refusals ----------------------------------------------------------------------------------

METRES = {"length_unit": "m", "time_unit": "s"}
SLIPS = {
    "tau must be a whole multiple of the recording interval 0.5 s, got 0.7 s; the nearest are "
    "0.5 s and 1 s": lambda: displacements(line(0, 1, 2, dt=0.5, **METRES), tau=0.7),
    "got 0.2; the smallest is 0.5": lambda: displacements(line(0, 1, 2, dt=0.5), tau=0.2),
    "tau must be a positive number, got -1": lambda: displacements(line(0, 1), tau=-1),
    "tau must be a positive number, got -6 h": lambda: displacements(
        line(0, 1, time_unit="s"), tau="-6h"
    ),
    "tau must be a positive number, got nan": lambda: displacements(line(0, 1), tau=NAN),
    r"times are irregular \(intervals from 1 to 1\.5\)": lambda: displacements(
        at([0.0, 1.0, 2.5, 3.6]), tau=1.0
    ),
    "n_tau must be a whole number, 1 or more, got 0": lambda: displacements(
        line(0, 1), 1.0, n_tau=0
    ),
    "n_tau must be a whole number, 1 or more, got 1.5": lambda: displacements(
        line(0, 1), 1.0, n_tau=1.5
    ),
    "windows must be 'first' or 'all', got 'last'": lambda: displacements(
        line(0, 1), 1.0, windows="last"
    ),
    "gaps must be 'split' or 'keep', got 'fill'": lambda: displacements(
        line(0, 1), 1.0, gaps="fill"
    ),
    "no trajectory has two positions that are 5 apart; use a smaller tau": (
        lambda: displacements(line(0, 1, 2), tau=5.0)
    ),
    "no trajectory has 4 successive steps at tau = 1, the longest has 2; use a smaller tau": (
        lambda: displacements(line(0, 1, 2), tau=1.0, n_tau=4)
    ),
    "trajectory '0' has only one position": lambda: displacements(line(0, NAN), tau=1.0),
    NO_DATA: lambda: Displacements.from_array(np.zeros((0, 2, 1)), 1.0),
    "all 2 displacements are zero: no diffusivity can be inferred": lambda: displacements(
        line(1, 1, 1), tau=1.0
    ),
    r"dx has 2 axes, expected \(particle, step, dim\)": lambda: Displacements.from_array(
        np.ones((2, 2)), 1.0
    ),
    "tau must be a positive number, got 0": lambda: Displacements.from_array(
        np.ones((1, 1, 1)), 0.0
    ),
    "dx holds NaN or infinity; cut the trajectories at gaps": lambda: Displacements.from_array(
        np.full((1, 1, 1), NAN), 1.0
    ),
    "runs have 1 to 2 steps; ask for a fixed n_tau": lambda: displacements(
        line(0, 1, NAN, 3, 5, 8), tau=1.0
    ).as_array(),
    "sampling times must be positive numbers, got \\[\\]": lambda: snap_taus(line(0, 1), []),
    "sampling times must be positive numbers, got \\[-1.0\\]": lambda: snap_taus(line(0, 1), [-1]),
    r"times are irregular .* tau='all'": lambda: snap_taus(at([0.0, 1.0, 2.5]), [1.0]),
}


@pytest.mark.parametrize(("message", "slip"), SLIPS.items(), ids=range(len(SLIPS)))
def test_slip_is_refused_with_what_to_do(message, slip):
    with pytest.raises(DriftbayesError, match=message):
        slip()


# --- Snapping ----------------------------------------------------------------------------------


def test_snapped_taus_are_nearest_on_a_logarithmic_scale_and_merged():
    x = line(*range(40), dt=0.5)
    # In units of dt: 0.02, 1.4 < sqrt 2 < 1.45, 2, 2.02, 6.9, and sqrt 72 < 8.5.
    asked = 0.5 * np.array([8.5, 0.02, 1.4, 1.45, 2.0, 2.02, 6.9])
    assert_array_equal(snap_taus(x, asked), 0.5 * np.array([1, 2, 7, 9]))


@given(ratio=st.floats(0, 3).map(lambda e: 10**e))
def test_no_other_multiple_is_nearer_in_logarithm(ratio):
    (found,) = snap_taus(line(0, 1, 2), [ratio])
    others = np.arange(1, 1003)
    assert abs(np.log(found / ratio)) <= np.min(np.abs(np.log(others / ratio))) + 1e-9


def test_snapped_taus_are_accepted_as_they_are():
    x = line(*np.arange(400.0) ** 2, dt=0.1)
    for tau in snap_taus(x, np.geomspace(0.1, 15, 24)):
        assert displacements(x, tau).tau == pytest.approx(tau, rel=1e-15)


# --- Fingerprints ------------------------------------------------------------------------------


def test_fingerprint_changes_with_steps_tau_errors_and_units_but_not_with_provenance():
    x = line(0, 1, 3, 4, 4, 7, **METRES)
    same = line(0, 1, 3, 4, 4, 7, **METRES, ids=["a"], provenance={"file": "elsewhere"})
    others = [
        displacements(x, tau=2.0),
        displacements(x, tau=1.0, n_tau=2),
        displacements(line(0, 1, 3, 4, 4, 7.5, **METRES), tau=1.0),
        displacements(line(0, 1, 3, 4, 4, 7, dt=2.0, **METRES), tau=2.0),
        displacements(line(0, 1, 3, 4, 4, 7, length_unit="km", time_unit="s"), tau=1.0),
        displacements(line(0, 1, 3, 4, 4, 7, **METRES, position_sd=[np.ones(6)]), tau=1.0),
    ]
    prints = {other.fingerprint for other in others}
    assert len(prints) == len(others)
    assert displacements(x, tau=1.0).fingerprint not in prints
    assert displacements(same, tau=1.0).fingerprint == displacements(x, tau=1.0).fingerprint


def test_fingerprint_sees_where_runs_end_and_how_many_axes_there_are():
    flat = np.arange(1.0, 13.0)
    shapes = [(3, 4, 1), (4, 3, 1), (2, 3, 2), (3, 2, 2), (12, 1, 1)]
    prints = {Displacements.from_array(flat.reshape(s), 1.0).fingerprint for s in shapes}
    assert len(prints) == len(shapes)


def test_cube_comes_back_as_it_went_in_and_the_callers_array_is_untouched():
    cube = np.random.default_rng(0).normal(size=(3, 4, 2))
    before = cube.copy()
    data = Displacements.from_array(cube, 0.5, time_unit="s")
    assert_array_equal(data.as_array(), before)
    assert cube.flags.writeable
    assert repr(data) == "<Displacements: tau = 0.5 s, 3 particles, up to 4 steps, 2D>"


def test_positions_as_whole_numbers_give_the_steps_of_their_floats():
    whole = Displacements.from_array(np.arange(6).reshape(1, 6, 1), 1.0)
    assert whole.dx.dtype == np.float64
