"""Stuck instruments: aground, ashore, moored, or sending one position over and over."""

__all__ = ["Stuck"]

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from driftbayes.data.trajectories import Trajectories
from driftbayes.quality.amounts import in_units_of
from driftbayes.quality.finding import AbstractCheck, Finding, successive, with_unit
from driftbayes.typing import FloatArray

# Without a time, so many median intervals without any motion at all.
_INTERVALS = 10
# Within so many standard deviations of the error of a position there is no motion beyond noise.
_SIGMAS = 4.0
_FEWEST = 3


@dataclass(frozen=True)
class Stuck(AbstractCheck):
    """Stretches in which a particle does not move beyond the noise of its positions.

    Args:
        time: How long a stretch must last, and the unit; None for ten median intervals.
        radius: How far from its first fix a particle that is stuck may seem to move, and the unit;
            None for four standard deviations of the error of positions if `time` is given and the
            error known, and for none at all otherwise.
    """

    name: ClassVar[str] = "stuck"
    time: tuple[float, str] | None = None
    radius: tuple[float, str] | None = None

    def fixed_by(self, trajectories: Trajectories) -> "Stuck":
        if self.time is not None:
            return self
        return Stuck((self._least(trajectories), ""), self.radius or (0.0, ""))

    def _least(self, trajectories: Trajectories) -> float:
        if self.time is not None:
            return in_units_of(trajectories, self.time, "time", "stuck")
        intervals = trajectories.intervals
        return _INTERVALS * float(np.median(intervals)) if len(intervals) else np.inf

    def find(self, trajectories: Trajectories) -> Finding:
        least = self._least(trajectories)
        chosen = np.zeros(len(trajectories.times), dtype=bool)
        radius = self._radius(trajectories)
        rows, same = successive(trajectories)
        x = trajectories.positions[rows]
        times = trajectories.times[rows]
        still = same & (np.linalg.norm(np.diff(x, axis=0), axis=1) <= radius[rows[:-1]])
        ends = np.flatnonzero(~np.append(same, False)) + 1
        done = 0
        for i in np.flatnonzero(still).tolist():
            if i < done:
                continue
            last = int(ends[np.searchsorted(ends, i, side="right")])
            done = _leaves(x, i, last, float(radius[rows[i]]))
            # Rounding of time stamps must not decide.
            if done - i >= _FEWEST and times[done - 1] - times[i] >= least * (1 - 1e-9):
                chosen[rows[i + 1 : done]] = True
        largest = float(radius.max(initial=0.0))
        within = "" if largest == 0 else f" beyond {with_unit(largest, trajectories.length_unit)}"
        sentence = (
            f"{{who}}: no motion{within} for {with_unit(least, trajectories.time_unit)} or longer"
        )
        return self._found(trajectories, chosen, sentence, time=_finite(least), radius=largest)

    def mend(self, trajectories: Trajectories, finding: Finding) -> Trajectories:
        """All but the first fix of a stretch become missing."""
        return trajectories.blanked(finding.rows)

    def _radius(self, trajectories: Trajectories) -> FloatArray:
        n = len(trajectories.times)
        if self.radius is not None:
            return np.full(n, in_units_of(trajectories, self.radius, "length", "stuck"))
        if self.time is None or trajectories.position_sd is None:
            return np.zeros(n)
        return np.nan_to_num(_SIGMAS * trajectories.position_sd)


def _leaves(x: FloatArray, first: int, last: int, radius: float) -> int:
    """The first index from which on, before `last`, a particle is farther than `radius`."""
    low, size = first + 1, 16
    while low < last:
        high = min(low + size, last)
        out = np.linalg.norm(x[low:high] - x[first], axis=1) > radius
        if out.any():
            return low + int(out.argmax())
        low, size = high, 2 * size
    return last


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
