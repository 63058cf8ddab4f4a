"""A picture of trajectories as SVG: some of them, on a plane or along time."""

__all__ = ["draw_trajectories"]

from html import escape

import numpy as np

from driftbayes.data.trajectories import Trajectories
from driftbayes.typing import FloatArray

_MOST_TRACKS, _MOST_POINTS = 40, 160
_WIDTH, _HEIGHT = 460, 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 14, 12, 42


def draw_trajectories(trajectories: Trajectories) -> str:
    """Some of the trajectories, evenly chosen, on a plane; along time if there is but one axis.

    Args:
        trajectories: Where the particles were.
    """
    n = trajectories.n_trajectories
    chosen = np.unique(np.linspace(0, n - 1, min(n, _MOST_TRACKS)).round().astype(np.int64))
    west = _west(trajectories)
    tracks = [_track(trajectories, int(i), west) for i in chosen]
    seen = np.concatenate(tracks)
    seen = seen[np.isfinite(seen).all(axis=1)]
    x_name, y_name = _axes(trajectories)
    if len(seen) == 0:
        seen = np.zeros((1, 2))
    low, high = seen.min(axis=0), seen.max(axis=0)
    to_place = _places(low, high, equal=trajectories.n_dim > 1 and trajectories.lonlat is None)
    many = f"{len(chosen)} of {n:,} trajectories" if len(chosen) < n else _all(n)
    about = f"{many}: {x_name} from {_text(low[0])} to {_text(high[0])}, {y_name} from "
    about += f"{_text(low[1])} to {_text(high[1])}; a dot is where each begins"
    body = "".join(_line(to_place(track), i) for i, track in enumerate(tracks))
    return (
        f'<svg class="tracks" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{escape(about)}"><title>{escape(about)}</title>'
        f"{_frame(to_place, low, high, x_name, y_name)}{body}</svg>"
    )


def _all(n: int) -> str:
    return "the trajectory" if n == 1 else f"all {n} trajectories"


def _west(trajectories: Trajectories) -> float:
    """Longitude to draw from: the one opposite to the data where these cross the date line."""
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
    stride = -(-len(points) // _MOST_POINTS)
    return np.asarray(points[::stride])


def _axes(trajectories: Trajectories) -> tuple[str, str]:
    if trajectories.lonlat is not None:
        return "longitude (°)", "latitude (°)"
    length = f" ({trajectories.length_unit})" if trajectories.length_unit else ""
    time = f" ({trajectories.time_unit})" if trajectories.time_unit else ""
    x, y = ("time", "x") if trajectories.n_dim == 1 else ("x", "y")
    return x + (time if x == "time" else length), y + length


class _Places:
    """From coordinates to places in the drawing."""

    def __init__(self, centre: FloatArray, scale: FloatArray) -> None:
        self.centre, self.scale = centre, scale
        self.middle = np.array([(_LEFT + _WIDTH - _RIGHT) / 2, (_TOP + _HEIGHT - _BOTTOM) / 2])

    def __call__(self, points: FloatArray) -> FloatArray:
        return np.asarray(self.middle + (points - self.centre) * self.scale)


def _places(low: FloatArray, high: FloatArray, *, equal: bool) -> _Places:
    room = np.array([_WIDTH - _LEFT - _RIGHT - 16.0, _HEIGHT - _TOP - _BOTTOM - 16.0])
    span = high - low
    span = np.where(span > 0, span, span.max() or 1.0)
    scale = room / span
    if equal:
        # One metre is as long along y as along x.
        scale = np.full(2, scale.min())
    return _Places((low + high) / 2, scale * np.array([1.0, -1.0]))


def _line(places: FloatArray, i: int) -> str:
    there: np.ndarray = np.asarray(np.isfinite(places).all(axis=1))
    parts, pen_up = [], True
    for (x, y), is_there in zip(places, there, strict=True):
        if is_there:
            parts.append(f"{'M' if pen_up else 'L'}{x:.1f} {y:.1f}")
        pen_up = not is_there
    if not parts:
        return ""
    x, y = places[there][0]
    return (
        f'<g class="track track-{i % 6}"><path d="{"".join(parts)}"/>'
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="1.8"/></g>'
    )


def _frame(to_place: _Places, low: FloatArray, high: FloatArray, x_name: str, y_name: str) -> str:
    """A frame, with the ends of the data marked along it."""
    width, height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
    parts = [f'<rect class="frame" x="{_LEFT}" y="{_TOP}" width="{width}" height="{height}"/>']
    ends = (low, high) if (high > low).any() else (low,)
    for point in ends:
        x, y = to_place(point[None])[0]
        bottom = _HEIGHT - _BOTTOM
        parts.append(
            f'<line class="tick" x1="{x:.1f}" x2="{x:.1f}" y1="{bottom}" y2="{bottom + 4}"/>'
            f'<text class="number" x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">'
            f"{_text(point[0])}</text>"
            f'<line class="tick" x1="{_LEFT - 4}" x2="{_LEFT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text class="number" x="{_LEFT - 7}" y="{y + 3.5:.1f}" text-anchor="end">'
            f"{_text(point[1])}</text>"
        )
    parts.append(
        f'<text class="label" x="{_LEFT + width / 2:.0f}" y="{_HEIGHT - 8}" text-anchor="middle">'
        f"{escape(x_name)}</text>"
        f'<text class="label" transform="translate(14 {_TOP + height / 2:.0f}) rotate(-90)" '
        f'text-anchor="middle">{escape(y_name)}</text>'
    )
    return "".join(parts)


def _text(value: float) -> str:
    return f"{value:.4g}".replace("-", "−").replace("e+0", "e").replace("e−0", "e−")
