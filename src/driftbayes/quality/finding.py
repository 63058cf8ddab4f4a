"""What a check found: which observations, how many, and one sentence about them."""

__all__ = ["AbstractCheck", "Finding", "successive", "with_unit"]

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from driftbayes.data.trajectories import Trajectories
from driftbayes.typing import IntArray


@dataclass(frozen=True, eq=False)
class Finding:
    """What one check found.

    Args:
        name: Of the check, as in `--qc`.
        n_observations: How many observations it concerns.
        n_trajectories: In how many trajectories they are.
        rows: Which observations.
        sentence: The finding in words.
        limits: The numbers that the check went by, in the units of the data.
        is_notable: Whether a person should be told without asking.
    """

    name: str
    n_observations: int
    n_trajectories: int
    rows: np.ndarray
    sentence: str
    limits: dict[str, Any] = field(default_factory=dict)
    is_notable: bool = False

    def to_json(self) -> dict[str, Any]:
        """Plain numbers and text."""
        return {
            "check": self.name,
            "n_observations": self.n_observations,
            "n_trajectories": self.n_trajectories,
            "limits": self.limits,
            "sentence": self.sentence,
        }


class AbstractCheck(ABC):
    """A check: it finds, and on request mends."""

    name: ClassVar[str]

    @abstractmethod
    def find(self, trajectories: Trajectories) -> Finding:
        """The observations that look wrong; nothing is changed."""

    @abstractmethod
    def mend(self, trajectories: Trajectories, finding: Finding) -> Trajectories:
        """The trajectories without what was found in them."""

    def fixed_by(self, trajectories: Trajectories) -> "AbstractCheck":
        """The same check with the limits that it would take from these trajectories.

        Parts of a file are then checked alike.

        Args:
            trajectories: Some of the file.
        """
        return self

    def _found(
        self,
        trajectories: Trajectories,
        rows: np.ndarray,
        sentence: str,
        *,
        is_notable: bool | None = None,
        **limits: Any,
    ) -> Finding:
        """A record of these rows; `{who}` and `{tracks}` in the sentence become the counts."""
        n = int(rows.sum())
        m = len(np.unique(trajectories.trajectory_index[rows]))
        fixes = "1 position" if n == 1 else f"{n} positions"
        tracks = "1 trajectory" if m == 1 else f"{m} trajectories"
        who = f"{fixes} in {tracks}" if n else "none"
        text = sentence.format(who=who, tracks=tracks if n else "none")
        notable = n > 0 if is_notable is None else is_notable
        return Finding(self.name, n, m, rows, text, limits, notable)


def successive(trajectories: Trajectories) -> tuple[IntArray, np.ndarray]:
    """Rows that hold a position, and whether each but the last and its next share a trajectory."""
    rows = np.flatnonzero(trajectories.observed)
    return rows, np.diff(trajectories.trajectory_index[rows]) == 0


def with_unit(value: float, unit: str) -> str:
    """A number with its unit, if that is known."""
    return f"{value:.3g} {unit}".rstrip()
