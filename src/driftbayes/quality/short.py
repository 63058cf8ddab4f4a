"""Trajectories of too few positions."""

__all__ = ["Short"]

from dataclasses import dataclass
from typing import ClassVar

from driftbayes.data.trajectories import Trajectories
from driftbayes.quality.finding import AbstractCheck, Finding


@dataclass(frozen=True)
class Short(AbstractCheck):
    """Trajectories with fewer positions than asked for.

    Args:
        min_points: The fewest positions; with fewer than two there is no displacement.
    """

    name: ClassVar[str] = "min-points"
    min_points: int = 2

    def find(self, trajectories: Trajectories) -> Finding:
        short = (trajectories.n_positions < self.min_points)[trajectories.trajectory_index]
        sentence = f"{{tracks}}: fewer than {self.min_points} positions"
        n = self.min_points
        return self._found(trajectories, short, sentence, is_notable=False, min_points=n)

    def mend(self, trajectories: Trajectories, finding: Finding) -> Trajectories:
        """Short trajectories are left out."""
        if not finding.n_trajectories:
            return trajectories
        return trajectories.drop_short(self.min_points)
