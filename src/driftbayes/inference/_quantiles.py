"""Quantiles and marginal densities of posteriors on lattices."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.interpolate import CubicSpline, make_interp_spline
from scipy.special import factorial

from driftbayes._typing import FloatArray, IntArray
from driftbayes.errors import DriftbayesError
from driftbayes.inference._lattice import SINH_SCALE, stretch, unstretch
from driftbayes.inference._log_sums import logsumexp
from driftbayes.inference._node_lattice import NodeLattice, log_masses
from driftbayes.inference._stacked_lattice import Lines

# Bracketed Newton steps within one interval of the grid, and their accepted error.
_N_STEPS = 30
_ACCURACY = 1e-14


def tabulated_quantiles(density: FloatArray, probabilities: FloatArray) -> FloatArray:
    """Invert the integrals of smooth densities, interpolated by cubic splines.

    Args:
        density: Values at the points of even grids, (line, point), not necessarily normalised.
        probabilities: Probabilities, between 0 and 1.

    Returns:
        Positions of the quantiles in units of the spacing, 0 at the first point,
        (line, probability).

    Example:
        >>> import numpy as np
        >>> from driftbayes.inference._quantiles import tabulated_quantiles
        >>> x = np.linspace(-8.0, 8.0, 161)
        >>> place = tabulated_quantiles(np.exp(-0.5 * x[None] ** 2), np.array([0.5, 0.975]))
        >>> (0.1 * place - 8.0).round(4) + 0.0
        array([[0.  , 1.96]])
    """
    n_points = density.shape[1]
    spline = CubicSpline(np.arange(n_points, dtype=np.float64), density, axis=1)
    # Integrals of the polynomials from the left end of their interval: (power, interval, line).
    parts = spline.c / np.array([4.0, 3.0, 2.0, 1.0])[:, None, None]
    whole = np.concatenate([np.zeros((1, len(density))), np.cumsum(parts.sum(axis=0), axis=0)])
    whole = np.maximum.accumulate(whole, axis=0).T
    wanted = whole[:, -1:] * probabilities
    # The last interval that begins below the wanted value.
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
            if np.all(np.abs(new - place) <= _ACCURACY * n_points):
                break
            place = new
    return interval + place


# Points per lattice at which a density is tabulated for its quantiles.
_N_GRID = 513
# Degree of the splines of lines with enough nodes: cubic ones are ten times less accurate.
_DEGREE = 5
# Least width of a table, relative to the lattice.
_MIN_WIDTH = 1e-3
# Nodes this far below the peak, in ln, are ignored.
_DEPTH = 60.0
# Largest number of lines times points in one evaluation.
_MAX_AT_ONCE = 1_000_000


def marginal_quantiles(
    lattices: Sequence[NodeLattice],
    probabilities: FloatArray,
) -> FloatArray:
    """Compute quantiles of each coordinate of z.

    Args:
        lattices: Lattices of the parts of a density, one per mode.
        probabilities: Probabilities, between 0 and 1.

    Returns:
        Quantiles (p, probability).

    Example:
        >>> import numpy as np
        >>> from driftbayes.inference._node_lattice import integrate
        >>> def log_f(z):
        ...     return -0.5 * np.sum(z**2, axis=1), z[:, :0]
        >>> lattice = integrate(log_f, np.zeros(2), np.eye(2), tolerance=1e-6, max_nodes=10_000)
        >>> marginal_quantiles([lattice], np.array([0.5, 0.975])).round(3) + 0.0
        array([[0.  , 1.96],
               [0.  , 1.96]])
    """
    if not np.all((probabilities > 0) & (probabilities < 1)):
        raise DriftbayesError(f"probabilities must lie between 0 and 1, got {probabilities}")
    log_masses(lattices)
    n_dim = len(lattices[0].center)
    out = np.empty((n_dim, len(probabilities)))
    for axis in range(n_dim):
        if len(lattices) == 1:
            table = _lattice_table(lattices[0], axis)
            density = _density(lattices[0], axis, table.values[0]) * table.slopes
            out[axis] = table.at(tabulated_quantiles(density, probabilities))[0]
            continue
        grids = [_lattice_table(lattice, axis).values[0] for lattice in lattices]
        grid = np.unique(np.concatenate(grids))
        density = marginal_density(lattices, axis, grid)
        out[axis] = _invert(grid, density, probabilities)
    return out


def line_quantiles(lines: Lines, probabilities: FloatArray) -> FloatArray:
    """Compute quantiles of z for many one-dimensional lattices.

    Args:
        lines: The lattices.
        probabilities: Probabilities, between 0 and 1.

    Returns:
        Quantiles (line, probability).
    """
    out = np.empty((len(lines.center), len(probabilities)))
    weights = np.exp(lines.log_values - lines.log_values.max(axis=1, keepdims=True))
    u = stretch(lines.w)
    table = _tabulate(u, weights, lines.n_nodes - 1, np.full(len(u), _MIN_WIDTH))
    for spacing in np.unique(lines.spacing):
        rows = np.flatnonzero(lines.spacing == spacing)
        part = table.part(rows)
        splines = _line_splines(lines.log_values[rows], u[rows], lines.first[rows], float(spacing))
        density = np.exp(_evaluate(splines, slice(None), part.values)) * part.slopes
        out[rows] = part.at(tabulated_quantiles(density, probabilities))
    return np.asarray(lines.center[:, None] + lines.width[:, None] * out)


def marginal_density(
    lattices: Sequence[NodeLattice],
    axis: int,
    grid: FloatArray,
) -> FloatArray:
    """Compute the normalised density of one coordinate of z.

    Args:
        lattices: Lattices of the parts of a density, one per mode.
        axis: Coordinate of z.
        grid: Values of the coordinate.
    """
    masses = log_masses(lattices)
    shares = np.exp(masses - logsumexp(masses))
    total = np.zeros(len(grid))
    for lattice, share in zip(lattices, shares, strict=True):
        if share > 0:
            total += share * _density(lattice, axis, grid)
    return total


@dataclass(frozen=True)
class _Splines:
    """Splines of ln of the integrand along one axis, one per line of adjacent nodes.

    Args:
        spacing: Distance between nodes, in w.
        offset: Contribution of the other axes to the coordinate of z (line,).
        first: Index of the first node, in units of the spacing (line,).
        last: Index of the last node.
        shift: Half of a spacing for lattice B, in units of the spacing (line,).
        coefficients: Polynomials in the distance from the left node (power, line, interval).
        ends: Values at the first and last node (2, line).
        slopes: Slopes at the first and last node (2, line).
    """

    spacing: float
    offset: FloatArray
    first: IntArray
    last: IntArray
    shift: FloatArray
    coefficients: FloatArray
    ends: FloatArray
    slopes: FloatArray


def _density(lattice: NodeLattice, axis: int, grid: FloatArray) -> FloatArray:
    """Compute the density of one coordinate of z on one lattice."""
    row = lattice.basis[axis]
    # The axis on which the coordinate depends most: given the coordinate, the density varies slowly
    # along the others, so few nodes along them suffice.
    along = int(np.argmax(np.abs(row)))
    slope = row[along]
    splines = _lattice_splines(lattice, row, along)
    log_factor = lattice.log_cell - lattice.log_integral - np.log(splines.spacing * abs(slope))
    out = np.zeros(len(grid))
    step = max(1, _MAX_AT_ONCE // max(len(grid), 1))
    for begin in range(0, len(splines.offset), step):
        part = slice(begin, begin + step)
        x = (grid - lattice.center[axis] - splines.offset[part, None]) / slope
        out += np.sum(np.exp(_evaluate(splines, part, x) + log_factor), axis=0)
    return out


def _lattice_splines(lattice: NodeLattice, row: FloatArray, along: int) -> _Splines:
    """Sum over the axes on which the coordinate does not depend, and fit splines along one."""
    others = np.flatnonzero((row != 0) & (np.arange(len(row)) != along))
    is_used = lattice.log_values > np.max(lattice.log_values) - _DEPTH
    index = lattice.index[is_used]
    values = lattice.log_values[is_used]
    is_b = index[:, 0] % 2
    step = 2
    if len(row) == 1:
        # In one dimension A and B form one lattice of half the spacing.
        is_b, step = np.zeros_like(is_b), 1
    keys = np.column_stack([is_b, index[:, others], index[:, along]])
    nodes, inverse = np.unique(keys, axis=0, return_inverse=True)
    peak = np.max(values)
    sums = np.bincount(inverse.reshape(-1), weights=np.exp(values - peak), minlength=len(nodes))
    u = stretch(0.5 * lattice.spacing[along] * nodes[:, -1])
    logs = np.log(sums) + peak - 0.5 * np.log1p((u / SINH_SCALE) ** 2)
    # Nodes are sorted: a line begins where a group begins or a node is missing.
    begins = np.ones(len(nodes), dtype=bool)
    same = np.all(nodes[1:, :-1] == nodes[:-1, :-1], axis=1)
    begins[1:] = ~same | (nodes[1:, -1] != nodes[:-1, -1] + step)
    starts = np.flatnonzero(begins)
    lengths = np.diff(np.append(starts, len(nodes)))
    is_b = nodes[starts, 0]
    first = (nodes[starts, -1] - is_b) // step
    other_u = stretch(0.5 * lattice.spacing[others] * nodes[starts, 1:-1])
    shapes = np.column_stack([is_b, first, lengths])
    coefficients, ends, slopes = _fit_splines(u, logs, starts, lengths, shapes)
    return _Splines(
        spacing=float(0.5 * step * lattice.spacing[along]),
        offset=other_u @ row[others],
        first=first,
        last=first + lengths - 1,
        shift=0.5 * is_b,
        coefficients=coefficients,
        ends=ends,
        slopes=slopes,
    )


def _fit_splines(
    u: FloatArray, logs: FloatArray, starts: IntArray, lengths: IntArray, shapes: IntArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Fit splines to lines of nodes.

    Args:
        u: a sinh(w/a) of the nodes of all lines (node,).
        logs: ln of the integrand at the nodes (node,).
        starts: Position of the first node of each line (line,).
        lengths: Number of nodes of each line (line,).
        shapes: Rows that are equal for lines with nodes at the same u (line, m).

    Returns:
        Coefficients, ends and slopes of `_Splines`.
    """
    coefficients = np.zeros((_DEGREE + 1, len(starts), max(1, int(lengths.max()) - 1)))
    ends, slopes = np.zeros((2, len(starts))), np.zeros((2, len(starts)))
    powers = np.arange(_DEGREE + 1)
    distinct, kind = np.unique(shapes, axis=0, return_inverse=True)
    for k in range(len(distinct)):
        members = np.flatnonzero(kind.reshape(-1) == k)
        nodes = starts[members][:, None] + np.arange(lengths[members[0]])
        x, y = u[nodes[0]], logs[nodes].T
        ends[:, members] = y[[0, -1]]
        if len(x) == 1:
            coefficients[0, members, 0] = y[0]
            continue
        spline = make_interp_spline(x, y, k=_DEGREE) if len(x) > _DEGREE else CubicSpline(x, y)
        # Taylor coefficients (power, node, line).
        taylor = np.stack([spline(x, m) for m in powers]) / factorial(powers)[:, None, None]
        coefficients[:, members, : len(x) - 1] = np.swapaxes(taylor[:, :-1], 1, 2)
        slopes[:, members] = taylor[1, [0, -1]]
    return coefficients, ends, slopes


def _evaluate(splines: _Splines, part: slice, x: FloatArray) -> FloatArray:
    """Evaluate splines at x (line, point), continued linearly for one spacing at the ends."""
    first, last = splines.first[part, None], splines.last[part, None]
    shift, spacing = splines.shift[part, None], splines.spacing
    place = unstretch(x) / spacing - shift
    interval = np.floor(place).astype(np.int64).clip(first, np.maximum(last - 1, first))

    def node(k: IntArray) -> FloatArray:
        return stretch((k + shift) * spacing)

    row = np.arange(len(first))[:, None]
    c = splines.coefficients[:, part][:, row, interval - first]
    t = x - node(interval)
    values = c[-1]
    for power in range(_DEGREE - 1, -1, -1):
        values = values * t + c[power]
    for end, at, outward in ((0, first, -1), (1, last, 1)):
        distance = outward * (place - at)
        slope = outward * splines.slopes[end, part, None]
        straight = splines.ends[end, part, None] + slope * outward * (x - node(at))
        # A single node is one spacing wide; a line that rises outwards is not continued.
        reach = np.where(first == last, 0.5, np.where(slope < 0, 1.0, 0.0))
        values = np.where(distance > 0, np.where(distance <= reach, straight, -np.inf), values)
    return values


@dataclass(frozen=True)
class _Table:
    """Values of a coordinate, evenly spaced near its median and wider in the tails.

    The values are middle + width · a sinh(t/a) for evenly spaced t.

    Args:
        middle: Median of each line.
        width: Width of each line.
        first: First t.
        last: Last t.
    """

    middle: FloatArray
    width: FloatArray
    first: FloatArray
    last: FloatArray

    def part(self, rows: IntArray) -> "_Table":
        """Select lines."""
        return _Table(*(part[rows] for part in (self.middle, self.width, self.first, self.last)))

    @property
    def values(self) -> FloatArray:
        """Values, (line, point)."""
        return self._at(self._t)

    @property
    def slopes(self) -> FloatArray:
        """Derivatives of the values with respect to t."""
        return np.asarray(self.width[:, None] * np.cosh(self._t / SINH_SCALE))

    def at(self, positions: FloatArray) -> FloatArray:
        """Return the values at positions in units of the spacing of t, (line, position)."""
        step = (self.last - self.first) / (_N_GRID - 1)
        return self._at(self.first[:, None] + step[:, None] * positions)

    @property
    def _t(self) -> FloatArray:
        """Evenly spaced t of each line."""
        return np.linspace(self.first, self.last, _N_GRID, axis=1)

    def _at(self, t: FloatArray) -> FloatArray:
        """Return the values at t."""
        return np.asarray(
            self.middle[:, None] + self.width[:, None] * SINH_SCALE * np.sinh(t / SINH_SCALE)
        )


def _tabulate(
    values: FloatArray, weights: FloatArray, last: IntArray, min_width: FloatArray
) -> _Table:
    """Choose values of a coordinate from the positions of its nodes.

    Args:
        values: Coordinates of the nodes in ascending order, (line, node).
        weights: Their weights, zero beyond the last node.
        last: The last node of each line.
        min_width: Minimum width of the table.
    """
    row = np.arange(len(values))
    mass = (np.cumsum(weights, axis=1) - 0.5 * weights) / weights.sum(axis=1, keepdims=True)

    def at(probability: float) -> FloatArray:
        right = np.minimum(np.maximum(np.sum(mass < probability, axis=1), 1), np.maximum(last, 1))
        low, high = mass[row, right - 1], mass[row, right]
        share = np.where(high > low, (probability - low) / np.where(high > low, high - low, 1), 0.0)
        start = values[row, right - 1]
        return np.asarray(start + share.clip(0, 1) * (values[row, right] - start))

    if values.shape[1] == 1:
        middle, width = values[:, 0], min_width
    else:
        middle, width = at(0.5), np.maximum(0.5 * (at(0.84) - at(0.16)), min_width)
    ends = (values[:, 0], values[row, last])
    first, final = (unstretch((end - middle) / width) for end in ends)
    return _Table(middle, width, first - 1.0, final + 1.0)


def _lattice_table(lattice: NodeLattice, axis: int) -> _Table:
    """Choose values of a coordinate from the nodes of a lattice."""
    order = np.argsort(lattice.z[:, axis])
    weights = np.exp(lattice.log_values[order] - np.max(lattice.log_values))
    min_width = _MIN_WIDTH * np.abs(lattice.basis[axis]).max()
    last = np.array([len(order) - 1])
    return _tabulate(lattice.z[order, axis][None], weights[None], last, np.array([min_width]))


def _line_splines(
    log_values: FloatArray, u: FloatArray, first: IntArray, spacing: float
) -> _Splines:
    """Fit splines to one-dimensional lattices of one spacing, one line each.

    Args:
        log_values: ln of the integrand with the stretch, (line, node); -inf beyond the last.
        u: a sinh(w/a) of the nodes.
        first: Index of the first node of each line.
        spacing: Distance between nodes, in w.
    """
    log_values = log_values - log_values.max(axis=1, keepdims=True)
    logs = log_values - 0.5 * np.log1p((u / SINH_SCALE) ** 2)
    used = log_values > -_DEPTH
    begin, lengths = np.argmax(used, axis=1), used.sum(axis=1)
    starts = logs.shape[1] * np.arange(len(logs)) + begin
    shapes = np.column_stack([first, begin, lengths])
    fitted = _fit_splines(u.reshape(-1), logs.reshape(-1), starts, lengths, shapes)
    zeros, begins = np.zeros(len(logs)), first + begin
    return _Splines(spacing, zeros, begins, begins + lengths - 1, zeros, *fitted)


def _invert(grid: FloatArray, density: FloatArray, probabilities: FloatArray) -> FloatArray:
    """Invert the integral of a tabulated density."""
    cumulative = CubicSpline(grid, density).antiderivative()
    rise = np.maximum.accumulate(cumulative(grid))
    wanted = probabilities * rise[-1]
    right = np.searchsorted(rise, wanted).clip(1, len(grid) - 1)
    low, high = grid[right - 1], grid[right]
    for _ in range(60):
        middle = 0.5 * (low + high)
        is_below = cumulative(middle) < wanted
        low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
    return 0.5 * (low + high)
