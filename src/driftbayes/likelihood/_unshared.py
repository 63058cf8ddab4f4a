"""Joint filter of particles that share motion but are observed at different times."""

from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush

import numpy as np

from driftbayes._kernels.compiled import run_in_threads
from driftbayes._typing import FloatArray, IntArray
from driftbayes.data._sampling import Displacements
from driftbayes.errors import DriftbayesError
from driftbayes.likelihood._engines import lanes_last
from driftbayes.likelihood._runs import distinct_intervals, error_variances
from driftbayes.likelihood._sums import Formulas, Sums

# Times closer than this, relative to tau, differ by rounding.
_TIME_TOLERANCE = 1e-9
# Multiplications per likelihood; with more, an evidence would take hours.
_MAX_WORK = 2e9
# Number of particles used to search for posterior modes.
_N_SEARCHED = 16
# Memory of the matrices of all intervals, in bytes.
_MATRIX_BYTES = 64 << 20


@dataclass(frozen=True, eq=False)
class UnsharedTimes:
    """Fixes of all particles in order of time.

    Args:
        slot: Slot of the particle; after its last fix another particle can use the slot.
        time: Time of the fix.
        after: Time since the last fix of the particle; NaN at its first fix.
        dx: Step of the particle since then, (fix, axis).
        error: Error variance of the fix.
        tau: Sampling time.
    """

    slot: IntArray
    time: FloatArray
    after: FloatArray
    dx: FloatArray
    error: FloatArray
    tau: float

    @property
    def n_steps(self) -> int:
        """Number of steps of all particles."""
        return int(np.isfinite(self.after).sum())

    @property
    def n_slots(self) -> int:
        """Largest number of simultaneous particles."""
        return int(self.slot.max()) + 1

    @property
    def shortest_step(self) -> float:
        """Duration of the shortest step."""
        return float(np.nanmin(self.after))

    def work(self, n_state: int) -> float:
        """Estimate the multiplications per likelihood.

        Args:
            n_state: Size of the state of one particle.
        """
        size = n_state * (self.n_slots + 1) - 1
        return len(self.slot) * float(size) ** 2

    def thinned(self, n_steps: int) -> "UnsharedTimes":
        """Keep the first fixes of some particles, about `n_steps` in all."""
        chosen = np.unique(np.linspace(0, self.n_slots - 1, _N_SEARCHED).astype(np.int64))
        rows = np.flatnonzero(np.isin(self.slot, chosen))
        rows = rows[: np.searchsorted(np.cumsum(np.isfinite(self.after[rows])), n_steps) + 1]
        return UnsharedTimes(
            np.searchsorted(chosen, self.slot[rows]),
            *(self.time[rows], self.after[rows], self.dx[rows], self.error[rows]),
            self.tau,
        )

    @cached_property
    def _intervals(self) -> tuple[tuple[FloatArray, IntArray], tuple[FloatArray, IntArray]]:
        """Distinct times since the last fix of any and of the same particle, and their indices."""
        reached, since = self.time[0], np.zeros(len(self.time))
        for k, time in enumerate(self.time):
            if time - reached > _TIME_TOLERANCE * self.tau:
                since[k], reached = time - reached, time
        found = []
        for values in (since, np.nan_to_num(self.after)):
            which = np.full(len(values), -1)
            intervals, which[values > 0] = distinct_intervals(values[values > 0])
            # An unused interval, so that the array is not empty.
            found.append((intervals if len(intervals) else np.array([self.tau]), which))
        return found[0], found[1]

    def sums(self, own: Formulas, common: Formulas) -> Sums:
        """Compute the sums over all steps for each row."""
        n_rows, n_state = own.n_rows, own.n_state()
        if self.work(n_state) > _MAX_WORK:
            raise DriftbayesError(
                f"common motion of particles that are seen at times of their own takes "
                f"{self.work(n_state):.1g} multiplications for one likelihood of these "
                f"{len(self.slot):,} fixes of up to {self.n_slots:,} particles at a time, and "
                f"{_MAX_WORK:.0g} are the limit; choose a tau that all share, fewer particles or a "
                "part of the time"
            )
        from driftbayes._kernels.filter import LANES

        # As many whole blocks of rows at a time as fit in memory.
        row_bytes = 16 * n_state**2 * sum(len(part[0]) for part in self._intervals)
        at_once = max(_MATRIX_BYTES // (row_bytes * LANES), 1) * LANES
        found: list[tuple[FloatArray, FloatArray]] = []
        for low in range(0, n_rows, at_once):
            rows = slice(low, low + at_once)
            found += self._blocks(own.part(rows), common.part(rows))
        log_det, products = (np.concatenate(part, axis=-1) for part in zip(*found, strict=True))
        return Sums(
            np.array([float(self.n_steps)]),
            log_det[:n_rows, None],
            np.moveaxis(products, -1, 0)[:n_rows, None],
            np.zeros((n_rows, 1)),
        )

    def _blocks(self, own: Formulas, common: Formulas) -> list[tuple[FloatArray, FloatArray]]:
        """Compute log-determinants and products by blocks, with rows along the last axis."""
        from driftbayes._kernels.common import filter_together
        from driftbayes._kernels.filter import LANES

        (since, which_since), (after, which_after) = self._intervals
        fixes = (self.slot, which_since, which_after, self.dx, self.error, self.n_slots)
        n_dim, n_blocks = self.dx.shape[1], -(-own.n_rows // LANES)
        own_start, extra, _ = own.starts()
        given = (
            (own.lanes(after), lanes_last(own_start, n_blocks)),
            (common.lanes(since), lanes_last(common.starts()[0], n_blocks)),
        )
        extras = lanes_last(extra, n_blocks)

        def filter_block(b: int) -> tuple[FloatArray, FloatArray]:
            sums = np.zeros(LANES), np.zeros((n_dim, n_dim, LANES))
            parts = [(matrices[b], start[b]) for matrices, start in given]
            filter_together(fixes, *parts, extras[b], sums)
            return sums

        return run_in_threads(filter_block, [(b,) for b in range(n_blocks)])


def unshared_times(block: Displacements) -> UnsharedTimes:
    """Sort the fixes of all runs by time.

    Args:
        block: Displacements of runs with known start times.
    """
    sizes = block.row_sizes
    firsts = np.cumsum(sizes + 1) - sizes - 1
    is_first = np.zeros(len(block.dx) + len(sizes), dtype=bool)
    is_first[firsts] = True
    after = np.full(len(is_first), np.nan)
    after[~is_first] = block.interval
    dx = np.zeros((len(is_first), block.n_dim))
    dx[~is_first] = block.dx
    total = np.cumsum(np.nan_to_num(after))
    run = np.repeat(np.arange(len(sizes)), sizes + 1)
    begin = np.asarray(block.start_time)
    time = (begin - begin.min())[run] + total - total[firsts][run]
    error = error_variances(block)
    slot = _assign_slots(time[firsts], time[firsts + sizes])[run]
    order = np.lexsort((run, time))
    return UnsharedTimes(slot[order], time[order], after[order], dx[order], error[order], block.tau)


def _assign_slots(begin: FloatArray, end: FloatArray) -> IntArray:
    """Assign each run the first slot that is free when the run begins."""
    held: list[tuple[float, int]] = []
    free: list[int] = []
    out = np.empty(len(begin), dtype=np.int64)
    for run in np.argsort(begin, kind="stable"):
        while held and held[0][0] < begin[run]:
            heappush(free, heappop(held)[1])
        place = heappop(free) if free else len(held)
        heappush(held, (end[run], place))
        out[run] = place
    return out
