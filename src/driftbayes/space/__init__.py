"""Dispersion that varies in space: evidence for a map, and the map."""

from driftbayes.space._cells import Box, Levels
from driftbayes.space._leaves import Leaves, Quantity
from driftbayes.space._tree import ModelTree, TreeMap, map_tree

__all__ = ["Box", "Leaves", "Levels", "ModelTree", "Quantity", "TreeMap", "map_tree"]
