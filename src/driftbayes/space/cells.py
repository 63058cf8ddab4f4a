"""A square that holds all positions, divided into four again and again."""

__all__ = [
    "MAX_DEPTH",
    "Box",
    "Levels",
    "box_around",
    "interleave",
    "levels_of",
    "unwrap_longitude",
]

from dataclasses import dataclass

import numpy as np

from driftbayes.comparison.regions import longitude_range
from driftbayes.errors import DriftbayesError
from driftbayes.typing import FloatArray, IntArray

# Deeper trees have cells of a thousandth of the region.
MAX_DEPTH = 10
# The square is wider than the positions by this part.
_MARGIN = 1e-9


@dataclass(frozen=True)
class Box:
    """The square of the root: of equal sides in length, not in degrees.

    Args:
        low: Lowest x and y, or longitude and latitude.
        size: Extent along each.
        is_lonlat: Whether these are degrees.
    """

    low: tuple[float, float]
    size: tuple[float, float]
    is_lonlat: bool

    def codes(self, places: FloatArray, depth: int) -> IntArray:
        """Number of the cell of each place, two bits for each depth.

        Args:
            places: Positions, (position, 2).
            depth: How often the square is divided.
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
        """Edges of the cells along both axes at one depth."""
        fractions = np.arange(2**depth + 1) / 2**depth
        x, y = (low + size * fractions for low, size in zip(self.low, self.size, strict=True))
        return x, y


def interleave(column: IntArray, row: IntArray, depth: int) -> IntArray:
    """Cell numbers from columns and rows: bits of both in turn, so that a parent is code >> 2."""
    code = np.zeros_like(column)
    for bit in range(depth):
        code |= ((column >> bit) & 1) << (2 * bit)
        code |= ((row >> bit) & 1) << (2 * bit + 1)
    return code


def unwrap_longitude(longitude: FloatArray, low: float) -> FloatArray:
    """Longitudes within one turn from `low`."""
    return np.asarray(low + (longitude - low) % 360.0)


def box_around(places: FloatArray, *, is_lonlat: bool) -> Box:
    """The smallest square that holds all places; across the date line where they lie there.

    Args:
        places: Positions, or longitudes and latitudes in degrees, (position, 2).
        is_lonlat: Whether they are degrees.

    Raises:
        DriftbayesError: All places are one.
    """
    x, y = places.T
    narrow = 1.0
    if is_lonlat:
        x = np.array(longitude_range(x))
        narrow = float(np.cos(np.radians(0.5 * (y.min() + y.max()))))
        narrow = max(narrow, 0.05)
    width, height = float(np.ptp(x)), float(np.ptp(y))
    side = max(width * narrow, height) * (1 + _MARGIN)
    if not side > 0:
        msg = "all steps begin at one place, of which no map can be made; check the positions"
        raise DriftbayesError(msg)
    size = (side / narrow, side)
    low = tuple(
        float(0.5 * (values.min() + values.max()) - 0.5 * extent)
        for values, extent in zip((x, y), size, strict=True)
    )
    return Box((low[0], low[1]), size, is_lonlat)


@dataclass(frozen=True, eq=False)
class Levels:
    """Cells of a quadtree that hold data, by depth, the root first.

    Args:
        codes: Numbers of the cells, increasing.
        parents: Place of the parent of each in the depth above.
        members: Places of each in the finest division, as begin and end.
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

    def find(self, depth: int, codes: IntArray) -> IntArray:
        """Place of cells in one depth; -1 for those that are not there."""
        own = self.codes[depth]
        place = np.searchsorted(own, codes).clip(0, len(own) - 1)
        return np.where(own[place] == codes, place, -1)


def levels_of(fine: IntArray, counts: IntArray, depth: int, min_steps: int) -> Levels:
    """Cells of all depths; those with few steps are not divided.

    Args:
        fine: Numbers of the cells of the finest division that hold data, increasing.
        counts: Steps in each.
        depth: Depth of the finest division.
        min_steps: Cells with fewer steps are not divided.
    """
    ends = np.concatenate([[0], np.cumsum(counts)])
    codes, parents, members = [np.zeros(1, np.int64)], [np.zeros(1, np.int64)], []
    members.append(np.array([[0, len(fine)]]))
    for d in range(1, depth + 1):
        of, begin = np.unique(fine >> (2 * (depth - d)), return_index=True)
        end = np.append(begin[1:], len(fine))
        above = codes[-1]
        place = np.searchsorted(above, of >> 2).clip(0, len(above) - 1)
        steps = ends[members[-1][:, 1]] - ends[members[-1][:, 0]]
        kept = (above[place] == of >> 2) & (steps[place] >= min_steps)
        if not kept.any():
            break
        codes.append(of[kept])
        parents.append(place[kept])
        members.append(np.stack([begin, end], axis=1)[kept])
    return Levels(tuple(codes), tuple(parents), tuple(members))
