"""Panels of a report as SVG: curves with bands, and points."""

__all__ = ["Curve", "Panel"]

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Literal

import numpy as np

from driftbayes.typing import FloatArray

Scale = Literal["linear", "log", "symlog"]

WIDTH, HEIGHT = 460, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 14, 12, 42


@dataclass(frozen=True)
class Curve:
    """One curve of a panel.

    Args:
        label: Its name.
        group: What shows and hides it: the name of a model.
        y: Its values; NaN leaves a gap.
        low: Lower edge of its band, if it has one.
        high: Upper edge.
        strong: Where it is drawn with a heavier line.
        kind: A line with dots, a line without them (plain or dashed), or points alone.
    """

    label: str
    group: str
    y: FloatArray
    low: FloatArray | None = None
    high: FloatArray | None = None
    strong: np.ndarray | None = None
    kind: Literal["line", "plain", "dashed", "points"] = "line"


@dataclass(frozen=True)
class Panel:
    """Curves against a common x, on one or several scales of y that the reader can choose from.

    Args:
        name: Of the panel, for its file of numbers and its place in the page.
        title: Above it.
        x: Where the curves have their values, increasing.
        x_label: Along x.
        y_label: Along y.
        curves: What to draw.
        scales: Of y, the first shown at first; "log" is left out where a value is not positive.
        reference: Values at which to draw a thin line across.
        description: The panel in words, for those who do not see it.
        x_scale: Of x.
        at_tau: The sampling time that it belongs to; None if x is the sampling time, and the slider
            moves along it.
    """

    name: str
    title: str
    x: FloatArray
    x_label: str
    y_label: str
    curves: Sequence[Curve]
    scales: Sequence[Scale] = ("linear",)
    reference: Sequence[float] = field(default=())
    description: str = ""
    x_scale: Literal["linear", "log"] = "log"
    at_tau: float | None = None

    @property
    def drawn_scales(self) -> list[Scale]:
        """The scales that these values can be drawn on."""
        values = np.concatenate([_finite(curve) for curve in self.curves])
        positive = values.size > 0 and values.min() > 0
        return [scale for scale in self.scales if scale != "log" or positive] or ["linear"]

    def svg(self) -> str:
        """All scales as groups of one drawing, all but the first hidden."""
        body = "".join(
            self._group(scale, hidden=i > 0) for i, scale in enumerate(self.drawn_scales)
        )
        about = escape(self.description or self.title)
        return (
            f'<svg class="panel" data-panel="{escape(self.name)}" viewBox="0 0 {WIDTH} {HEIGHT}" '
            f'role="img" aria-label="{about}"><title>{about}</title>{body}'
            f'<line class="cursor" x1="0" x2="0" y1="{_TOP}" y2="{HEIGHT - _BOTTOM}"/></svg>'
        )

    def x_places(self) -> list[float]:
        """Where each x lies in the drawing, for the script's cursor."""
        return [round(float(place), 2) for place in self._x(self.x)]

    def _group(self, scale: Scale, *, hidden: bool) -> str:
        values = np.concatenate([_finite(curve) for curve in self.curves] + [list(self.reference)])
        low, high = _limits(values, scale)
        to_y = _Map(low, high, scale, HEIGHT - _BOTTOM, _TOP)
        parts = [self._frame(), self._x_ticks(), _y_ticks(low, high, scale, to_y)]
        for value in self.reference:
            y = to_y(np.array([value]))[0]
            parts.append(
                f'<line class="reference" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" '
                f'y1="{y:.1f}" y2="{y:.1f}"/>'
            )
        places = self._x(self.x)
        for curve in self.curves:
            parts.append(_curve(curve, places, to_y))
        parts.append(
            f'<text class="label" transform="translate(14 {(_TOP + HEIGHT - _BOTTOM) / 2:.0f}) '
            f'rotate(-90)" text-anchor="middle">{escape(self.y_label)}</text>'
        )
        display = ' style="display:none"' if hidden else ""
        return f'<g class="scale" data-scale="{scale}"{display}>{"".join(parts)}</g>'

    def _frame(self) -> str:
        width, height = WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM
        middle = _LEFT + width / 2
        return (
            f'<rect class="frame" x="{_LEFT}" y="{_TOP}" width="{width}" height="{height}"/>'
            f'<text class="label" x="{middle:.0f}" y="{HEIGHT - 8}" text-anchor="middle">'
            f"{escape(self.x_label)}</text>"
        )

    def _x(self, values: FloatArray) -> FloatArray:
        low, high = float(self.x[0]), float(self.x[-1])
        if low == high:
            low, high = (low / 1.5, high * 1.5) if self.x_scale == "log" else (low - 1, high + 1)
        return _Map(low, high, self.x_scale, _LEFT, WIDTH - _RIGHT)(values)

    def _x_ticks(self) -> str:
        low, high = float(self.x[0]), float(self.x[-1])
        parts = []
        for value in _log_ticks(low, high) if self.x_scale == "log" else _even_ticks(low, high):
            x = self._x(np.array([value]))[0]
            parts.append(
                f'<line class="tick" x1="{x:.1f}" x2="{x:.1f}" y1="{HEIGHT - _BOTTOM}" '
                f'y2="{HEIGHT - _BOTTOM + 4}"/><text class="number" x="{x:.1f}" '
                f'y="{HEIGHT - _BOTTOM + 16}" text-anchor="middle">{_text(value)}</text>'
            )
        return "".join(parts)


def _finite(curve: Curve) -> FloatArray:
    arrays = [curve.y, curve.low, curve.high]
    values = np.concatenate([np.ravel(a) for a in arrays if a is not None])
    return np.asarray(values[np.isfinite(values)])


def _curve(curve: Curve, x: FloatArray, to_y: "_Map") -> str:
    parts = []
    if curve.low is not None and curve.high is not None:
        for run in _runs(np.isfinite(curve.low) & np.isfinite(curve.high)):
            there = _points(x[run], to_y(curve.low[run]))
            back = _points(x[run][::-1], to_y(curve.high[run])[::-1])
            parts.append(f'<path class="band" d="M{there}L{back}Z"/>')
    y = to_y(curve.y)
    if curve.kind != "points":
        name = "line dashed" if curve.kind == "dashed" else "line"
        for run in _runs(np.isfinite(curve.y)):
            parts.append(f'<path class="{name}" d="M{_points(x[run], y[run])}"/>')
    if curve.strong is not None:
        for run in _runs(np.isfinite(curve.y) & curve.strong):
            parts.append(f'<path class="line strong" d="M{_points(x[run], y[run])}"/>')
    for i in np.flatnonzero(np.isfinite(curve.y) & (curve.kind in ("line", "points"))):
        parts.append(f'<circle class="dot" data-i="{i}" cx="{x[i]:.1f}" cy="{y[i]:.1f}" r="2"/>')
    return (
        f'<g class="curve" data-model="{escape(curve.group)}" '
        f'data-label="{escape(curve.label)}">{"".join(parts)}</g>'
    )


def _points(x: FloatArray, y: FloatArray) -> str:
    return "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(x, y, strict=True))


def _runs(there: np.ndarray) -> list[slice]:
    edges = np.diff(np.concatenate([[False], there, [False]]).astype(np.int8))
    starts, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    return [slice(int(a), int(b)) for a, b in zip(starts, ends, strict=True)]


class _Map:
    """From values to places in the drawing, on one scale."""

    def __init__(self, low: float, high: float, scale: Scale, start: float, end: float) -> None:
        self.scale, self.start, self.end = scale, start, end
        self.low, self.high = (float(v) for v in self._stretched(np.array([low, high])))

    def __call__(self, values: FloatArray) -> FloatArray:
        share = (self._stretched(values) - self.low) / (self.high - self.low)
        return np.asarray(self.start + np.clip(share, -0.5, 1.5) * (self.end - self.start))

    def _stretched(self, values: FloatArray) -> FloatArray:
        if self.scale == "log":
            return np.asarray(np.log10(np.maximum(values, 1e-300)))
        if self.scale == "symlog":
            # Even within ±1 nat, where nothing is decided, logarithmic beyond.
            return np.asarray(np.sign(values) * np.log10(1 + np.abs(values)))
        return np.asarray(values, dtype=np.float64)


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


def _y_ticks(low: float, high: float, scale: Scale, to_y: _Map) -> str:
    if scale == "log":
        ticks = _log_ticks(low, high)
    elif scale == "symlog":
        most = max(abs(low), abs(high))
        powers = [10.0**p for p in range(int(math.log10(max(most, 1.0))) + 1)]
        # Near zero there is room for ±1 only while there are few decades.
        powers = powers[1 if len(powers) > 3 else 0 :: max(1, len(powers) // 4)]
        ticks = [*(-v for v in powers), 0.0, *powers]
    else:
        ticks = _even_ticks(low, high)
    parts = []
    for value in ticks:
        if not low <= value <= high:
            continue
        y = float(to_y(np.array([value]))[0])
        parts.append(
            f'<line class="tick" x1="{_LEFT - 4}" x2="{_LEFT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text class="number" x="{_LEFT - 7}" y="{y + 3.5:.1f}" text-anchor="end">'
            f"{_text(value)}</text>"
        )
    return "".join(parts)


def _even_ticks(low: float, high: float) -> list[float]:
    if not high > low:
        return [low]
    raw = (high - low) / 5
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(size * m for m in (1, 2, 5, 10) if size * m >= raw)
    first = math.ceil(low / step)
    return [i * step for i in range(first, math.floor(high / step) + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    decades = math.log10(high / low) if high > low else 0.0
    steps = (1.0,) if decades > 3 else (1.0, 2.0, 5.0) if decades > 0.7 else (1, 1.5, 2, 3, 4, 5, 7)
    stride = max(1, round(decades / 5))
    found = []
    for power in range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1):
        if power % stride == 0:
            found += [m * 10.0**power for m in steps]
    inside = [value for value in found if low * 0.999 <= value <= high * 1.001]
    return inside or [low, high]


def _text(value: float) -> str:
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 1e5:
        return f"{value:.6g}".replace("-", "−")
    mantissa, _, power = f"{value:.0e}".partition("e")
    digits = str(int(power)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    front = "" if mantissa == "1" else "−" if mantissa == "-1" else f"{mantissa}·"
    return f"{front}10{digits}"
