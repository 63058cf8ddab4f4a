"""Write files atomically."""

__all__ = ["Outputs", "PathLike", "atomic_path", "atomic_paths"]

from driftbayes._storage.atomic import atomic_path, atomic_paths
from driftbayes._storage.outputs import Outputs, PathLike
