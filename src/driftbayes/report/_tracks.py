"""SVG drawings of trajectories, on a plane or over a coastline with a scale bar."""

from typing import Any

import numpy as np

from driftbayes._representation import number, render, with_unit
from driftbayes._typing import FloatArray
from driftbayes.data._trajectories import Trajectories
from driftbayes.data._units import readable_unit
from driftbayes.plots._coast import coast_lines
from driftbayes.prediction.regions import SearchRegions
from driftbayes.report._svg import BOTTOM, LEFT, RIGHT, TOP, Axis, frame, path, runs

_WIDTH, _HEIGHT = 460, 360
_MAX_TRACKS, _MAX_POINTS = 40, 160
# With more trajectories, only the regions of the longest time are drawn.
_MAX_NESTED = 8
_KM_PER_DEGREE = 111.195
# Closer to a pole, a map of longitude and latitude has no common scale.
_MIN_COS = 0.1
# Maximum length of a scale bar, as a fraction of the width.
_MAX_BAR = 0.3


def trajectories_svg(trajectories: Trajectories, regions: SearchRegions | None = None) -> str:
    """Draw a sample of trajectories on a plane, or against time if there is only one axis.

    Longitudes and latitudes are drawn over the coastline of Natural Earth, with a scale bar.

    Args:
        trajectories: The trajectories.
        regions: Search regions of the particles.
    """
    n = trajectories.n_trajectories
    chosen = np.unique(np.linspace(0, n - 1, min(n, _MAX_TRACKS)).round().astype(np.int64))
    west = _west(trajectories)
    tracks = [_track(trajectories, int(i), west) for i in chosen]
    rings = _rings(trajectories, regions, chosen, west)
    known = np.concatenate([*tracks, *(ring for ring, _, _ in rings)])
    known = known[np.isfinite(known).all(axis=1)]
    known = known if len(known) else np.zeros((1, 2))
    low, high = known.min(axis=0), known.max(axis=0)
    length, time = trajectories.length_unit, trajectories.time_unit
    factors = np.ones(2)
    if trajectories.lonlat is None:
        if trajectories.n_dim == 1:
            factors[0], time = readable_unit([np.abs([low[0], high[0]]).max()], time)
            factors[1], length = readable_unit([np.abs([low[1], high[1]]).max()], length)
        else:
            factors[:], length = readable_unit([np.abs([low, high]).max()], length)
    low, high = low * factors, high * factors
    x_label, y_label = with_unit("x", length), with_unit("y", length)
    aspect: float | None = 1.0
    if trajectories.lonlat is not None:
        x_label, y_label = "longitude (°)", "latitude (°)"
        cos = float(np.cos(np.radians(0.5 * (low[1] + high[1]))))
        aspect = cos if cos > _MIN_COS else None
    elif trajectories.n_dim == 1:
        x_label, y_label = with_unit("time", time), with_unit("x", length)
        aspect = None
    x_axis, y_axis = _map_axes(low, high, aspect)
    drawn = []
    for track in tracks:
        x, y = x_axis(track[:, 0] * factors[0]), y_axis(track[:, 1] * factors[1])
        parts = runs(np.isfinite(x) & np.isfinite(y))
        if parts:
            first = parts[0].start
            line = "".join(path(x[run], y[run]) for run in parts)
            drawn.append((line, float(x[first]), float(y[first])))
    outlines = [
        (f"{path(x_axis(ring[:, 0] * factors[0]), y_axis(ring[:, 1] * factors[1]))}Z", i, kind)
        for ring, i, kind in rings
    ]
    title = "the trajectory" if n == 1 else f"all {n} trajectories"
    if len(chosen) < n:
        title = f"{len(chosen)} of {n:,} trajectories"
    ends = (
        f"{label} from {number(a)} to {number(b)}"
        for label, a, b in zip((x_label, y_label), low, high, strict=True)
    )
    is_map = trajectories.lonlat is not None
    return render(
        "driftbayes.report",
        "tracks.svg",
        about=f"{title}: {', '.join(ends)}; dots mark the first positions"
        + ("; shading marks the search regions of 50 and 95 % probability" if rings else ""),
        regions=outlines,
        tracks=drawn,
        coast=_coast(x_axis, y_axis) if is_map else "",
        bar=_scale_bar(x_axis, aspect) if is_map and aspect else None,
        x_ticks=x_axis.ticks,
        y_ticks=y_axis.ticks,
        x_label=x_axis.label(x_label),
        y_label=y_axis.label(y_label),
        **frame(_WIDTH, _HEIGHT),
    )


def _rings(
    trajectories: Trajectories, regions: SearchRegions | None, chosen: np.ndarray, west: float
) -> list[tuple[FloatArray, int, str]]:
    """Return outlines of search regions, the number of their track, and "inner" or "outer"."""
    if regions is None:
        return []
    numbers = {str(trajectories.ids[i]): place for place, i in enumerate(chosen)}
    found = []
    # With many trajectories, show only the regions after the longest time.
    first = 0 if len(numbers) <= _MAX_NESTED else len(regions.horizons) - 1
    for p, name in enumerate(regions.ids):
        if str(name) not in numbers:
            continue
        for h in range(first, len(regions.horizons)):
            for level in np.argsort(regions.levels)[::-1]:
                ring = regions.polygons[p, h, level].copy()
                if regions.in_degrees:
                    # Shift all vertices by the same multiple of 360°.
                    ring[:, 0] += (ring[0, 0] - west) % 360 + west - ring[0, 0]
                kind = "inner" if level == np.argmin(regions.levels) else "outer"
                found.append((ring, numbers[str(name)], kind))
    return found


def _map_axes(low: FloatArray, high: FloatArray, aspect: float | None) -> tuple[Axis, Axis]:
    """Make axes with a margin around the data; `aspect` is the length of a unit of x in y."""
    room = np.array([_WIDTH - LEFT - RIGHT, _HEIGHT - TOP - BOTTOM], dtype=np.float64)
    span = high - low
    per_pixel = np.where(span > 0, span, span.max() or 1.0) / (room - 16)
    if aspect is not None:
        stretch = np.array([aspect, 1.0])
        per_pixel = (per_pixel * stretch).max() / stretch
    middle, half = (low + high) / 2, per_pixel * room / 2
    (x_low, y_low), (x_high, y_high) = middle - half, middle + half
    return (
        Axis(x_low, x_high, "linear", LEFT, _WIDTH - RIGHT),
        Axis(y_low, y_high, "linear", _HEIGHT - BOTTOM, TOP),
    )


def _scale_bar(x_axis: Axis, cos: float) -> dict[str, Any]:
    """Return length in pixels and text of a bar of 1, 2 or 5 times a power of ten."""
    km = (x_axis.high - x_axis.low) * _KM_PER_DEGREE * cos
    sizes = [m * 10.0**power for power in range(-6, 5) for m in (1, 2, 5)]
    size = max(size for size in sizes if size <= _MAX_BAR * km or size == sizes[0])
    text = f"{number(size)} km" if size >= 1 else f"{number(1e3 * size)} m"
    return {"length": size / km * (_WIDTH - LEFT - RIGHT), "text": text}


def _coast(x_axis: Axis, y_axis: Axis) -> str:
    """Return the path of the coastline within the frame."""
    lines = coast_lines((x_axis.low, x_axis.high), (y_axis.low, y_axis.high))
    return "".join(path(x_axis(line[:, 0]), y_axis(line[:, 1])) for line in lines)


def _west(trajectories: Trajectories) -> float:
    """Return the western edge of the map, opposite to data that cross the date line."""
    if trajectories.lonlat is None or not trajectories.observed.any():
        return -180.0
    lon = trajectories.lonlat[trajectories.observed, 0]
    if lon.max() - lon.min() < 180:
        return float(np.floor(lon.min()))
    middle = np.degrees(np.angle(np.mean(np.exp(1j * np.radians(lon)))))
    return float(np.floor(middle - 180))


def _track(trajectories: Trajectories, i: int, west: float) -> FloatArray:
    rows = slice(trajectories.starts[i], trajectories.starts[i + 1])
    if trajectories.lonlat is not None:
        points = trajectories.lonlat[rows].copy()
        points[:, 0] = (points[:, 0] - west) % 360 + west
    elif trajectories.n_dim == 1:
        points = np.column_stack([trajectories.times[rows], trajectories.positions[rows, 0]])
    else:
        points = trajectories.positions[rows, :2]
    return np.asarray(points[:: -(-len(points) // _MAX_POINTS)])
