"""Posterior modes of many data sets at once."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftbayes._typing import FloatArray, IntArray
from driftbayes.inference._batch import Batch
from driftbayes.inference._hypothesis import Hypothesis
from driftbayes.inference._newton import Maximum
from driftbayes.inference._search import coarse_values
from driftbayes.inference._stacked_density import StackedDensity, StackedPoints, stacked_density
from driftbayes.priors import Exponential, Gamma, LogNormal

# Other local maxima of the grid are negligible if lower by this, in nats.
_NEGLIGIBLE = 40.0
_MAX_STEPS = 30
# Span of the differences in widths of the peak: during the search, and at the end.
_SPAN, _FINE_SPAN = 0.15, 0.03
_MAX_WIDTH, _MIN_WIDTH = 0.5, 1e-9
# Newton decrements: for the fine span, and for convergence.
_NEAR, _DONE = 1e-6, 1e-14
_STENCIL = np.array([0.0, 1.0, -1.0, 2.0, -2.0])


@dataclass(frozen=True)
class StackedPeaks:
    """Maxima of one density of each data set.

    Args:
        z: Coordinate of the parameter beside the scale.
        width: Its standard deviation from the curvature of the profile.
        slope: Derivative of the quadratic form with respect to z.
        points: Priors and Gaussian terms at the maxima.
    """

    z: FloatArray
    width: FloatArray
    slope: FloatArray
    points: StackedPoints

    def __getitem__(self, which: NDArray[Any]) -> "StackedPeaks":
        """Select maxima."""
        return StackedPeaks(self.z[which], self.width[which], self.slope[which], self.points[which])


@dataclass(frozen=True)
class StackedModes:
    """Modes of the densities of z and of θ, by data set.

    Args:
        certain: Whether the search found a mode of each density.
        reach: First and last point of the grid with a relevant local maximum, (set, 2).
        free: Modes of the density of z.
        natural: Modes of the density of θ; None if not requested.
    """

    certain: NDArray[np.bool_]
    reach: FloatArray
    free: StackedPeaks
    natural: StackedPeaks | None


@dataclass(frozen=True)
class _Brackets:
    """Points around the highest value of the grid, (set, 3), certain if it is not at an end.

    `reach` holds the first and the last point with a relevant local maximum, (set, 2).
    """

    z: FloatArray
    values: FloatArray
    reach: FloatArray
    certain: NDArray[np.bool_]


def find_stacked_modes(
    density: StackedDensity, sets: IntArray, *, with_natural: bool
) -> StackedModes:
    """Find the modes of several data sets.

    Args:
        density: Hypothesis and data.
        sets: Indices of the data sets.
        with_natural: Whether to find the modes of the density of θ too.
    """
    free, natural = _brackets(density, sets)
    brackets = [free, natural] if with_natural else [free]
    n = len(sets)
    owner = np.tile(sets, len(brackets))
    is_natural = np.arange(len(owner)) >= n
    z = np.concatenate([bracket.z for bracket in brackets])
    values = np.concatenate([bracket.values for bracket in brackets])
    certain = np.concatenate([bracket.certain for bracket in brackets])
    peaks, found = _maximise(density, owner, is_natural, z, values, certain)
    certain = np.asarray(found.reshape(len(brackets), n).all(axis=0))
    both = [peaks[np.arange(n) + n * i] for i in range(len(brackets))]
    return StackedModes(certain, free.reach, both[0], both[1] if with_natural else None)


def _brackets(density: StackedDensity, sets: IntArray) -> tuple[_Brackets, _Brackets]:
    """Bracket the modes by grids, which data sets of the same sampling time share."""
    hypothesis, left = density.hypothesis, density.left
    assert left is not None
    taus, group = np.unique(density.stack.taus[sets], return_inverse=True)
    grids = [coarse_values(hypothesis, left, tau) for tau in taus.tolist()]
    theta = np.tile(hypothesis.prior_means, (sum(map(len, grids)), 1))
    theta[:, left] = np.concatenate(grids)
    edges = np.cumsum([0, *map(len, grids)])
    z = hypothesis.to_unconstrained(theta)[:, left]
    grids = [np.unique(z[a:b]) for a, b in pairwise(edges)]
    grids = [grid[np.isfinite(grid)] for grid in grids]
    members = [sets[group == i] for i in range(len(taus))]
    n_points = [len(grid) for grid in grids]
    sizes = np.repeat([len(group_sets) for group_sets in members], n_points)
    points = density.shared(
        np.concatenate(grids),
        np.repeat(taus, n_points),
        np.concatenate([[0], np.cumsum(sizes)]),
        np.concatenate([np.tile(m, len(g)) for m, g in zip(members, grids, strict=True)]),
    )
    both = []
    for natural in (False, True):
        values = density.log_profile(points, natural=natural)
        n = len(sets)
        certain = np.zeros(n, dtype=bool)
        out = _Brackets(np.zeros((n, 3)), np.zeros((n, 3)), np.zeros((n, 2)), certain)
        low = 0
        for i, grid in enumerate(grids):
            rows = np.flatnonzero(group == i)
            table = values[low : low + len(grid) * len(rows)].reshape(len(grid), len(rows)).T
            low += table.size
            found = _highest(grid, table)
            out.z[rows], out.values[rows] = found.z, found.values
            out.reach[rows], out.certain[rows] = found.reach, found.certain
        both.append(out)
    return both[0], both[1]


def _highest(grid: FloatArray, table: FloatArray) -> _Brackets:
    """Find the highest value of each row with its neighbours."""
    padded = np.pad(table, ((0, 0), (1, 1)), constant_values=-np.inf)
    place = np.argmax(table, axis=1)
    peak = table[np.arange(len(table)), place]
    is_top = (table > padded[:, :-2]) & (table >= padded[:, 2:])
    is_top &= table > peak[:, None] - _NEGLIGIBLE
    ends = (np.argmax(is_top, axis=1), len(grid) - 1 - np.argmax(is_top[:, ::-1], axis=1))
    around = np.clip(place, 1, max(len(grid) - 2, 1))[:, None] + np.array([-1, 0, 1])
    return _Brackets(
        grid[around],
        np.take_along_axis(table, around, axis=1),
        np.stack([grid[end] for end in ends], axis=1),
        (place > 0) & (place < len(grid) - 1) & np.isfinite(peak),
    )


@np.errstate(all="ignore")
def _maximise(
    density: StackedDensity,
    owner: IntArray,
    is_natural: NDArray[np.bool_],
    bracket: FloatArray,
    values: FloatArray,
    certain: NDArray[np.bool_],
) -> tuple[StackedPeaks, NDArray[np.bool_]]:
    """Maximise within each bracket, all at the same time.

    Newton steps use fourth-order differences; a step out of the bracket is replaced by bisection.
    """
    low, z, high = bracket.T.copy()
    start, curvature = _parabola(bracket, values)
    z = np.where((start > low) & (start < high), start, z)
    width = np.clip(1 / np.sqrt(curvature), _MIN_WIDTH, None)
    width = np.where(np.isfinite(width), width, _MAX_WIDTH)
    span = np.full(len(owner), _SPAN)
    found, change = np.zeros(len(owner), dtype=bool), np.full(len(owner), np.nan)
    fields = StackedPoints.__dataclass_fields__
    kept = {name: np.full(len(owner), np.nan) for name in fields}
    active = np.flatnonzero(certain)
    for _ in range(_MAX_STEPS):
        if not len(active):
            break
        unit = (span * np.minimum(width, _MAX_WIDTH))[active]
        at = z[active, None] + unit[:, None] * _STENCIL
        points = density.at(np.repeat(owner[active], len(_STENCIL)), at.reshape(-1))
        natural = np.repeat(is_natural[active], len(_STENCIL))
        both = (density.log_profile(points, natural=kind) for kind in (True, False))
        f = np.where(natural, *both).reshape(at.shape).T
        slope = (8 * (f[1] - f[2]) - (f[3] - f[4])) / (12 * unit)
        bend = -(16 * (f[1] + f[2] - 2 * f[0]) - (f[3] + f[4] - 2 * f[0])) / (12 * unit**2)
        usable = np.isfinite(slope) & np.isfinite(bend)
        decrement = slope**2 / bend
        is_peak = usable & (bend > 0)
        done = is_peak & (decrement < _DONE) & (span[active] == _FINE_SPAN)
        for name in fields:
            kept[name][active[done]] = getattr(points, name)[:: len(_STENCIL)][done]
        q = points.quadratic.reshape(at.shape).T
        change[active] = (8 * (q[1] - q[2]) - (q[3] - q[4])) / (12 * unit)
        found[active[done]] = True
        near = is_peak & (decrement < _NEAR)
        span[active[near]] = _FINE_SPAN
        width[active[is_peak]] = np.clip(1 / np.sqrt(bend[is_peak]), _MIN_WIDTH, None)
        # Differences wider than the peak are useless: use narrower ones.
        width[active[~usable]] *= 0.1
        rising = usable & (slope > 0)
        low[active[rising]] = z[active[rising]]
        falling = usable & (slope <= 0)
        high[active[falling]] = z[active[falling]]
        step = z[active] + np.where(is_peak, slope / bend, np.nan)
        inside = (step > low[active]) & (step < high[active])
        moved = np.where(inside, step, 0.5 * (low[active] + high[active]))
        # Near the maximum, accept the Newton step without bracketing.
        moved = np.where(near | ~usable, np.where(near & np.isfinite(step), step, z[active]), moved)
        z[active] = np.where(done, z[active], moved)
        active = active[~done]
    return StackedPeaks(z, width, change, StackedPoints(**kept)), found


def _parabola(z: FloatArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Compute maximum and curvature of the parabolas through three points, (search, 3)."""
    first, second = np.diff(z, axis=1).T
    slopes = np.diff(values, axis=1).T / np.diff(z, axis=1).T
    curvature = 2 * (slopes[0] - slopes[1]) / (first + second)
    middle = 0.5 * (z[:, 0] + z[:, 1])
    return middle + slopes[0] / curvature, curvature


def stacked_maxima(hypothesis: Hypothesis, data: Batch) -> dict[int, tuple[Maximum, Maximum]]:
    """Find the modes of the densities of θ and of ln θ, by data set.

    Data sets with several modes or an uncertain search are left out.

    Args:
        hypothesis: Model family and prior.
        data: One data set or several.
    """
    density = stacked_density(hypothesis, data)
    left = None if density is None else density.left
    # Priors whose unconstrained coordinate is ln θ.
    positive = (Exponential, Gamma, LogNormal)
    if density is None or (
        left is not None and not isinstance(hypothesis.priors[hypothesis.names[left]], positive)
    ):
        return {}
    found: dict[int, tuple[Maximum, Maximum]] = {}
    for sets in density.batches():
        if left is None:
            zeros = np.zeros(len(sets))
            free = natural = StackedPeaks(zeros, zeros, zeros, density.at(sets, zeros))
            certain = np.ones(len(sets), dtype=bool)
        else:
            modes = find_stacked_modes(density, sets, with_natural=True)
            assert modes.natural is not None
            free, natural = modes.free, modes.natural
            certain = modes.certain & (modes.reach[:, 0] == modes.reach[:, 1])
        both = (_maxima(density, natural, natural=True), _maxima(density, free, natural=False))
        for i, is_certain, *pair in zip(sets.tolist(), certain, *both, strict=True):
            if is_certain and all(maximum.converged for maximum in pair):
                found[i] = (pair[0], pair[1])
    return found


@np.errstate(all="ignore")
def _maxima(density: StackedDensity, peaks: StackedPeaks, *, natural: bool) -> list[Maximum]:
    r"""Compute maxima in all coordinates from those of the profile $\max_c$.

    The second derivatives of $f(z, \ln c) = \dots - \beta\ln c - Q(z)/2c - \lambda c$ that involve
    the scale are known; that along z alone follows from the curvature of the profile.
    """
    points, place, left = peaks.points, density.place, density.left
    scale = density.most_likely_scale(points, natural=natural)
    values = density.log_profile(points, natural=natural)
    n, n_parameters = len(scale), len(density.hypothesis.names)
    z, hessian = np.empty((n, n_parameters)), np.empty((n, n_parameters, n_parameters))
    z[:, place] = np.log(scale)
    own = -(0.5 * points.quadratic / scale + density.form.rate * scale)
    hessian[:, place, place] = own
    if left is not None:
        cross: FloatArray = 0.5 * peaks.slope / scale
        z[:, left] = peaks.z
        hessian[:, left, place] = hessian[:, place, left] = cross
        hessian[:, left, left] = -1 / peaks.width**2 + cross**2 / own
    good = np.isfinite(values) & np.isfinite(z).all(axis=1) & np.isfinite(hessian).all(axis=(1, 2))
    good &= own < 0
    return [
        Maximum(where, value, second, bool(is_good))
        for where, value, second, is_good in zip(z, values.tolist(), hessian, good, strict=True)
    ]
