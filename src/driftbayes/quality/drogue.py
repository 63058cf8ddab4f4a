"""Drogue loss: from then on a drifter goes with the wind as well."""

__all__ = ["Drogue"]

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from driftbayes.data.trajectories import Trajectories
from driftbayes.errors import DriftbayesError, NothingLeftError
from driftbayes.quality.finding import AbstractCheck, Finding


@dataclass(frozen=True)
class Drogue(AbstractCheck):
    """Observations from the loss of the drogue on, by the flag "drogued".

    Args:
        if_known: Whether data without the flag are left as they are, and not refused.
    """

    name: ClassVar[str] = "drogued"
    if_known: bool = False

    def refuse_unknown(self, trajectories: Trajectories) -> None:
        """Refuse data in which no loss can be seen."""
        if "drogued" not in trajectories.flags and not self.if_known:
            msg = "the data have no flag 'drogued'; omit this check"
            raise DriftbayesError(msg)

    def find(self, trajectories: Trajectories) -> Finding:
        lost = np.zeros(len(trajectories.times), dtype=bool)
        flag = trajectories.flags.get("drogued")
        if flag is not None:
            gone = np.cumsum(flag == 0)
            before = np.concatenate([[0], gone])[trajectories.starts[:-1]]
            lost = gone > np.repeat(before, trajectories.row_sizes)
        sentence = "{who}: after the loss of the drogue"
        if flag is None:
            sentence = "unknown: the data have no flag 'drogued'"
        return self._found(trajectories, lost, sentence, has_flag=flag is not None)

    def mend(self, trajectories: Trajectories, finding: Finding) -> Trajectories:
        """Trajectories end where the drogue is lost."""
        if finding.rows.all():
            msg = "no position has a drogue, so nothing would remain; omit 'drogued'"
            raise NothingLeftError(msg)
        return trajectories.select(~finding.rows)
