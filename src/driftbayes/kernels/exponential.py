r"""Compiled exponentials of small matrices: transitions of a linear equation over many intervals.

The same numbers as `models._matrix_exponential.noise_covariance`, by the same series and doublings,
for eight intervals side by side.
"""

__all__ = ["exponential_kernel"]

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import njit

# Intervals that are computed side by side.
_LANES = 8
_N_TERMS = 17
_N_NOISE_TERMS = 23
_N_DOUBLINGS = 61

_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "cache": True,
    "fastmath": {"contract"},
    "error_model": "numpy",
    "boundscheck": False,
}


@cache
def exponential_kernel(n: int) -> Callable[..., None]:
    """Make the kernel for matrices of `n` rows, of which the first is a position.

    Args:
        n: Size of the state.

    Returns:
        A function of (drift, intensity, intervals, propagator, noise), which fills the last two;
        matrices have parameter values along their first axis, results the intervals along their
        second. Intervals must rise.
    """
    # Rows of one working array, each of which holds one element of a matrix for all lanes.
    size = n * n
    f, change, total, term, moved = 0, size, 2 * size, 3 * size, 4 * size

    @njit(**_OPTIONS)
    def run(drift, intensity, intervals, propagator, noise):  # type: ignore[no-untyped-def]
        rows = np.empty(5 * size * _LANES)
        step = np.empty(_LANES)
        n_intervals = intervals.shape[0]
        for row in range(drift.shape[0]):
            norm = 0.0
            for i in range(1, n):
                one = 0.0
                for j in range(1, n):
                    one += abs(drift[row, i, j])
                norm = max(norm, one)
                if not np.isfinite(one):
                    norm = one
            for low in range(0, n_intervals, _LANES):
                # The longest of the lanes decides for all: the step is 1/2 of the norm, or less.
                longest = intervals[min(low + _LANES, n_intervals) - 1]
                needed = np.ceil(np.log2(max(2 * norm * longest, 1.0)))
                n_doublings = int(min(needed, _N_DOUBLINGS)) if needed >= 0 else 0
                shrink = 2.0**-n_doublings
                for lane in range(_LANES):
                    step[lane] = intervals[min(low + lane, n_intervals - 1)] * shrink
                for i in range(n):
                    for j in range(n):
                        for lane in range(_LANES):
                            e = i * n + j
                            rows[(f + e) * _LANES + lane] = drift[row, i, j] * step[lane]
                            rows[(term + e) * _LANES + lane] = intensity[row, i, j] * step[lane]
                            rows[(total + e) * _LANES + lane] = rows[(term + e) * _LANES + lane]
                            rows[(change + e) * _LANES + lane] = 0.0
                # e^F - I by Horner's rule: F (I + F/2 (I + F/3 (...))).
                for k in range(_N_TERMS - 1, 0, -1):
                    share = 1.0 / k
                    for lane in range(_LANES):
                        for i in range(n):
                            for j in range(n):
                                value = rows[(f + i * n + j) * _LANES + lane]
                                for m in range(1, n):
                                    value += (
                                        rows[(f + i * n + m) * _LANES + lane]
                                        * rows[(change + m * n + j) * _LANES + lane]
                                    )
                                rows[(moved + i * n + j) * _LANES + lane] = value * share
                        for e in range(size):
                            rows[(change + e) * _LANES + lane] = rows[(moved + e) * _LANES + lane]
                for k in range(2, _N_NOISE_TERMS):
                    share = 1.0 / k
                    for lane in range(_LANES):
                        for i in range(n):
                            for j in range(n):
                                value = 0.0
                                for m in range(1, n):
                                    value += (
                                        rows[(f + i * n + m) * _LANES + lane]
                                        * rows[(term + m * n + j) * _LANES + lane]
                                    )
                                rows[(moved + i * n + j) * _LANES + lane] = value
                        for i in range(n):
                            for j in range(i + 1):
                                value = share * (
                                    rows[(moved + i * n + j) * _LANES + lane]
                                    + rows[(moved + j * n + i) * _LANES + lane]
                                )
                                rows[(term + i * n + j) * _LANES + lane] = value
                                rows[(term + j * n + i) * _LANES + lane] = value
                        for e in range(size):
                            rows[(total + e) * _LANES + lane] += rows[(term + e) * _LANES + lane]
                for _ in range(n_doublings):
                    for lane in range(_LANES):
                        for i in range(n):
                            for j in range(n):
                                value = 0.0
                                for m in range(1, n):
                                    value += (
                                        rows[(change + i * n + m) * _LANES + lane]
                                        * rows[(total + m * n + j) * _LANES + lane]
                                    )
                                rows[(moved + i * n + j) * _LANES + lane] = value
                        # One triangle for both: else rounding that is antisymmetric doubles too.
                        for i in range(n):
                            for j in range(i + 1):
                                value = (
                                    rows[(moved + i * n + j) * _LANES + lane]
                                    + rows[(moved + j * n + i) * _LANES + lane]
                                )
                                for m in range(1, n):
                                    value += (
                                        rows[(moved + i * n + m) * _LANES + lane]
                                        * rows[(change + j * n + m) * _LANES + lane]
                                    )
                                value += 2 * rows[(total + i * n + j) * _LANES + lane]
                                rows[(term + i * n + j) * _LANES + lane] = value
                                rows[(term + j * n + i) * _LANES + lane] = value
                        for i in range(n):
                            for j in range(n):
                                value = 2 * rows[(change + i * n + j) * _LANES + lane]
                                for m in range(1, n):
                                    value += (
                                        rows[(change + i * n + m) * _LANES + lane]
                                        * rows[(change + m * n + j) * _LANES + lane]
                                    )
                                rows[(moved + i * n + j) * _LANES + lane] = value
                        for e in range(size):
                            rows[(change + e) * _LANES + lane] = rows[(moved + e) * _LANES + lane]
                            rows[(total + e) * _LANES + lane] = rows[(term + e) * _LANES + lane]
                for lane in range(min(_LANES, n_intervals - low)):
                    for i in range(n):
                        for j in range(n):
                            e = i * n + j
                            same = 1.0 if i == j else 0.0
                            propagator[row, low + lane, i, j] = (
                                same + rows[(change + e) * _LANES + lane]
                            )
                            noise[row, low + lane, i, j] = rows[(total + e) * _LANES + lane]

    return run
