"""Kalman filter of Langevin steps at irregular times, for many sets and rates."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from driftbayes._kernels.compiled import count_threads, run_in_ranges, run_in_threads
from driftbayes._typing import FloatArray, IntArray
from driftbayes.inference import Hypothesis
from driftbayes.space._moments import Whitened

# A step of duration h after one of h' retains at most 1/(2 + 3h'/2h) of the earlier information on
# the velocity: after 16 steps less than 3e-8, even if durations grow a thousandfold.
_WARM_UP = 16


@dataclass(frozen=True, eq=False)
class FilteredSteps:
    """Correlated steps of different durations, which have no sufficient sums for all rates.

    The likelihood of a step is conditional on the earlier steps of its run, in any cell, as in
    `StepMoments`.

    Args:
        dx: Steps of all runs, concatenated, (step, axis).
        interval: Duration of each step.
        earlier: Number of earlier steps in the run of each step.
        labels: Group of each step, 0, 1, ... without gaps.
        begin: First group of each set.
        end: One after the last group of each set.
    """

    dx: FloatArray
    interval: FloatArray
    earlier: IntArray
    labels: IntArray
    begin: IntArray
    end: IntArray
    _shared: dict[bytes, FloatArray] = field(default_factory=dict, init=False)

    def __len__(self) -> int:
        """Number of sets."""
        return len(self.begin)

    @property
    def n_dim(self) -> int:
        """Number of axes."""
        return self.dx.shape[1]

    @cached_property
    def _order(self) -> tuple[IntArray, IntArray]:
        """Steps sorted by group, and the first index of each group."""
        order = np.argsort(self.labels, kind="stable")
        return order, np.concatenate([[0], np.cumsum(np.bincount(self.labels))])

    @cached_property
    def n_steps(self) -> FloatArray:
        """Steps of each set."""
        _, first = self._order
        return (first[self.end] - first[self.begin]).astype(np.float64)

    @cached_property
    def _zero_labels(self) -> IntArray:
        """Labels that put all steps in one group."""
        return np.zeros(len(self.dx), dtype=np.int64)

    def whitened(
        self, hypothesis: Hypothesis, theta: FloatArray, sets: IntArray, n_rows: int
    ) -> Whitened:
        """Compute the whitened products of sets at given rates; see `StepMoments.whitened`."""
        rates = np.ascontiguousarray(theta[:, hypothesis.names.index("gamma")])
        if n_rows == 1 and len(sets) > 1:
            group_sums = self._sums_at_common_rates(rates)
            ends = np.stack([self.begin[sets], self.end[sets]], axis=1).ravel()
            sums = np.add.reduceat(group_sums, ends, axis=0)[::2]
        else:
            set_rates = rates.reshape(n_rows, -1)
            # The largest sets go first, to balance the load of the threads.
            largest = np.argsort(-self.n_steps[sets], kind="stable")
            tasks = [(int(sets[i]), set_rates[i]) for i in largest]
            sums = np.empty((len(sets), set_rates.shape[1], 3 + self.n_dim))
            sums[largest] = run_in_threads(self._sums_of_set, tasks)
        return Whitened(sums[..., 0], sums[..., 2], sums[..., 3:], sums[..., 1])

    def _sums_at_common_rates(self, rates: FloatArray) -> FloatArray:
        """Sum all groups at common rates, (group, rate, sum), with a row of zeros at the end."""
        from driftbayes._kernels.langevin_steps import sum_langevin_steps

        key = rates.tobytes()
        if key not in self._shared:
            first = np.flatnonzero(self.earlier == 0)
            runs = np.stack([first, first, np.append(first[1:], len(self.dx))], axis=1)
            out = np.zeros((len(rates), int(self.labels.max()) + 2, 3 + self.n_dim))
            steps = (self.dx, self.interval, runs, self.labels)
            run_in_ranges(
                lambda a, b: sum_langevin_steps(*steps, rates[a:b], out[a:b]),
                len(rates),
                2 * count_threads(),
            )
            self._shared.clear()
            self._shared[key] = np.ascontiguousarray(np.swapaxes(out, 0, 1))
        return self._shared[key]

    def _sums_of_set(self, number: int, rates: FloatArray) -> FloatArray:
        """Sum one set at its own rates, (rate, sum)."""
        from driftbayes._kernels.langevin_steps import sum_langevin_steps

        order, first = self._order
        steps = np.sort(order[first[self.begin[number]] : first[self.end[number]]])
        is_new = np.diff(steps, prepend=-2) != 1
        is_new |= self.earlier[steps] == 0
        begins = np.flatnonzero(is_new)
        start = steps[begins]
        warm_up = start - np.minimum(self.earlier[start], _WARM_UP)
        stretches = np.stack([warm_up, start, start + np.diff(begins, append=len(steps))], axis=1)
        out = np.zeros((len(rates), 1, 3 + self.n_dim))
        sum_langevin_steps(self.dx, self.interval, stretches, self._zero_labels, rates, out)
        return out[:, 0]
