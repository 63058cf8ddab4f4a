r"""Posterior over all segmentations of one track.

At each candidate a track changes with probability $1 - e^{-r\Delta t}$, where r is the rate and Δt
the time since the previous candidate, independently of all other candidates: a Poisson process
observed at the candidates. Sums over all segmentations are exact (Fearnhead 2006, Statistics and
Computing 16, 203) and take M²/2 terms for M candidates.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from driftbayes._kernels import changes as kernels
from driftbayes._typing import FloatArray, IntArray
from driftbayes.changes._tables import Run, SegmentModel
from driftbayes.errors import DriftbayesError

# The distribution of the number of changes is truncated at this tail probability.
_MAX_TAIL = 1e-10
_LEVELS = (0.025, 0.5, 0.975)


@dataclass(frozen=True, eq=False, repr=False)
class TrackSegments:
    """Posterior of the change points of one track.

    Args:
        id: Name of the track.
        times: Times of the candidates; the first and last are the ends of the track.
        candidates: Number of steps before each candidate.
        probability: Probability of a change at each candidate, zero at the ends.
        n_changes: Probability of each number of changes, 0, 1, …
        log_evidence: ln p(D), averaged over all segmentations.
        log_evidence_no_change: ln p(D) of one segment.
        log_prior_no_change: Prior log-probability of one segment.
        any_change: Probability of at least one change.
        changes: Posterior median candidate of each change, given the most probable number of
            changes.
        intervals: 95 % credible intervals of the times of these changes.
        mean: Posterior mean of each parameter in each segment, (segment, parameter).
        sd: Posterior standard deviation of each parameter in each segment.
        average: Posterior mean of the parameters after each candidate but the last, averaged over
            all segmentations, (candidate, parameter).
        average_sd: Posterior standard deviation of the same.
    """

    id: str
    times: FloatArray
    candidates: IntArray
    probability: FloatArray
    n_changes: FloatArray
    log_evidence: float
    log_evidence_no_change: float
    log_prior_no_change: float
    any_change: float
    changes: IntArray
    intervals: FloatArray
    mean: FloatArray
    sd: FloatArray
    average: FloatArray
    average_sd: FloatArray

    def __repr__(self) -> str:
        """Show the probability of a change, and the times of the most probable changes."""
        times = ", ".join(f"{time:.5g}" for time in self.change_times)
        at = f", most probably at {times}" if times else ""
        return f"<TrackSegments: {self.id}, changes with probability {self.any_change:.3g}{at}>"

    @property
    def n_steps(self) -> int:
        """Number of steps."""
        return int(self.candidates[-1])

    @property
    def spacing(self) -> int:
        """Steps between candidates: 1 unless the track is too long to consider every step."""
        return int(self.candidates[1] - self.candidates[0])

    @property
    def change_times(self) -> FloatArray:
        """Times at which the track changes."""
        return self.times[self.changes]

    @property
    def edges(self) -> IntArray:
        """Candidates at the ends of segments."""
        return np.concatenate([[0], self.changes, [len(self.times) - 1]])

    @property
    def log_no_change(self) -> float:
        """Log-probability of no change."""
        return self.log_prior_no_change + self.log_evidence_no_change - self.log_evidence

    @cached_property
    def log_bayes_factor(self) -> float:
        """Ln K of at least one change over none."""
        return log_bayes_factor(self.any_change, self.log_no_change, self.log_prior_no_change)


def most_likely_to_change(tracks: Sequence[TrackSegments], n_most: int) -> list[int]:
    """Return the indices of the tracks most likely to change, in the order of the tracks.

    Probabilities near 1 are compared by that of no change, which rounding does not hide.
    """
    log_none = [
        track.log_no_change if track.any_change > 0.5 else np.log1p(-track.any_change)
        for track in tracks
    ]
    return sorted(np.argsort(log_none, kind="stable")[:n_most].tolist())


def log_bayes_factor(changed: float, log_none: float, log_prior_none: float) -> float:
    """Compute ln K of a change over none from probabilities.

    Args:
        changed: Posterior probability of a change.
        log_none: Posterior log-probability of no change.
        log_prior_none: Prior log-probability of no change.
    """
    with np.errstate(divide="ignore"):
        prior_odds = np.log(-np.expm1(log_prior_none)) - log_prior_none
        return float(np.log(changed) - log_none - prior_odds)


def segment_track(
    model: SegmentModel, run: Run, times: FloatArray, rate: float, name: str
) -> TrackSegments:
    """Average one track over all its segmentations.

    Args:
        model: Model of a segment.
        run: Steps and candidates of the track.
        times: Times of the candidates.
        rate: Prior rate of changes.
        name: Id of the track.
    """
    model.check(run, name)
    m = len(run.candidates) - 1
    table = model.table(run)
    log_no_change = float(table[m - 1])
    if not np.isfinite(table).all():
        msg = f"the evidence of a segment of trajectory {name!r} is not finite; check its positions"
        raise DriftbayesError(msg)
    log_stay = -rate * np.diff(times, prepend=times[0])
    with np.errstate(divide="ignore"):
        log_change = np.log(-np.expm1(log_stay))
    log_stay[-1] = 0.0
    log_prior = float(log_stay.sum())
    log_evidence, visited, changed = kernels.forward(table, log_stay, log_change)
    counted = kernels.count_changes(table, m, _MAX_TAIL)
    n_changes = counted[1:, 0]
    changes, ends = _change_points(table, counted, int(np.argmax(n_changes)))
    edges = np.concatenate([[0], changes, [m]])
    moments = model.moments(run, np.column_stack([edges[:-1], edges[1:]]))
    pairs, weights = kernels.likely_segments(table, visited, model.min_weight)
    average, average_sd = _averages(model.moments(run, pairs), pairs, weights, m)
    visited[[0, -1]] = 0.0
    return TrackSegments(
        id=name,
        times=times,
        candidates=run.candidates,
        probability=visited,
        n_changes=n_changes,
        log_evidence=float(log_evidence),
        log_evidence_no_change=log_no_change,
        log_prior_no_change=log_prior,
        any_change=float(min(changed, 1.0)),
        changes=changes,
        intervals=times[ends],
        mean=moments[..., 0],
        sd=_sd(moments),
        average=average,
        average_sd=average_sd,
    )


def _change_points(
    table: FloatArray, counted: FloatArray, number: int
) -> tuple[IntArray, IntArray]:
    """Return the median and 95 % interval of each change, as candidates, given their number."""
    if number == 0:
        return np.zeros(0, dtype=np.int64), np.zeros((0, 2), dtype=np.int64)
    m = counted.shape[1] - 1
    before = kernels.counts_before(table, m, number)
    k = np.arange(1, number + 1)
    probability = before[k] * counted[number + 1 - k]
    cumulative = np.cumsum(probability, axis=1)
    cumulative /= cumulative[:, -1:]
    # Allow for rounding of the cumulative sums.
    low, middle, high = (np.argmax(cumulative >= level - 1e-12, axis=1) for level in _LEVELS)
    return middle, np.column_stack([low, high])


def _averages(
    moments: FloatArray, pairs: IntArray, shares: FloatArray, m: int
) -> tuple[FloatArray, FloatArray]:
    """Average mean and standard deviation of the parameters between successive candidates."""
    n_parameters = moments.shape[1]
    sums = np.zeros((m + 1, n_parameters, 2))
    weight = np.zeros(m + 1)
    weighted = shares[:, None, None] * moments
    for sign, ends in ((1.0, pairs[:, 0]), (-1.0, pairs[:, 1])):
        np.add.at(sums, ends, sign * weighted)
        np.add.at(weight, ends, sign * shares)
    sums = np.cumsum(sums, axis=0)[:-1] / np.cumsum(weight)[:-1, None, None]
    return sums[..., 0], _sd(sums)


def _sd(moments: FloatArray) -> FloatArray:
    """Compute standard deviations from first and second moments."""
    return np.sqrt(np.maximum(moments[..., 1] - moments[..., 0] ** 2, 0.0))
