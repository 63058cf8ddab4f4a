"""Long gaps: stretches without a fix, after which a particle may be called another."""

__all__ = ["Gaps"]

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from driftbayes.data.trajectories import Trajectories
from driftbayes.quality.amounts import in_units_of
from driftbayes.quality.finding import AbstractCheck, Finding, successive, with_unit

# Without a time, so many median intervals.
_INTERVALS = 20


@dataclass(frozen=True)
class Gaps(AbstractCheck):
    """The first fix after a long time without one.

    Args:
        time: How long, and the unit; None for twenty median intervals.
    """

    name: ClassVar[str] = "gaps"
    time: tuple[float, str] | None = None

    def fixed_by(self, trajectories: Trajectories) -> "Gaps":
        return replace(self, time=(self._longest(trajectories), ""))

    def _longest(self, trajectories: Trajectories) -> float:
        if self.time is not None:
            return in_units_of(trajectories, self.time, "time", "gaps")
        intervals = trajectories.intervals
        return _INTERVALS * float(np.median(intervals)) if len(intervals) else np.inf

    def find(self, trajectories: Trajectories) -> Finding:
        longest = self._longest(trajectories)
        rows, same = successive(trajectories)
        wide = same & (np.diff(trajectories.times[rows]) > longest * (1 + 1e-9))
        chosen = np.zeros(len(trajectories.times), dtype=bool)
        chosen[rows[1:][wide]] = True
        after = with_unit(longest, trajectories.time_unit)
        sentence = f"{{who}}: after a gap longer than {after}"
        limit = longest if np.isfinite(longest) else None
        return self._found(trajectories, chosen, sentence, is_notable=False, time=limit)

    def mend(self, trajectories: Trajectories, finding: Finding) -> Trajectories:
        """Trajectories are split in two: what comes after a gap has the name NAME/2, NAME/3, ..."""
        starts = finding.rows.copy()
        starts[trajectories.starts[:-1]] = True
        firsts = np.flatnonzero(starts)
        owner = trajectories.trajectory_index[firsts]
        part = np.arange(len(firsts)) - np.searchsorted(owner, owner) + 1
        names = [
            str(trajectories.ids[i]) + (f"/{k}" if k > 1 else "")
            for i, k in zip(owner, part, strict=True)
        ]
        if len(firsts) == trajectories.n_trajectories:
            return trajectories
        sizes = np.diff(np.append(firsts, len(trajectories.times)))
        return replace(trajectories, row_sizes=sizes, ids=np.array(names))
