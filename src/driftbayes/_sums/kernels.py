"""Compiled loops over runs of displacements.

The order of every sum is fixed, without fused or reassociated operations, so that the same runs
give the same bits on any processor and with any number of threads.
"""

import numpy as np

from driftbayes._kernels.compiled import compiled
from driftbayes._typing import FloatArray, IntArray

# Steps are summed in chunks, to reduce rounding errors.
_CHUNK = 4096


@compiled()
def add_runs(
    source: FloatArray,
    runs: tuple[IntArray, IntArray],
    stride: int,
    pairs: IntArray,
    group_of: IntArray,
    sums: tuple[FloatArray, FloatArray, FloatArray],
) -> None:
    """Add products of runs to the sums of `WindowSums`.

    Args:
        source: Positions or steps, one per row.
        runs: First row of each run, and its number of steps.
        stride: Rows from one position of a run to the next; 0 if rows are steps.
        pairs: Two columns to multiply and the index of their sum, per row; the column after the
            last one of `source` is 1 everywhere.
        group_of: Index of the group of first windows of each length.
        sums: Sums over first windows (group, pair, step, step), lagged products (pair, lag) and
            products at the ends of runs (pair, step, step). Square matrices have only their upper
            triangles.
    """
    firsts, n_steps = runs
    first, lagged, ends = sums
    memory = lagged.shape[1]
    n_axes = source.shape[1]
    columns = np.ones((n_axes + 1, n_steps.max()))
    lags = np.empty(memory)
    for run in range(len(firsts)):
        n, row = n_steps[run], firsts[run]
        for axis in range(n_axes):
            column = columns[axis]
            if stride == 0:
                for i in range(n):
                    column[i] = source[row + i, axis]
            else:
                before = source[row, axis]
                for i in range(n):
                    after = source[row + (i + 1) * stride, axis]
                    column[i] = after - before
                    before = after
        size = min(n, memory)
        for k in range(len(pairs)):
            u, v, pair = columns[pairs[k, 0]], columns[pairs[k, 1]], pairs[k, 2]
            _add_triangle(u[:size], v[:size], 1.0, first[group_of[size], pair])
            if n > memory:
                _add_lags(u[1:], v[1:], n - memory, lags, lagged[pair])
                later = n - memory + 1
                _add_triangle(u[1:size], v[1:size], -1.0, ends[pair])
                _add_triangle(u[later:n], v[later:n], 1.0, ends[pair])


@compiled()
def _add_triangle(u: FloatArray, v: FloatArray, sign: float, total: FloatArray) -> None:
    """Add the upper triangle of the products of two windows."""
    n = len(u)
    for i in range(n):
        x, later, row = sign * u[i], v[i:n], total[i, i:n]
        for j in range(n - i):
            row[j] += x * later[j]


@compiled()
def _add_lags(u: FloatArray, v: FloatArray, n: int, lags: FloatArray, total: FloatArray) -> None:
    """Add the sum of u[i] v[i + lag] over i < n, for every lag."""
    size = len(lags)
    for low in range(0, n, _CHUNK):
        high = min(low + _CHUNK, n)
        lags[:] = 0.0
        fours = low + (high - low) // 4 * 4
        for i in range(low, fours, 4):
            u0, u1, u2, u3 = u[i], u[i + 1], u[i + 2], u[i + 3]
            w = v[i : i + size + 3]
            for lag in range(size):
                lags[lag] += (u0 * w[lag] + u1 * w[lag + 1]) + (u2 * w[lag + 2] + u3 * w[lag + 3])
        for i in range(fours, high):
            x, w = u[i], v[i : i + size]
            for lag in range(size):
                lags[lag] += x * w[lag]
        for lag in range(size):
            total[lag] += lags[lag]
