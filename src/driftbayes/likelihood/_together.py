r"""Joint likelihood of particles that share a common motion.

The step of each particle is the sum of a common and an individual step, $\Delta x_p = \Delta c +
\Delta y_p$. For N particles observed at the same times, the mean and N - 1 orthonormal (Helmert)
contrasts are independent: $\sqrt N$ times the mean has the covariance $N C_c + C_y$, each contrast
$C_y$. If particles come and go on a regular grid, with M the map from common steps to the steps of
all particles and D the covariance of individual steps,

$$S = D + M C_c M^T, \qquad \det S = \det D\,\det(1 + L^T B L), \qquad
  x^T S^{-1} x = x^T D^{-1} x - b^T L (1 + L^T B L)^{-1} L^T b$$

with $C_c = L L^T$, $B = M^T D^{-1} M$ and $b = M^T D^{-1} x$. For different observation times or
errors, one filter covers all particles (`_unshared.py`).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular, toeplitz
from scipy.linalg.lapack import dtrtri

from driftbayes._kernels.compiled import run_in_threads
from driftbayes._typing import FloatArray, IntArray
from driftbayes.data._sampling import Displacements, subset
from driftbayes.data._trajectories import GRID_TOLERANCE
from driftbayes.errors import DriftbayesError
from driftbayes.likelihood._engines import FilterEngine
from driftbayes.likelihood._runs import Context
from driftbayes.likelihood._sums import Formulas, Sums
from driftbayes.likelihood._unshared import UnsharedTimes, unshared_times

# Steps of a common grid on which particles come and go, the size of the matrices to factorise.
_MAX_GRID = 2048
# Relative cost of a fix at times that particles do not share, and minimum number of fixes used to
# search for posterior modes.
_FIX_COST, _MIN_SEARCHED = 4, 500


@dataclass(frozen=True, eq=False)
class _WithCommon:
    """Formulas of individual motion plus a multiple of the common motion.

    Args:
        own: Formulas of the individual motion.
        common: Formulas of the common motion, with the same rows.
        times: Factor of the covariance of the common motion.
    """

    own: Formulas
    common: Formulas
    times: float

    @property
    def n_rows(self) -> int:
        return self.own.n_rows

    def n_state(self) -> int:
        return self.own.n_state() + self.common.n_state() - 1

    def part(self, rows: slice) -> "_WithCommon":
        return _WithCommon(self.own.part(rows), self.common.part(rows), self.times)

    def lanes(self, intervals: FloatArray) -> NDArray[Any]:
        own, common = self.own.lanes(intervals), self.common.lanes(intervals)
        scale = np.array([1.0, self.times])[:, None, None, None]
        joined = _join(np.moveaxis(own, -1, 3), np.moveaxis(common * scale, -1, 3))
        # The position is an integral that affects no other component: its propagator is 1.
        joined[:, :, 0, :, 0, 0] = 1.0
        return np.ascontiguousarray(np.moveaxis(joined, 3, -1))

    def starts(self) -> tuple[NDArray[Any], FloatArray, FloatArray]:
        start, extra, weight = self.own.starts()
        other, _, _ = self.common.starts()
        return _join(start, self.times * other), extra, weight

    def autocovariances(self, tau: float, n_lags: int) -> NDArray[Any]:
        own = self.own.autocovariances(tau, n_lags)
        return own + self.times * self.common.autocovariances(tau, n_lags)

    def mean_square_displacements(self, lags: FloatArray) -> FloatArray:
        own = self.own.mean_square_displacements(lags)
        return own + self.times * self.common.mean_square_displacements(lags)


def _join(own: NDArray[Any], common: NDArray[Any]) -> NDArray[Any]:
    """Join matrices over (X, V) and (X', V'), in the last axes, into (X + X', V, V')."""
    n, m = own.shape[-1], common.shape[-1]
    out = np.zeros((*own.shape[:-2], n + m - 1, n + m - 1))
    out[..., :n, :n] = own
    out[..., n:, n:] = common[..., 1:, 1:]
    out[..., 0, n:], out[..., n:, 0] = common[..., 0, 1:], common[..., 1:, 0]
    out[..., 0, 0] += common[..., 0, 0]
    return out


@dataclass(frozen=True, eq=False)
class _Grid:
    """Runs on a common regular grid that overlap but are not simultaneous.

    Args:
        engine: Engine of the runs as independent.
        n_steps: Number of steps of the grid.
        first: First step of each group of runs on the grid.
        n_later: Number of runs of each group with more than 0, 1, 2, ... steps, (group, step).
        summed: Steps summed over runs of the same length, (group, length, steps).
    """

    engine: FilterEngine
    n_steps: int
    first: IntArray
    n_later: list[FloatArray]
    summed: list[list[FloatArray]]

    def sums(self, own: Formulas, common: Formulas, error: float) -> Sums:
        found = self.engine.sums(own)
        r_own, r_common = (
            part.autocovariances(self.engine.tau, self.n_steps) for part in (own, common)
        )
        r_own[:, 0] += 2 * error
        r_own[:, 1:2] -= error
        parts = run_in_threads(self._reduction, list(zip(r_own, r_common, strict=True)))
        log_det, less = (np.stack(part) for part in zip(*parts, strict=True))
        return Sums(
            found.n,
            found.log_det + log_det[:, None],
            found.products - less[:, None],
            found.excess,
        )

    def _reduction(self, own: FloatArray, common: FloatArray) -> tuple[float, FloatArray]:
        """Compute ln det(1 + LᵀBL) of one axis, and the reduction of the products."""
        n = self.n_steps
        try:
            # Leading blocks of the whitening matrix whiten shorter runs.
            whiten = dtrtri(cholesky(toeplitz(own), lower=True), lower=1)[0]
            root = cholesky(toeplitz(common), lower=True) if common[0] > 0 else np.zeros((n, n))
        except np.linalg.LinAlgError:
            return np.nan, np.zeros((self.summed[0][0].shape[1],) * 2)
        n_dim = self.summed[0][0].shape[1]
        weights, seen = np.zeros((n, n)), np.zeros((n, n_dim))
        for first, later, steps in zip(self.first, self.n_later, self.summed, strict=True):
            size = len(later)
            place = slice(first, first + size)
            leading = whiten[:size, :size]
            weights[place, place] += (leading.T * later) @ leading
            white = np.zeros((size, n_dim))
            for total in steps:
                white[: len(total)] += leading[: len(total), : len(total)] @ total
            seen[place] += leading.T @ white
        inner = np.eye(n) + root.T @ weights @ root
        factor = cholesky(inner, lower=True)
        white = solve_triangular(factor, root.T @ seen, lower=True)
        return float(2 * np.sum(np.log(np.diag(factor)))), white.T @ white


@dataclass(frozen=True, eq=False)
class CommonEngine:
    r"""Engine of all particles together, for models of individual and common motion.

    Args:
        means: $\sqrt N$ times the mean over the particles of each block, by their number N.
        contrasts: Orthonormal contrasts of all blocks; None if there are none.
        grids: Blocks in which particles come and go on a regular grid.
        unshared: Blocks in which particles are observed at different times.
        tau: Sampling time.
        n_dim: Number of axes.
        noisy: Whether the error of some position is known.
    """

    means: dict[int, FilterEngine]
    contrasts: FilterEngine | None
    grids: list[_Grid]
    unshared: list[UnsharedTimes]
    tau: float
    n_dim: int
    noisy: bool

    @property
    def context(self) -> Context:
        return Context(np.zeros(self.n_dim))

    @property
    def shortest_step(self) -> float:
        steps = [engine.shortest_step for engine in self._engines()]
        return min(steps + [block.shortest_step for block in self.unshared])

    def _engines(self) -> Iterator[FilterEngine]:
        """Yield the engines of means, contrasts and grids."""
        yield from self.means.values()
        if self.contrasts is not None:
            yield self.contrasts
        yield from (grid.engine for grid in self.grids)

    def thinned(self, n_steps: int) -> "tuple[CommonEngine, float]":
        longest = max(self.unshared, key=lambda block: block.n_steps, default=None)
        if longest is None or longest.n_steps <= n_steps:
            return self, 1.0
        # The largest block represents all, with fewer fixes since each costs more.
        part = longest.thinned(max(n_steps // _FIX_COST, _MIN_SEARCHED))
        total = sum(len(engine.runs.columns) for engine in self._engines())
        total += sum(block.n_steps for block in self.unshared)
        few = replace(self, means={}, contrasts=None, grids=[], unshared=[part])
        return few, total / part.n_steps

    def sums(self, formulas: Formulas) -> Sums:
        own, common = (formulas.part(slice(i, None, 2)) for i in range(2))
        parts = [
            engine.sums(_WithCommon(own, common, float(n))) for n, engine in self.means.items()
        ]
        if self.contrasts is not None:
            parts.append(self.contrasts.sums(own))
        parts += [grid.sums(own, common, float(grid.engine.runs.error[0])) for grid in self.grids]
        parts += [block.sums(own, common) for block in self.unshared]
        return Sums(
            *(
                sum((getattr(part, name) for part in parts[1:]), start=getattr(parts[0], name))
                for name in ("n", "log_det", "products", "excess")
            )
        )


def common_engine(
    data: Displacements,
    model: str,
    make: Callable[[Displacements], FilterEngine],
    *,
    moves_by_generator: bool,
) -> CommonEngine:
    """Group particles by observation times and make their engines.

    Args:
        data: Displacements at one tau.
        model: Name of the model, for messages.
        make: Function that makes the engine of independent runs.
        moves_by_generator: Whether the engine can compute transitions over any interval.
    """
    if data.start_time is None:
        raise DriftbayesError(
            f"{model} must know when steps begin, which these displacements do not tell; make them "
            "from trajectories"
        )
    means: dict[int, list[Displacements]] = {}
    contrasts, grids, unshared = [], [], []
    # Means and contrasts have no positions.
    data = replace(data, start=None, start_row=None, lonlat=None)
    blocks = [subset(data, runs) for runs in _blocks(data)]
    if all(len(block.row_sizes) == 1 for block in blocks):
        raise DriftbayesError(
            f"{model} needs particles observed at the same time to estimate their common motion, "
            "and there are none; omit +common"
        )
    for block in blocks:
        if not _is_simultaneous(block):
            reason = _why_not_on_grid(block)
            if not reason:
                grids.append(_grid(block, make))
            elif moves_by_generator:
                unshared.append(unshared_times(block))
            else:
                raise DriftbayesError(
                    f"{model} needs particles that are seen at common times, since it has no "
                    f"state-space form or is blurred, and {reason}: choose a tau that all share, "
                    "a part of the data in which all are present, or leave +common out"
                )
            continue
        mean, others = _helmert(block)
        means.setdefault(len(block.row_sizes), []).append(_with_steps(block, mean))
        if len(others) and not np.any(others):
            raise DriftbayesError(
                f"{len(block.row_sizes)} particles move exactly alike, so {model} has nothing that "
                "is their own; keep one of them"
            )
        if len(others):
            contrasts.append(_with_steps(block, others))
    return CommonEngine(
        means={n: make(_concatenate(parts)) for n, parts in means.items()},
        contrasts=make(_concatenate(contrasts)) if contrasts else None,
        grids=grids,
        unshared=unshared,
        tau=data.tau,
        n_dim=data.n_dim,
        noisy=data.position_sd is not None and bool(np.any(data.position_sd > 0)),
    )


def _blocks(data: Displacements) -> list[IntArray]:
    """Divide runs into blocks that do not overlap in time."""
    begin = np.asarray(data.start_time)
    ends = np.cumsum(data.row_sizes)
    total = np.concatenate([[0.0], np.cumsum(data.interval)])
    end = begin + total[ends] - total[ends - data.row_sizes]
    order = np.argsort(begin, kind="stable")
    reached = np.maximum.accumulate(end[order])
    new = begin[order][1:] > reached[:-1] - GRID_TOLERANCE * data.tau
    return np.split(order, np.flatnonzero(new) + 1)


def _is_simultaneous(block: Displacements) -> bool:
    """Return whether all runs have the same times and errors."""
    size, slack = block.row_sizes[0], GRID_TOLERANCE * block.tau
    begin = np.asarray(block.start_time)
    if np.any(block.row_sizes != size) or np.ptp(begin) > slack:
        return False
    intervals = block.interval.reshape(-1, size)
    sd = block.position_sd
    same_error = sd is None or np.all(np.ptp(sd.reshape(-1, size + 1), axis=0) == 0)
    return bool(np.all(np.ptp(intervals, axis=0) <= slack) and same_error)


def _helmert(block: Displacements) -> tuple[FloatArray, FloatArray]:
    """Compute √N times the mean of N simultaneous runs, and their contrasts."""
    n, size = len(block.row_sizes), int(block.row_sizes[0])
    x = block.dx.reshape(n, size, -1)
    total = np.cumsum(x, axis=0)
    k = np.arange(1, n)[:, None, None]
    return total[-1:] / np.sqrt(n), (total[:-1] - k * x[1:]) / np.sqrt(k * (k + 1.0))


def _with_steps(block: Displacements, steps: FloatArray) -> Displacements:
    """Make runs with the times and errors of the first run of a block."""
    n, size, n_dim = steps.shape
    sd = block.position_sd
    return replace(
        block,
        dx=np.ascontiguousarray(steps.reshape(-1, n_dim)),
        interval=np.tile(block.interval[:size], n),
        row_sizes=np.full(n, size, dtype=np.int64),
        trajectory=np.arange(n),
        position_sd=None if sd is None else np.tile(sd[: size + 1], n),
        start_time=None,
    )


def _concatenate(parts: list[Displacements]) -> Displacements:
    """Concatenate the runs of several blocks."""

    def joined(name: str) -> Any:
        return np.concatenate([getattr(part, name) for part in parts])

    return replace(
        parts[0],
        dx=joined("dx"),
        interval=joined("interval"),
        row_sizes=joined("row_sizes"),
        trajectory=np.arange(sum(len(part.row_sizes) for part in parts)),
        position_sd=None if parts[0].position_sd is None else joined("position_sd"),
    )


def _grid_places(block: Displacements) -> FloatArray:
    """Start times of runs, in steps after the first."""
    begin = np.asarray(block.start_time)
    return (begin - begin.min()) / block.tau


def _why_not_on_grid(block: Displacements) -> str:
    """Return why runs are not on a common grid of steps; empty if they are."""
    place = _grid_places(block)
    first = np.round(place)
    is_even = np.all(np.abs(block.interval - block.tau) <= GRID_TOLERANCE * block.tau)
    if not (is_even and np.all(np.abs(place - first) <= GRID_TOLERANCE)):
        return "these come and go at irregular times"
    if block.position_sd is not None and np.ptp(block.position_sd) > 0:
        return "these come and go, with errors that differ"
    n_steps = int((first + block.row_sizes).max())
    return f"these come and go over {n_steps:,} steps" if n_steps > _MAX_GRID else ""


def _grid(block: Displacements, make: Callable[[Displacements], FilterEngine]) -> _Grid:
    """Group runs on a common grid by their first step."""
    first = np.round(_grid_places(block)).astype(np.int64)
    n_steps = int((first + block.row_sizes).max())
    ends = np.cumsum(block.row_sizes)
    groups = np.unique(first)
    n_later, summed = [], []
    for group in groups:
        runs = np.flatnonzero(first == group)
        sizes = block.row_sizes[runs]
        n_later.append((sizes[:, None] > np.arange(sizes.max())).sum(axis=0).astype(np.float64))
        summed.append(
            [
                np.sum([block.dx[ends[r] - size : ends[r]] for r in runs[sizes == size]], axis=0)
                for size in np.unique(sizes)
            ]
        )
    return _Grid(make(block), n_steps, groups, n_later, summed)
