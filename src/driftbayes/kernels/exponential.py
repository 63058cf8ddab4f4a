r"""Propagators and noise covariances of linear equations over many durations, compiled.

$e^{Ft}$ and $Q = \int_0^t e^{Fs} D\,e^{F^\mathrm{T}s}\,\mathrm{d}s$ by Taylor series over a step so
short that the norm is 1/2 or less, then doublings, as `models/_matrix_exponential.py` does: what is
doubled is $e^{Fh} - I$, so that slow motions beside fast ones keep their digits.
"""

__all__ = ["exponential_kernel"]

from collections.abc import Callable
from functools import cache

import numpy as np

from driftbayes.kernels.compiled import compiled
from driftbayes.kernels.filter import KERNEL_OPTIONS

_N_TERMS, _N_NOISE_TERMS, _MAX_DOUBLINGS = 17, 23, 61


@cache
def exponential_kernel(n: int) -> Callable[..., None]:
    """Make the kernel for states of `n` components, the position, which acts on nothing, first.

    Returns:
        A function of (drift, intensity, intervals, out): F and D of each lane, (lane, state,
        state), durations, and the result (interval, 2, state, state, lane), propagator and noise
        covariance.
    """

    @compiled(**KERNEL_OPTIONS)
    def fill(drift, intensity, intervals, out):  # type: ignore[no-untyped-def]
        n_lanes = drift.shape[0]
        f, d = np.empty((n, n)), np.empty((n, n))
        change, noise = np.empty((n, n)), np.empty((n, n))
        term, moved, other = np.empty((n, n)), np.empty((n, n)), np.empty((n, n))
        for lane in range(n_lanes):
            for k in range(intervals.shape[0]):
                t = intervals[k]
                norm = 0.0
                for i in range(1, n):
                    total = 0.0
                    for j in range(1, n):
                        total += abs(drift[lane, i, j]) * t
                    norm = max(norm, total)
                n_doublings = 0
                if 2 * norm > 1.0:
                    n_doublings = min(int(np.ceil(np.log2(2 * norm))), _MAX_DOUBLINGS)
                if not np.isfinite(norm):
                    out[k, :, :, :, lane] = np.nan
                    continue
                step = t * 2.0**-n_doublings
                for i in range(n):
                    for j in range(n):
                        f[i, j] = drift[lane, i, j] * step
                        d[i, j] = intensity[lane, i, j] * step
                        change[i, j] = f[i, j]
                        term[i, j] = f[i, j]
                        noise[i, j] = d[i, j]
                for order in range(2, _N_TERMS):
                    for i in range(n):
                        for j in range(n):
                            total = 0.0
                            for m in range(n):
                                total += f[i, m] * term[m, j]
                            other[i, j] = total
                    for i in range(n):
                        for j in range(n):
                            term[i, j] = other[i, j] / order
                            change[i, j] += term[i, j]
                for i in range(n):
                    for j in range(n):
                        term[i, j] = d[i, j]
                for order in range(2, _N_NOISE_TERMS):
                    for i in range(n):
                        for j in range(n):
                            total = 0.0
                            for m in range(n):
                                total += f[i, m] * term[m, j]
                            moved[i, j] = total
                    for i in range(n):
                        for j in range(n):
                            term[i, j] = (moved[i, j] + moved[j, i]) / order
                            noise[i, j] += term[i, j]
                for _ in range(n_doublings):
                    for i in range(n):
                        for j in range(n):
                            total = 0.0
                            for m in range(n):
                                total += change[i, m] * noise[m, j]
                            moved[i, j] = total
                    for i in range(n):
                        for j in range(n):
                            total = 2 * noise[i, j] + moved[i, j] + moved[j, i]
                            for m in range(n):
                                total += moved[i, m] * change[j, m]
                            term[i, j] = total
                    for i in range(n):
                        for j in range(n):
                            total = 0.0
                            for m in range(n):
                                total += change[i, m] * change[m, j]
                            other[i, j] = total
                    for i in range(n):
                        for j in range(n):
                            noise[i, j] = term[i, j]
                            change[i, j] = 2 * change[i, j] + other[i, j]
                for i in range(n):
                    for j in range(n):
                        out[k, 0, i, j, lane] = change[i, j] + (1.0 if i == j else 0.0)
                        out[k, 1, i, j, lane] = noise[i, j]

    return fill
