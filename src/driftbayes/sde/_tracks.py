"""Runs of fixes, padded to arrays of a few sizes for the particle filters."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from driftbayes.data._sampling import Displacements
from driftbayes.errors import DriftbayesError

# Largest number of runs per block.
_MAX_RUNS = 64


class Tracks(NamedTuple):
    """A block of runs, padded with steps and runs that are masked.

    Args:
        y: Fixes relative to the first fix of the run, (run, fix, dim).
        origin: First fix of each run, (run, dim).
        t: Time of each fix, (run, fix).
        interval: Duration of each step, (run, step).
        variance: Variance of the measurement error of each fix, (run, fix); 0 if exact.
        valid: False for steps that are padding, (run, step).
        number: Number of each run in the data set, which determines its random numbers.
    """

    y: Any
    origin: Any
    t: Any
    interval: Any
    variance: Any
    valid: Any
    number: Any


def each_run(filter_run: Callable[[Tracks], Array], tracks: Tracks) -> Array:
    """Compute the log-likelihood of each run of a block; 0 for runs that pad it, never NaN.

    Args:
        filter_run: Function of one run.
        tracks: A block of runs.
    """
    value = jax.vmap(filter_run)(tracks)
    value = jnp.where(jnp.any(tracks.valid, axis=1), value, 0.0)
    return jnp.where(jnp.isnan(value), -jnp.inf, value)


def make_tracks(data: Displacements) -> tuple[Tracks, ...]:
    """Arrange displacements in blocks of runs.

    Args:
        data: Displacements with the start position and start time of each run.

    Raises:
        DriftbayesError: Start positions or start times are missing.
    """
    if data.start is None or data.start_time is None:
        raise DriftbayesError(
            "an SDE needs start positions and times, which these displacements lack; "
            "make them from trajectories, or pass start= to Displacements.from_array"
        )
    n_runs, offsets = len(data.row_sizes), data.first_steps
    # Runs of similar length go together: a block is as long as its longest run.
    order = np.argsort(-data.row_sizes, kind="stable")
    n_blocks = -(-n_runs // _MAX_RUNS)
    size = _round_up(-(-n_runs // n_blocks))
    return tuple(
        _block(data, order[first : first + size], offsets, size) for first in range(0, n_runs, size)
    )


def _round_up(n: int) -> int:
    """Round up to a multiple of 2, or of a sixteenth of the next power of two if that is larger."""
    unit = max(2, 2 ** int(np.ceil(np.log2(n))) // 16)
    return -(-n // unit) * unit


def _block(data: Displacements, runs: np.ndarray, offsets: np.ndarray, size: int) -> Tracks:
    """Arrange some runs in arrays of equal length."""
    n_steps = _round_up(int(data.row_sizes[runs].max()))
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
            # Padding resembles the other steps, so that masked steps do not overflow.
            y[row, n + 1 :], interval[row, n:] = y[row, n], interval[row, :n].mean()
        t[row] = data.start_time[run] + np.concatenate([[0.0], np.cumsum(interval[row])])
        valid[row, :n] = True
        origin[row] = data.start[run]
        if data.position_sd is not None:
            fixes = slice(first + run, first + run + n + 1)
            variance[row, : n + 1] = data.position_sd[fixes] ** 2
    padding = slice(len(runs), size)
    for array in (y, interval, t, variance, origin):
        array[padding] = array[0]
    number = np.concatenate([runs, np.zeros(size - len(runs), dtype=np.int64)])
    return Tracks(y, origin, t, interval, variance, valid, number)
