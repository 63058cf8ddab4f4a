"""Integration of many smooth one-dimensional peaks at once, as in `node_lattice`."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri

from driftbayes._typing import FloatArray, IntArray
from driftbayes.data._sampling import ragged_arange
from driftbayes.errors import DriftbayesError
from driftbayes.inference._lattice import (
    MAX_DISTANCE,
    MAX_RATIO,
    SINH_SCALE,
    gaussian_spacing,
    line_aliasing,
    log_stretch,
    stretch,
)
from driftbayes.inference._node_lattice import MAX_DEPTH, SLOWEST_DECAY, TAIL_SHARE, gaussian_reach

# Takes the line and the z of each point; returns ln of the integrand, and results to keep.
LineDensity: TypeAlias = Callable[[IntArray, FloatArray], tuple[FloatArray, FloatArray]]

_MAX_LEVELS = 4
_MAX_ROUNDS = 60
# Maximum number of nodes added at an end at once.
_MAX_ADDED = 16


@dataclass(frozen=True)
class Lines:
    """Integrals of peaks, and the nodes of the trapezoid rule that gave them.

    Args:
        center: Origin of w of each line; z = center + width · a sinh(w/a), a = 3.
        width: Unit of w in z.
        spacing: Distance between neighbouring nodes in w.
        first: Index of the first node, in units of the spacing.
        n_nodes: Number of nodes of each line.
        log_values: ln of the integrand plus ln of the stretch, (line, node); -inf beyond the last.
        extras: Additional results of the integrand, (line, node, m).
        log_integral: ln of the integral.
        error: Estimated error of the log-integral, from the spacing and the tails.
        contained: Whether the mass beyond the last nodes is within the tolerance.
    """

    center: FloatArray
    width: FloatArray
    spacing: FloatArray
    first: IntArray
    n_nodes: IntArray
    log_values: FloatArray
    extras: FloatArray
    log_integral: FloatArray
    error: FloatArray
    contained: NDArray[np.bool_]

    def __getitem__(self, which: NDArray[Any]) -> "Lines":
        """Select lines."""
        return Lines(*(getattr(self, part.name)[which] for part in fields(self)))

    @property
    def log_weights(self) -> FloatArray:
        """Ln of the weight of each node in the integral."""
        return self.log_values + np.log(self.spacing * self.width)[:, None]

    @property
    def w(self) -> FloatArray:
        """Coordinates of the nodes, (line, node)."""
        index = self.first[:, None] + np.arange(self.log_values.shape[1])
        return np.asarray(self.spacing[:, None] * index)

    @property
    def ends(self) -> FloatArray:
        """First and last node of each line, (line, 2)."""
        index = self.first[:, None] + np.stack([0 * self.n_nodes, self.n_nodes - 1], axis=1)
        stretched = stretch(self.spacing[:, None] * index)
        return np.asarray(self.center[:, None] + self.width[:, None] * stretched)


@dataclass
class _Table:
    """Nodes of one spacing; column c has the index `low` + c, NaN marks missing nodes."""

    members: IntArray
    spacing: float
    low: int
    values: FloatArray
    extras: FloatArray

    def ends(self) -> tuple[IntArray, IntArray]:
        """Return the columns of the first and last node of each line, which has no gaps."""
        is_node = ~np.isnan(self.values)
        n = self.values.shape[1]
        return np.argmax(is_node, axis=1), n - 1 - np.argmax(is_node[:, ::-1], axis=1)

    def pad(self, left: int, right: int) -> None:
        """Add columns without nodes."""
        self.low -= left
        self.values = np.pad(self.values, ((0, 0), (left, right)), constant_values=np.nan)
        self.extras = np.pad(self.extras, ((0, 0), (left, right), (0, 0)))


@np.errstate(all="ignore")
def integrate_lines(
    log_f: LineDensity,
    center: FloatArray,
    width: FloatArray,
    *,
    tolerance: float,
    max_tail: float,
) -> Lines:
    """Integrate exp(log_f) over z for each line.

    Nodes, spacing and errors are those of `_node_lattice.integrate` in one dimension. Lines whose
    error remains above the tolerance are returned too.

    Args:
        log_f: The integrand.
        center: A point near the peak of each line.
        width: Approximate standard deviation of the peak.
        tolerance: Accepted error of ln of the integral.
        max_tail: Largest relative mass beyond the last nodes, if stricter than the tolerance.

    Raises:
        DriftbayesError: The tolerance is not positive.
    """
    if not 0 < tolerance < np.inf:
        raise DriftbayesError(f"tolerance must be positive, got {tolerance}")
    n = len(center)
    max_tail = min(TAIL_SHARE * tolerance, max_tail, 0.1)
    depth = np.full(n, 0.5 * float(chdtri(1, max_tail)))
    spacing = 0.5 * gaussian_spacing(1, tolerance)
    reach = gaussian_reach(2 * spacing, float(depth[0])) if n else 0

    def evaluate(table: _Table, rows: IntArray, columns: IntArray) -> None:
        if not len(rows):
            return
        w: FloatArray = table.spacing * (columns + table.low).astype(np.float64)
        line = table.members[rows]
        values, extras = log_f(
            line, center[line] + width[line] * SINH_SCALE * np.sinh(w / SINH_SCALE)
        )
        values = np.where(np.isnan(values), -np.inf, values) + log_stretch(w[:, None])
        if not table.extras.shape[2]:
            table.extras = np.zeros((*table.values.shape, extras.shape[1]))
        table.values[rows, columns] = values
        table.extras[rows, columns] = extras

    n_columns = 2 * reach + 1
    table = _Table(
        np.arange(n), spacing, -reach, np.full((n, n_columns), np.nan), np.zeros((n, n_columns, 0))
    )
    if n:
        evaluate(table, np.repeat(np.arange(n), n_columns), np.tile(np.arange(n_columns), n))
    out = _Collected(n)
    for level in range(_MAX_LEVELS):
        if not len(table.members):
            break
        tail = _fill(table, depth, max_tail, evaluate)
        log_integral, error, rounding = _sum_nodes(table, tail, width)
        if level:
            change = np.abs(log_integral - out.log_integral[table.members])
            expected = np.minimum(change, 1.0) ** (2.0**SLOWEST_DECAY)
            error = np.where(np.isfinite(change), np.maximum(error, expected), error)
        out.keep(table, log_integral, error, tail <= tolerance)
        # A finer spacing does not reduce the rounding of a large ln Z.
        again = (error > np.maximum(tolerance, 2 * rounding)) & np.isfinite(log_integral)
        table = _refine(table, again, evaluate)
    return out.lines(center, width)


def _fill(
    table: _Table,
    depth: FloatArray,
    max_tail: float,
    evaluate: Callable[[_Table, IntArray, IntArray], None],
) -> FloatArray:
    """Add nodes at both ends until the mass beyond is small; return an estimate of it."""
    n = len(table.members)
    tail, settled = np.full(n, np.inf), np.zeros(n, dtype=bool)
    limit = int(MAX_DISTANCE / table.spacing)
    for turn in range(_MAX_ROUNDS):
        columns = np.arange(table.values.shape[1])
        peak = np.nanmax(table.values, axis=1)
        high = table.values > (peak - depth[table.members])[:, None]
        begin, end = table.ends()
        low_high = np.argmax(high, axis=1)
        last_high = len(columns) - 1 - np.argmax(high[:, ::-1], axis=1)
        # Two nodes beyond the last relevant one, within the largest distance.
        left = np.maximum(begin - (low_high - 2), 0)
        right = np.maximum(last_high + 2 - end, 0)
        left = np.minimum(left, np.maximum(begin + table.low + limit, 0))
        right = np.minimum(right, np.maximum(limit - end - table.low, 0))
        more = (left + right > 0) & np.isfinite(peak) & ~settled
        if not more.any():
            before, tail = tail, _tail(table)
            settled |= ~(tail > max_tail) | ~(tail < before) | ~np.isfinite(tail)
            settled |= depth[table.members] >= MAX_DEPTH
            if settled.all():
                return tail
            raised = ~settled
            depth[table.members[raised]] += 1.0 + np.log(tail[raised] / max_tail)
            continue
        # Add more nodes at once for longer tails.
        growth = min(2 ** (turn // 2), _MAX_ADDED)
        left = np.where(more & (left > 0), np.maximum(left, growth), 0)
        right = np.where(more & (right > 0), np.maximum(right, growth), 0)
        n_left = max(int((left - begin).max()), 0)
        n_right = max(int((end + right).max()) + 1 - len(columns), 0)
        table.pad(n_left, n_right)
        begin, end = begin + n_left, end + n_left
        rows = np.concatenate([np.repeat(np.arange(n), left), np.repeat(np.arange(n), right)])
        new = np.concatenate(
            [
                np.repeat(begin, left) - 1 - ragged_arange(left),
                np.repeat(end, right) + 1 + ragged_arange(right),
            ]
        )
        evaluate(table, rows, new)
    return np.where(settled, tail, np.inf)


def _tail(table: _Table) -> FloatArray:
    """Estimate the relative mass beyond the last nodes by geometric series."""
    peak = np.nanmax(table.values, axis=1)
    weights = np.nan_to_num(np.exp(table.values - peak[:, None]))
    begin, end = table.ends()
    rows = np.arange(len(peak))
    beyond = np.zeros(len(peak))
    for at, inward in ((begin, 2), (begin + 1, 2), (end, -2), (end - 1, -2)):
        here = weights[rows, at]
        ratio = here / weights[rows, np.clip(at + inward, 0, weights.shape[1] - 1)]
        ratio = np.where(np.isnan(ratio), 0.0, np.minimum(ratio, MAX_RATIO))
        beyond += here * ratio / (1 - ratio)
    return np.where(np.isfinite(peak), beyond / weights.sum(axis=1), np.inf)


def _sum_nodes(
    table: _Table, tail: FloatArray, width: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Compute log-integrals, their errors, and the contribution of rounding."""
    peak = np.nanmax(table.values, axis=1)
    weights = np.nan_to_num(np.exp(table.values - peak[:, None]))
    total = weights.sum(axis=1)
    log_integral = peak + np.log(total) + np.log(table.spacing * width[table.members])
    index = table.low + np.arange(weights.shape[1])
    aliasing = line_aliasing(index, weights / total[:, None])
    n_nodes = np.sum(~np.isnan(table.values), axis=1)
    rounding = 1e-15 * (np.abs(log_integral) + np.sqrt(n_nodes))
    error = np.where(np.isfinite(log_integral), aliasing + tail + rounding, np.inf)
    return log_integral, error, rounding


def _refine(
    table: _Table,
    again: NDArray[np.bool_],
    evaluate: Callable[[_Table, IntArray, IntArray], None],
) -> _Table:
    """Halve the spacing of some lines by adding nodes between the existing ones."""
    values, extras = table.values[again], table.extras[again]
    n, n_columns = values.shape
    finer = _Table(
        table.members[again],
        0.5 * table.spacing,
        2 * table.low,
        np.full((n, 2 * n_columns - 1), np.nan),
        np.zeros((n, 2 * n_columns - 1, extras.shape[2])),
    )
    finer.values[:, ::2], finer.extras[:, ::2] = values, extras
    if n:
        rows, columns = np.nonzero(~np.isnan(values[:, 1:]) & ~np.isnan(values[:, :-1]))
        evaluate(finer, rows, 2 * columns + 1)
    return finer


class _Collected:
    """Results of the finest table of each line."""

    def __init__(self, n: int) -> None:
        self.log_integral = np.full(n, -np.inf)
        self.error, self.contained = np.full(n, np.inf), np.zeros(n, dtype=bool)
        self._tables: list[tuple[_Table, IntArray, IntArray]] = []

    def keep(
        self,
        table: _Table,
        log_integral: FloatArray,
        error: FloatArray,
        contained: NDArray[np.bool_],
    ) -> None:
        """Replace the results of coarser tables."""
        self.log_integral[table.members] = log_integral
        self.error[table.members], self.contained[table.members] = error, contained
        self._tables.append((table, *table.ends()))

    def lines(self, center: FloatArray, width: FloatArray) -> Lines:
        """Return all lines, each from its finest table."""
        n = len(center)
        spacing, first, n_nodes = np.ones(n), np.zeros(n, np.int64), np.zeros(n, np.int64)
        for table, begin, end in self._tables:
            spacing[table.members] = table.spacing
            first[table.members] = table.low + begin
            n_nodes[table.members] = end + 1 - begin
        n_extras = self._tables[0][0].extras.shape[2] if self._tables else 0
        values = np.full((n, int(n_nodes.max(initial=1))), -np.inf)
        extras = np.zeros((*values.shape, n_extras))
        for table, begin, _ in self._tables:
            rows = np.flatnonzero(spacing[table.members] == table.spacing)
            members = table.members[rows]
            size = n_nodes[members]
            line, node = np.repeat(members, size), ragged_arange(size)
            source = np.repeat(begin[rows], size) + node
            values[line, node] = table.values[np.repeat(rows, size), source]
            extras[line, node] = table.extras[np.repeat(rows, size), source]
        return Lines(
            *(center, width, spacing, first, n_nodes, values, extras),
            *(self.log_integral, self.error, self.contained),
        )
