"""Dispersion that varies in space: evidence for a map, and the map."""

from driftbayes.space import dataset as _dataset  # noqa: F401  (registers labels)
from driftbayes.space import describe as _describe  # noqa: F401  (registers descriptions)
from driftbayes.space.cells import Box, Levels
from driftbayes.space.leaves import Leaves, Quantity
from driftbayes.space.tree import ModelTree, TreeMap, map_tree

__all__ = ["Box", "Leaves", "Levels", "ModelTree", "Quantity", "TreeMap", "map_tree"]
