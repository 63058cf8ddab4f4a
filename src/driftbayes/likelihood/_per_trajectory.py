"""Sums by trajectory, for models with a separate density for each trajectory."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from driftbayes._typing import FloatArray, IntArray
from driftbayes.likelihood._runs import Runs
from driftbayes.likelihood._sums import Formulas, SlotForms

# Largest length of a run, and memory of the statistics of all runs in bytes.
_MAX_LENGTH = 64
_MAX_BYTES = 64 << 20


@dataclass(frozen=True, eq=False)
class _Group:
    """Runs of one length.

    Args:
        length: Number of steps of each run.
        slots: Distinct slots of the runs; a slice if they are consecutive.
        n_slots: Number of these slots.
        owner: Index in `slots` of each run.
        steps: (run, step, axis).
    """

    length: int
    slots: IntArray | slice
    n_slots: int
    owner: IntArray
    steps: FloatArray

    @cached_property
    def squares(self) -> FloatArray:
        """Sum of squares, (1, slot)."""
        return self._by_slot(np.sum(self.steps**2, axis=(1, 2))[None])

    @cached_property
    def powers(self) -> FloatArray:
        """Squares of the sine transform summed over axes, (frequency, slot)."""
        n = self.length
        place = np.arange(1, n + 1)
        sines = np.sqrt(2 / (n + 1)) * np.sin(np.pi * np.outer(place, place) / (n + 1))
        return self._by_slot(np.sum((sines @ self.steps) ** 2, axis=2).T)

    @cached_property
    def products(self) -> FloatArray:
        """Products of two steps, summed over equal entries of the inverse, (pair, slot)."""
        n, x = self.length, self.steps
        found = np.zeros((len(pairs(n)[0]), len(x)))
        for p, (i, j) in enumerate(zip(*pairs(n), strict=True)):
            mirrored = (n - 1 - j, n - 1 - i)
            for a, b in {(i, j), (j, i), mirrored, mirrored[::-1]}:
                found[p] += np.einsum("rd,rd->r", x[:, a], x[:, b])
        return self._by_slot(found)

    def _by_slot(self, values: FloatArray) -> FloatArray:
        """Sum numbers of each run over the runs of a slot, (statistic, slot)."""
        n = self.n_slots
        return np.stack([np.bincount(self.owner, weights=row, minlength=n) for row in values])


def pairs(n: int) -> tuple[IntArray, IntArray]:
    """Return the distinct entries of a matrix that is symmetric about both diagonals."""
    i, j = np.triu_indices(n)
    kept = i + j <= n - 1
    return i[kept], j[kept]


@dataclass(frozen=True, eq=False)
class Tracks:
    """Short runs at regular times, by length.

    Args:
        groups: Runs of each length.
        tau: Sampling time.
        error: Error variance of every fix.
        n: Number of steps of each pattern. Slots have the same pattern if they have the same number
            of runs of each length.
        pattern: Pattern of each slot.
        n_runs: Number of runs of each pattern and length, (pattern, length).
    """

    groups: tuple[_Group, ...]
    tau: float
    error: float
    n: FloatArray
    pattern: IntArray
    n_runs: FloatArray

    def forms(self, formulas: Formulas) -> SlotForms:
        """Compute log-determinants and quadratic forms for each row of the formulas."""
        from driftbayes._kernels.classes import add_forms

        n_lags = self.groups[-1].length
        covariance = np.array(formulas.autocovariances(self.tau, n_lags))
        covariance[:, 0] += 2 * self.error
        covariance[:, 1:2] -= self.error
        if not covariance[:, 1:].any():
            inverses, logs = self._independent(covariance)
        elif not covariance[:, 2:].any():
            inverses, logs = self._neighbours(covariance)
        else:
            inverses, logs = self._general(covariance)
        quadratic = np.zeros((len(covariance), len(self.pattern)))
        for group, (inverse, statistics) in zip(self.groups, inverses, strict=True):
            if isinstance(group.slots, slice):
                add_forms(inverse, statistics, group.slots.start, quadratic)
                continue
            own = np.zeros((len(quadratic), group.n_slots))
            add_forms(inverse, statistics, 0, own)
            quadratic[:, group.slots] += own
        return SlotForms(self.n, logs @ self.n_runs.T, quadratic, self.pattern)

    def _independent(
        self, covariance: FloatArray
    ) -> tuple[list[tuple[FloatArray, FloatArray]], FloatArray]:
        """Invert covariances of independent steps."""
        variance = covariance[:, :1]
        lengths = np.array([group.length for group in self.groups])
        return [(1 / variance, group.squares) for group in self.groups], np.log(variance) * lengths

    def _neighbours(
        self, covariance: FloatArray
    ) -> tuple[list[tuple[FloatArray, FloatArray]], FloatArray]:
        """Invert covariances of steps that only their neighbours affect, by the sine transform."""
        inverses, logs = [], []
        for group in self.groups:
            n = group.length
            angle = np.pi * np.arange(1, n + 1) / (n + 1)
            values = covariance[:, :1] + 2 * covariance[:, 1:2] * np.cos(angle)
            inverses.append((1 / values, group.powers))
            logs.append(np.sum(np.log(values), axis=1))
        return inverses, np.stack(logs, axis=1)

    def _general(
        self, covariance: FloatArray
    ) -> tuple[list[tuple[FloatArray, FloatArray]], FloatArray]:
        r"""Invert by the Durbin--Levinson recursion: $S_n^{-1} = \sum_{k<n} a_k a_k^T / v_k$."""
        n_rows, n_lags = covariance.shape
        by_length = {group.length: group for group in self.groups}
        whitening = np.zeros((n_rows, n_lags))
        whitening[:, 0] = 1.0
        variance = covariance[:, 0].copy()
        inverse = np.zeros((n_rows, n_lags, n_lags))
        log_det = np.zeros(n_rows)
        inverses, logs = [], []
        for k in range(n_lags):
            if k:
                # The filter that predicts the next step, with the oldest step first.
                shifted = np.zeros_like(whitening)
                shifted[:, 1 : k + 1] = whitening[:, :k]
                flipped = whitening[:, :k][:, ::-1]
                lags = covariance[:, 1 : k + 1]
                reflection = np.einsum("ri,ri->r", whitening[:, :k], lags) / variance
                shifted[:, :k] -= reflection[:, None] * flipped
                whitening = shifted
                variance = variance * (1 - reflection) * (1 + reflection)
            own = whitening[:, : k + 1]
            inverse[:, : k + 1, : k + 1] += own[:, :, None] * (own / variance[:, None])[:, None]
            log_det = log_det + np.log(variance)
            if k + 1 in by_length:
                i, j = pairs(k + 1)
                inverses.append((inverse[:, i, j], by_length[k + 1].products))
                logs.append(log_det)
        return inverses, np.stack(logs, axis=1)


def tracks_of(runs: Runs) -> Tracks | None:
    """Group short runs by length; None if they are long, irregular or have different errors.

    Args:
        runs: Steps of all runs.
    """
    sizes = np.diff(runs.offsets)
    lengths, n_each = np.unique(sizes, return_counts=True)
    is_regular = len(runs.intervals) == 1 and np.ptp(runs.error) == 0
    is_plain = runs.columns.shape[1] == runs.n_dim and not np.iscomplexobj(runs.columns)
    n_bytes = 2 * float(np.sum(n_each * lengths * (lengths + 2.0)))
    if not (is_regular and is_plain) or lengths[-1] > _MAX_LENGTH or n_bytes > _MAX_BYTES:
        return None
    counts = np.zeros((runs.n_slots, len(lengths)))
    np.add.at(counts, (runs.slot, np.searchsorted(lengths, sizes)), 1)
    n_runs, pattern = np.unique(counts, axis=0, return_inverse=True)
    # Slots with the same pattern are adjacent, so that most lengths are a range of slots.
    order = np.argsort(pattern.reshape(-1), kind="stable")
    slot = np.argsort(order)[runs.slot]
    groups = []
    for length in lengths:
        chosen = np.flatnonzero(sizes == length)
        slots, owner = np.unique(slot[chosen], return_inverse=True)
        steps = runs.columns[runs.offsets[chosen, None] + np.arange(length)]
        first, last, n = int(slots[0]), int(slots[-1]), len(slots)
        place = slice(first, last + 1) if last - first == n - 1 else slots
        groups.append(_Group(int(length), place, n, owner, steps))
    return Tracks(
        groups=tuple(groups),
        tau=runs.tau,
        error=float(runs.error[0]),
        n=n_runs @ lengths,
        pattern=pattern.reshape(-1)[order],
        n_runs=n_runs,
    )
