"""Write files atomically."""

__all__ = ["Outputs", "PathLike", "atomic_path", "atomic_paths"]

from typing import TYPE_CHECKING

from driftbayes._aliases import lazy
from driftbayes._storage.outputs import Outputs, PathLike

if TYPE_CHECKING:
    from driftbayes._storage.atomic import atomic_path, atomic_paths

__getattr__ = lazy(__name__, {"atomic": "atomic_path atomic_paths"})
