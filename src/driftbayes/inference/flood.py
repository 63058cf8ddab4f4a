"""Lattice nodes found by flood fill: start near the mode, add neighbours while they matter."""

__all__ = ["EVEN", "Flood", "LogDensity", "Region", "log_stretch", "to_points", "to_w"]

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from driftbayes.errors import DriftbayesError
from driftbayes.typing import FloatArray, IntArray

LogDensity: TypeAlias = Callable[[FloatArray], tuple[FloatArray, FloatArray]]

# z = center + basis · a sinh(w/a): nearly linear within a = 3 widths, then exponential, so that a
# slowly decaying tail is crossed in few steps.
EVEN = 3.0
# No node lies further out than this in w, 7e8 widths in z.
MAX_DISTANCE = 60.0
# Ratios of neighbouring values that the tail beyond the last node is extrapolated with: at most,
# and where the slope is unknown.
MAX_RATIO, _UNKNOWN_RATIO = 0.95, 0.5


def to_points(w: FloatArray, center: FloatArray, basis: FloatArray) -> FloatArray:
    """Map coordinates w (node, p) to points z = center + basis · a sinh(w/a)."""
    return center + (EVEN * np.sinh(w / EVEN)) @ basis.T


def whiten(z: FloatArray, center: FloatArray, basis: FloatArray) -> FloatArray:
    """Map points (point, p) to basis⁻¹ (z - center).

    By the inverse: a triangular solver of LAPACK wakes its threads for a matrix of three rows.
    """
    return (z - center) @ np.linalg.inv(basis).T


def to_w(z: FloatArray, center: FloatArray, basis: FloatArray) -> FloatArray:
    """Invert `to_points`."""
    return EVEN * np.arcsinh(whiten(z, center, basis) / EVEN)


def log_stretch(w: FloatArray) -> FloatArray:
    """Compute ln of the Jacobian of `to_points`, without the determinant of the basis."""
    scaled = np.abs(w) / EVEN
    return np.sum(scaled + np.log1p(np.exp(-2 * scaled)) - np.log(2.0), axis=-1)


@dataclass(frozen=True)
class Region:
    """The integrand and the coordinates it is integrated in."""

    log_f: LogDensity
    center: FloatArray
    basis: FloatArray
    max_nodes: int


class Flood:
    """Nodes of two interleaved lattices, A and B, and the integrand there.

    Nodes have integer indices in units of half the spacing: all even in A, all odd in B. A step
    along an axis changes an index by two and stays in the same lattice.

    Args:
        region: Integrand and coordinates.
        spacing: Spacing of either lattice along each axis, in w.
        n_evaluations: Number of evaluations made before.
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
        return np.concatenate(
            [2 * np.rint(scaled), 2 * np.floor(scaled) + 1],
        ).astype(np.int64)

    def adopt(self, index: IntArray, values: FloatArray, extras: FloatArray) -> None:
        """Take over nodes that were evaluated before."""
        self.index, self.values, self.extras = index, values, extras
        self._expanded = np.zeros(len(index), dtype=bool)

    def fill(self, start: IntArray, depth: float) -> bool:
        """Evaluate `start`, then neighbours of nodes within `depth` of the peak until none is left.

        Args:
            start: Indices to evaluate first.
            depth: Nodes whose ln value is above the peak's less this are expanded.

        Returns:
            Whether the fill was completed within the number of evaluations allowed.
        """
        if len(start) and not self._evaluate(self._new(start)):
            return False
        while True:
            high = np.flatnonzero(~self._expanded & (self.values > self.peak - depth))
            if not len(high):
                return True
            around = (self.index[high, None] + self._moves).reshape(-1, len(self.spacing))
            if not self._evaluate(self._new(around)):
                return False
            self._expanded[high] = True

    def tail(self) -> float:
        """Estimate the mass beyond the last nodes, relative to the whole.

        Each line of nodes is continued beyond its end by a geometric series with the ratio of its
        last two values, which bounds the rest of a log-concave function.
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
        """Find the place of each node's neighbours along ±each axis; -1 where there is none."""
        around = self.index[:, None] + self._steps
        return self._find(around.reshape(-1, len(self.spacing))).reshape(around.shape[:2])

    def _find(self, wanted: IntArray) -> IntArray:
        """Find places of nodes by index; -1 where there is none."""
        if not len(self.index):
            return np.full(len(wanted), -1)
        both = np.concatenate([self.index, wanted])
        keys = _keys(both)
        known, asked = keys[: len(self.index)], keys[len(self.index) :]
        order = np.argsort(known)
        place = np.minimum(np.searchsorted(known, asked, sorter=order), len(known) - 1)
        return np.where(known[order[place]] == asked, order[place], -1)

    def _new(self, candidates: IntArray) -> IntArray:
        """Select candidates, each once, that are not known and not too far out."""
        near = np.all(np.abs(0.5 * self.spacing * candidates) <= MAX_DISTANCE, axis=1)
        candidates = candidates[near]
        if not len(candidates):
            return candidates
        candidates = candidates[np.unique(_keys(candidates), return_index=True)[1]]
        return candidates[self._find(candidates) < 0]

    def _evaluate(self, index: IntArray) -> bool:
        """Evaluate the integrand at new nodes, unless they are too many."""
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
    """Number indices by one integer each, the same for the same index."""
    low = index.min(axis=0)
    spans = index.max(axis=0) - low + 1
    if np.prod(spans.astype(float)) > 2.0**62:
        return np.unique(index, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)
    strides = np.concatenate([np.cumprod(spans[:0:-1])[::-1], [1]]).astype(np.int64)
    return (index - low) @ strides
