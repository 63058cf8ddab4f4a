"""Lattices of nodes that grow from the modes, and the error of the trapezoid rule on them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations, product
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from driftbayes._typing import FloatArray, IntArray
from driftbayes.errors import DriftbayesError

# F is the Fourier transform of the integrand. It is computed at these fractions of a dual vector;
# further out, images of F at other dual vectors are no longer small. Along (2, 0, …), which is
# twice as long, they are closer.
_FRACTIONS, _DOUBLED_FRACTIONS = np.array([0.2, 0.3, 0.4]), np.array([0.1, 0.2, 0.3])
# -ln F grows as a power of the wave number: two for a Gaussian at small wave numbers, one in the
# limit. Beyond half of the vector the extrapolation keeps this share of the excess over one, and
# less where F is already small.
_PERSISTENCE, _SMALL = 0.6, (4.0, 8.0)
# Along an axis, powers below one count only where F is large: missing nodes disturb the rest.
_MIN_POWER, _NOISE = 0.5, ((3.0, 6.0), (0.5, 1.0))
_SAFETY, _DOUBLED_SAFETY = 2.0, 4.0
# Share of the tolerance that a new spacing is chosen for.
_AIM = 0.5


@dataclass(frozen=True)
class Aliasing:
    """Estimated error of the log-integral on the union of both lattices.

    Args:
        error: The estimate.
        by_axis: Contribution of each axis.
        power: Exponent of the wave number in -ln F, for the largest contribution.
    """

    error: float
    by_axis: FloatArray
    power: float


def estimate_aliasing(index: IntArray, values: FloatArray) -> Aliasing:
    """Estimate the error of the trapezoid rule on the union of A and B.

    Args:
        index: Indices of the nodes (node, p), all even in A and all odd in B.
        values: ln of the integrand at the nodes.
    """
    n_dim = index.shape[1]
    if not np.isfinite(np.max(values, initial=-np.inf)):
        return Aliasing(np.inf, np.full(n_dim, np.inf), 1.0)
    weights = np.exp(values - np.max(values))
    weights = weights / np.sum(weights)
    used = weights > 1e-20
    place, weights = 0.5 * index[used], weights[used]
    is_b = index[used, 0] % 2 == 1
    share = float(np.sum(weights[is_b]))
    if not 0 < share < 1:
        return Aliasing(np.inf, np.full(n_dim, np.inf), 1.0)
    vectors = list(_dual_vectors(n_dim))
    halves, powers = np.empty(len(vectors)), np.empty(len(vectors))
    for k, vector in enumerate(vectors):
        halves[k], powers[k] = _fourier_at_half(vector, place, weights)
    doubled = np.array([np.max(vector) == 2 for vector in vectors])
    # (1, 0, …) is half of (2, 0, …): F summed over the axes is at least the difference of A and B.
    difference = 0.5 * abs(np.log((1 - share) / share))
    halves[doubled] *= max(1.0, difference / (2 * np.sum(halves[doubled])))
    logs = -np.log(halves.clip(1e-100, 0.9))
    reliance = np.interp(logs, _SMALL, (_PERSISTENCE, 0.0))
    onwards = np.where(powers > 1, 1 + reliance * (powers - 1), powers)
    onwards[doubled] = np.minimum(onwards[doubled], 1.0)
    parts = 2 * np.exp(-logs * 2**onwards) * np.where(doubled, _DOUBLED_SAFETY, _SAFETY)
    by_axis = np.zeros(n_dim)
    for vector, part in zip(vectors, parts, strict=True):
        by_axis[vector != 0] += part / np.count_nonzero(vector)
    return Aliasing(float(np.sum(by_axis)), by_axis, float(onwards[np.argmax(parts)]))


def line_aliasing(index: IntArray, weights: FloatArray) -> FloatArray:
    """Estimate the error of the trapezoid rule for many one-dimensional lines of nodes.

    Args:
        index: Indices of the nodes, in units of half the spacing of A and of B.
        weights: Normalised values at the nodes of each line, (line, node).
    """
    weights = np.where(weights > 1e-20, weights, 0.0)
    share = weights[:, index % 2 == 1].sum(axis=1)
    halves, power = _extrapolate(index, weights, along_axis=True)
    # The difference of A and B also measures F at half of the vector.
    halves *= np.maximum(1.0, 0.5 * np.abs(np.log((1 - share) / share)) / (2 * halves))
    onwards = np.minimum(power, 1.0)
    found = 2 * np.exp(np.log(halves.clip(1e-100, 0.9)) * 2**onwards) * _DOUBLED_SAFETY
    return np.where((share > 0) & (share < 1), found, np.inf)


def _dual_vectors(n_dim: int) -> Iterator[IntArray]:
    """List short dual vectors up to sign: coefficients ±1 of even sum, or a single 2."""
    yield from 2 * np.eye(n_dim, dtype=np.int64)
    for size in range(2, min(n_dim, 4) + 1, 2):
        for members in combinations(range(n_dim), size):
            for signs in product((1, -1), repeat=size - 1):
                vector = np.zeros(n_dim, dtype=np.int64)
                vector[list(members)] = (1, *signs)
                yield vector


def _fourier_at_half(
    vector: IntArray, place: FloatArray, weights: FloatArray
) -> tuple[float, float]:
    """Estimate F at half of a vector, and the exponent of the wave number in -ln F.

    At half of the vector the nodes give the sum of the real parts of F and of all its images. The
    sum may vanish by chance, so the extrapolation from smaller wave numbers is a lower bound.
    """
    size, phase = int(np.count_nonzero(vector)), place @ vector
    halves, powers = _extrapolate(phase, weights[None], along_axis=size == 1)
    suggested, power = float(halves[0]), float(powers[0])
    if size == 1:
        return suggested, power
    n_images = 2 ** (size - 1)
    return max(suggested, abs(float(np.cos(np.pi * phase) @ weights)) / n_images), power


def _extrapolate(
    phase: FloatArray | IntArray, weights: FloatArray, *, along_axis: bool
) -> tuple[FloatArray, FloatArray]:
    """Extrapolate F to half of a vector; also return the exponent of the wave number in -ln F.

    Args:
        phase: Scalar products of the nodes with the vector.
        weights: Normalised values at the nodes, (line, node).
        along_axis: Whether the vector has a single component, which is 2.
    """
    fractions = _DOUBLED_FRACTIONS if along_axis else _FRACTIONS
    phases = 2 * np.pi * np.outer(phase, fractions)
    waves = np.hypot(weights @ np.cos(phases), weights @ np.sin(phases))
    logs = -np.log(waves.clip(1e-100, 1 - 1e-9))
    powers = np.log(logs[:, 2:] / logs[:, :2]) / np.log(fractions[2] / fractions[:2])
    lowest = np.interp(logs[:, 2], *_NOISE) if along_axis else _MIN_POWER
    power = np.clip(powers.min(axis=1), lowest, 2.0)
    return np.exp(-logs[:, 2] * (0.5 / fractions[2]) ** power), power


def gaussian_spacing(n_dim: int, tolerance: float) -> float:
    """Choose the spacing at which the estimated error of a unit Gaussian equals the tolerance."""
    wanted = np.log(4 * _SAFETY * n_dim**2 / tolerance)
    trial = np.linspace(0.5, 1.7, 241)
    logs = np.pi**2 / trial**2
    found = logs * 2 ** (1 + np.interp(logs, _SMALL, (_PERSISTENCE, 0.0)))
    return float(trial[np.flatnonzero(found >= wanted)[-1]]) if found[0] >= wanted else 0.5


def refined_spacing(spacing: FloatArray, aliasing: Aliasing, tolerance: float) -> FloatArray:
    """Choose the spacing along each axis that brings the error to the tolerance.

    In one dimension the spacing is halved and all nodes are reused. In more dimensions halving
    costs more than a new lattice whose spacing is just small enough.
    """
    n_dim = len(spacing)
    if n_dim == 1:
        return spacing / 2
    aim = np.log(n_dim / (_AIM * tolerance))
    present = np.log(1 / np.minimum(aliasing.by_axis, 0.5))
    factors = ((present / aim) ** (1 / max(aliasing.power, 0.8))).clip(0.5, 1.0)
    if np.min(factors) > 0.85:
        factors[np.argmin(factors)] = 0.85
    return spacing * factors


LogDensity: TypeAlias = Callable[[FloatArray], tuple[FloatArray, FloatArray]]
# Scale a of z = center + basis · a sinh(w/a): nearly linear within a = 3 widths, then exponential,
# so few nodes cover a slowly decaying tail.
SINH_SCALE = 3.0
# Largest |w| of a node, 7e8 widths in z.
MAX_DISTANCE = 60.0
# Ratio of neighbouring values for extrapolating the tail: largest, and if the slope is unknown.
MAX_RATIO, _UNKNOWN_RATIO = 0.95, 0.5


_Real = TypeVar("_Real", float, FloatArray)


def stretch(w: _Real) -> _Real:
    """Return a sinh(w/a), which spaces nodes evenly near the peak and wider in the tails."""
    return SINH_SCALE * np.sinh(w / SINH_SCALE)


def unstretch(u: _Real) -> _Real:
    """Invert `stretch`."""
    return SINH_SCALE * np.arcsinh(u / SINH_SCALE)


def to_points(w: FloatArray, center: FloatArray, basis: FloatArray) -> FloatArray:
    """Map coordinates w (node, p) to points z = center + basis · a sinh(w/a)."""
    return center + stretch(w) @ basis.T


def whiten(z: FloatArray, center: FloatArray, basis: FloatArray) -> FloatArray:
    """Map points (point, p) to basis⁻¹ (z - center).

    Uses the inverse, since a triangular solver of LAPACK starts its threads even for three rows.
    """
    return (z - center) @ np.linalg.inv(basis).T


def to_w(z: FloatArray, center: FloatArray, basis: FloatArray) -> FloatArray:
    """Invert `to_points`."""
    return unstretch(whiten(z, center, basis))


def log_stretch(w: FloatArray) -> FloatArray:
    """Compute ln of the Jacobian of `to_points`, without the determinant of the basis."""
    scaled = np.abs(w) / SINH_SCALE
    return np.sum(scaled + np.log1p(np.exp(-2 * scaled)) - np.log(2.0), axis=-1)


@dataclass(frozen=True)
class Region:
    """The integrand, its coordinates, and the largest number of nodes."""

    log_f: LogDensity
    center: FloatArray
    basis: FloatArray
    max_nodes: int


class FloodFill:
    """Nodes of two interleaved lattices, A and B, with values, grown by flood fill.

    Nodes have integer indices in units of half the spacing: all even in A, all odd in B. A step
    along an axis changes an index by two and stays in the same lattice.

    Args:
        region: Integrand and coordinates.
        spacing: Spacing of either lattice along each axis, in w.
        n_evaluations: Number of previous evaluations.
    """

    def __init__(self, region: Region, spacing: FloatArray, n_evaluations: int = 0) -> None:
        n_dim = len(spacing)
        self.region = region
        self.spacing = spacing
        self.n_evaluations = n_evaluations
        self.index: IntArray = np.empty((0, n_dim), dtype=np.int64)
        self.values: FloatArray = np.empty(0)
        self.extras: FloatArray | None = None
        self._expanded: NDArray[np.bool_] = np.empty(0, dtype=bool)
        steps = 2 * np.eye(n_dim, dtype=np.int64)
        self._steps: IntArray = np.concatenate([steps, -steps])
        corners = 2 * (np.arange(2**n_dim)[:, None] >> np.arange(n_dim) & 1) - 1
        self._moves: IntArray = np.concatenate([self._steps, corners])

    @property
    def w(self) -> FloatArray:
        """Coordinates of the nodes."""
        return 0.5 * self.spacing * self.index

    @property
    def peak(self) -> float:
        """Largest value so far."""
        return float(np.max(self.values, initial=-np.inf))

    def nearest(self, w: FloatArray) -> IntArray:
        """Find the node of A and the node of B that are nearest to each point."""
        scaled = w / self.spacing
        return np.concatenate([2 * np.rint(scaled), 2 * np.floor(scaled) + 1]).astype(np.int64)

    def adopt(self, index: IntArray, values: FloatArray, extras: FloatArray) -> None:
        """Reuse nodes that were evaluated before."""
        self.index, self.values, self.extras = index, values, extras
        self._expanded = np.zeros(len(index), dtype=bool)

    def fill(self, start: IntArray, depth: float) -> bool:
        """Evaluate `start`, then all neighbours of nodes within `depth` of the peak.

        Args:
            start: Indices to evaluate first.
            depth: Largest difference from the peak, in ln, of nodes whose neighbours are evaluated.

        Returns:
            Whether the evaluations allowed were sufficient.
        """
        if len(start) and not self._evaluate(self._select_new(start)):
            return False
        while True:
            high = np.flatnonzero(~self._expanded & (self.values > self.peak - depth))
            if not len(high):
                return True
            around = (self.index[high, None] + self._moves).reshape(-1, len(self.spacing))
            if not self._evaluate(self._select_new(around)):
                return False
            self._expanded[high] = True

    def tail(self) -> float:
        """Estimate the mass beyond the last nodes, relative to the whole.

        A geometric series with the ratio of the last two values continues each line of nodes,
        which is an upper bound for a log-concave function.
        """
        peak = self.peak
        if not np.isfinite(peak):
            return np.inf
        values = np.append(np.exp(self.values - peak), 0.0)
        links = self._links()
        n_dim = len(self.spacing)
        inward = np.roll(links, n_dim, axis=1)
        here = np.broadcast_to(values[:-1, None], links.shape)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            ratio = np.where(inward >= 0, here / values[inward], _UNKNOWN_RATIO)
        ratio = np.where(np.isnan(ratio), 0.0, np.minimum(ratio, MAX_RATIO))
        beyond = np.where(links < 0, here * ratio / (1 - ratio), 0.0)
        return float(np.sum(beyond) / np.sum(values))

    def _links(self) -> IntArray:
        """Find each node's neighbours in both directions of each axis; -1 if missing."""
        around = self.index[:, None] + self._steps
        return self._find(around.reshape(-1, len(self.spacing))).reshape(around.shape[:2])

    def _find(self, wanted: IntArray) -> IntArray:
        """Find the positions of nodes by index; -1 if missing."""
        if not len(self.index):
            return np.full(len(wanted), -1)
        keys = _keys(np.concatenate([self.index, wanted]))
        known, asked = keys[: len(self.index)], keys[len(self.index) :]
        order = np.argsort(known)
        place = np.minimum(np.searchsorted(known, asked, sorter=order), len(known) - 1)
        return np.where(known[order[place]] == asked, order[place], -1)

    def _select_new(self, candidates: IntArray) -> IntArray:
        """Select unique candidates that are not nodes yet and not too far out."""
        near = np.all(np.abs(0.5 * self.spacing * candidates) <= MAX_DISTANCE, axis=1)
        candidates = candidates[near]
        if not len(candidates):
            return candidates
        candidates = candidates[np.unique(_keys(candidates), return_index=True)[1]]
        return candidates[self._find(candidates) < 0]

    def _evaluate(self, index: IntArray) -> bool:
        """Evaluate the integrand at new nodes; return False if they are too many."""
        if self.n_evaluations + len(index) > self.region.max_nodes:
            return False
        if len(index):
            w = 0.5 * self.spacing * index
            values, extras = self.region.log_f(to_points(w, self.region.center, self.region.basis))
            values, extras = np.asarray(values, dtype=float), np.asarray(extras, dtype=float)
            if values.shape != (len(index),) or extras.shape[:1] != (len(index),):
                raise DriftbayesError(
                    f"log_f returned shapes {values.shape} and {extras.shape} for {len(index)} "
                    f"points; expected ({len(index)},) and ({len(index)}, m)"
                )
            if np.any(values == np.inf):
                raise DriftbayesError("log_f is +inf at a node; the integral does not exist")
            values = np.where(np.isnan(values), -np.inf, values) + log_stretch(w)
            self.index = np.concatenate([self.index, index])
            self.values = np.concatenate([self.values, values])
            self.extras = extras if self.extras is None else np.concatenate([self.extras, extras])
            self._expanded = np.append(self._expanded, np.zeros(len(index), dtype=bool))
            self.n_evaluations += len(index)
        return True


def _keys(index: IntArray) -> IntArray:
    """Map index vectors to unique integers."""
    low = index.min(axis=0)
    spans = index.max(axis=0) - low + 1
    if np.prod(spans.astype(float)) > 2.0**62:
        return np.unique(index, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)
    strides = np.concatenate([np.cumprod(spans[:0:-1])[::-1], [1]]).astype(np.int64)
    return (index - low) @ strides
