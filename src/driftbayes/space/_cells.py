"""Quadtree of a square that contains all positions."""

from dataclasses import dataclass

import numpy as np

from driftbayes._typing import FloatArray, IntArray
from driftbayes.comparison.regions import longitude_range
from driftbayes.errors import DriftbayesError

# Cells of a deeper tree would be smaller than a thousandth of the region.
MAX_DEPTH = 10
# Cells with fewer steps are not divided.
_MIN_STEPS = 8
# Relative margin around the positions.
_MARGIN = 1e-9


@dataclass(frozen=True)
class Box:
    """Square at the root of the tree; its sides are equal in length, not in degrees.

    Args:
        low: Lowest x and y, or longitude and latitude.
        size: Extent along each axis.
        is_lonlat: Whether coordinates are longitude and latitude in degrees.
    """

    low: tuple[float, float]
    size: tuple[float, float]
    is_lonlat: bool

    def codes(self, places: FloatArray, depth: int) -> IntArray:
        """Return the cell number (Morton code) of each position, two bits per level.

        Args:
            places: Positions, (position, 2).
            depth: Number of divisions of the square.
        """
        x = places[:, 0]
        if self.is_lonlat:
            x = unwrap_longitude(x, self.low[0])
        cells = []
        for values, low, size in zip((x, places[:, 1]), self.low, self.size, strict=True):
            number = np.floor((values - low) / size * 2**depth).astype(np.int64)
            cells.append(number.clip(0, 2**depth - 1))
        return interleave(cells[0], cells[1], depth)

    def edges(self, depth: int) -> tuple[FloatArray, FloatArray]:
        """Return the cell edges along both axes at one depth."""
        fractions = np.arange(2**depth + 1) / 2**depth
        x, y = (low + size * fractions for low, size in zip(self.low, self.size, strict=True))
        return x, y


def interleave(column: IntArray, row: IntArray, depth: int) -> IntArray:
    """Interleave the bits of columns and rows (Morton code), so that a parent is code >> 2."""
    code = np.zeros_like(column)
    for bit in range(depth):
        code |= ((column >> bit) & 1) << (2 * bit)
        code |= ((row >> bit) & 1) << (2 * bit + 1)
    return code


def unwrap_longitude(longitude: FloatArray, low: float) -> FloatArray:
    """Shift longitudes into [low, low + 360)."""
    return np.asarray(low + (longitude - low) % 360.0)


def box_around(places: FloatArray, *, is_lonlat: bool) -> Box:
    """Return the smallest square that contains all positions, across the date line if necessary.

    Args:
        places: Positions, or longitudes and latitudes in degrees, (position, 2).
        is_lonlat: Whether positions are in degrees.

    Raises:
        DriftbayesError: All positions coincide.
    """
    x, y = places.T
    longitude_scale = 1.0
    if is_lonlat:
        x = np.array(longitude_range(x))
        longitude_scale = float(np.cos(np.radians(0.5 * (y.min() + y.max()))))
        longitude_scale = max(longitude_scale, 0.05)
    width, height = float(np.ptp(x)), float(np.ptp(y))
    side = max(width * longitude_scale, height) * (1 + _MARGIN)
    if not side > 0:
        msg = "all steps begin at the same position, so no map can be made; check the positions"
        raise DriftbayesError(msg)
    size = (side / longitude_scale, side)
    low = tuple(
        float(0.5 * (values.min() + values.max()) - 0.5 * extent)
        for values, extent in zip((x, y), size, strict=True)
    )
    return Box((low[0], low[1]), size, is_lonlat)


@dataclass(frozen=True, eq=False)
class Levels:
    """Cells of a quadtree with data, by depth, from the root.

    Args:
        codes: Cell numbers, increasing.
        parents: Index of the parent of each cell in the level above.
        members: Range of each cell in the finest level, as begin and end.
    """

    codes: tuple[IntArray, ...]
    parents: tuple[IntArray, ...]
    members: tuple[IntArray, ...]

    @property
    def depth(self) -> int:
        """Greatest depth."""
        return len(self.codes) - 1

    @property
    def n_nodes(self) -> int:
        """Number of cells at all depths."""
        return sum(map(len, self.codes))

    @property
    def first_nodes(self) -> IntArray:
        """Number of the first cell at each depth, counted from the root; last, of all cells."""
        return np.concatenate([[0], np.cumsum([len(level) for level in self.codes])])

    def find(self, depth: int, codes: IntArray) -> IntArray:
        """Return the index of cells in one level; -1 for cells without data."""
        return find_cells(self.codes[depth], codes)


def find_cells(known: IntArray, codes: IntArray) -> IntArray:
    """Return the index of cell numbers among known ones, which increase; -1 if not among them."""
    index = np.searchsorted(known, codes).clip(0, len(known) - 1)
    return np.where(known[index] == codes, index, -1)


def levels_of(fine: IntArray, counts: IntArray, depth: int) -> Levels:
    """Build the levels of a quadtree; cells with few steps are not divided.

    Args:
        fine: Numbers of the finest cells with data, increasing.
        counts: Number of steps in each.
        depth: Depth of the finest level.
    """
    ends = np.concatenate([[0], np.cumsum(counts)])
    codes, parents, members = [np.zeros(1, np.int64)], [np.zeros(1, np.int64)], []
    members.append(np.array([[0, len(fine)]]))
    for d in range(1, depth + 1):
        cells, begin = np.unique(fine >> (2 * (depth - d)), return_index=True)
        end = np.append(begin[1:], len(fine))
        above = codes[-1]
        parent = np.searchsorted(above, cells >> 2).clip(0, len(above) - 1)
        steps = ends[members[-1][:, 1]] - ends[members[-1][:, 0]]
        kept = (above[parent] == cells >> 2) & (steps[parent] >= _MIN_STEPS)
        if not kept.any():
            break
        codes.append(cells[kept])
        parents.append(parent[kept])
        members.append(np.stack([begin, end], axis=1)[kept])
    return Levels(tuple(codes), tuple(parents), tuple(members))
