"""Compiled Kalman filter of a velocity observed through its integral over steps, with derivatives.

Over a step a velocity w of unit variance becomes w' = a w + drift + noise, and its integral is
y = c w + shift + noise. The coefficients differ from step to step; all axes share them.
"""

from typing import Any

import numpy as np

from driftbayes._kernels.compiled import KERNEL_OPTIONS, compiled


@compiled(**KERNEL_OPTIONS)
def flight_gradient(sizes: Any, y: Any, drift: Any, shift: Any, coefficients: Any) -> Any:
    """Compute ln p of all steps and its derivatives with respect to all inputs.

    Args:
        sizes: Number of steps of each run; the velocity at its start has unit variance.
        y: Integrals (step, axis).
        drift: Change of the velocity over each step (step, axis).
        shift: Offset of each integral (step, axis).
        coefficients: (step, 5): a, c, the noise variance of the velocity, the noise covariance of
            velocity and integral, and the noise variance of the integral.

    Returns:
        ln p; its derivatives with respect to y, drift, shift and the coefficients.
    """
    n, d = y.shape
    total = 0.0
    means, variances = np.empty((n, d)), np.empty(n)
    by_y, by_drift, by_shift = np.empty((n, d)), np.empty((n, d)), np.empty((n, d))
    by_coefficient = np.empty((n, 5))
    mean, back = np.empty(d), np.empty(d)
    log_2pi = np.log(2 * np.pi)
    first = 0
    for size in sizes:
        last = first + size
        variance = 1.0
        mean[:] = 0.0
        for i in range(first, last):
            a, c, q_ww, q_wy, q_yy = coefficients[i]
            spread = c * c * variance + q_yy
            mixed = a * c * variance + q_wy
            gain = mixed / spread
            variances[i] = variance
            square = 0.0
            for axis in range(d):
                means[i, axis] = mean[axis]
                error = y[i, axis] - c * mean[axis] - shift[i, axis]
                square += error * error
                mean[axis] = a * mean[axis] + drift[i, axis] + gain * error
            total -= 0.5 * (d * (log_2pi + np.log(spread)) + square / spread)
            variance = a * a * variance + q_ww - gain * mixed
        back[:] = 0.0
        back_variance = 0.0
        for i in range(last - 1, first - 1, -1):
            a, c, q_ww, q_wy, q_yy = coefficients[i]
            variance = variances[i]
            spread = c * c * variance + q_yy
            mixed = a * c * variance + q_wy
            gain = mixed / spread
            by_gain, square, along = 0.0, 0.0, 0.0
            for axis in range(d):
                error = y[i, axis] - c * means[i, axis] - shift[i, axis]
                square += error * error
                by_gain += back[axis] * error
                along += back[axis] * means[i, axis]
            by_mixed = by_gain / spread - 2 * back_variance * gain
            by_spread = gain * (back_variance * gain - by_gain / spread)
            by_spread += 0.5 * (square / spread - d) / spread
            by_c = by_mixed * a * variance + 2 * by_spread * c * variance
            for axis in range(d):
                error = y[i, axis] - c * means[i, axis] - shift[i, axis]
                by_error = back[axis] * gain - error / spread
                by_c -= by_error * means[i, axis]
                by_y[i, axis], by_shift[i, axis] = by_error, -by_error
                by_drift[i, axis] = back[axis]
                back[axis] = a * back[axis] - c * by_error
            by_coefficient[i, 0] = along + (2 * back_variance * a + by_mixed * c) * variance
            by_coefficient[i, 1] = by_c
            by_coefficient[i, 2] = back_variance
            by_coefficient[i, 3] = by_mixed
            by_coefficient[i, 4] = by_spread
            back_variance = back_variance * a * a + by_mixed * a * c + by_spread * c * c
        first = last
    return total, by_y, by_drift, by_shift, by_coefficient
