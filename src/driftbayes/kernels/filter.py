r"""The compiled Kalman filter: one pass over all steps, for eight parameter values side by side.

The state starts with the position, and the position acts on nothing else: the first column of every
propagator is (1, 0, ..., 0). All columns of the data share one covariance and one gain. Numbers are
real, or complex for steps in a plane that rotate; the formulas are the same with conjugates.

Each size of the state has a kernel of its own, in which all loops over the state are unrolled. It
is compiled on first use and kept on disk.
"""

__all__ = ["KERNEL_OPTIONS", "LANES", "filter_kernel"]

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from driftbayes.kernels.compiled import compiled

# Parameter values that are computed side by side.
LANES = 8
# Variances are multiplied and their logarithm is taken now and then. The product of _TOGETHER
# numbers within these bounds neither overflows nor underflows.
_TOGETHER = 8
_SMALL, _LARGE = 1e-35, 1e35
# Of steps of one duration with one error each _WATCH-th is compared with the one before it; gains
# that differ by rounding only have become constant.
_WATCH, _STEADY = 16, 4.5e-16

KERNEL_OPTIONS: dict[str, Any] = {
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
        A function of the steps (dx, which, offsets, slot, error), the parameter values (matrices,
        start, extra, weight), and the sums (log_det, products, excess), to which it adds.
    """
    # Rows of the working array, each of LANES numbers.
    size = n * n
    mixed = size  # A times the covariance
    mean = 2 * size
    moved = mean + n_columns * n
    gain = moved + n
    spread = gain + n  # variance of the innovation, next to the gain
    inverse = spread + 1
    found = inverse + 1
    product = found + n_columns
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
                    # Twice in a row every so often: has the gain changed from one step to the next?
                    watched = since % _WATCH
                    if watched == _WATCH - 1:
                        for i in range((n + 1) * LANES):
                            before[i] = rows[gain * LANES + i]
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
                        fix = own + extra[lane]
                        variance = rows[lane].real + fix
                        one_over = 1.0 / variance
                        rows[spread * LANES + lane] = variance
                        rows[inverse * LANES + lane] = one_over
                        for i in range(n):
                            rows[(gain + i) * LANES + lane] = rows[i * n * LANES + lane] * one_over
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
                    if watched == _WATCH - 1:
                        # From here on gain and variance are constants, until a duration or an error
                        # differs; where there is no number, nothing is waited for.
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
                waiting += 1
                for lane in range(LANES):
                    variance = rows[spread * LANES + lane].real
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
            for lane in range(LANES):
                log_det[out, lane] += np.log(volume[lane])
                for p in range(n_columns * (n_columns + 1) // 2):
                    products[out, p, lane] += rows[(product + p) * LANES + lane]

    return run
