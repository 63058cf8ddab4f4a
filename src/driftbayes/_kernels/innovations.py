r"""Compiled filters that turn steps into innovations of unit variance, and back.

The same pass gives the state of each particle at its last fix, from which forecasts begin.

Each lane has its own data and parameters. The conventions are those of `_kernels.filter`;
each direction is the inverse of the other.
"""

from collections.abc import Callable
from functools import cache

import numpy as np

from driftbayes._kernels.compiled import KERNEL_OPTIONS, compiled
from driftbayes._kernels.filter import (
    LANES,
    predict_covariance,
    predict_mean,
    update_covariance,
    update_mean,
)


@cache
def innovation_kernel(n: int, n_columns: int, *, backwards: bool) -> Callable[..., None]:
    """Make the kernel for a state of `n` components and data of `n_columns` columns.

    Args:
        n: Size of the state, position included.
        n_columns: Columns of the data, each filtered separately.
        backwards: Whether to turn innovations into steps.

    Returns:
        A function of the steps (given, which, offsets, error), the parameter values (matrices,
        start, extra), and the results (result, variances, covariance, means), which it fills. The
        arrays `given` and `result` are (step, column, lane); the last two are those of the state at
        the end of each run, relative to its last fix, (run, component, lane).
    """
    size = n * n
    mean = 2 * size
    moved = mean + n_columns * n
    gain = moved + n
    n_rows = gain + n

    @compiled(**KERNEL_OPTIONS)
    def run(steps, lanes, results):  # type: ignore[no-untyped-def]
        given, which, offsets, error = steps
        matrices, start, extra = lanes
        result, variances, covariance, means = results
        rows = np.zeros(n_rows * LANES, dtype=matrices.dtype)
        for r in range(offsets.shape[0] - 1):
            first, last = offsets[r], offsets[r + 1]
            rows[:] = 0.0
            for i in range(size * LANES):
                rows[i] = start[i]
            for lane in range(LANES):
                rows[lane] += error[first + r] + extra[lane]
            for s in range(first, last):
                matrix = matrices[which[s]]
                own_error = error[s + r + 1]
                for lane in range(LANES):
                    predict_covariance(rows, matrix, n, lane)
                    fix = own_error + extra[lane]
                    variance = rows[lane].real + fix
                    variances[s, lane] = variance
                    one_over = 1.0 / variance
                    sd = np.sqrt(variance)
                    for i in range(n):
                        rows[(gain + i) * LANES + lane] = rows[i * n * LANES + lane] * one_over
                    for c in range(n_columns):
                        x = given[s, c, lane]
                        predict_mean(rows, matrix, mean + c * n, moved, n, lane)
                        if backwards:
                            innovation = sd * x
                            x = rows[moved * LANES + lane] + innovation
                            result[s, c, lane] = x
                        else:
                            innovation = x - rows[moved * LANES + lane]
                            result[s, c, lane] = innovation / sd
                        update_mean(rows, moved, gain, innovation, x, mean + c * n, n, lane)
                    update_covariance(rows, gain, fix * one_over, n, lane)
            for lane in range(LANES):
                for i in range(size):
                    covariance[r, i, lane] = rows[i * LANES + lane]
                for i in range(n_columns * n):
                    means[r, i, lane] = rows[(mean + i) * LANES + lane]

    return run


@compiled(**KERNEL_OPTIONS)
def toeplitz_innovations(  # type: ignore[no-untyped-def]
    given, offsets, autocovariance, backwards, result, variances
):
    """Turn regular steps into innovations, or back, for one parameter value, in O(steps²) per run.

    Args:
        given: Steps or innovations, (step, column).
        offsets: First step of each run, and the end of the last.
        autocovariance: At lags 0, 1, ..., up to the longest run.
        backwards: Whether to turn innovations into steps.
        result: Innovations or steps, (step, column).
        variances: Result, (step,).
    """
    n_columns = given.shape[1]
    n_lags = autocovariance.shape[0]
    forward, backward, shifted = np.zeros(n_lags), np.zeros(n_lags), np.zeros(n_lags)
    forward[0] = 1.0
    backward[0] = 1.0
    variance = autocovariance[0]
    for n in range(n_lags):
        if n > 0:
            for i in range(n, 0, -1):
                shifted[i] = forward[i - 1]
            shifted[0] = 0.0
            reflection = 0.0
            for i in range(1, n + 1):
                reflection += shifted[i] * autocovariance[i]
            reflection /= variance
            for i in range(n + 1):
                forward[i] = shifted[i] - reflection * backward[i]
                backward[i] = backward[i] - reflection * shifted[i]
            variance *= (1 - reflection) * (1 + reflection)
        sd = np.sqrt(variance)
        for r in range(offsets.shape[0] - 1):
            s = offsets[r] + n
            if s >= offsets[r + 1]:
                continue
            variances[s] = variance
            for c in range(n_columns):
                result[s, c] = sd * given[s, c] if backwards else given[s, c]
            for i in range(n):
                factor = forward[i]
                if backwards:
                    for c in range(n_columns):
                        result[s, c] -= factor * result[s - n + i, c]
                else:
                    for c in range(n_columns):
                        result[s, c] += factor * given[s - n + i, c]
            if not backwards:
                for c in range(n_columns):
                    result[s, c] /= sd
