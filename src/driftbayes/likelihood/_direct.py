"""Displacements whose density is computed directly instead of from sums over steps."""

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

from driftbayes.data._sampling import Displacements
from driftbayes.likelihood._engines import AbstractDirect


@dataclass(frozen=True, eq=False)
class DirectDisplacements(AbstractDirect):
    """Displacements whose density is computed directly.

    Args:
        data: The displacements.
    """

    data: Displacements

    if not TYPE_CHECKING:
        n_dim = property(attrgetter("data.n_dim"))
        tau = property(attrgetter("data.tau"))
        length_unit = property(attrgetter("data.length_unit"))
        time_unit = property(attrgetter("data.time_unit"))
        fingerprint = property(attrgetter("data.fingerprint"))
        n_particles = property(attrgetter("data.n_particles"))
        n_steps = property(attrgetter("data.n_steps"))
        n_displacements = property(attrgetter("data.n_displacements"))

    @property
    def shortest_step(self) -> float:
        """Duration of the shortest step."""
        return float(self.data.interval.min())
