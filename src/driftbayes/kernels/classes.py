"""Compiled sums over many trajectories: quadratic forms, and ln of a sum over classes."""

__all__ = ["add_forms", "sum_over_classes"]

from math import factorial

import numpy as np

from driftbayes.kernels.compiled import KERNEL_OPTIONS, compiled

# Trajectories that are computed side by side, and as many as stay in the fastest memory.
_LANES = 16
_BLOCK = 512
# A class this much less likely, in nats, adds nothing in double precision.
_NOTHING = 40.0
# Sums lie between 1 and the number of classes: so many are multiplied before a logarithm is taken.
_TOGETHER = 64
# exp(-d) = 2^-k exp(x), |x| <= ln(2) / 2, by a table and a polynomial: loops that call exp are not
# computed side by side.
_HALVES = 2.0 ** -np.arange(64)
_TAYLOR = np.array([1 / factorial(i) for i in range(13)])
_LOG2_E, _LN_2 = float(np.log2(np.e)), float(np.log(2))


@compiled(**KERNEL_OPTIONS)
def add_forms(inverse, statistics, first, out):  # type: ignore[no-untyped-def]
    """Add a product of matrices; BLAS would start threads for it, in each of our own.

    Args:
        inverse: (row, statistic).
        statistics: (statistic, trajectory).
        first: Place of the first trajectory in the result.
        out: Result, (row, trajectory).
    """
    n_rows, n_statistics = inverse.shape
    n_tracks = statistics.shape[1]
    for low in range(0, n_tracks, _BLOCK):
        high = min(low + _BLOCK, n_tracks)
        for r in range(n_rows):
            own = out[r]
            odd = n_statistics % 4
            for s in range(odd):
                a = inverse[r, s]
                for t in range(low, high):
                    own[first + t] += a * statistics[s, t]
            for s in range(odd, n_statistics, 4):
                a, b = inverse[r, s], inverse[r, s + 1]
                c, d = inverse[r, s + 2], inverse[r, s + 3]
                for t in range(low, high):
                    own[first + t] += (
                        a * statistics[s, t]
                        + b * statistics[s + 1, t]
                        + c * statistics[s + 2, t]
                        + d * statistics[s + 3, t]
                    )


@compiled(**KERNEL_OPTIONS)
def sum_over_classes(constants, quadratic, pattern, out):  # type: ignore[no-untyped-def]
    r"""Add up $\ln\sum_c \exp(a_{cp} - \tfrac12 Q_{ct})$ over trajectories t of patterns p.

    Args:
        constants: a, (point, class, pattern); no number counts as minus infinity.
        quadratic: Q, (point, class, trajectory).
        pattern: Pattern of each trajectory.
        out: Result, one number per point.
    """
    n_points, n_classes, n_tracks = quadratic.shape
    value = np.empty((n_classes, _LANES))
    best, each = np.empty(_LANES), np.empty(_LANES)
    total, product = np.empty(_LANES), np.empty(_LANES)
    for point in range(n_points):
        total[:] = 0.0
        product[:] = 1.0
        waiting = 0
        for low in range(0, n_tracks, _LANES):
            width = min(_LANES, n_tracks - low)
            best[:] = -np.inf
            each[:] = 0.0
            for c in range(n_classes):
                for lane in range(width):
                    one = (
                        constants[point, c, pattern[low + lane]]
                        - 0.5 * quadratic[point, c, low + lane]
                    )
                    value[c, lane] = one
                    best[lane] = one if one > best[lane] else best[lane]
            for c in range(n_classes):
                for lane in range(width):
                    below = best[lane] - value[c, lane]
                    below = below if below < _NOTHING else _NOTHING
                    halvings = np.int32(below * _LOG2_E + 0.5)
                    x = halvings * _LN_2 - below
                    power = _TAYLOR[12]
                    for i in range(11, -1, -1):
                        power = power * x + _TAYLOR[i]
                    each[lane] += power * _HALVES[halvings]
            for lane in range(width):
                total[lane] += best[lane]
                product[lane] *= each[lane]
            waiting += 1
            if waiting == _TOGETHER:
                waiting = 0
                for lane in range(_LANES):
                    total[lane] += np.log(product[lane])
                    product[lane] = 1.0
        found = 0.0
        for lane in range(_LANES):
            found += total[lane] + np.log(product[lane])
        out[point] = found
