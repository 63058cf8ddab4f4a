"""Draw panels and trajectories as SVG."""

__all__ = ["page_colours", "panel_svg", "trajectories_svg", "x_places"]

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftbayes.data.trajectories import Trajectories
from driftbayes.representation import (
    INK,
    Curve,
    Panel,
    Scale,
    colours_of,
    number,
    render,
    with_unit,
)
from driftbayes.typing import FloatArray

_WIDTH, _HEIGHT, _TRACKS_HEIGHT = 460, 260, 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 14, 12, 42
_MAX_TRACKS, _MAX_POINTS = 40, 160
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class _Axis:
    """Map of values to places in the drawing."""

    low: float
    high: float
    scale: Scale
    start: float
    end: float

    def __call__(self, values: Any) -> FloatArray:
        low, high = self._stretch(np.array([self.low, self.high]))
        share = (self._stretch(np.asarray(values, dtype=np.float64)) - low) / (high - low)
        return np.asarray(self.start + np.clip(share, -0.5, 1.5) * (self.end - self.start))

    def _stretch(self, values: FloatArray) -> FloatArray:
        if self.scale == "log":
            return np.asarray(np.log10(np.maximum(values, 1e-300)))
        if self.scale == "symlog":
            # Nearly linear within ±1 nat, where nothing is decided, logarithmic beyond.
            return np.asarray(np.sign(values) * np.log10(1 + np.abs(values)))
        return values

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Place and text of each tick."""
        make = {"log": _log_ticks, "symlog": _symlog_ticks, "linear": _even_ticks}[self.scale]
        inside = [v for v in make(self.low, self.high) if self.low <= v <= self.high]
        return [(float(self(value)), _tick_text(value)) for value in inside]


def page_colours(models: Sequence[str]) -> dict[str, str]:
    """Return the colour of each model on a page, whose ink is light if the page is dark."""
    return {n: "var(--ink)" if c == INK else c for n, c in colours_of(models).items()}


def panel_svg(panel: Panel) -> str:
    """Draw a panel: all scales as groups of one drawing, all but the first hidden."""
    x_axis = _x_axis(panel)
    places = x_axis(panel.x)
    values = np.concatenate([panel.values, np.asarray(panel.reference, dtype=np.float64)])
    views = []
    for scale in panel.drawn_scales:
        y_axis = _Axis(*_limits(values, scale), scale, _HEIGHT - _BOTTOM, _TOP)
        views.append(
            {
                "scale": scale,
                "y_ticks": y_axis.ticks,
                "reference": y_axis(panel.reference).tolist(),
                "curves": [_curve(curve, places, y_axis) for curve in panel.curves],
            }
        )
    frame = _frame(_HEIGHT, panel.x_label, panel.y_label)
    about = panel.description or panel.title
    return render(
        "driftbayes.report",
        "panel.svg",
        **{"name": panel.name, "about": about, "views": views, "x_ticks": x_axis.ticks, **frame},
    )


def x_places(panel: Panel) -> list[float]:
    """Return where each x lies in the drawing, for the cursor of the script."""
    return [round(float(place), 2) for place in _x_axis(panel)(panel.x)]


def _x_axis(panel: Panel) -> _Axis:
    low, high = float(panel.x[0]), float(panel.x[-1])
    if low == high:
        low, high = (low / 1.5, high * 1.5) if panel.x_scale == "log" else (low - 1, high + 1)
    return _Axis(low, high, panel.x_scale, _LEFT, _WIDTH - _RIGHT)


def _frame(height: int, x_label: str, y_label: str) -> dict[str, Any]:
    edges = {"left": _LEFT, "right": _WIDTH - _RIGHT, "top": _TOP, "bottom": height - _BOTTOM}
    return {"width": _WIDTH, "height": height, "x_label": x_label, "y_label": y_label, **edges}


def _curve(curve: Curve, x: FloatArray, y_axis: _Axis) -> dict[str, Any]:
    """Paths and dots of a curve."""
    is_known = np.isfinite(curve.y)
    y = y_axis(curve.y)
    bands = []
    if curve.low is not None and curve.high is not None:
        for run in _runs(np.isfinite(curve.low) & np.isfinite(curve.high)):
            back = _path(x[run][::-1], y_axis(curve.high[run])[::-1])
            bands.append(f"{_path(x[run], y_axis(curve.low[run]))}L{back[1:]}Z")
    strong = np.zeros_like(is_known) if curve.strong is None else curve.strong
    dots = np.flatnonzero(is_known & (curve.kind in ("line", "points")))
    return {
        "label": curve.label,
        "group": curve.group,
        "kind": curve.kind,
        "bands": bands,
        "lines": [_path(x[r], y[r]) for r in _runs(is_known & (curve.kind != "points"))],
        "strong": [_path(x[run], y[run]) for run in _runs(is_known & strong)],
        "dots": [(int(i), float(x[i]), float(y[i])) for i in dots],
    }


def _path(x: FloatArray, y: FloatArray) -> str:
    return "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(x, y, strict=True))


def _runs(is_inside: np.ndarray) -> list[slice]:
    edges = np.diff(np.concatenate([[False], is_inside, [False]]).astype(np.int8))
    starts, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    return [slice(int(a), int(b)) for a, b in zip(starts, ends, strict=True)]


def _limits(values: FloatArray, scale: Scale) -> tuple[float, float]:
    if values.size == 0:
        return (0.1, 1.0) if scale == "log" else (0.0, 1.0)
    low, high = float(values.min()), float(values.max())
    if scale == "log":
        room = max((high / low) ** 0.06, 1.1)
        return low / room, high * room
    if scale == "symlog":
        return min(low * 1.3, -1.0), max(high * 1.3, 1.0)
    room = 0.07 * (high - low) or 0.1 * abs(high) or 1.0
    return low - room, high + room


def _even_ticks(low: float, high: float) -> list[float]:
    if not high > low:
        return [low]
    raw = (high - low) / 5
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(size * m for m in (1, 2, 5, 10) if size * m >= raw)
    return [i * step for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    decades = math.log10(high / low) if high > low else 0.0
    steps = (1.0,) if decades > 3 else (1.0, 2.0, 5.0) if decades > 0.7 else (1, 1.5, 2, 3, 4, 5, 7)
    stride = max(1, round(decades / 5))
    powers = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    found = [m * 10.0**power for power in powers if power % stride == 0 for m in steps]
    # A product such as 3 * 0.1 may miss the end by a rounding.
    inside = [value for value in found if low * 0.999 <= value <= high * 1.001]
    return [min(max(value, low), high) for value in inside] or [low, high]


def _symlog_ticks(low: float, high: float) -> list[float]:
    most = max(abs(low), abs(high), 1.0)
    powers = [10.0**p for p in range(int(math.log10(most)) + 1)]
    # Near zero there is room for ±1 only while there are few decades.
    powers = powers[1 if len(powers) > 3 else 0 :: max(1, len(powers) // 4)]
    return [*(-value for value in powers), 0.0, *powers]


def _tick_text(value: float) -> str:
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 1e5:
        return number(value, 6).replace("-", "−")
    mantissa, _, power = f"{value:.0e}".partition("e")
    front = {"1": "", "-1": "−"}.get(mantissa, f"{mantissa}·")
    return f"{front}10{str(int(power)).translate(_SUPERSCRIPTS)}"


# Trajectories


def trajectories_svg(trajectories: Trajectories) -> str:
    """Draw evenly chosen trajectories on a plane; against time if there is only one axis."""
    n = trajectories.n_trajectories
    chosen = np.unique(np.linspace(0, n - 1, min(n, _MAX_TRACKS)).round().astype(np.int64))
    west = _west(trajectories)
    tracks = [_track(trajectories, int(i), west) for i in chosen]
    known = np.concatenate(tracks)
    known = known[np.isfinite(known).all(axis=1)]
    known = known if len(known) else np.zeros((1, 2))
    low, high = known.min(axis=0), known.max(axis=0)
    length, time = trajectories.length_unit, trajectories.time_unit
    x_label, y_label = with_unit("x", length), with_unit("y", length)
    if trajectories.lonlat is not None:
        x_label, y_label = "longitude (°)", "latitude (°)"
    elif trajectories.n_dim == 1:
        x_label, y_label = with_unit("time", time), with_unit("x", length)
    is_plane = trajectories.n_dim > 1 and trajectories.lonlat is None
    x_axis, y_axis = _map_axes(low, high, is_plane=is_plane)
    drawn = []
    for track in tracks:
        x, y = x_axis(track[:, 0]), y_axis(track[:, 1])
        runs = _runs(np.isfinite(x) & np.isfinite(y))
        if runs:
            first = runs[0].start
            path = "".join(_path(x[run], y[run]) for run in runs)
            drawn.append((path, float(x[first]), float(y[first])))
    many = "the trajectory" if n == 1 else f"all {n} trajectories"
    if len(chosen) < n:
        many = f"{len(chosen)} of {n:,} trajectories"
    ends = (
        f"{label} from {number(a)} to {number(b)}"
        for label, a, b in zip((x_label, y_label), low, high, strict=True)
    )
    about = f"{many}: {', '.join(ends)}; dots mark the first positions"
    ticks = {"x_ticks": x_axis.ticks, "y_ticks": y_axis.ticks}
    frame = _frame(_TRACKS_HEIGHT, x_label, y_label)
    return render("driftbayes.report", "tracks.svg", about=about, tracks=drawn, **ticks, **frame)


def _map_axes(low: FloatArray, high: FloatArray, *, is_plane: bool) -> tuple[_Axis, _Axis]:
    """Axes with some room around the data; on a plane, of one scale."""
    room = np.array([_WIDTH - _LEFT - _RIGHT, _TRACKS_HEIGHT - _TOP - _BOTTOM], dtype=np.float64)
    span = high - low
    per_pixel = np.where(span > 0, span, span.max() or 1.0) / (room - 16)
    if is_plane:
        per_pixel = np.full(2, per_pixel.max())
    middle, half = (low + high) / 2, per_pixel * room / 2
    (x_low, y_low), (x_high, y_high) = middle - half, middle + half
    return (
        _Axis(x_low, x_high, "linear", _LEFT, _WIDTH - _RIGHT),
        _Axis(y_low, y_high, "linear", _TRACKS_HEIGHT - _BOTTOM, _TOP),
    )


def _west(trajectories: Trajectories) -> float:
    """Western edge of the map: opposite to the data where these cross the date line."""
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
