"""Engines that compute sums over displacements for any number of parameter values.

An engine does not depend on the model. It evaluates the `Formulas` of a model at many parameter
values at once and returns `Sums`, from which the model computes its density.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from driftbayes._kernels.compiled import count_threads, run_in_ranges, run_in_threads
from driftbayes._typing import FloatArray
from driftbayes.errors import DriftbayesError
from driftbayes.likelihood._channels import ChannelMoments
from driftbayes.likelihood._moments import SecondMoments
from driftbayes.likelihood._per_trajectory import Tracks, tracks_of
from driftbayes.likelihood._runs import Context, Runs
from driftbayes.likelihood._sums import Formulas, SlotForms, Sums, triangle

# Memory of the matrices of all intervals, in bytes.
_MATRIX_BYTES = 16 << 20
# Number of parts into which runs are divided for threads, independent of the number of threads, and
# number of steps from which they are divided.
_N_PARTS = 4
_MIN_STEPS = 20_000
# Relative cost of a step whose interval no other step has.
_DISTINCT_COST = 4
# Number of arrays of the size of the covariance matrix that a dense factorisation needs.
_DENSE_COPIES = 8
# Longest window of the Toeplitz engine, and error of ln L allowed for shorter windows.
_MAX_LAGS = 4096
_TOLERANCE = 1e-4


@runtime_checkable
class Engine(Protocol):
    """Interface of an engine for inference."""

    @property
    def noisy(self) -> bool:
        """Whether some fix has a known error, so that no parameter scales the whole covariance."""
        ...

    @property
    def n_dim(self) -> int:
        """Number of leading columns that are axes."""
        ...

    @property
    def tau(self) -> float:
        """Sampling time."""
        ...

    @property
    def context(self) -> "Context":
        """Location of the data."""
        ...

    def sums(self, formulas: Formulas) -> Sums:
        """Compute the sums for each row of the formulas."""
        ...

    def thinned(self, n_steps: int) -> "tuple[Engine, float]":
        """Return an engine with about `n_steps` steps, and the factor by which they are fewer."""
        ...

    @property
    def shortest_step(self) -> float:
        """Duration of the shortest step."""
        ...


class AbstractDirect(ABC):
    """Data that are their own engine: their density is computed directly, not from sums.

    The attributes declared here are those of displacements.
    """

    # Positions are treated as exact.
    noisy = False

    if TYPE_CHECKING:

        @property
        def n_dim(self) -> int: ...
        @property
        def tau(self) -> float: ...
        @property
        def shortest_step(self) -> float: ...
        @property
        def length_unit(self) -> str: ...
        @property
        def time_unit(self) -> str: ...
        @property
        def fingerprint(self) -> str: ...
        @property
        def n_particles(self) -> int: ...
        @property
        def n_steps(self) -> int: ...
        @property
        def n_displacements(self) -> int: ...

    @property
    def context(self) -> Context:
        """Location of the data, which these models do not use."""
        return Context(np.zeros(self.n_dim))

    def thinned(self, n_steps: int) -> tuple[Any, float]:
        """Return all data, unless a subset would be cheaper."""
        return self, 1.0

    def sums(self, formulas: Any) -> Any:
        """Raise an error: these densities are not functions of second moments."""
        msg = "the density of these data has no second moments; use `log_densities`"
        raise DriftbayesError(msg)

    @abstractmethod
    def log_densities(self, model: Any, values: Mapping[str, FloatArray]) -> FloatArray:
        """Compute ln p of the data under a model at each value of its parameters."""


@dataclass(frozen=True, eq=False)
class FilterEngine:
    """Kalman filter for state-space models, with any times and errors, in O(steps).

    Args:
        runs: The data.
        is_summed: Whether sums are over all axes, for models with identical axes. The formulas then
            do not depend on the number of axes.
    """

    runs: Runs
    is_summed: bool = False

    @property
    def n_slots(self) -> int:
        """Number of slots."""
        return self.runs.n_slots

    @property
    def noisy(self) -> bool:
        return self.runs.noisy

    @property
    def n_dim(self) -> int:
        """Number of axes of the sums."""
        return 1 if self.is_summed else self.runs.n_dim

    @property
    def tau(self) -> float:
        return self.runs.tau

    @property
    def context(self) -> Context:
        return Context(np.zeros(1)) if self.is_summed else self.runs.context

    @property
    def shortest_step(self) -> float:
        return float(self.runs.intervals[0])

    def thinned(self, n_steps: int) -> "tuple[FilterEngine, float]":
        # If many intervals are distinct, the matrices cost several times as much as the filter.
        if len(self.runs.intervals) > len(self.runs.columns) // 4:
            n_steps //= _DISTINCT_COST
        runs, factor = self.runs.thinned(n_steps)
        return (self, 1.0) if runs is self.runs else (replace(self, runs=runs), factor)

    @cached_property
    def _parts(self) -> list[Runs]:
        """Parts of the runs with similar numbers of steps."""
        runs = self.runs
        n_runs = len(runs.slot)
        if runs.n_slots > 1 or n_runs == 1 or len(runs.columns) < _MIN_STEPS:
            return [runs]
        goals = np.linspace(0, runs.offsets[-1], _N_PARTS + 1)[1:-1]
        cuts = np.unique(np.searchsorted(runs.offsets, goals).clip(1, n_runs - 1))
        edges = [0, *map(int, cuts), n_runs]
        return [runs.part(a, b) for a, b in pairwise(edges)]

    @cached_property
    def tracks(self) -> Tracks | None:
        """Runs by length if they are short and regular, otherwise None."""
        return tracks_of(self.runs)

    def slot_forms(self, formulas: Formulas) -> SlotForms:
        """Compute the Gaussian terms of each slot."""
        if self.tracks is not None:
            return self.tracks.forms(formulas)
        sums, n_dim = self.sums(formulas), self.n_dim
        quadratic = np.trace(sums.products[:, :, :n_dim, :n_dim], axis1=2, axis2=3)
        return SlotForms(sums.n, sums.log_det, quadratic, np.arange(len(sums.n)))

    def sums(self, formulas: Formulas) -> Sums:
        runs = self.runs
        n_state = formulas.n_state()
        # As many rows at a time as fit in memory with their matrices and slots.
        row_bytes = 16 * (2 * n_state**2 * len(runs.intervals) + 4 * runs.n_slots)
        at_once = max(_MATRIX_BYTES // row_bytes, 1)
        pieces = [
            self._filter_rows(formulas.part(slice(low, low + at_once)))
            for low in range(0, formulas.n_rows, at_once)
        ]
        if len(pieces) == 1:
            return pieces[0]
        return Sums(
            pieces[0].n,
            *(
                np.concatenate([getattr(piece, name) for piece in pieces])
                for name in ("log_det", "products", "excess")
            ),
        )

    def _filter_rows(self, formulas: Formulas) -> Sums:
        """Filter all runs for rows whose matrices fit in memory together."""
        from driftbayes._kernels.filter import LANES

        runs, n_rows = self.runs, formulas.n_rows
        start, extra, tails = formulas.starts()
        n_blocks = -(-n_rows // LANES)
        matrices = formulas.lanes(runs.intervals)
        first = lanes_last(start, n_blocks).reshape(n_blocks, -1)
        extra, tails = (lanes_last(part, n_blocks) for part in (extra, tails))
        matrices = matrices.reshape(n_blocks, len(runs.intervals), -1)
        tasks = [
            (part, matrices[b], first[b], extra[b], tails[b], start.shape[1])
            for b in range(n_blocks)
            for part in self._parts
        ]
        found = run_in_threads(_filter, tasks)
        n_parts, n_columns = len(self._parts), runs.columns.shape[1]
        whole = [
            [sum(found[b * n_parts + i][k] for i in range(n_parts)) for b in range(n_blocks)]
            for k in range(3)
        ]
        log_det, products, excess = (np.concatenate(part, axis=-1)[..., :n_rows] for part in whole)
        if not self.is_summed:
            return Sums(runs.n, log_det.T, triangle(products, n_columns), excess.T)
        diagonal = [c * (c + 3) // 2 for c in range(n_columns)]
        total = products[:, diagonal].sum(axis=1).T[..., None, None]
        return Sums(n_columns * runs.n, n_columns * log_det.T, total, excess.T)

    def whiten(self, formulas: Formulas, steps: NDArray[Any]) -> tuple[NDArray[Any], FloatArray]:
        """Compute innovations of unit variance: the normalised errors of one-step predictions.

        Args:
            formulas: One row for each data set, or one for all.
            steps: Data sets with the runs, intervals and errors of the engine, (set, step, column).

        Returns:
            Innovations, (set, step, column), and their variances, (set, step).
        """
        return self._transform(formulas, steps, backwards=False)

    def colour(self, formulas: Formulas, kicks: NDArray[Any]) -> NDArray[Any]:
        """Compute steps from their innovations of unit variance, the inverse of `whiten`."""
        return self._transform(formulas, kicks, backwards=True)[0]

    def last_states(self, formulas: Formulas) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Yield the state at the last fix of each run given all its steps, for each row.

        Yields:
            Means, (run, column, state), and covariances, (run, state, state). Positions are
            relative to the last fix.
        """
        from driftbayes._kernels.filter import LANES

        columns = self.runs.columns
        for low in range(0, formulas.n_rows, LANES):
            part = formulas.part(slice(low, low + LANES))
            steps = np.broadcast_to(columns, (part.n_rows, *columns.shape))
            *_, means, covariances = _transform_block(
                self.runs, steps, *self._lanes(part), backwards=False
            )
            yield from zip(means, covariances, strict=True)

    def _transform(
        self, formulas: Formulas, given: NDArray[Any], *, backwards: bool
    ) -> tuple[NDArray[Any], FloatArray]:
        """Compute innovations of all data sets, or steps from them, and their variances."""
        from driftbayes._kernels.filter import LANES

        found, variances = np.empty_like(given), np.empty(given.shape[:2])

        def transform(
            low: int, matrices: NDArray[Any], start: NDArray[Any], extra: FloatArray
        ) -> None:
            block = slice(low, low + LANES)
            found[block], variances[block], *_ = _transform_block(
                self.runs, given[block], matrices, start, extra, backwards=backwards
            )

        lows = range(0, len(given), LANES)
        if formulas.n_rows == 1:
            shared = self._lanes(formulas)
            run_in_threads(transform, [(low, *shared) for low in lows])
            return found, variances
        # One block of matrices per thread at a time.
        n_threads = count_threads()
        for i in range(0, len(lows), n_threads):
            tasks = [
                (low, *self._lanes(formulas.part(slice(low, low + LANES))))
                for low in lows[i : i + n_threads]
            ]
            run_in_threads(transform, tasks)
        return found, variances

    def _lanes(self, formulas: Formulas) -> tuple[NDArray[Any], NDArray[Any], FloatArray]:
        """Compute matrices, initial covariance and error variance of at most LANES rows."""
        start, extra, _ = formulas.starts()
        intervals = self.runs.intervals
        return (
            formulas.lanes(intervals).reshape(len(intervals), -1),
            lanes_last(start, 1).reshape(-1),
            lanes_last(extra, 1).reshape(-1),
        )


def lanes_last(values: NDArray[Any], n_blocks: int) -> NDArray[Any]:
    """Reorder (row, ...) to (block, ..., lane), padding the last block with its last row."""
    from driftbayes._kernels.filter import LANES

    missing = n_blocks * LANES - len(values)
    if missing:
        values = np.concatenate([values, np.repeat(values[-1:], missing, axis=0)])
    blocks = values.reshape(n_blocks, LANES, *values.shape[1:])
    return np.ascontiguousarray(np.moveaxis(blocks, 1, -1))


def rows_first(values: NDArray[Any], n_rows: int) -> NDArray[Any]:
    """Reorder (block, ..., lane) to (row, ...), the inverse of `lanes_last`."""
    rows = np.moveaxis(values, -1, 1)
    return rows.reshape(-1, *rows.shape[2:])[:n_rows]


def _filter(
    runs: Runs,
    matrices: NDArray[Any],
    start: NDArray[Any],
    extra: FloatArray,
    tails: FloatArray,
    n_state: int,
) -> tuple[NDArray[Any], ...]:
    """Filter a part of the runs for one block of rows."""
    from driftbayes._kernels.filter import LANES, filter_kernel

    n_columns, n_slots = runs.columns.shape[1], runs.n_slots
    columns = runs.columns.astype(matrices.dtype, copy=False)
    log_det, excess = np.zeros((n_slots, LANES)), np.zeros((n_slots, LANES))
    products = np.zeros((n_slots, n_columns * (n_columns + 1) // 2, LANES), dtype=matrices.dtype)
    weight, law = tails[0], tails[1:]
    if np.any(law[0] > 0):
        from driftbayes._kernels.outliers import outlier_kernel

        kernel, weight = outlier_kernel(n_state, n_columns), law
    else:
        kernel = filter_kernel(n_state, n_columns, heavy=bool(np.any(weight > 0)))
    kernel(
        (columns, runs.which, runs.offsets, runs.slot, runs.error),
        (matrices, start, extra, weight),
        (log_det, products, excess),
    )
    return log_det, products, excess


def _transform_block(
    runs: Runs,
    given: NDArray[Any],
    matrices: NDArray[Any],
    start: NDArray[Any],
    extra: FloatArray,
    *,
    backwards: bool,
) -> tuple[NDArray[Any], FloatArray, NDArray[Any], NDArray[Any]]:
    """Compute innovations of at most LANES data sets, or steps from them, and variances.

    Also return means and covariances of the state at the end of each run, by data set.
    """
    from driftbayes._kernels.filter import LANES
    from driftbayes._kernels.innovations import innovation_kernel

    n_sets, n_steps, n_columns = given.shape
    lanes = lanes_last(given, 1)[0]
    found, variances = np.empty_like(lanes), np.empty((n_steps, LANES))
    n_state = round(np.sqrt(len(start) / LANES))
    covariance, means = (
        np.empty((len(runs.slot), size * n_state, LANES), dtype=matrices.dtype)
        for size in (n_state, n_columns)
    )
    kernel = innovation_kernel(n_state, n_columns, backwards=backwards)
    kernel(
        (lanes, runs.which, runs.offsets, runs.error),
        (matrices, start, extra),
        (found, variances, covariance, means),
    )
    states = (np.moveaxis(part, -1, 0)[:n_sets] for part in (means, covariance))
    by_run = (part.reshape(n_sets, len(runs.slot), -1, n_state) for part in states)
    return np.moveaxis(found, -1, 0)[:n_sets], variances.T[:n_sets], *by_run


@dataclass(frozen=True, eq=False)
class MomentsEngine:
    """Second moments of regular exact data, at the same cost for any number of data.

    Args:
        moments: Second moments, summed over axes or with separate axes.
        is_turning: Whether steps are complex numbers.
    """

    moments: SecondMoments | ChannelMoments
    is_turning: bool = False

    @property
    def noisy(self) -> bool:
        """Always false, since positions are exact."""
        return False

    @property
    def n_dim(self) -> int:
        moments = self.moments
        return moments.centre.shape[-1] if isinstance(moments, ChannelMoments) else 1

    @property
    def tau(self) -> float:
        return float(self.moments.tau)

    @property
    def shortest_step(self) -> float:
        return self.tau

    @property
    def context(self) -> Context:
        moments = self.moments
        if not isinstance(moments, ChannelMoments):
            return Context(np.zeros(1))
        return Context(moments.centre, float(moments.turning), bool(moments.is_lonlat))

    def thinned(self, n_steps: int) -> "tuple[MomentsEngine, float]":
        return self, 1.0

    @cached_property
    def _forms(self) -> NDArray[Any]:
        """Forms of each group and pair of columns, (group, pair, step, step)."""
        f = self.moments.forms
        if isinstance(self.moments, SecondMoments):
            return np.ascontiguousarray(f[:, None])
        if not self.is_turning:
            n = f.shape[1]
            return np.stack([f[:, c, d] for c in range(n) for d in range(c + 1)], axis=1)
        steps = f[:, 0, 0] + f[:, 1, 1] + 1j * (f[:, 1, 0] - f[:, 0, 1])
        cross = f[:, 0, 2] + 1j * f[:, 1, 2]
        durations = f[:, 2, 2].astype(complex)
        return np.stack([steps, steps.conj(), cross, cross.conj(), durations], axis=1)

    def sums(self, formulas: Formulas) -> Sums:
        from driftbayes._kernels.toeplitz import form_products

        moments, forms = self.moments, self._forms
        n_lags = forms.shape[-1]
        covariance = formulas.autocovariances(self.tau, n_lags)
        n_rows = len(covariance)
        logs = np.empty((n_rows, n_lags))
        products = np.zeros((n_rows, forms.shape[1]), dtype=forms.dtype)
        # Empty groups are padding.
        used = np.flatnonzero(np.any(forms != 0, axis=(1, 2, 3)))
        groups = np.ascontiguousarray(forms[used]), moments.orders[used], moments.paired[used]
        run_in_ranges(
            lambda a, b: form_products(covariance[a:b], *groups, logs[a:b], products[a:b]),
            n_rows,
            min(count_threads(), -(-n_rows // 64)),
        )
        counts = moments.predicted
        log_det = logs[:, counts > 0] @ counts[counts > 0]
        n = np.array([counts.sum()])
        return Sums(n, log_det[:, None], self._unpack(products), np.zeros((n_rows, 1)))

    def _unpack(self, products: NDArray[Any]) -> NDArray[Any]:
        """Unpack products of pairs of columns to matrices, (row, slot, column, column)."""
        if not self.is_turning:
            n_columns = int((np.sqrt(8 * products.shape[1] + 1) - 1) / 2)
            return triangle(products.T[None], n_columns)
        out = np.zeros((len(products), 1, 3, 3), dtype=complex)
        out[:, 0, 0, 0], out[:, 0, 1, 1], out[:, 0, 2, 2] = products[:, [0, 1, 4]].T
        out[:, 0, 0, 2], out[:, 0, 1, 2] = products[:, [2, 3]].T
        out[:, 0, 2, 0], out[:, 0, 2, 1] = products[:, [2, 3]].conj().T
        return out


@dataclass(frozen=True, eq=False)
class ToeplitzEngine(FilterEngine):
    """Durbin--Levinson recursion for models without a state-space form at regular times.

    All fixes must have the same error variance. Steps beyond the longest window are predicted from
    one window; the window is shorter where partial correlations become negligible.
    """

    @property
    def _n_lags(self) -> int:
        """Number of steps of the longest window."""
        return int(min(np.diff(self.runs.offsets).max(), _MAX_LAGS))

    @property
    def n_later(self) -> int:
        """Number of scalar steps predicted from the longest window, not from all earlier steps."""
        beyond = np.maximum(np.diff(self.runs.offsets) - self._n_lags, 0)
        return int(beyond.sum()) * self.runs.n_dim

    def covariances(self, formulas: Formulas, n_lags: int | None = None) -> FloatArray:
        """Compute autocovariances of steps including measurement errors, (row, lag).

        Args:
            formulas: Formulas of the model.
            n_lags: Number of lags; by default the length of the longest window.
        """
        covariance = formulas.autocovariances(self.runs.tau, n_lags or self._n_lags)
        covariance[:, 0] += 2 * self.runs.error[0]
        covariance[:, 1:2] -= self.runs.error[0]
        return covariance

    def sums(self, formulas: Formulas) -> Sums:
        from driftbayes._kernels.toeplitz import run_products

        runs = self.runs
        n_columns = runs.columns.shape[1]
        n_pairs, n_slots = n_columns * (n_columns + 1) // 2, runs.n_slots
        tolerance = _TOLERANCE / len(runs.columns)

        def whiten(part: Formulas) -> tuple[FloatArray, ...]:
            weight = part.starts()[2][:, 0]
            covariance = self.covariances(part)
            n = part.n_rows
            out = np.zeros((n_slots, n)), np.zeros((n_slots, n_pairs, n)), np.zeros((n_slots, n))
            steps, orders = (runs.columns, runs.offsets, runs.slot), np.zeros(n, dtype=np.int64)
            run_products(steps, covariance, weight, tolerance, out, orders)
            return out

        at_once = int(np.clip(_MATRIX_BYTES // (8 * self._n_lags), 1, 64))
        parts = [
            (formulas.part(slice(i, i + at_once)),) for i in range(0, formulas.n_rows, at_once)
        ]
        pieces = run_in_threads(whiten, parts)
        log_det, products, excess = (np.concatenate(part, -1) for part in zip(*pieces, strict=True))
        return Sums(runs.n, log_det.T, triangle(products, n_columns), excess.T)

    def _transform(
        self, formulas: Formulas, given: NDArray[Any], *, backwards: bool
    ) -> tuple[NDArray[Any], FloatArray]:
        from driftbayes._kernels.innovations import toeplitz_innovations

        runs, n_rows = self.runs, formulas.n_rows
        n_lags = int(np.diff(runs.offsets).max())
        found, variances = np.empty_like(given), np.empty(given.shape[:2])
        covariance = self.covariances(formulas, n_lags)
        # Data sets with the same parameters become columns of one.
        at_once = len(given) // n_rows

        def transform(row: int) -> None:
            sets = slice(row * at_once, (row + 1) * at_once)
            columns = np.moveaxis(given[sets], 0, 1)
            own, sizes = np.empty((columns.shape[0], columns[0].size)), np.empty(len(columns))
            flat = np.ascontiguousarray(columns.reshape(own.shape))
            toeplitz_innovations(flat, runs.offsets, covariance[row], backwards, own, sizes)
            found[sets] = np.moveaxis(own.reshape(columns.shape), 1, 0)
            variances[sets] = sizes

        run_in_threads(transform, [(row,) for row in range(n_rows)])
        return found, variances


@dataclass(frozen=True, eq=False)
class DenseEngine(FilterEngine):
    """Cholesky factorisation for models without a state-space form, O(steps³) per run."""

    @property
    def evaluation_bytes(self) -> int:
        """Memory needed for the covariance of the longest run, with intermediate arrays."""
        return 8 * _DENSE_COPIES * (int(np.diff(self.runs.offsets).max()) + 1) ** 2

    def thinned(self, n_steps: int) -> "tuple[DenseEngine, float]":
        return self, 1.0

    def sums(self, formulas: Formulas) -> Sums:
        runs, n_rows = self.runs, formulas.n_rows
        _, extra, tails = formulas.starts()
        n_columns = runs.columns.shape[1]
        log_det, excess = np.zeros((n_rows, runs.n_slots)), np.zeros((n_rows, runs.n_slots))
        products = np.zeros((n_rows, runs.n_slots, n_columns, n_columns))
        interval = runs.intervals[runs.which]
        for r, out in enumerate(runs.slot):
            low, high = runs.offsets[r : r + 2]
            times = np.concatenate([[0.0], np.cumsum(interval[low:high])])
            lags, place = np.unique(np.abs(times[:, None] - times), return_inverse=True)
            errors = runs.error[low + r : high + r + 1]
            for b in range(n_rows):
                spread = formulas.part(slice(b, b + 1)).mean_square_displacements(lags)[0]
                spread = spread[place.reshape(len(times), -1)]
                cov = -0.5 * np.diff(np.diff(spread, axis=0), axis=1)
                cov += np.diff(np.diff(np.diag(errors + extra[b]), axis=0), axis=1)
                try:
                    factor = np.linalg.cholesky(cov)
                except np.linalg.LinAlgError:
                    log_det[b, out] = np.nan
                    continue
                white = solve_triangular(factor, runs.columns[low:high], lower=True)
                log_det[b, out] += 2 * np.sum(np.log(np.diag(factor)))
                products[b, out] += white.T @ white
                excess[b, out] += np.sum(np.log1p(tails[b, 0] * np.sum(white**2, axis=1)))
        return Sums(runs.n, log_det, products, excess)
