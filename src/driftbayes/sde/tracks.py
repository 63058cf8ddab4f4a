"""Runs of fixes in arrays of few sizes, as the particle filters take them."""

__all__ = ["Tracks", "make_tracks"]

from typing import Any, NamedTuple

import numpy as np

from driftbayes.data.sampling import Displacements
from driftbayes.errors import DriftbayesError

# Runs that are filtered side by side.
_MAX_RUNS = 64


class Tracks(NamedTuple):
    """A block of runs, filled up with steps and runs that count for nothing.

    Args:
        y: Fixes relative to the first of the run, (run, fix, dim).
        origin: First fix of each run, (run, dim).
        t: Time of each fix, (run, fix).
        interval: Duration of each step, (run, step).
        variance: Variance of the error of each fix, (run, fix); 0 if exact.
        valid: Whether a step is one, (run, step).
        number: Number of each run among all, for its random numbers.
    """

    y: Any
    origin: Any
    t: Any
    interval: Any
    variance: Any
    valid: Any
    number: Any


def make_tracks(data: Displacements) -> tuple[Tracks, ...]:
    """Lay out displacements in blocks.

    Args:
        data: Displacements that know where and when their runs begin.

    Raises:
        DriftbayesError: It is not known where or when they begin.
    """
    if data.start is None or data.start_time is None:
        msg = (
            "an SDE must know where and when steps begin, which these displacements do not tell; "
            "make them from trajectories, or pass start= to Displacements.from_array"
        )
        raise DriftbayesError(msg)
    n_runs, offsets = len(data.row_sizes), np.cumsum(data.row_sizes) - data.row_sizes
    # Runs of like length together: a block is as long as its longest.
    order = np.argsort(-data.row_sizes, kind="stable")
    n_blocks = -(-n_runs // _MAX_RUNS)
    size = _rounded(-(-n_runs // n_blocks))
    return tuple(
        _block(data, order[first : first + size], offsets, size) for first in range(0, n_runs, size)
    )


def _rounded(n: int) -> int:
    """The next multiple of 2, or of a sixteenth of the next power of two."""
    unit = max(2, 2 ** int(np.ceil(np.log2(n))) // 16)
    return -(-n // unit) * unit


def _block(data: Displacements, runs: np.ndarray, offsets: np.ndarray, size: int) -> Tracks:
    n_steps = _rounded(int(data.row_sizes[runs].max()))
    y = np.zeros((size, n_steps + 1, data.n_dim))
    interval = np.ones((size, n_steps))
    t = np.zeros((size, n_steps + 1))
    variance = np.zeros((size, n_steps + 1))
    valid = np.zeros((size, n_steps), dtype=bool)
    origin = np.zeros((size, data.n_dim))
    assert data.start is not None
    assert data.start_time is not None
    for row, run in enumerate(runs):
        n, first = int(data.row_sizes[run]), int(offsets[run])
        steps = slice(first, first + n)
        y[row, 1 : n + 1] = np.cumsum(data.dx[steps], axis=0)
        interval[row, :n] = data.interval[steps]
        if n < n_steps:
            # As the others: steps that count for nothing must not overflow.
            y[row, n + 1 :], interval[row, n:] = y[row, n], interval[row, :n].mean()
        t[row] = data.start_time[run] + np.concatenate([[0.0], np.cumsum(interval[row])])
        valid[row, :n] = True
        origin[row] = data.start[run]
        if data.position_sd is not None:
            fixes = slice(first + run, first + run + n + 1)
            variance[row, : n + 1] = data.position_sd[fixes] ** 2
    spare = slice(len(runs), size)
    for array in (y, interval, t, variance, origin):
        array[spare] = array[0]
    number = np.concatenate([runs, np.zeros(size - len(runs), dtype=np.int64)])
    return Tracks(y, origin, t, interval, variance, valid, number)
