r"""The compiled Kalman filter: one pass over all steps, for eight parameter values side by side.

The state starts with the position, and the position acts on nothing else: the first column of every
propagator is (1, 0, ..., 0). All columns of the data share one covariance and one gain. Numbers are
real, or complex for steps in a plane that rotate; the formulas are the same with conjugates.

Each size of the state has a kernel of its own, in which all loops over the state are unrolled. It
is compiled on first use and kept on disk.
"""

__all__ = ["LANES", "filter_kernel", "interleave"]

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import njit

# Parameter values that are computed side by side.
LANES = 8
# Variances are multiplied and their logarithm is taken now and then. The product of _TOGETHER
# numbers within these bounds neither overflows nor underflows.
_TOGETHER = 8
_SMALL, _LARGE = 1e-35, 1e35

_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "cache": True,
    "fastmath": {"contract"},
    "error_model": "numpy",
    "boundscheck": False,
}


@cache
def filter_kernel(n: int, n_columns: int, *, heavy: bool = False) -> Callable[..., None]:
    """Make the kernel for a state of `n` components and data of `n_columns` columns.

    Args:
        n: Size of the state, position included.
        n_columns: Columns of the data, each filtered by itself.
        heavy: Whether to sum ln(1 + w |innovation|² / variance) over the steps too.

    Returns:
        A function of (dx, which, offsets, slot, error, matrices, start, extra, weight, log_det,
        products, excess, innovations, variances), which adds to or fills the last five.
    """
    # Rows of the working array, each of LANES numbers.
    size = n * n
    mixed = size  # A times the covariance
    mean = 2 * size
    moved = mean + n_columns * n
    gain = moved + n
    found = gain + n
    product = found + n_columns
    given = product + n_columns * (n_columns + 1) // 2
    error_row = given + n_columns
    inverse = error_row + 1
    n_rows = inverse + 1

    @njit(**_OPTIONS)
    def run(  # type: ignore[no-untyped-def]
        dx,
        which,
        offsets,
        slot,
        error,
        matrices,
        start,
        extra,
        weight,
        log_det,
        products,
        excess,
        innovations,
        variances,
    ):
        rows = np.zeros(n_rows * LANES, dtype=matrices.dtype)
        volume = np.ones(LANES)
        keep = variances.shape[0] > 0
        for r in range(offsets.shape[0] - 1):
            first, last, out = offsets[r], offsets[r + 1], slot[r]
            rows[:] = 0.0
            for i in range(size * LANES):
                rows[i] = start[i]
            for lane in range(LANES):
                rows[lane] += error[first + r] + extra[lane]
                volume[lane] = 1.0
            waiting = 0
            for s in range(first, last):
                for c in range(n_columns):
                    x = dx[s, c]
                    for lane in range(LANES):
                        rows[(given + c) * LANES + lane] = x
                for lane in range(LANES):
                    rows[error_row * LANES + lane] = error[s + r + 1] + extra[lane]
                matrix = matrices[which[s]]
                for lane in range(LANES):
                    for i in range(n):
                        for j in range(n):
                            total = rows[j * LANES + lane] if i == 0 else 0 * rows[lane]
                            for m in range(1, n):
                                total += (
                                    matrix[(i * n + m) * LANES + lane]
                                    * rows[(m * n + j) * LANES + lane]
                                )
                            rows[(mixed + i * n + j) * LANES + lane] = total
                    for i in range(n):
                        for j in range(i + 1):
                            total = matrix[(size + i * n + j) * LANES + lane]
                            if j == 0:
                                total += rows[(mixed + i * n) * LANES + lane]
                            for m in range(1, n):
                                total += rows[(mixed + i * n + m) * LANES + lane] * np.conj(
                                    matrix[(j * n + m) * LANES + lane]
                                )
                            rows[(i * n + j) * LANES + lane] = total
                    fix = rows[error_row * LANES + lane].real
                    variance = rows[lane].real + fix
                    one_over = 1.0 / variance
                    rows[inverse * LANES + lane] = one_over
                    rows[error_row * LANES + lane] = variance
                    for i in range(n):
                        rows[(gain + i) * LANES + lane] = rows[i * n * LANES + lane] * one_over
                    for c in range(n_columns):
                        x = rows[(given + c) * LANES + lane]
                        for i in range(n):
                            total = rows[(mean + c * n) * LANES + lane] if i == 0 else 0 * x
                            for m in range(1, n):
                                total += (
                                    matrix[(i * n + m) * LANES + lane]
                                    * rows[(mean + c * n + m) * LANES + lane]
                                )
                            rows[(moved + i) * LANES + lane] = total
                        innovation = x - rows[moved * LANES + lane]
                        rows[(found + c) * LANES + lane] = innovation
                        for i in range(n):
                            total = (
                                rows[(moved + i) * LANES + lane]
                                + rows[(gain + i) * LANES + lane] * innovation
                            )
                            # Positions are counted from the latest fix: no digits are lost.
                            if i == 0:
                                total -= x
                            rows[(mean + c * n + i) * LANES + lane] = total
                    for c in range(n_columns):
                        weighted = rows[(found + c) * LANES + lane] * one_over
                        for d in range(c + 1):
                            rows[(product + c * (c + 1) // 2 + d) * LANES + lane] += (
                                weighted * np.conj(rows[(found + d) * LANES + lane])
                            )
                    for i in range(1, n):
                        for j in range(1, i + 1):
                            total = rows[(i * n + j) * LANES + lane] - rows[
                                (gain + i) * LANES + lane
                            ] * np.conj(rows[j * n * LANES + lane])
                            rows[(i * n + j) * LANES + lane] = total
                            rows[(j * n + i) * LANES + lane] = np.conj(total)
                    # What is left of the position's variance: prior · error / (prior + error).
                    left = fix * one_over
                    for i in range(n):
                        total = rows[i * n * LANES + lane] * left
                        rows[i * n * LANES + lane] = total
                        rows[i * LANES + lane] = np.conj(total)
                waiting += 1
                for lane in range(LANES):
                    variance = rows[error_row * LANES + lane].real
                    if _SMALL < variance < _LARGE:
                        volume[lane] *= variance
                    else:
                        log_det[out, lane] += np.log(variance)
                if waiting == _TOGETHER:
                    waiting = 0
                    for lane in range(LANES):
                        log_det[out, lane] += np.log(volume[lane])
                        volume[lane] = 1.0
                if heavy:
                    for lane in range(LANES):
                        square = 0.0
                        for c in range(n_columns):
                            square += rows[(found + c) * LANES + lane].real ** 2
                        square *= rows[inverse * LANES + lane].real
                        excess[out, lane] += np.log1p(weight[lane] * square)
                if keep:
                    for lane in range(LANES):
                        variances[s, lane] = rows[error_row * LANES + lane].real
                        for c in range(n_columns):
                            innovations[s, c, lane] = rows[(found + c) * LANES + lane]
            for lane in range(LANES):
                log_det[out, lane] += np.log(volume[lane])
                for p in range(n_columns * (n_columns + 1) // 2):
                    products[out, p, lane] += rows[(product + p) * LANES + lane]

    return run


@njit(**_OPTIONS)
def interleave(propagator, noise, first, out):  # type: ignore[no-untyped-def]
    """Bring matrices into the order in which the kernels read them.

    Args:
        propagator: A, (row, interval, element).
        noise: Q, likewise.
        first: Number of the first block to fill.
        out: Result, (block, interval, element of A and then of Q, lane); rows that are missing at
            the end repeat the last.
    """
    n_rows, n_intervals, size = propagator.shape
    for b in range(out.shape[0]):
        for i in range(n_intervals):
            for lane in range(LANES):
                row = min((first + b) * LANES + lane, n_rows - 1)
                for e in range(size):
                    out[b, i, e, lane] = propagator[row, i, e]
                    out[b, i, size + e, lane] = noise[row, i, e]
