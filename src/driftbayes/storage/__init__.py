"""The cellar: bytes on disk, whole or not at all; knows no trajectories."""

__all__ = ["Outputs", "PathLike", "atomic_path", "atomic_paths"]

from driftbayes.storage.atomic import atomic_path, atomic_paths
from driftbayes.storage.outputs import Outputs, PathLike
