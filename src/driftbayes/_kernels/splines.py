"""Compiled sums of cubic B-splines at many points, and their derivatives.

Four splines along each axis are nonzero at a point. Coefficients are numbered with the last axis
fastest; an axis of n intervals has n + 3. Outside the rectangle a spline has its value at the
nearest point of the rectangle, and zero slope.
"""

from typing import Any

import numpy as np

from driftbayes._kernels.compiled import KERNEL_OPTIONS, compiled


@compiled(**KERNEL_OPTIONS)
def _fill(x: Any, low: Any, high: Any, n: Any, weights: Any, slopes: Any) -> Any:
    """Fill in values and slopes of the four nonzero splines along an axis; return the first."""
    spacing = (high - low) / n
    place = (min(max(x, low), high) - low) / spacing
    first = min(int(place), n - 1)
    t = place - first
    weights[0] = (1 - t) ** 3 / 6
    weights[1] = (4 + t * t * (3 * t - 6)) / 6
    weights[2] = (1 + 3 * t * (1 + t * (1 - t))) / 6
    weights[3] = t**3 / 6
    scale = 0.5 / spacing if low <= x <= high else 0.0
    slopes[0] = -scale * (1 - t) ** 2
    slopes[1] = scale * t * (3 * t - 4)
    slopes[2] = scale * (1 + t * (2 - 3 * t))
    slopes[3] = scale * t * t
    return first


@compiled(**KERNEL_OPTIONS)
def _fill_all(x: Any, ends: Any, counts: Any, numbers: Any, rows: Any) -> None:
    """Fill in the numbers of the splines that are nonzero at a point, their values and slopes."""
    weights, slopes = np.empty((2, 4)), np.empty((2, 4))
    first = _fill(x[0], ends[0, 0], ends[1, 0], counts[0], weights[0], slopes[0])
    if len(x) == 1:
        for i in range(4):
            numbers[i] = first + i
            rows[0, i], rows[1, i] = weights[0, i], slopes[0, i]
        return
    other = _fill(x[1], ends[0, 1], ends[1, 1], counts[1], weights[1], slopes[1])
    for i in range(4):
        for j in range(4):
            numbers[4 * i + j] = (first + i) * (counts[1] + 3) + other + j
            rows[0, 4 * i + j] = weights[0, i] * weights[1, j]
            rows[1, 4 * i + j] = slopes[0, i] * weights[1, j]
            rows[2, 4 * i + j] = weights[0, i] * slopes[1, j]


@compiled(**KERNEL_OPTIONS)
def spline_values(x: Any, ends: Any, counts: Any, coefficients: Any) -> Any:
    """Evaluate fields and their slopes.

    Args:
        x: Points (point, dim).
        ends: Lower and upper corner of the rectangle, (2, dim).
        counts: Intervals along each axis.
        coefficients: (field, coefficient).

    Returns:
        (point, field, 1 + dim): value, and slope along each axis.
    """
    n, d = x.shape
    n_fields = len(coefficients)
    out = np.zeros((n, n_fields, 1 + d))
    weights, slopes = np.empty((2, 4)), np.empty((2, 4))
    stride = counts[d - 1] + 3
    for i in range(n):
        first = _fill(x[i, 0], ends[0, 0], ends[1, 0], counts[0], weights[0], slopes[0])
        if d == 1:
            for f in range(n_fields):
                for j in range(4):
                    out[i, f, 0] += weights[0, j] * coefficients[f, first + j]
                    out[i, f, 1] += slopes[0, j] * coefficients[f, first + j]
            continue
        other = _fill(x[i, 1], ends[0, 1], ends[1, 1], counts[1], weights[1], slopes[1])
        for f in range(n_fields):
            value, along, across = 0.0, 0.0, 0.0
            for j in range(4):
                start = (first + j) * stride + other
                row, slope = 0.0, 0.0
                for k in range(4):
                    row += weights[1, k] * coefficients[f, start + k]
                    slope += slopes[1, k] * coefficients[f, start + k]
                value += weights[0, j] * row
                along += slopes[0, j] * row
                across += weights[0, j] * slope
            out[i, f, 0], out[i, f, 1], out[i, f, 2] = value, along, across
    return out


@compiled(**KERNEL_OPTIONS)
def spline_adjoint(x: Any, ends: Any, counts: Any, slopes: Any, out: Any) -> None:
    """Turn derivatives by values and slopes of fields into derivatives by coefficients.

    Args:
        x: Points (point, dim).
        ends: Lower and upper corner of the rectangle, (2, dim).
        counts: Intervals along each axis.
        slopes: Derivatives (point, field, 1 + dim) by value, and by the slope along each axis; or
            (point, field, 1), by the value alone.
        out: (field, coefficient), added to.
    """
    n, d = x.shape
    with_slopes = slopes.shape[2] > 1
    stride = counts[d - 1] + 3
    weights, gradients = np.empty((2, 4)), np.empty((2, 4))
    for i in range(n):
        first = _fill(x[i, 0], ends[0, 0], ends[1, 0], counts[0], weights[0], gradients[0])
        if d == 2:
            other = _fill(x[i, 1], ends[0, 1], ends[1, 1], counts[1], weights[1], gradients[1])
        for f in range(slopes.shape[1]):
            for j in range(4):
                by = slopes[i, f, 0] * weights[0, j]
                if with_slopes:
                    by += slopes[i, f, 1] * gradients[0, j]
                if d == 1:
                    out[f, first + j] += by
                    continue
                across = slopes[i, f, 2] * weights[0, j] if with_slopes else 0.0
                start = (first + j) * stride + other
                for k in range(4):
                    out[f, start + k] += by * weights[1, k] + across * gradients[1, k]


@compiled(**KERNEL_OPTIONS)
def spline_information(x: Any, ends: Any, counts: Any, second: Any, out: Any) -> None:
    """Add up second derivatives by the coefficients of a field f and of a field u along each axis.

    Args:
        x: Points (point, dim).
        ends: Lower and upper corner of the rectangle, (2, dim).
        counts: Intervals along each axis.
        second: Second derivatives (point, 1 + 2 dim, 1 + 2 dim) by f, its slopes and u. Mixed
            derivatives of different axes are zero.
        out: (1 + 2 dim, coefficient, coefficient), added to: f and f, f and each u, each u.
    """
    n, d = x.shape
    m = 4**d
    numbers, rows = np.empty(m, dtype=np.int64), np.empty((1 + d, m))
    mixed = np.empty((1 + d, m))
    for i in range(n):
        _fill_all(x[i], ends, counts, numbers, rows)
        for j in range(m):
            mixed[0, j] = second[i, 0, 0] * rows[0, j]
        for k in range(1, 1 + d):
            both, own = second[i, 0, k], second[i, k, k]
            for j in range(m):
                mixed[0, j] += both * rows[k, j]
                mixed[k, j] = both * rows[0, j] + own * rows[k, j]
        for k in range(1 + d):
            for a in range(m):
                row, factor = out[0, numbers[a]], rows[k, a]
                for b in range(m):
                    row[numbers[b]] += factor * mixed[k, b]
        for k in range(1, 1 + d):
            value, slope = second[i, 0, d + k], second[i, k, d + k]
            own = second[i, d + k, d + k]
            for a in range(m):
                factor = value * rows[0, a] + slope * rows[k, a]
                cross, square = out[k, numbers[a]], out[d + k, numbers[a]]
                for b in range(m):
                    cross[numbers[b]] += factor * rows[0, b]
                    square[numbers[b]] += own * rows[0, a] * rows[0, b]
