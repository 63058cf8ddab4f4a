"""How trajectories are sampled is found, whatever they are."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose

from driftbayes.data._sampling import snap_taus
from driftbayes.data._trajectories import Trajectories
from driftbayes.diagnostics.survey import survey


def walk(times, **attributes):
    x = np.random.default_rng(0).normal(size=(len(times), 2)).cumsum(axis=0)
    return Trajectories.from_arrays([x], times=[np.asarray(times, float)], **attributes)


def test_the_most_common_interval_and_the_gaps():
    found = survey(walk([0, 1, 2, 3, 7, 8, 9, 14]))
    assert found.interval == 1.0
    assert_allclose(found.share, 5 / 7)
    assert (found.n_gaps, found.longest_gap) == (2, 5.0)


def test_intervals_that_jitter_are_alike():
    times = 300 * np.arange(200) + np.random.default_rng(0).uniform(-10, 10, size=200)
    found = survey(walk(times))
    assert abs(found.interval - 300) < 5
    assert found.share > 0.9
    assert found.tau_low is None


def test_the_suggested_sampling_times_leave_five_steps():
    tracks = walk(np.arange(101) * 0.25)
    found = survey(tracks)
    assert (found.tau_low, found.tau_high, found.n_taus) == (0.25, 5.0, 12)
    taus = snap_taus(tracks, np.geomspace(found.tau_low, found.tau_high, found.n_taus))
    assert_allclose(taus[[0, -1]], [0.25, 5.0])


def test_a_grid_of_times_that_few_fixes_are_on_is_not_suggested():
    # All are whole numbers, and hardly two intervals are alike.
    times = np.cumsum([0, *(2**i for i in range(20))])
    assert survey(walk(times)).tau_low is None


def test_dates_are_given_where_the_file_had_dates():
    origin = {"time_origin": "1970-01-01T00:00:00"}
    found = survey(walk([0, 1.5], time_unit="d", provenance=origin))
    assert found.dates == ("1970-01-01 00:00:00", "1970-01-02 12:00:00")
    assert survey(walk([0, 1.5], time_unit="d")).dates is None
    for broken in ({"time_origin": "yesterday"}, {"time_origin": 7}):
        assert survey(walk([0, 1.5], time_unit="d", provenance=broken)).dates is None
    assert survey(walk([0, 1e300], time_unit="d", provenance=origin)).dates is None


def test_a_periodic_domain_shows():
    x = np.linspace(0, 3.5, 200)
    wrapped = Trajectories.from_arrays(np.stack([x % 1, np.sin(9 * x)], axis=-1)[None], dt=1.0)
    assert survey(wrapped).jumps == {"x": 3}
    assert survey(wrapped.unwrap([1.0, None])).jumps == {}
    assert survey(walk(np.arange(200))).jumps == {}


@given(
    positions=hnp.arrays(
        np.float64,
        (6, 2),
        elements=st.floats(allow_nan=False, allow_infinity=False)
        | st.sampled_from([0.0, 1.7e308, -1.7e308, 5e-324]),
    ),
    steps=hnp.arrays(np.float64, 6, elements=st.floats(1e-300, 1e300), fill=st.nothing()),
)
@pytest.mark.filterwarnings("error")
def test_whatever_can_be_read_can_be_surveyed(positions, steps):
    times = np.cumsum(steps)
    if (np.diff(times) <= 0).any():
        return
    many = np.tile(positions, (5, 1))
    tracks = [*([many] if np.isfinite(many).all() else []), positions]
    stamps = [np.arange(30.0), times][-len(tracks) :]
    survey(Trajectories.from_arrays(tracks, times=stamps, length_unit="m", time_unit="s"))
