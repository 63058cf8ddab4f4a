r"""Posterior over all segmentations of one track.

At each candidate a track changes with probability $1 - e^{-r\Delta t}$, r the rate and Δt the time
since the candidate before, independently of all others: the prior of a Poisson process observed at
the candidates. Sums over all segmentations are exact (Fearnhead 2006, Statistics and Computing 16,
203), for M candidates in M²/2 terms.
"""

__all__ = ["TrackSegments", "segment_track"]

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from driftbayes.changes.tables import Run, SegmentModel
from driftbayes.errors import DriftbayesError
from driftbayes.kernels import changes as kernels
from driftbayes.typing import FloatArray, IntArray

# Probability of more changes that is not counted.
_UNCOUNTED = 1e-10
_LEVELS = (0.025, 0.5, 0.975)


@dataclass(frozen=True, eq=False)
class TrackSegments:
    """Where one track changes.

    Args:
        id: Name of the track.
        times: Times of the candidates, the first and last of which are the ends of the track.
        candidates: Numbers of steps before them.
        probability: Probability of a change at each candidate, zero at the ends.
        n_changes: Probability of each number of changes, 0, 1, …
        log_evidence: ln p(D), over all segmentations.
        log_evidence_no_change: ln p(D) of one segment.
        log_prior_no_change: Prior log-probability of one segment.
        any_change: Probability of one change or more.
        changes: Candidates at which the track changes: with the most probable number of changes,
            the median of each.
        intervals: 95 % intervals of their times, given that number.
        mean: Posterior mean of each parameter in each of these segments, (segment, parameter).
        sd: Its standard deviation.
        average: Posterior mean of the parameters before each later candidate, averaged over all
            segmentations, (candidate, parameter).
        average_sd: Its standard deviation.
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
        """Candidates between which its segments lie."""
        return np.concatenate([[0], self.changes, [len(self.times) - 1]])

    @property
    def log_no_change(self) -> float:
        """Log-probability of no change."""
        return self.log_prior_no_change + self.log_evidence_no_change - self.log_evidence

    @cached_property
    def log_bayes_factor(self) -> float:
        """Ln K of one change or more over none."""
        return log_bayes_factor(self.any_change, self.log_no_change, self.log_prior_no_change)


def log_bayes_factor(changed: float, log_none: float, log_prior_none: float) -> float:
    """Ln K of a change over none from their probabilities.

    Args:
        changed: Posterior probability of a change.
        log_none: Log-probability of none.
        log_prior_none: That before the data.
    """
    with np.errstate(divide="ignore"):
        prior_odds = np.log(-np.expm1(log_prior_none)) - log_prior_none
        return float(np.log(changed) - log_none - prior_odds)


def segment_track(
    model: SegmentModel, run: Run, times: FloatArray, rate: float, name: str
) -> TrackSegments:
    """Average one track over all its segmentations.

    Args:
        model: What a segment is judged by.
        run: Steps and candidates of the track.
        times: Times of the candidates.
        rate: Prior rate of changes.
        name: Id of the track.
    """
    model.check(run, name)
    m = len(run.candidates) - 1
    table = model.table(run)
    alone = float(table[m - 1])
    if not np.isfinite(table).all():
        msg = f"the evidence of a segment of trajectory {name!r} is not finite; check its positions"
        raise DriftbayesError(msg)
    log_stay = -rate * np.diff(times, prepend=times[0])
    with np.errstate(divide="ignore"):
        log_change = np.log(-np.expm1(log_stay))
    log_stay[-1] = 0.0
    log_prior = float(log_stay.sum())
    log_evidence, visited, changed = kernels.forward(table, log_stay, log_change)
    counted = kernels.count_changes(table, m, _UNCOUNTED)
    n_changes = counted[1:, 0]
    changes, ends = _places(table, counted, int(np.argmax(n_changes)))
    edges = np.concatenate([[0], changes, [m]])
    own = model.moments(run, np.column_stack([edges[:-1], edges[1:]]))
    pairs, shares = kernels.likely_segments(table, visited, model.least_share)
    average, average_sd = _averages(model.moments(run, pairs), pairs, shares, m)
    visited[[0, -1]] = 0.0
    return TrackSegments(
        id=name,
        times=times,
        candidates=run.candidates,
        probability=visited,
        n_changes=n_changes,
        log_evidence=float(log_evidence),
        log_evidence_no_change=alone,
        log_prior_no_change=log_prior,
        any_change=float(min(changed, 1.0)),
        changes=changes,
        intervals=times[ends],
        mean=own[..., 0],
        sd=_sd(own),
        average=average,
        average_sd=average_sd,
    )


def _places(table: FloatArray, counted: FloatArray, number: int) -> tuple[IntArray, IntArray]:
    """Median and 95 % interval of each change, given their number, as candidates."""
    if number == 0:
        return np.zeros(0, dtype=np.int64), np.zeros((0, 2), dtype=np.int64)
    m = counted.shape[1] - 1
    before = kernels.counts_before(table, m, number)
    k = np.arange(1, number + 1)
    law = before[k] * counted[number + 1 - k]
    total = np.cumsum(law, axis=1)
    total /= total[:, -1:]
    # Sums may exceed a level by rounding alone.
    low, middle, high = (np.argmax(total >= level - 1e-12, axis=1) for level in _LEVELS)
    return middle, np.column_stack([low, high])


def _averages(
    moments: FloatArray, pairs: IntArray, shares: FloatArray, m: int
) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation of the parameters between successive candidates."""
    n_parameters = moments.shape[1]
    found = np.zeros((m + 1, n_parameters, 2))
    weight = np.zeros(m + 1)
    weighted = shares[:, None, None] * moments
    for sign, ends in ((1.0, pairs[:, 0]), (-1.0, pairs[:, 1])):
        np.add.at(found, ends, sign * weighted)
        np.add.at(weight, ends, sign * shares)
    found = np.cumsum(found, axis=0)[:-1] / np.cumsum(weight)[:-1, None, None]
    return found[..., 0], _sd(found)


def _sd(moments: FloatArray) -> FloatArray:
    return np.sqrt(np.maximum(moments[..., 1] - moments[..., 0] ** 2, 0.0))
