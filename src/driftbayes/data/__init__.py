"""Trajectories, and the displacements cut from them."""

from driftbayes.data import describe as _describe  # noqa: F401  (registers descriptions)
from driftbayes.data.sampling import Displacements, displacements, snap_taus
from driftbayes.data.trajectories import Trajectories

__all__ = ["Displacements", "Trajectories", "displacements", "snap_taus"]
