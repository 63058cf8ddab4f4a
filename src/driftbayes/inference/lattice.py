"""Draws from a density that is known on a lattice, continuous and corrected between its nodes."""

__all__ = ["Lattice", "draw_candidates", "keep_by_ratio"]

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from driftbayes.inference.trapezoid import EVEN
from driftbayes.typing import FloatArray, IntArray


class Lattice(eqx.Module):
    """The nodes of a trapezoid rule, and what it found there.

    Args:
        center: Origin of the coordinate w.
        basis: Lower-triangular matrix; a point is center + basis · a sinh(w/a).
        low: Lower corner of the box, in w.
        high: Upper corner.
        log_values: ln of the density of w at the nodes, up to the volume of a cell.
        log_cell: ln of that volume.
        log_mass: ln of the approximate integral of the mode at its center.
    """

    center: Float[Array, "*part parameter"]
    basis: Float[Array, "*part parameter parameter"]
    low: Float[Array, "*part parameter"]
    high: Float[Array, "*part parameter"]
    log_values: Float[Array, "*part node"]
    log_cell: Float[Array, "*part"]
    log_mass: Float[Array, "*part"]


def draw_candidates(
    lattice: Lattice, n: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Points drawn from the density interpolated linearly along each direction of every cell.

    Args:
        lattice: One lattice.
        n: How many.
        rng: Random numbers.

    Returns:
        The points, ln of the interpolated density of w there, and ln of the stretch of w that
        turns a density of points into one of w.
    """
    low, high = np.asarray(lattice.low), np.asarray(lattice.high)
    n_dim = len(low)
    log_values = np.asarray(lattice.log_values)
    side = round(len(log_values) ** (1 / n_dim))
    peak = log_values.max()
    values = np.exp(log_values - peak).reshape((side,) * n_dim)
    corners = np.array(np.meshgrid(*[[0, 1]] * n_dim, indexing="ij")).reshape(n_dim, -1)
    cells = sum(
        values[tuple(slice(c, side - 1 + c) for c in corner)] for corner in corners.T
    ).reshape(-1)
    rise = np.cumsum(cells)
    chosen = np.searchsorted(rise, rng.random(n) * rise[-1], side="right")
    cell = np.array(np.unravel_index(chosen, (side - 1,) * n_dim))
    at_corners = values[tuple(cell[:, :, None] + corners[:, None, :])]
    # Along one direction after the other: the density is linear in each, given those before.
    at_corners = at_corners.reshape(n, *(2,) * n_dim)
    place = np.empty((n, n_dim))
    for axis in range(n_dim):
        first, last = (at_corners[:, end].reshape(n, -1).sum(axis=1) for end in (0, 1))
        place[:, axis] = u = _draw_linear(first, last, rng.random(n))
        u = u.reshape(n, *(1,) * (n_dim - axis - 1))
        at_corners = (1 - u) * at_corners[:, 0] + u * at_corners[:, 1]
    w = (low + (high - low) * (cell.T + place) / (side - 1)) / EVEN
    z = np.asarray(lattice.center) + (EVEN * np.sinh(w)) @ np.asarray(lattice.basis).T
    return z, np.log(at_corners) + peak, np.sum(np.log(np.cosh(w)), axis=1)


def _draw_linear(first: FloatArray, last: FloatArray, uniforms: FloatArray) -> FloatArray:
    """From densities on (0, 1) that go linearly from `first` to `last`, by inversion."""
    root = np.sqrt(first**2 + uniforms * (last**2 - first**2))
    return uniforms * (first + last) / (first + root)


def keep_by_ratio(log_ratios: FloatArray, uniforms: FloatArray) -> IntArray:
    """Places of the candidates that rejection keeps: independent draws from the density itself.

    Args:
        log_ratios: ln of the density over the interpolated one at each candidate.
        uniforms: One for each.
    """
    with np.errstate(divide="ignore"):
        return np.flatnonzero(np.log(uniforms) < log_ratios - np.max(log_ratios))
