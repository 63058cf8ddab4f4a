"""The sums of `kernels` in NumPy: the reference, and for data smaller than loading the compiler."""

__all__ = ["add_runs"]

import numpy as np

from driftbayes.typing import FloatArray, IntArray


def add_runs(
    source: FloatArray,
    firsts: IntArray,
    n_steps: IntArray,
    stride: int,
    memory: int,
    pairs: IntArray,
    group_of: IntArray,
    first: FloatArray,
    lagged: FloatArray,
    ends: FloatArray,
) -> None:
    """Add products of runs to sums over their windows; arguments as for `kernels.add_runs`."""
    for n in np.unique(n_steps).tolist():
        rows = firsts[n_steps == n][:, None] + (stride or 1) * np.arange(n + (stride > 0))
        steps = np.diff(source[rows], axis=1) if stride else source[rows]
        # Column by column: (column, run, step), contiguous.
        columns = np.ones((steps.shape[2] + 1, len(rows), n))
        columns[:-1] = steps.transpose(2, 0, 1)
        size, n_later = min(n, memory), n - memory
        for a, b, place in pairs.tolist():
            u, v = columns[a], columns[b]
            first[group_of[size], place, :size, :size] += _products(u[:, :size], v[:, :size])
            if n_later <= 0:
                continue
            # Not by a matrix product: libraries differ in its last bits with their threads.
            lagged[place] += [
                np.einsum("ri,ri->", u[:, 1 : 1 + n_later], v[:, 1 + lag : 1 + lag + n_later])
                for lag in range(memory)
            ]
            ends[place] += _products(u[:, n_later + 1 :], v[:, n_later + 1 :])
            ends[place] -= _products(u[:, 1:memory], v[:, 1:memory])


def _products(u: FloatArray, v: FloatArray) -> FloatArray:
    return np.asarray(np.einsum("ri,rj->ij", u, v))
