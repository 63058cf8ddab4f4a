"""Trajectories, and the displacements cut from them."""

from driftbayes.data._sampling import Displacements, displacements, snap_taus
from driftbayes.data._trajectories import Trajectories

__all__ = ["Displacements", "Trajectories", "displacements", "snap_taus"]
