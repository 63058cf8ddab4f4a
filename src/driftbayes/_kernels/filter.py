r"""Compiled Kalman filter: one pass over all steps, for eight parameter values together.

The first component of the state is the position, which acts on nothing else: the first column of
every propagator is (1, 0, ..., 0). All columns of the data share one covariance and one gain.
Numbers are real, or complex for steps that rotate in a plane; the formulas then have conjugates.

Each size of the state has its own kernel, in which all loops over the state are unrolled. It is
compiled on first use and cached on disk.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from driftbayes._kernels.compiled import KERNEL_OPTIONS, compiled

# Number of parameter values computed together.
LANES = 8
# Number of variances multiplied before taking a logarithm. The product of numbers within these
# bounds neither overflows nor underflows.
_PER_LOG = 8
_MIN_VARIANCE, _MAX_VARIANCE = 1e-35, 1e35
# In a run of equal durations and errors, every _CHECK_EVERY-th gain is compared with the one before
# it; if they differ only by rounding, the gain has become constant.
_CHECK_EVERY, _STEADY = 16, 4.5e-16


# Parts of a filter step, for one lane. `rows` is the working array, with LANES numbers per row:
# first the covariance, then the propagator times it, then the rest. They are inlined, so that `n`
# is a constant and loops over the state are unrolled.
@compiled(inline="always", **KERNEL_OPTIONS)
def predict_covariance(rows: Any, matrix: Any, n: int, lane: int) -> None:
    """Replace the covariance P by A P Aᴴ + Q in the lower triangle; `matrix` holds A, then Q."""
    size = n * n
    for i in range(n):
        for j in range(n):
            total = rows[j * LANES + lane] if i == 0 else rows.dtype.type(0)
            for m in range(1, n):
                total += matrix[(i * n + m) * LANES + lane] * rows[(m * n + j) * LANES + lane]
            rows[(size + i * n + j) * LANES + lane] = total
    for i in range(n):
        for j in range(i + 1):
            total = matrix[(size + i * n + j) * LANES + lane]
            if j == 0:
                total += rows[(size + i * n) * LANES + lane]
            for m in range(1, n):
                total += rows[(size + i * n + m) * LANES + lane] * np.conj(
                    matrix[(j * n + m) * LANES + lane]
                )
            rows[(i * n + j) * LANES + lane] = total


@compiled(inline="always", **KERNEL_OPTIONS)
def update_covariance(rows: Any, gain: int, left: float, n: int, lane: int) -> None:
    """Condition the covariance on a fix.

    Args:
        rows: Working array.
        gain: First row of the gain.
        left: Remaining fraction of the position's variance: error / (prior + error).
        n: Size of the state.
        lane: The lane.
    """
    for i in range(1, n):
        for j in range(1, i + 1):
            total = rows[(i * n + j) * LANES + lane] - rows[(gain + i) * LANES + lane] * np.conj(
                rows[j * n * LANES + lane]
            )
            rows[(i * n + j) * LANES + lane] = total
            rows[(j * n + i) * LANES + lane] = np.conj(total)
    for i in range(n):
        total = rows[i * n * LANES + lane] * left
        rows[i * n * LANES + lane] = total
        rows[i * LANES + lane] = np.conj(total)


@compiled(inline="always", **KERNEL_OPTIONS)
def predict_mean(rows: Any, matrix: Any, mean: int, moved: int, n: int, lane: int) -> None:
    """Write the propagator times the mean of a column to the rows from `moved`."""
    for i in range(n):
        total = rows[mean * LANES + lane] if i == 0 else rows.dtype.type(0)
        for m in range(1, n):
            total += matrix[(i * n + m) * LANES + lane] * rows[(mean + m) * LANES + lane]
        rows[(moved + i) * LANES + lane] = total


@compiled(inline="always", **KERNEL_OPTIONS)
def update_mean(
    rows: Any, moved: int, gain: int, innovation: Any, x: Any, mean: int, n: int, lane: int
) -> None:
    """Update the mean of a column after its step `x`, measured from the latest fix."""
    for i in range(n):
        total = rows[(moved + i) * LANES + lane] + rows[(gain + i) * LANES + lane] * innovation
        if i == 0:
            total -= x
        rows[(mean + i) * LANES + lane] = total


@cache
def filter_kernel(n: int, n_columns: int, *, heavy: bool = False) -> Callable[..., None]:
    """Make the kernel for a state of `n` components and data of `n_columns` columns.

    Args:
        n: Size of the state, position included.
        n_columns: Columns of the data, each filtered separately.
        heavy: Whether to also sum ln(1 + w |innovation|² / variance) over the steps.

    Returns:
        A function of the steps (dx, which, offsets, slot, error), the parameter values (matrices,
        start, extra, weight), and the sums (log_det, products, excess), to which it adds.
    """
    # Rows of the working array, each of LANES numbers.
    size = n * n
    mean = 2 * size
    moved = mean + n_columns * n
    gain = moved + n
    spread = gain + n  # variance of the innovation, next to the gain
    inverse = spread + 1
    residual = inverse + 1
    product = residual + n_columns
    n_rows = product + n_columns * (n_columns + 1) // 2

    @compiled(**KERNEL_OPTIONS)
    def run(steps, lanes, sums):  # type: ignore[no-untyped-def]
        dx, which, offsets, slot, error = steps
        matrices, start, extra, weight = lanes
        log_det, products, excess = sums
        rows = np.zeros(n_rows * LANES, dtype=matrices.dtype)
        before = np.empty((n + 1) * LANES, dtype=matrices.dtype)
        volume = np.ones(LANES)
        for r in range(offsets.shape[0] - 1):
            first, last, out = offsets[r], offsets[r + 1], slot[r]
            rows[:] = 0.0
            for i in range(size * LANES):
                rows[i] = start[i]
            for lane in range(LANES):
                rows[lane] += error[first + r] + extra[lane]
                volume[lane] = 1.0
            waiting, steady, since = 0, False, 0
            for s in range(first, last):
                matrix, own = matrices[which[s]], error[s + r + 1]
                is_same = s > first and which[s] == which[s - 1] and own == error[s + r]
                since = since + 1 if is_same else 0
                steady = steady and is_same
                if not steady:
                    is_checked = since % _CHECK_EVERY == _CHECK_EVERY - 1
                    if is_checked:
                        for i in range((n + 1) * LANES):
                            before[i] = rows[gain * LANES + i]
                    for lane in range(LANES):
                        predict_covariance(rows, matrix, n, lane)
                        fix = own + extra[lane]
                        variance = rows[lane].real + fix
                        one_over = 1.0 / variance
                        rows[spread * LANES + lane] = variance
                        rows[inverse * LANES + lane] = one_over
                        for i in range(n):
                            rows[(gain + i) * LANES + lane] = rows[i * n * LANES + lane] * one_over
                        update_covariance(rows, gain, fix * one_over, n, lane)
                    if is_checked:
                        # Gain and variance stay constant until a duration or an error differs. NaN
                        # counts as constant.
                        steady = True
                        for i in range((n + 1) * LANES):
                            now = rows[gain * LANES + i]
                            if abs(now - before[i]) > _STEADY * abs(now):
                                steady = False
                                break
                for lane in range(LANES):
                    one_over = rows[inverse * LANES + lane].real
                    for c in range(n_columns):
                        x = dx[s, c]
                        predict_mean(rows, matrix, mean + c * n, moved, n, lane)
                        innovation = x - rows[moved * LANES + lane]
                        rows[(residual + c) * LANES + lane] = innovation
                        update_mean(rows, moved, gain, innovation, x, mean + c * n, n, lane)
                    for c in range(n_columns):
                        weighted = rows[(residual + c) * LANES + lane] * one_over
                        for d in range(c + 1):
                            rows[(product + c * (c + 1) // 2 + d) * LANES + lane] += (
                                weighted * np.conj(rows[(residual + d) * LANES + lane])
                            )
                waiting += 1
                for lane in range(LANES):
                    variance = rows[spread * LANES + lane].real
                    if _MIN_VARIANCE < variance < _MAX_VARIANCE:
                        volume[lane] *= variance
                    else:
                        log_det[out, lane] += np.log(variance)
                if waiting == _PER_LOG:
                    waiting = 0
                    for lane in range(LANES):
                        log_det[out, lane] += np.log(volume[lane])
                        volume[lane] = 1.0
                if heavy:
                    for lane in range(LANES):
                        square = 0.0
                        for c in range(n_columns):
                            square += rows[(residual + c) * LANES + lane].real ** 2
                        square *= rows[inverse * LANES + lane].real
                        excess[out, lane] += np.log1p(weight[lane] * square)
            for lane in range(LANES):
                log_det[out, lane] += np.log(volume[lane])
                for p in range(n_columns * (n_columns + 1) // 2):
                    products[out, p, lane] += rows[(product + p) * LANES + lane]

    return run
