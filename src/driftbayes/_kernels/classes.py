"""Compiled sums over many trajectories: quadratic forms and log-sums over classes."""

from math import factorial

import numpy as np

from driftbayes._kernels.compiled import KERNEL_OPTIONS, compiled

# Trajectories per vector operation, and per block that fits in the fastest cache.
_LANES = 16
_BLOCK = 512
# A class less likely by this factor, in nats, contributes nothing in double precision.
_MAX_NATS = 40.0
# Number of sums, each between 1 and the number of classes, multiplied before taking a logarithm.
_PER_LOG = 64
# exp(-d) = 2^-k exp(x), |x| <= ln(2) / 2, by a table and a polynomial: loops that call exp are not
# vectorised.
_HALVES = 2.0 ** -np.arange(64)
_TAYLOR = np.array([1 / factorial(i) for i in range(13)])
_LOG2_E, _LN_2 = float(np.log2(np.e)), float(np.log(2))


@compiled(**KERNEL_OPTIONS)
def add_forms(inverse, statistics, first, out):  # type: ignore[no-untyped-def]
    """Add a matrix product, without the threads that BLAS would start within each of ours.

    Args:
        inverse: (row, statistic).
        statistics: (statistic, trajectory).
        first: Index of the first trajectory in the result.
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
        constants: a, (point, class, pattern); NaN counts as minus infinity.
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
                    log_term = (
                        constants[point, c, pattern[low + lane]]
                        - 0.5 * quadratic[point, c, low + lane]
                    )
                    value[c, lane] = log_term
                    best[lane] = log_term if log_term > best[lane] else best[lane]
            for c in range(n_classes):
                for lane in range(width):
                    below = best[lane] - value[c, lane]
                    below = below if below < _MAX_NATS else _MAX_NATS
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
            if waiting == _PER_LOG:
                waiting = 0
                for lane in range(_LANES):
                    total[lane] += np.log(product[lane])
                    product[lane] = 1.0
        log_sum = 0.0
        for lane in range(_LANES):
            log_sum += total[lane] + np.log(product[lane])
        out[point] = log_sum
