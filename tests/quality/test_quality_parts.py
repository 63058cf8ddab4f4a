"""Quality control of parts of a file: limits of the whole, counts added up."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from driftbayes import quality
from driftbayes.data._trajectories import Trajectories
from driftbayes.errors import NothingLeftError


def uneven(seed=0):
    """Slow trajectories, then fast ones, with spikes, standstills and gaps in both."""
    rng = np.random.default_rng(seed)
    steps = rng.normal(size=(8, 60, 2)) * np.repeat([1.0, 30.0], 4)[:, None, None]
    steps[1, 20:35] = 0.0
    x = np.cumsum(steps, axis=1)
    x[::3, 30] += 1000.0
    times = np.tile(np.arange(60.0), (8, 1))
    times[5, 40:] += 50.0
    return Trajectories.from_arrays(list(x), times=list(times))


@pytest.mark.parametrize("checks", ["spikes", "stuck", "gaps", "default", "spikes=200,gaps=10"])
def test_parts_with_fixed_limits_are_the_whole(checks):
    tracks = uneven()
    whole = quality.apply(tracks, checks)
    fixed = quality.fix_limits(tracks, checks)
    slow = tracks.trajectory_index < 4
    parts = [quality.apply(tracks.select(rows), fixed) for rows in (slow, ~slow)]
    assert_array_equal(np.concatenate([p.positions for p in parts]), whole.positions)
    names = np.concatenate([p.ids.astype(str) for p in parts])
    assert_array_equal(names, whole.ids.astype(str))
    done = quality.merge_records(*(p.provenance["quality"] for p in parts))
    names = ("check", "n_observations", "n_trajectories")
    expected = whole.provenance["quality"]
    assert [[r[n] for n in names] for r in done] == [[r[n] for n in names] for r in expected]
    assert sum(record["n_observations"] for record in done) > 0
    assert quality.applied({"quality": done}) == quality.applied(whole)


def test_limits_of_a_part_would_differ():
    tracks = uneven()
    slow = tracks.select(tracks.trajectory_index < 4)
    own = quality.fix_limits(slow, "spikes")[0]
    assert own.medians[0] < 0.2 * quality.fix_limits(tracks, "spikes")[0].medians[0]


def test_what_was_done_is_known_even_if_nothing_is_left():
    with pytest.raises(NothingLeftError) as caught:
        quality.apply(uneven(), "min-points=100")
    (record,) = caught.value.quality
    assert (record["n_trajectories"], record["n_observations"]) == (8, 480)
    assert quality.merge_records([], caught.value.quality) == [record]


def test_shares_of_parts_are_not_those_of_the_whole():
    tracks = uneven()
    still = replace(tracks, positions=np.zeros_like(tracks.positions))
    parts = [quality.apply(part, "repeated") for part in (tracks, still)]
    (record,) = quality.merge_records(*(part.provenance["quality"] for part in parts))
    assert "share" not in record
    assert record["n_trajectories"] == 9
