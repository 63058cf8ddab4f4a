"""Posterior modes of many data sets side by side."""

__all__ = [
    "StackedModes",
    "StackedPeaks",
    "find_stacked_modes",
    "stacked_maxima",
]

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftbayes.inference._batch import Batch
from driftbayes.inference.formulas import prior_facts, unconstrained
from driftbayes.inference.hypothesis import Hypothesis
from driftbayes.inference.newton import Maximum
from driftbayes.inference.search import coarse_values
from driftbayes.inference.stacked_density import StackedDensity, StackedPoints, stacked_density
from driftbayes.priors import Exponential, Gamma, LogNormal
from driftbayes.typing import FloatArray, IntArray

# Another local maximum of the grid is negligible if it is lower by this, in nats.
_NEGLIGIBLE = 40.0
_MAX_STEPS = 30
# Widths of the peak that differences span: while it is sought, and at the end.
_SPAN, _FINE_SPAN = 0.15, 0.03
_WIDEST, _NARROWEST = 0.5, 1e-9
# Newton decrements: good enough to go on with a fine span, and done.
_NEAR, _DONE = 1e-6, 1e-14
_STENCIL = np.array([0.0, 1.0, -1.0, 2.0, -2.0])


@dataclass(frozen=True)
class StackedPeaks:
    """Highest points of one density of each data set.

    Args:
        z: The parameter left.
        width: Its standard deviation by the curvature of the profile.
        slope: Derivative of the quadratic form by z.
        points: What was found there.
    """

    z: FloatArray
    width: FloatArray
    slope: FloatArray
    points: StackedPoints

    def __getitem__(self, which: NDArray[Any]) -> "StackedPeaks":
        """Some of them."""
        return StackedPeaks(self.z[which], self.width[which], self.slope[which], self.points[which])


@dataclass(frozen=True)
class StackedModes:
    """Modes of the density of z, and of that of θ, by data set.

    Args:
        certain: Whether the search found a mode of either density.
        reach: First and last place of the grid with a local maximum that matters, (set, 2).
        free: Modes of the density of z.
        natural: Modes of the density of θ; None if they were not asked for.
    """

    certain: NDArray[np.bool_]
    reach: FloatArray
    free: StackedPeaks
    natural: StackedPeaks | None


@dataclass(frozen=True)
class _Brackets:
    """Places around the highest value of the grid, (set, 3), if it is not at an end of it.

    Also the first and the last place with a local maximum that matters, (set, 2).
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
        sets: Which data sets.
        with_natural: Whether the mode of the density of θ is wanted too.
    """
    free, natural = _brackets(density, sets)
    lanes = [(free, False), (natural, True)] if with_natural else [(free, False)]
    n = len(sets)
    owner = np.tile(sets, len(lanes))
    is_natural = np.repeat([kind for _, kind in lanes], n)
    z = np.concatenate([one.z for one, _ in lanes])
    values = np.concatenate([one.values for one, _ in lanes])
    certain = np.concatenate([one.certain for one, _ in lanes])
    peaks, found = _maximise(density, owner, is_natural, z, values, certain)
    certain = np.asarray(found.reshape(len(lanes), n).all(axis=0))
    both = [peaks[np.arange(n) + n * i] for i in range(len(lanes))]
    return StackedModes(certain, free.reach, both[0], both[1] if with_natural else None)


def _brackets(density: StackedDensity, sets: IntArray) -> tuple[_Brackets, _Brackets]:
    """The best of a grid that data sets with one sampling time share."""
    hypothesis, left = density.hypothesis, density.left
    assert left is not None
    taus, group = np.unique(density.stack.taus[sets], return_inverse=True)
    facts = prior_facts(hypothesis)
    grids = [coarse_values(hypothesis, left, tau, facts) for tau in taus.tolist()]
    theta = np.tile(facts.mean, (sum(map(len, grids)), 1))
    theta[:, left] = np.concatenate(grids)
    edges = np.cumsum([0, *map(len, grids)])
    every = unconstrained(hypothesis, theta)[:, left]
    grids = [np.unique(every[a:b]) for a, b in pairwise(edges)]
    grids = [grid[np.isfinite(grid)] for grid in grids]
    members = [sets[group == i] for i in range(len(taus))]
    sizes = np.repeat([len(one) for one in members], [len(grid) for grid in grids])
    points = density.shared(
        np.concatenate(grids),
        np.repeat(taus, [len(grid) for grid in grids]),
        np.concatenate([[0], np.cumsum(sizes)]),
        np.concatenate([np.tile(m, len(g)) for m, g in zip(members, grids, strict=True)]),
    )
    both = []
    for natural in (False, True):
        values = density.log_profile(points, natural=natural)
        n = len(sets)
        z, reach = np.zeros((n, 3)), np.zeros((n, 2))
        out = _Brackets(z, np.zeros((n, 3)), reach, np.zeros(n, dtype=bool))
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
    """The highest value of each row with its neighbours."""
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
    """Maximum of each lane within its bracket, all in step.

    Newton steps with differences of fourth order; one that would leave the bracket halves it.
    """
    low, z, high = bracket.T.copy()
    start, curvature = _parabola(bracket, values)
    z = np.where((start > low) & (start < high), start, z)
    width = np.clip(1 / np.sqrt(curvature), _NARROWEST, None)
    width = np.where(np.isfinite(width), width, _WIDEST)
    span = np.full(len(owner), _SPAN)
    found, change = np.zeros(len(owner), dtype=bool), np.full(len(owner), np.nan)
    fields = StackedPoints.__dataclass_fields__
    kept = {name: np.full(len(owner), np.nan) for name in fields}
    active = np.flatnonzero(certain)
    for _ in range(_MAX_STEPS):
        if not len(active):
            break
        unit = (span * np.minimum(width, _WIDEST))[active]
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
        width[active[is_peak]] = np.clip(1 / np.sqrt(bend[is_peak]), _NARROWEST, None)
        # Differences that reach over a peak narrower than they are tell nothing: look closer.
        width[active[~usable]] *= 0.1
        rising = usable & (slope > 0)
        low[active[rising]] = z[active[rising]]
        falling = usable & (slope <= 0)
        high[active[falling]] = z[active[falling]]
        step = z[active] + np.where(is_peak, slope / bend, np.nan)
        inside = (step > low[active]) & (step < high[active])
        moved = np.where(inside, step, 0.5 * (low[active] + high[active]))
        # A step too small to be seen ends where it is.
        moved = np.where(near | ~usable, np.where(near & np.isfinite(step), step, z[active]), moved)
        z[active] = np.where(done, z[active], moved)
        active = active[~done]
    return StackedPeaks(z, width, change, StackedPoints(**kept)), found


def _parabola(z: FloatArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Top and curvature of the parabola through three points, (lane, 3)."""
    first, second = np.diff(z, axis=1).T
    slopes = np.diff(values, axis=1).T / np.diff(z, axis=1).T
    curvature = 2 * (slopes[0] - slopes[1]) / (first + second)
    middle = 0.5 * (z[:, 0] + z[:, 1])
    return middle + slopes[0] / curvature, curvature


_AT_ONCE = 256


def stacked_maxima(hypothesis: Hypothesis, data: Batch) -> dict[int, tuple[Maximum, Maximum]]:
    """Modes of the density of θ and of that of ln θ, by data set.

    Data sets are left out for which the search is not certain, or that have several modes.

    Args:
        hypothesis: Model family and prior.
        data: One data set or several.
    """
    density = stacked_density(hypothesis, data)
    left = None if density is None else density.left
    # Only there ln θ is the unconstrained coordinate.
    positive = (Exponential, Gamma, LogNormal)
    if density is None or (
        left is not None and not isinstance(hypothesis.priors[hypothesis.names[left]], positive)
    ):
        return {}
    found: dict[int, tuple[Maximum, Maximum]] = {}
    for low in range(0, len(density.stack), _AT_ONCE):
        sets = np.arange(low, min(low + _AT_ONCE, len(density.stack)))
        if left is None:
            free = natural = _without_search(density, sets)
            certain = np.ones(len(sets), dtype=bool)
        else:
            modes = find_stacked_modes(density, sets, with_natural=True)
            assert modes.natural is not None
            free, natural = modes.free, modes.natural
            certain = modes.certain & (modes.reach[:, 0] == modes.reach[:, 1])
        both = (_maxima(density, natural, natural=True), _maxima(density, free, natural=False))
        for i, is_one, *pair in zip(sets.tolist(), certain, *both, strict=True):
            if is_one and all(one.converged for one in pair):
                found[i] = (pair[0], pair[1])
    return found


def _without_search(density: StackedDensity, sets: IntArray) -> StackedPeaks:
    """No parameter is left."""
    nothing = np.zeros(len(sets))
    return StackedPeaks(nothing, nothing, nothing, density.at(sets, nothing))


@np.errstate(all="ignore")
def _maxima(density: StackedDensity, peaks: StackedPeaks, *, natural: bool) -> list[Maximum]:
    r"""Maxima in all coordinates from those of the profile $\max_c$.

    Of $f(z, \ln c) = \dots - \beta\ln c - Q(z)/2c - \lambda c$ the second derivatives with the
    scale are known, and that along z alone follows from the curvature of the profile.
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
