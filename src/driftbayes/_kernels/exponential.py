r"""Propagators and noise covariances of linear equations over many durations, compiled.

$e^{Ft}$ and $Q = \int_0^t e^{Fs} D\,e^{F^\mathrm{T}s}\,\mathrm{d}s$ are Taylor series over a step
short enough for a norm of at most 1/2, then doubled, as in `models/_matrix_exponential.py`.
Doubling acts on $e^{Fh} - I$, so that slow components keep their digits beside fast ones.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from driftbayes._kernels.compiled import KERNEL_OPTIONS, compiled
from driftbayes._kernels.filter import LANES

_MAX_TERMS, _MAX_NOISE_TERMS = 17, 23
# The series ends at terms below this, relative to the first.
_TOLERANCE = 1e-18
# Rate times duration beyond which the result is NaN.
_MAX_NORM = 1e60


# Inlined, so that `n` is a constant and the loops are unrolled.
@compiled(inline="always", **KERNEL_OPTIONS)
def _multiply(rows: Any, left: int, right: int, scale: float, out: int, n: int, lane: int) -> None:
    """Write `scale` times the product of two matrices of one lane to the rows from `out`."""
    for i in range(n):
        for j in range(n):
            total = 0.0
            for m in range(n):
                total += (
                    rows[(left + i * n + m) * LANES + lane]
                    * rows[(right + m * n + j) * LANES + lane]
                )
            rows[(out + i * n + j) * LANES + lane] = total * scale


@cache
def exponential_kernel(n: int) -> Callable[..., None]:
    """Make the kernel for states of `n` components; the first is the position and acts on none.

    Returns:
        A function of (drift, intensity, intervals, out): F and D, (state, state, lane), durations,
        and the result (interval, 2, state, state, lane), propagator and noise covariance.
    """
    # Rows of the working array, each of LANES numbers. With one array, and with the lanes as the
    # only loop that is not unrolled, the compiler emits vector instructions.
    size = n * n
    change, noise, term, moved = size, 2 * size, 3 * size, 4 * size
    # The noise of the position starts at a later term of the series.
    n_later = 2 * n + 1

    @compiled(**KERNEL_OPTIONS)
    def fill(drift, intensity, intervals, out):  # type: ignore[no-untyped-def]
        rows = np.empty(5 * size * LANES)
        for k in range(intervals.shape[0]):
            t = intervals[k]
            norm = 0.0
            for lane in range(LANES):
                for i in range(1, n):
                    total = 0.0
                    for j in range(1, n):
                        total += abs(drift[i, j, lane]) * t
                    # A lane whose rates are too large or not finite must not disturb the others.
                    if total <= _MAX_NORM:
                        norm = max(norm, total)
            n_doublings = int(np.ceil(np.log2(2 * norm))) if 2 * norm > 1.0 else 0
            short = 2.0**-n_doublings
            step, norm = t * short, norm * short
            for i in range(n):
                for j in range(n):
                    for lane in range(LANES):
                        rate, d = drift[i, j, lane], intensity[i, j, lane] * step
                        f = rate * step if abs(rate) * t <= _MAX_NORM else np.nan
                        rows[(i * n + j) * LANES + lane] = f
                        rows[(change + i * n + j) * LANES + lane] = f
                        rows[(term + i * n + j) * LANES + lane] = f
                        rows[(noise + i * n + j) * LANES + lane] = d
            order, size_left = 2, norm
            while order < _MAX_TERMS and size_left > _TOLERANCE:
                scale = 1.0 / order
                for lane in range(LANES):
                    _multiply(rows, 0, term, scale, moved, n, lane)
                    for i in range(size):
                        rows[(term + i) * LANES + lane] = rows[(moved + i) * LANES + lane]
                        rows[(change + i) * LANES + lane] += rows[(moved + i) * LANES + lane]
                order, size_left = order + 1, size_left * norm * scale
            for i in range(size * LANES):
                rows[term * LANES + i] = rows[noise * LANES + i]
            order, size_left, left = 2, 1.0, n_later
            while order < _MAX_NOISE_TERMS and left > 0:
                scale = 1.0 / order
                for lane in range(LANES):
                    _multiply(rows, 0, term, scale, moved, n, lane)
                    for i in range(n):
                        for j in range(n):
                            total = (
                                rows[(moved + i * n + j) * LANES + lane]
                                + rows[(moved + j * n + i) * LANES + lane]
                            )
                            rows[(term + i * n + j) * LANES + lane] = total
                            rows[(noise + i * n + j) * LANES + lane] += total
                order, size_left = order + 1, size_left * 2 * norm * scale
                if size_left <= _TOLERANCE:
                    left -= 1
            for _ in range(n_doublings):
                for lane in range(LANES):
                    _multiply(rows, change, noise, 1.0, moved, n, lane)
                    for i in range(n):
                        for j in range(n):
                            total = (
                                rows[(moved + i * n + j) * LANES + lane]
                                + rows[(moved + j * n + i) * LANES + lane]
                            )
                            for m in range(n):
                                total += (
                                    rows[(moved + i * n + m) * LANES + lane]
                                    * rows[(change + j * n + m) * LANES + lane]
                                )
                            rows[(term + i * n + j) * LANES + lane] = total
                    # Exactly symmetric: an antisymmetric part would triple at every doubling.
                    for i in range(n):
                        for j in range(n):
                            total = 2 * rows[(noise + i * n + j) * LANES + lane]
                            total += 0.5 * (
                                rows[(term + i * n + j) * LANES + lane]
                                + rows[(term + j * n + i) * LANES + lane]
                            )
                            rows[(noise + i * n + j) * LANES + lane] = total
                    for i in range(n):
                        for j in range(n):
                            total = 2 * rows[(change + i * n + j) * LANES + lane]
                            for m in range(n):
                                total += (
                                    rows[(change + i * n + m) * LANES + lane]
                                    * rows[(change + m * n + j) * LANES + lane]
                                )
                            rows[(moved + i * n + j) * LANES + lane] = total
                    for i in range(size):
                        rows[(change + i) * LANES + lane] = rows[(moved + i) * LANES + lane]
            for i in range(n):
                for j in range(n):
                    unit = 1.0 if i == j else 0.0
                    for lane in range(LANES):
                        out[k, 0, i, j, lane] = rows[(change + i * n + j) * LANES + lane] + unit
                        out[k, 1, i, j, lane] = rows[(noise + i * n + j) * LANES + lane]

    return fill
