"""Runs of successive steps as arrays for engines and kernels."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftbayes._typing import FloatArray, IntArray
from driftbayes.data._sampling import Displacements, ragged_arange

# Relative differences of durations below this are rounding errors of times.
_INTERVAL_TOLERANCE = 1e-10


@dataclass(frozen=True)
class Context:
    """Location of the data, for quantities derived from the parameters.

    Args:
        centre: Mean position at which steps begin; zero if not needed.
        turning: Clockwise rotation of the axes per length along x, on the earth.
        is_lonlat: Whether `centre` is a longitude and a latitude.
    """

    centre: FloatArray
    turning: float = 0.0
    is_lonlat: bool = False


@dataclass(frozen=True, eq=False)
class Runs:
    """Steps of all runs as ragged arrays, with all columns that a model needs.

    Args:
        columns: Steps along each axis, then the regressors of a flow, (step, column).
        intervals: Distinct durations of steps.
        which: Index of the duration of each step.
        offsets: First step of each run, and the end of the last run.
        slot: Slot of each run, from 0; sums are separate for each slot.
        error: Error variance of each position; a run has one more position than steps.
        n_dim: Number of axes.
        tau: Sampling time.
        context: Location of the data.
    """

    columns: NDArray[Any]
    intervals: FloatArray
    which: NDArray[np.int32]
    offsets: IntArray
    slot: IntArray
    error: FloatArray
    n_dim: int
    tau: float
    context: Context

    @property
    def n_slots(self) -> int:
        """Number of slots."""
        return int(self.slot.max()) + 1

    @cached_property
    def n(self) -> FloatArray:
        """Number of steps of each slot."""
        sizes = np.diff(self.offsets).astype(np.float64)
        counts = np.bincount(self.slot, weights=sizes, minlength=self.n_slots)
        return counts.astype(np.float64)

    @cached_property
    def noisy(self) -> bool:
        """Whether any position has an error."""
        return bool(np.any(self.error > 0))

    def part(self, first: int, last: int) -> "Runs":
        """Return a range of runs."""
        low, high = self.offsets[first], self.offsets[last]
        return replace(
            self,
            columns=self.columns[low:high],
            which=self.which[low:high],
            offsets=self.offsets[first : last + 1] - low,
            slot=self.slot[first:last],
            error=self.error[low + first : high + last],
        )

    def thinned(self, n_steps: int) -> "tuple[Runs, float]":
        """Reduce to about `n_steps` steps by omitting runs and the ends of runs."""
        total = len(self.columns)
        if total <= n_steps:
            return self, 1.0
        if self.n_slots > 1:
            return self._fewer_slots(int(np.ceil(total / n_steps)))
        sizes = np.diff(self.offsets)
        # Runs stay long enough for slow motion; their number follows.
        length = int(max(np.sqrt(n_steps) * 16, n_steps // len(sizes)))
        kept = np.minimum(sizes, length)
        every = max(int(np.ceil(kept.sum() / n_steps)), 1)
        chosen = np.arange(0, len(sizes), every)
        starts, kept = self.offsets[chosen], kept[chosen]
        steps = np.repeat(starts, kept) + ragged_arange(kept)
        # Each run has one more position than steps.
        fixes = np.repeat(starts + chosen, kept + 1) + ragged_arange(kept + 1)
        return self._select(steps, fixes, kept, self.slot[chosen])

    def _fewer_slots(self, every: int) -> "tuple[Runs, float]":
        """Keep one slot in `every`, with all its steps."""
        kept = self.slot % every == 0
        sizes = np.diff(self.offsets)
        steps, fixes = np.repeat(kept, sizes), np.repeat(kept, sizes + 1)
        return self._select(steps, fixes, sizes[kept], self.slot[kept] // every)

    def _select(
        self, steps: NDArray[Any], fixes: NDArray[Any], sizes: IntArray, slot: IntArray
    ) -> "tuple[Runs, float]":
        """Select steps and fixes, and return the factor by which steps become fewer.

        Args:
            steps: Selected steps, in order.
            fixes: Selected positions.
            sizes: Number of steps of each remaining run.
            slot: Slot of each remaining run.
        """
        used, which = np.unique(self.which[steps], return_inverse=True)
        out = replace(
            self,
            columns=self.columns[steps],
            intervals=self.intervals[used],
            which=which.astype(np.int32),
            offsets=np.concatenate([[0], np.cumsum(sizes)]),
            slot=slot,
            error=self.error[fixes],
        )
        return out, len(self.columns) / len(out.columns)


def make_runs(
    data: Displacements,
    *,
    channels: bool = False,
    positions: bool = False,
    by_trajectory: bool = False,
    is_turning: bool = False,
) -> Runs:
    """Arrange the steps in runs with the columns that a model needs.

    Args:
        data: Displacements at one tau.
        channels: Whether the duration is a column.
        positions: Whether positions times the duration are columns.
        by_trajectory: Whether each trajectory has its own slot.
        is_turning: Whether the columns are x + iy, x - iy and the duration.
    """
    columns: NDArray[Any] = data.dx
    if is_turning:
        z = data.dx[:, 0] + 1j * data.dx[:, 1]
        columns = np.column_stack([z, z.conj(), data.interval.astype(complex)])
    elif channels:
        columns = with_regressors(data, positions=positions)
    intervals, which = distinct_intervals(data.interval)
    slot = np.zeros(len(data.row_sizes), dtype=np.int64)
    if by_trajectory:
        slot = np.unique(data.trajectory, return_inverse=True)[1]
    return Runs(
        columns=np.ascontiguousarray(columns),
        intervals=intervals,
        which=which,
        offsets=np.concatenate([[0], np.cumsum(data.row_sizes)]),
        slot=slot,
        error=error_variances(data),
        n_dim=data.n_dim,
        tau=data.tau,
        context=make_context(data, positions=positions),
    )


def with_regressors(data: Displacements, *, positions: bool) -> FloatArray:
    """Return the steps and the regressors of a flow, (step, column).

    Args:
        data: Displacements at one tau.
        positions: Whether positions times the duration are regressors too, as well as the duration.
    """
    regressors = [data.interval]
    if positions:
        regressors += list(((data.origin - data.centre) * data.interval[:, None]).T)
    return np.column_stack([data.dx, *regressors])


def error_variances(data: Displacements) -> FloatArray:
    """Return the error variance of every position, run after run; zero if positions are exact."""
    if data.position_sd is None:
        return np.zeros(len(data.dx) + len(data.row_sizes))
    return np.asarray(data.position_sd, dtype=np.float64) ** 2


def make_context(data: Displacements, *, positions: bool) -> Context:
    """Return the location of the data.

    Args:
        data: Displacements at one tau.
        positions: Whether the model uses positions; otherwise the centre is zero.
    """
    if not positions:
        return Context(np.zeros(data.n_dim))
    on_earth = data.ground is not None
    centre = data.centre_lonlat if on_earth else data.centre
    return Context(np.asarray(centre), float(data.turning), on_earth)


def distinct_intervals(interval: FloatArray) -> tuple[FloatArray, NDArray[np.int32]]:
    """Return the durations that differ by more than rounding, and the index of each step's."""
    values, which = np.unique(interval, return_inverse=True)
    new = np.concatenate([[True], np.diff(values) > _INTERVAL_TOLERANCE * values[1:]])
    group = np.cumsum(new) - 1
    return values[new], group[which].astype(np.int32)
