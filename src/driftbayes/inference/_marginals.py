"""Marginal posterior densities."""

from collections.abc import Callable

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.stats import gaussian_kde

from driftbayes._precision import in_double_precision
from driftbayes._typing import FloatArray
from driftbayes.inference._draws import PosteriorDraws
from driftbayes.inference._hypothesis import points_at
from driftbayes.inference._posterior import described, log_scale_density
from driftbayes.inference._quadrature import Quadrature
from driftbayes.inference._quantiles import marginal_density

# Points of a density, and of the finer grid for finding its range.
_N_POINTS, _N_FINE = 161, 801
# Probability beyond each end.
_TAIL = 2e-4


@in_double_precision
def posterior_density(draws: PosteriorDraws, name: str) -> tuple[FloatArray, FloatArray]:
    """Compute the posterior density of one parameter.

    If the evidence was integrated exactly, the density comes from the same integral; otherwise from
    a Gaussian kernel estimate of the draws, in ln θ unless the parameter is signed.

    Args:
        draws: Draws from the posterior.
        name: Name of the parameter.

    Returns:
        Values of the parameter, which cover all but 0.04 % of the probability, and the density.
    """
    place = draws.names.index(name)
    found: Quadrature | None = draws.quadrature
    if found is not None and found.form is not None and place == found.density.scale:
        v, density = log_scale_density(found.nodes, found.lattices, found.form)
        spline = CubicSpline(v, density)
        u = _central_grid(v, spline(v), np.exp)
        return np.exp(u), spline(u) / np.exp(u)
    if found is not None:
        return _lattice_density(found, place)
    is_signed = draws.hypothesis.signed[place]
    sample = described(draws.theta[:, place], np.array(is_signed))
    if np.ptp(sample) == 0:
        return draws.theta[:2, place], np.zeros(min(2, len(draws)))
    kernel = gaussian_kde(sample)
    room = 3 * float(np.sqrt(kernel.covariance[0, 0]))
    grid = np.linspace(sample.min() - room, sample.max() + room, _N_FINE)
    u = _central_grid(grid, kernel(grid), np.asarray if is_signed else np.exp)
    return (u, kernel(u)) if is_signed else (np.exp(u), kernel(u) / np.exp(u))


def _lattice_density(found: Quadrature, place: int) -> tuple[FloatArray, FloatArray]:
    """Compute the density of a parameter that is a coordinate of the lattices."""
    axis = int(np.flatnonzero(found.left == place)[0])
    hypothesis = found.density.hypothesis

    def at(z: FloatArray) -> tuple[FloatArray, FloatArray]:
        points = np.zeros((len(z), len(hypothesis.names)))
        points[:, place] = z
        theta, _, log_slope = points_at(hypothesis, points)
        return theta[:, place], log_slope[:, place]

    z = np.concatenate([lattice.z[:, axis] for lattice in found.lattices])
    grid = np.linspace(z.min(), z.max(), _N_FINE)
    density = marginal_density(found.lattices, axis, grid)
    inner = _central_grid(grid, density, lambda z: at(z)[0])
    theta, log_slope = at(inner)
    return theta, marginal_density(found.lattices, axis, inner) * np.exp(-log_slope)


def _central_grid(
    grid: FloatArray, density: FloatArray, theta_at: Callable[[FloatArray], FloatArray]
) -> FloatArray:
    """Return coordinates at evenly spaced values of θ that cover all but the tails."""
    rise = np.cumsum(density)
    low, high = np.searchsorted(rise, [_TAIL * rise[-1], (1 - _TAIL) * rise[-1]])
    inside = grid[max(low - 1, 0) : high + 2]
    theta = theta_at(inside)
    # θ increases with the coordinate under every prior.
    return np.interp(np.linspace(theta[0], theta[-1], _N_POINTS), theta, inside)
