"""Coefficients of one step of a velocity with memory, accurate for any ratio of the times."""

__all__ = ["step_coefficients"]

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
    mean, mean_slope = _ratio(x, [0.0] + [-((-1.0) ** k) / factorial(k) for k in _RANGE], 1)
    far, far_slope = _ratio(x, [0.0, 0.0] + [(-1.0) ** k / factorial(k) for k in _RANGE[1:]], 2)
    cube = [(4 * (-1.0) ** k - (-2.0) ** k) / factorial(k) for k in _RANGE[2:]]
    spread, spread_slope = _ratio(x, [0.0, 0.0, 0.0, *cube], 2)
    c, c_slope = tau * mean, tau * mean_slope
    # (1 - a)²/x = x mean².
    mixed, mixed_slope = tau * x * mean**2, tau * (mean**2 + 2 * x * mean * mean_slope)
    values = [fall, c, -np.expm1(-2 * x), mixed, tau**2 * spread, tau**2 * far]
    slopes = [-fall, c_slope, 2 * fall**2, mixed_slope, tau**2 * spread_slope, tau**2 * far_slope]
    return np.stack(values, axis=-1), np.stack(slopes, axis=-1)


def _ratio(x: FloatArray, series: list[float], power: int) -> tuple[FloatArray, FloatArray]:
    """Return f(x)/x^power and derivative; f = 1-e^-x, x-1+e^-x or 2x-3+4e^-x-e^-2x."""
    small = np.minimum(x, _SMALL)
    terms = np.polynomial.Polynomial(series[power:])
    value, slope = terms(small), terms.deriv()(small)
    large = np.maximum(x, _SMALL)
    fall = np.exp(-large)
    if power == 1:
        f, f_slope = 1 - fall, fall
    elif len(series) > 3 and series[2] != 0:
        f, f_slope = large - 1 + fall, 1 - fall
    else:
        f, f_slope = 2 * large - 3 + 4 * fall - fall**2, 2 - 4 * fall + 2 * fall**2
    far = f / large**power
    far_slope = f_slope / large**power - power * f / large ** (power + 1)
    return np.where(x < _SMALL, value, far), np.where(x < _SMALL, slope, far_slope)
