"""Coefficients of one step of a velocity with memory, accurate for any ratio of the times."""

from math import factorial

import numpy as np

from driftbayes._typing import FloatArray

# Below this x = τ/T, formulas with cancellation are replaced by series of this many terms.
_SMALL, _N_TERMS = 0.7, 24
_RANGE = range(1, _N_TERMS)


def step_coefficients(tau: float, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Compute the coefficients of a step at x = τ/T, (step, 6), and their derivatives by x.

    The coefficients are a, c, the noise variance of the velocity, its covariance with the noise of
    the integral, the noise variance of the integral, and the shift of the integral per unit force.

    Args:
        tau: Sampling time.
        x: τ/T of each step.
    """
    fall = np.exp(-x)
    large = np.maximum(x, _SMALL)
    e = np.exp(-large)
    series = [-((-1.0) ** k) / factorial(k) for k in _RANGE]
    mean, mean_slope = _ratio(x, 1, series, (1 - e, e))
    series = [(-1.0) ** k / factorial(k) for k in _RANGE[1:]]
    far, far_slope = _ratio(x, 2, series, (large - 1 + e, 1 - e))
    series = [0.0, *((4 * (-1.0) ** k - (-2.0) ** k) / factorial(k) for k in _RANGE[2:])]
    closed = (2 * large - 3 + 4 * e - e**2, 2 - 4 * e + 2 * e**2)
    spread, spread_slope = _ratio(x, 2, series, closed)
    c, c_slope = tau * mean, tau * mean_slope
    # (1 - a)²/x = x mean².
    mixed, mixed_slope = tau * x * mean**2, tau * (mean**2 + 2 * x * mean * mean_slope)
    values = [fall, c, -np.expm1(-2 * x), mixed, tau**2 * spread, tau**2 * far]
    slopes = [-fall, c_slope, 2 * fall**2, mixed_slope, tau**2 * spread_slope, tau**2 * far_slope]
    return np.stack(values, axis=-1), np.stack(slopes, axis=-1)


def _ratio(
    x: FloatArray, power: int, series: list[float], closed: tuple[FloatArray, FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """Compute f(x)/x^power and its derivative.

    Args:
        x: Points.
        power: Power of x.
        series: Coefficients of the ratio in powers of x, for small x.
        closed: f and its derivative for large x.
    """
    small, large = np.minimum(x, _SMALL), np.maximum(x, _SMALL)
    terms = np.polynomial.Polynomial(series)
    value, slope = terms(small), terms.deriv()(small)
    f, f_slope = closed
    far = f / large**power
    far_slope = f_slope / large**power - power * f / large ** (power + 1)
    return np.where(x < _SMALL, value, far), np.where(x < _SMALL, slope, far_slope)
