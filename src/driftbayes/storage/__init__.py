"""The cellar: bytes on disk, whole or not at all; knows no trajectories."""

__all__ = ["PathLike", "atomic_path"]

from driftbayes.storage.atomic import PathLike, atomic_path
