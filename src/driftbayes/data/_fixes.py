"""Find fixes by trajectory and time."""

import numpy as np

from driftbayes._typing import FloatArray, IntArray
from driftbayes.data._trajectories import Trajectories


def last_rows(tracks: Trajectories) -> IntArray:
    """Return the row of the last fix of each trajectory that has any."""
    rows, has_next = tracks.fixes
    return rows[np.append(~has_next, True)[: len(rows)]]


def rows_at(tracks: Trajectories, which: IntArray, times: FloatArray, slack: float) -> IntArray:
    """Find the row of the fix of each trajectory at a time; -1 where there is none.

    Args:
        tracks: Trajectories.
        which: Numbers of trajectories.
        times: A time for each.
        slack: Largest difference between equal times.
    """
    # Put the trajectories one after the other on one time axis.
    low = float(tracks.times.min())
    width = float(tracks.times.max()) - low + 4 * slack
    axis = tracks.trajectory_index * width + np.minimum(tracks.times - low, width)
    wanted = which * width + np.clip(times - low, -2 * slack, width - 2 * slack)
    after = np.clip(np.searchsorted(axis, wanted - slack), 0, len(axis) - 1)
    hit = (tracks.trajectory_index[after] == which) & (np.abs(tracks.times[after] - times) <= slack)
    return np.where(hit & tracks.observed[after], after, -1)
