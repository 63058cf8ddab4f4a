"""Quantiles of densities that are tabulated on even grids."""

__all__ = ["tabulated_quantiles"]

import numpy as np

from driftbayes.typing import FloatArray

# Newton steps within one interval of the grid, each kept within its bracket.
_N_STEPS = 30
_EXACT = 1e-14


def tabulated_quantiles(density: FloatArray, probabilities: FloatArray) -> FloatArray:
    """Invert the integrals of smooth densities, interpolated by cubic splines.

    Args:
        density: Values at the points of even grids, (line, point); they need no normalisation.
        probabilities: Probabilities, between 0 and 1.

    Returns:
        Places of the quantiles in units of the spacing, 0 at the first point,
        (line, probability).

    Example:
        >>> import numpy as np
        >>> from driftbayes.inference.tabulated import tabulated_quantiles
        >>> x = np.linspace(-8.0, 8.0, 161)
        >>> place = tabulated_quantiles(np.exp(-0.5 * x[None] ** 2), np.array([0.5, 0.975]))
        >>> (0.1 * place - 8.0).round(4) + 0.0
        array([[0.  , 1.96]])
    """
    from scipy.interpolate import CubicSpline

    n_points = density.shape[1]
    spline = CubicSpline(np.arange(n_points, dtype=np.float64), density, axis=1)
    # Integrals of the polynomials from the left end of their interval: (power, interval, line).
    parts = spline.c / np.array([4.0, 3.0, 2.0, 1.0])[:, None, None]
    whole = np.concatenate([np.zeros((1, len(density))), np.cumsum(parts.sum(axis=0), axis=0)])
    whole = np.maximum.accumulate(whole, axis=0).T
    wanted = whole[:, -1:] * probabilities
    # The last interval that begins below what is wanted.
    below = np.sum(whole[:, :, None] < wanted[:, None], axis=1)
    interval = np.clip(below - 1, 0, n_points - 2)
    line = np.arange(len(density))[:, None]
    rest = wanted - whole[line, interval]
    fourth, third, second, first = parts[:, interval, line]
    low, high = np.zeros_like(rest), np.ones_like(rest)
    with np.errstate(all="ignore"):
        place = rest / (whole[line, interval + 1] - whole[line, interval])
        place = np.where((place > 0) & (place < 1), place, 0.5)
        for _ in range(_N_STEPS):
            value = place * (first + place * (second + place * (third + place * fourth))) - rest
            slope = first + place * (2 * second + place * (3 * third + place * 4 * fourth))
            low, high = np.where(value < 0, place, low), np.where(value < 0, high, place)
            step = place - value / slope
            new = np.where((step > low) & (step < high), step, 0.5 * (low + high))
            if np.all(np.abs(new - place) <= _EXACT * n_points):
                break
            place = new
    return interval + place
