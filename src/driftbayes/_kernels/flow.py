"""Compiled spatial correlation of a flow's noise, and a Kalman filter for a few particles."""

from typing import Any

import numpy as np

from driftbayes._kernels.compiled import FAST_OPTIONS, compiled
from driftbayes._typing import FloatArray


@compiled(**FAST_OPTIONS)
def separate(x: Any, period: Any, out: Any) -> None:
    """Fill in the distances between particles, to the nearest periodic image."""
    for p in range(len(x)):
        out[p, p] = 0.0
        for q in range(p):
            total = 0.0
            for axis in range(x.shape[1]):
                apart = x[p, axis] - x[q, axis]
                if period[axis] > 0:
                    apart -= period[axis] * np.round(apart / period[axis])
                total += apart * apart
            out[p, q] = out[q, p] = np.sqrt(total)


@compiled(**FAST_OPTIONS)
def correlate(x: Any, r: Any, period: Any, shape: Any, out: Any) -> None:
    """Fill in the noise correlation of particles, by axis and particle if axes correlate."""
    length, own, divergence, smoothness = shape
    n = len(x)
    is_tensor = len(out) > n
    rate = np.sqrt(2 * smoothness) / length
    for p in range(n):
        for q in range(p + 1):
            s = rate * r[p, q]
            fall = np.exp(-s)
            if smoothness == 0.5:
                along, slope = fall, -s * fall
            elif smoothness == 1.5:
                along, slope = (1 + s) * fall, -s * s * fall
            else:
                along, slope = (1 + s + s * s / 3) * fall, -s * s * (1 + s) / 3 * fall
            along, slope = (1 - own) * along, (1 - own) * slope
            extra = own if p == q else 0.0
            if not is_tensor:
                out[p, q] = out[q, p] = along + extra
                continue
            same = along + (1 - divergence) * slope + extra
            e0, e1 = 0.0, 0.0
            if r[p, q] > 0:
                e0, e1 = x[p, 0] - x[q, 0], x[p, 1] - x[q, 1]
                if period[0] > 0:
                    e0 -= period[0] * np.round(e0 / period[0])
                if period[1] > 0:
                    e1 -= period[1] * np.round(e1 / period[1])
                e0, e1 = e0 / r[p, q], e1 / r[p, q]
            turn = (1 - 2 * divergence) * slope
            out[p, q] = out[q, p] = same - turn * e0 * e0
            out[n + p, n + q] = out[n + q, n + p] = same - turn * e1 * e1
            mixed = -turn * e0 * e1
            out[p, n + q] = out[q, n + p] = out[n + p, q] = out[n + q, p] = mixed


@compiled(**FAST_OPTIONS)
def _factorise(a: Any) -> bool:
    """Replace the lower triangle by its Cholesky factor; return False if there is none."""
    n = len(a)
    for i in range(n):
        for j in range(i + 1):
            total = a[i, j]
            for k in range(j):
                total -= a[i, k] * a[j, k]
            if i == j:
                if not total > 0:
                    return False
                a[i, i] = np.sqrt(total)
            else:
                a[i, j] = total / a[j, j]
    return True


@compiled(**FAST_OPTIONS)
def _solve(factor: Any, b: Any) -> None:
    """Solve by forward substitution, in place."""
    for i in range(len(factor)):
        for j in range(i):
            weight = factor[i, j]
            for c in range(b.shape[1]):
                b[i, c] -= weight * b[j, c]
        scale = 1 / factor[i, i]
        for c in range(b.shape[1]):
            b[i, c] *= scale


# A loop: an assignment of whole arrays takes Numba five seconds to compile, for its shape error
# message.
@compiled(**FAST_OPTIONS)
def _combine(a: float, first: Any, b: float, second: Any, out: Any) -> None:
    """Write a times one matrix plus b times another to `out`, which may be either of them."""
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = a * first[i, j] + b * second[i, j]


@compiled(**FAST_OPTIONS)
def _filter(crowd: Any, matrices: Any, start: float, shape: Any, out: Any) -> float:
    """Return the log-determinant of all rows; add the products of the columns to `out`."""
    x, r, period, dx = crowd
    n_times, size, n_columns = dx.shape
    has_memory = matrices.shape[1] > 1
    corr, factor = np.empty((size, size)), np.empty((size, size))
    cov, white_cross = np.zeros((size, size)), np.empty((size, size))
    mean, white = np.zeros((size, n_columns)), np.empty((size, n_columns))
    step, moved = 0.0, 0.0
    q_xx, q_xv, q_vv = matrices[1, 0, 0], 0.0, 0.0
    if has_memory:
        step, moved = matrices[0, 0, 1], matrices[0, 1, 1]
        q_xv, q_vv = matrices[1, 0, 1], matrices[1, 1, 1]
    log_det = 0.0
    for k in range(n_times):
        correlate(x[k], r[k], period, shape, corr)
        if k == 0 and has_memory:
            _combine(start, corr, 0.0, corr, cov)
        _combine(step * step, cov, q_xx, corr, factor)
        if not _factorise(factor):
            return np.nan
        _combine(1.0, dx[k], -step, mean, white)
        _solve(factor, white)
        for i in range(size):
            log_det += 2 * np.log(factor[i, i])
            for a in range(n_columns):
                for b in range(n_columns):
                    out[a, b] += white[i, a] * white[i, b]
        if has_memory:
            _combine(step * moved, cov, q_xv, corr, white_cross)
            _solve(factor, white_cross)
            _combine(moved, mean, 0.0, mean, mean)
            _combine(moved * moved, cov, q_vv, corr, cov)
            for i in range(size):
                for p in range(size):
                    weight = white_cross[i, p]
                    for a in range(n_columns):
                        mean[p, a] += weight * white[i, a]
                    for q in range(size):
                        cov[p, q] -= weight * white_cross[i, q]
    return log_det


@compiled(**FAST_OPTIONS)
def _add_product(sign: float, a: Any, b: Any, out: Any) -> None:
    """Add `sign` times aᵀb."""
    for i in range(len(a)):
        for p in range(a.shape[1]):
            weight = sign * a[i, p]
            for q in range(b.shape[1]):
                out[p, q] += weight * b[i, q]


@compiled(**FAST_OPTIONS)
def _filter_noisy(
    crowd: Any, matrices: Any, start: float, shape: Any, errors: Any, out: Any
) -> float:
    """Do the same as `_filter` for fixes with errors, (time, row), one more time than steps."""
    x, r, period, dx = crowd
    n_times, size, n_columns = dx.shape
    has_memory = matrices.shape[1] > 1
    step, moved, q_xv, q_vv = 0.0, 0.0, 0.0, 0.0
    q_xx = matrices[1, 0, 0]
    if has_memory:
        step, moved = matrices[0, 0, 1], matrices[0, 1, 1]
        q_xv, q_vv = matrices[1, 0, 1], matrices[1, 1, 1]
    corr, factor = np.empty((size, size)), np.empty((size, size))
    of_error, cov = np.empty((size, size)), np.zeros((size, size))
    cross, speeds = np.zeros((size, size)), np.zeros((size, size))
    mean, speed = np.zeros((size, n_columns)), np.zeros((size, n_columns))
    factor_cross, white = np.empty((size, size)), np.empty((size, n_columns))
    log_det = 0.0
    for i in range(size):
        cov[i, i] = errors[0, i]
    for k in range(n_times):
        correlate(x[k], r[k], period, shape, corr)
        if k == 0 and has_memory:
            _combine(start, corr, 0.0, corr, speeds)
        for i in range(size):
            for j in range(size):
                both = cross[i, j] + cross[j, i]
                factor[i, j] = cov[i, j] + step * (both + step * speeds[i, j]) + q_xx * corr[i, j]
                of_error[i, j] = 0.0
            factor[i, i] += errors[k + 1, i]
            of_error[i, i] = errors[k + 1, i]
        _combine(1.0, dx[k], -1.0, mean, white)
        _combine(1.0, white, -step, speed, white)
        if not _factorise(factor):
            return np.nan
        _solve(factor, white)
        for i in range(size):
            log_det += 2 * np.log(factor[i, i])
        _add_product(1.0, white, white, out)
        _solve(factor, of_error)
        cov[:] = 0.0
        for i in range(size):
            cov[i, i] = errors[k + 1, i]
        _add_product(-1.0, of_error, of_error, cov)
        # Measured from the latest fix.
        mean[:] = 0.0
        _add_product(-1.0, of_error, white, mean)
        if has_memory:
            _combine(moved, cross, moved * step, speeds, factor_cross)
            _combine(1.0, factor_cross, q_xv, corr, factor_cross)
            _solve(factor, factor_cross)
            _combine(moved, speed, 0.0, speed, speed)
            _add_product(1.0, factor_cross, white, speed)
            _combine(moved * moved, speeds, q_vv, corr, speeds)
            _add_product(-1.0, factor_cross, factor_cross, speeds)
            cross[:] = 0.0
            _add_product(1.0, of_error, factor_cross, cross)
    return log_det


def flow_products(
    crowd: tuple[FloatArray, FloatArray, FloatArray, FloatArray],
    matrices: FloatArray,
    start: float,
    shape: tuple[float, float, float, float],
    errors: FloatArray | None = None,
) -> tuple[float, FloatArray]:
    """Compute log-determinant and whitened products of the columns for a fixed set of particles.

    Args:
        crowd: Positions at the start of each step, (time, particle, axis); their distances, (time,
            particle, particle); the length of the domain along each axis, 0 where it is not
            periodic; and the steps, (time, particle, axis), or (time, axis and particle, 1) where
            axes correlate.
        matrices: Propagator and noise covariance of position and velocity, or of position alone.
        start: Stationary variance of the velocity.
        shape: Length, uncorrelated and divergent fractions (NaN: independent axes), smoothness.
        errors: Variance of each fix, (time, row of dx), one more time than steps; None if exact.
    """
    n_columns = crowd[3].shape[2]
    products = np.zeros((n_columns, n_columns))
    given = crowd, np.ascontiguousarray(matrices), start, shape
    if errors is None:
        return float(_filter(*given, products)), products
    return float(_filter_noisy(*given, errors, products)), products
