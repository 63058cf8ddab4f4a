"""Integration of a smooth peak by the trapezoid rule on a lattice that grows from the mode."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import chdtri

from driftbayes._typing import FloatArray, IntArray
from driftbayes.errors import DriftbayesError
from driftbayes.inference._lattice import (
    SINH_SCALE,
    FloodFill,
    LogDensity,
    Region,
    estimate_aliasing,
    gaussian_spacing,
    log_stretch,
    refined_spacing,
    stretch,
    to_points,
    to_w,
    unstretch,
)
from driftbayes.inference._log_sums import logsumexp

# Share of the tolerance allowed for the mass beyond the last nodes.
TAIL_SHARE = 0.25
MAX_DEPTH = 80.0
_MAX_LEVELS = 12
# A finer lattice is tried if it can have at least this many times the nodes.
_MIN_GROWTH = 1.5
SLOWEST_DECAY = 0.7
# Largest reduction of the first spacing for peaks away from the center.
_MAX_STRETCH = 3.0


@dataclass(frozen=True)
class NodeLattice:
    r"""The integral of a peak, and the nodes of the trapezoid rule that gave it.

    The nodes belong to two interleaved lattices, A and B, shifted by half a spacing along all axes.
    The sum over both, each node with the volume exp(log_cell), is the integral.

    Args:
        center: Origin of w.
        basis: Lower-triangular matrix; z = center + basis · a sinh(w/a), a = 3.
        spacing: Spacing of either lattice along each axis of w.
        index: Indices of the nodes in units of half the spacing: all even in A, all odd in B.
        z: Nodes.
        w: Their coordinates, index · spacing / 2.
        log_values: ln of the integrand plus ln of the stretch Π cosh(w/a).
        log_cell: ln of the volume of a node in z without the stretch.
        extras: Additional results of the integrand at the nodes.
        log_integral: ln of the integral.
        error: Estimate of the error of `log_integral`, from the spacing and the tails.
        contained: Whether the mass beyond the last nodes is within the tolerance.
        n_evaluations: Number of evaluations, including discarded ones.
    """

    center: FloatArray
    basis: FloatArray
    spacing: FloatArray
    index: IntArray
    z: FloatArray
    w: FloatArray
    log_values: FloatArray
    log_cell: float
    extras: FloatArray
    log_integral: float
    error: float
    contained: bool
    n_evaluations: int


def integrate(
    log_f: LogDensity,
    center: FloatArray,
    basis: FloatArray,
    *,
    tolerance: float,
    seeds: FloatArray | None = None,
    max_nodes: int,
    max_tail: float = np.inf,
) -> NodeLattice:
    r"""Integrate exp(log_f) over all of space.

    The trapezoid rule converges exponentially for smooth functions that vanish at both ends. It is
    applied in w, where z = center + basis · a sinh(w/a). The first nodes are those of a Gaussian;
    then neighbours are added around all nodes that are high enough. The spacing is reduced along
    each axis as needed, until the estimated error is within the tolerance.

    The estimate is conservative, typically by a factor of ten or more. For ridges that bend more
    than once, it may be too small by up to a factor of ten.

    Args:
        log_f: Takes points (node, p); returns ln of the integrand (node,), where NaN counts as
            -inf, and additional results to keep (node, m).
        center: A point near the peak.
        basis: Lower-triangular factor of the peak's approximate covariance.
        tolerance: Accepted error of ln of the integral.
        seeds: Other peaks (seed, p) to start from, within about ten widths of the center.
        max_nodes: Maximum number of evaluations.
        max_tail: Largest relative mass beyond the last nodes, if stricter than the tolerance:
            moments of a heavy tail need more nodes than its integral.

    Returns:
        The integral and its nodes. Its `error` exceeds the tolerance if `max_nodes` was too small.

    Example:
        >>> import numpy as np
        >>> from driftbayes.inference._node_lattice import integrate
        >>> def log_f(z):
        ...     return -0.5 * np.sum(z**2, axis=1), z[:, :0]
        >>> lattice = integrate(log_f, np.zeros(2), np.eye(2), tolerance=1e-6, max_nodes=10_000)
        >>> bool(abs(lattice.log_integral - np.log(2 * np.pi)) < 1e-6)
        True
    """
    _check(center, basis, tolerance, seeds, max_nodes)
    n_dim = len(center)
    region = Region(log_f, center, basis, max_nodes)
    max_tail = min(TAIL_SHARE * tolerance, max_tail, 0.1)
    depth = 0.5 * float(chdtri(n_dim, max_tail))
    spacing = np.full(n_dim, gaussian_spacing(n_dim, tolerance))
    other = to_w(seeds, center, basis) if seeds is not None else np.empty((0, n_dim))
    # The stretch makes a peak of unit width in z narrower in w, more so further out.
    stretch = np.max(np.cosh(other / SINH_SCALE), axis=0, initial=1.0)
    flood = FloodFill(region, spacing / np.minimum(stretch, _MAX_STRETCH))
    start = np.concatenate([_gaussian_nodes(flood, depth), flood.nearest(other)])
    # If there are too many, keep those nearest to the center.
    start = start[np.argsort(np.sum((flood.spacing * start) ** 2, axis=1), kind="stable")]
    start = start[:max_nodes]
    best: NodeLattice | None = None
    for _ in range(_MAX_LEVELS):
        complete, depth = _fill(flood, start, depth, max_tail)
        aliasing = estimate_aliasing(flood.index, flood.values)
        result = _make_result(flood, aliasing.error, tolerance)
        if best is not None:
            best, result = _correct_errors(best, result)
        if best is None or result.error <= best.error:
            best = result
        # A finer spacing does not reduce the rounding of a large integral.
        enough = max(tolerance, 2 * _rounding(best.log_integral, len(best.log_values)))
        if not complete or not np.isfinite(flood.peak) or best.error <= enough:
            break
        finer = refined_spacing(flood.spacing, aliasing, (1 - TAIL_SHARE) * tolerance)
        affordable = _limit_spacing(flood, finer)
        if affordable is None:
            break
        flood, start = _refine(flood, affordable, depth)
    assert best is not None
    return replace(best, n_evaluations=flood.n_evaluations)


def _fill(flood: FloodFill, start: IntArray, depth: float, max_tail: float) -> tuple[bool, float]:
    """Fill a lattice to a depth, increased until the mass beyond is small.

    Returns:
        Whether the evaluations allowed were sufficient, and the depth.
    """
    complete = flood.fill(start, depth)
    tail = flood.tail()
    while complete and max_tail < tail < np.inf and depth < MAX_DEPTH:
        depth += 1.0 + np.log(tail / max_tail)
        complete = flood.fill(flood.index[:0], depth)
        before, tail = tail, flood.tail()
        if tail >= before:
            break
    return complete, depth


def _correct_errors(coarse: NodeLattice, fine: NodeLattice) -> tuple[NodeLattice, NodeLattice]:
    """Correct the errors of two lattices by the difference of their integrals.

    The difference is the error of the coarser one. The finer one is assumed to have a log-error
    larger by the ratio of the spacings to the power of 0.7, which only very curved ridges exceed.
    """
    if not np.isfinite(fine.log_integral - coarse.log_integral):
        return coarse, fine
    change = abs(fine.log_integral - coarse.log_integral)
    power = np.max(coarse.spacing / fine.spacing) ** SLOWEST_DECAY
    expected = min(change, 1.0) ** power
    return (
        replace(coarse, error=float(max(coarse.error, change - fine.error))),
        replace(fine, error=float(max(fine.error, expected))),
    )


def _gaussian_nodes(flood: FloodFill, depth: float) -> IntArray:
    """List the nodes of both lattices at which a Gaussian is within `depth` of its peak."""
    n_dim = len(flood.spacing)
    reach = unstretch(np.sqrt(2 * depth))
    sides = [int(reach / h) + 1 for h in flood.spacing]
    even = np.meshgrid(*[2 * np.arange(-n, n + 1) for n in sides], indexing="ij")
    corner = np.stack(even, axis=-1).reshape(-1, n_dim)
    index = np.concatenate([corner, corner + 1])
    w = 0.5 * flood.spacing * index
    log_gaussian = -0.5 * np.sum(stretch(w) ** 2, axis=1) + log_stretch(w)
    return index[log_gaussian > -depth]


def gaussian_reach(spacing: float, depth: float) -> int:
    """Return the last index in one dimension at which a Gaussian is within `depth` of its peak."""
    reach = unstretch(np.sqrt(2 * depth))
    index = np.arange(2 * int(reach / spacing) + 4)
    w: FloatArray = 0.5 * spacing * index.astype(np.float64)
    log_gaussian = -0.5 * stretch(w) ** 2 + log_stretch(w[:, None])
    return int(index[log_gaussian > -depth][-1])


def _refine(flood: FloodFill, spacing: FloatArray, depth: float) -> tuple[FloodFill, IntArray]:
    """Start a finer lattice from the nodes of a coarser one, which one dimension reuses."""
    finer = FloodFill(flood.region, spacing, flood.n_evaluations)
    high = flood.values > flood.peak - depth
    if len(spacing) == 1 and flood.extras is not None:
        # Half the spacing: A and B together are the new A.
        finer.adopt(2 * flood.index, flood.values, flood.extras)
        return finer, np.concatenate([finer.index[high] + 1, finer.index[high] - 1])
    return finer, finer.nearest(flood.w[high])


def _limit_spacing(flood: FloodFill, spacing: FloatArray) -> FloatArray | None:
    """Limit a new spacing by the evaluations that are left; None if they are too few."""
    left = 0.9 * (flood.region.max_nodes - flood.n_evaluations) / len(flood.values)
    log_ratio = float(np.sum(np.log(flood.spacing / spacing)))
    if len(spacing) == 1:
        return spacing if left > 1 else None
    if log_ratio <= np.log(max(left, 1e-300)):
        return spacing
    if left < _MIN_GROWTH:
        return None
    return flood.spacing * (spacing / flood.spacing) ** (np.log(left) / log_ratio)


def _make_result(flood: FloodFill, aliasing: float, tolerance: float) -> NodeLattice:
    """Sum the nodes of a lattice, and estimate the error of the sum."""
    region, tail = flood.region, flood.tail()
    diagonal = np.abs(np.diag(region.basis))
    log_cell = float(np.sum(np.log(flood.spacing * diagonal)) - np.log(2.0))
    found = np.isfinite(flood.peak)
    log_integral = float(logsumexp(flood.values)) + log_cell if found else -np.inf
    rounding = _rounding(log_integral, len(flood.values)) if found else np.inf
    w = flood.w
    return NodeLattice(
        center=region.center,
        basis=region.basis,
        spacing=flood.spacing,
        index=flood.index,
        z=to_points(w, region.center, region.basis),
        w=w,
        log_values=flood.values,
        log_cell=log_cell,
        extras=np.empty((0, 0)) if flood.extras is None else flood.extras,
        log_integral=log_integral,
        error=float(aliasing + tail + rounding),
        contained=bool(tail <= tolerance),
        n_evaluations=flood.n_evaluations,
    )


def _rounding(log_integral: float, n_nodes: int) -> float:
    """Estimate the rounding error of a log-integral."""
    return 1e-15 * (abs(log_integral) + n_nodes**0.5)


def _check(
    center: FloatArray,
    basis: FloatArray,
    tolerance: float,
    seeds: FloatArray | None,
    max_nodes: int,
) -> None:
    """Raise an error if an argument of `integrate` is invalid."""
    if center.ndim != 1 or not center.size:
        raise DriftbayesError(
            f"center must have shape (p,) with p of at least 1, got {center.shape}"
        )
    n_dim = len(center)
    if basis.shape != (n_dim, n_dim):
        raise DriftbayesError(f"basis must have shape {(n_dim, n_dim)}, got {basis.shape}")
    if not (np.all(np.isfinite(center)) and np.all(np.isfinite(basis))):
        raise DriftbayesError("center and basis must be finite; the search for the mode failed")
    if np.any(np.triu(basis, 1) != 0) or np.any(np.diag(basis) == 0):
        raise DriftbayesError("basis must be lower-triangular with a diagonal without zeros")
    if not 0 < tolerance < np.inf:
        raise DriftbayesError(f"tolerance must be positive, got {tolerance}")
    if seeds is not None and (seeds.ndim != 2 or seeds.shape[1] != n_dim):
        raise DriftbayesError(f"seeds must have shape (seed, {n_dim}), got {seeds.shape}")
    if max_nodes < 1:
        raise DriftbayesError(f"max_nodes must be at least 1, got {max_nodes}")


def log_masses(lattices: Sequence[NodeLattice]) -> FloatArray:
    """Check and return ln of the integral of each part of a density.

    Raises:
        DriftbayesError: There are no lattices, or an integral is not finite.
    """
    logs = np.array([lattice.log_integral for lattice in lattices])
    if not len(logs) or not np.all(np.isfinite(logs)):
        raise DriftbayesError(
            f"expected one or more lattices with a finite integral, got integrals exp({logs})"
        )
    return logs
