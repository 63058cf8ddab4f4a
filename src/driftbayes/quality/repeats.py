"""Repeated positions: successive fixes that are equal to the last digit."""

__all__ = ["Repeats"]

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from driftbayes.data.trajectories import Trajectories
from driftbayes.quality.finding import AbstractCheck, Finding, successive

# A share of repeated positions from which a person is told without asking. Of particles that
# never moved, whoever needs displacements says so.
_NOTABLE = 0.01


@dataclass(frozen=True)
class Repeats(AbstractCheck):
    """Fixes exactly equal to the one before: few digits, or an instrument that repeats itself."""

    name: ClassVar[str] = "repeated"

    def find(self, trajectories: Trajectories) -> Finding:
        rows, same = successive(trajectories)
        x = trajectories.positions[rows]
        equal = same & np.all(x[1:] == x[:-1], axis=1)
        chosen = np.zeros(len(trajectories.times), dtype=bool)
        chosen[rows[1:][equal]] = True
        share = float(equal.sum() / max(same.sum(), 1))
        sentence = (
            f"{{who}}: identical to the previous position, {share:.1%} of all steps (rounding, or "
            "repeated transmission)"
        )
        return self._found(
            trajectories, chosen, sentence, is_notable=_NOTABLE <= share < 1, share=share
        )

    def mend(self, trajectories: Trajectories, finding: Finding) -> Trajectories:
        """Repeated fixes become missing ones; of quantised data this takes the slow steps out."""
        return trajectories.blanked(finding.rows)
