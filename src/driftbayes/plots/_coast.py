"""Coastlines of Natural Earth (1:50m, public domain) in longitude and latitude."""

from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

import numpy as np

from driftbayes._representation import INK
from driftbayes._typing import FloatArray
from driftbayes.data._sampling import runs_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_coast(ax: "Axes") -> None:
    """Draw the coast within the axes, and keep their limits."""
    from matplotlib.collections import LineCollection

    lines = coast_lines(ax.get_xlim(), ax.get_ylim())
    ax.add_collection(LineCollection(lines, colors=INK, linewidths=0.5), autolim=False)


def shrinking(latitudes: FloatArray) -> float:
    """Return the length of a degree of longitude in degrees of latitude, at the mean latitude."""
    return float(np.cos(np.radians(np.clip(np.mean(latitudes), -80, 80))))


def coast_lines(
    longitudes: tuple[float, float], latitudes: tuple[float, float]
) -> list[FloatArray]:
    """Return the coastlines within a frame, each (point, 2); they may reach slightly beyond it.

    Args:
        longitudes: West and east of the frame in degrees, increasing, possibly beyond 180.
        latitudes: South and north of the frame.
    """
    points, is_last = coast_points()
    (west, east), (south, north) = longitudes, latitudes
    width, height = east - west, north - south
    lon = (points[:, 0] - west + width) % 360 + west - width
    lat = points[:, 1]
    inside = (np.abs(lon - west - 0.5 * width) <= 0.5 * width) & (
        np.abs(lat - south - 0.5 * height) <= 0.5 * height
    )
    # A segment is drawn if either end lies inside; beyond the frame it is clipped.
    drawn = (inside[:-1] | inside[1:]) & ~is_last[:-1] & (np.abs(np.diff(lon)) < 180)
    # The edges of the map are not coast.
    drawn &= ~((np.abs(points[:-1, 0]) > 179.98) & (np.abs(points[1:, 0]) > 179.98))
    drawn &= ~((lat[:-1] < -89.9) | (lat[1:] < -89.9))
    both = np.stack([lon, lat], axis=-1)
    # A run of n segments has n + 1 points.
    return [both[first : first + n + 1] for first, n in zip(*runs_of(drawn), strict=True)]


@cache
def coast_points() -> tuple[FloatArray, np.ndarray]:
    """Return the points of all coastlines, and whether each ends a line; from make_coast.py."""
    file = resources.files("driftbayes.plots").joinpath("static/coast.npz")
    with file.open("rb") as stream, np.load(stream) as stored:
        first, size, step = (stored[name].astype(np.int64) for name in ("first", "size", "step"))
    ends = np.cumsum(size)
    jumps = np.zeros((ends[-1], 2), dtype=np.int64)
    starts = ends - size
    is_start = np.zeros(ends[-1], dtype=bool)
    is_start[starts] = True
    jumps[~is_start] = step
    along = np.cumsum(jumps, axis=0)
    line = np.cumsum(is_start) - 1
    points = 0.01 * (along - along[starts][line] + first[line])
    is_last = np.zeros(ends[-1], dtype=bool)
    is_last[ends - 1] = True
    return points, is_last
