"""SVG drawings of panels."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftbayes._representation import INK, Curve, Panel, Scale, colours_of, render
from driftbayes._typing import FloatArray
from driftbayes.data._sampling import runs_of

# Size of a panel, small enough that its text is legible in three columns or on a phone; margins.
_WIDTH, _HEIGHT = 360, 232
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 12, 42
# Width of a character of a tick, and the least space between two of them.
_CHARACTER, _SPACE = 6.2, 6.0
# Kinds of curves with dots.
_DOTTED = ("line", "points")
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Axis:
    """Map of values to pixels.

    Args:
        low: Value at the start.
        high: Value at the end.
        scale: Scale of the values.
        start: Pixel of the start.
        end: Pixel of the end.
    """

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
            # Nearly linear within ±1 nat, where models are indistinguishable; logarithmic beyond.
            return np.asarray(np.sign(values) * np.log10(1 + np.abs(values)))
        return values

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Pixel and text of each tick."""
        values = self._tick_values
        texts = _tick_texts([value / 10.0**self._power for value in values])
        return [(float(self(v)), text) for v, text in zip(values, texts, strict=True)]

    def label(self, text: str) -> str:
        """Add the common power of ten of the ticks to a label: "γ (10⁻⁴ 1/s)"."""
        if self._power == 0:
            return text
        power = f"10{str(self._power).translate(_SUPERSCRIPTS)}"
        if text.endswith(")"):
            return text.replace("(", f"({power} ", 1)
        return f"{text} ({power})"

    @property
    def _tick_values(self) -> list[float]:
        make = {"log": _log_ticks, "symlog": _symlog_ticks, "linear": _even_ticks}[self.scale]
        found = [v for v in make(self.low, self.high) if self.low <= v <= self.high]
        if self.scale == "log" and self.start < self.end and not self._have_room(found):
            decades = [v for v in found if abs(math.log10(v) - round(math.log10(v))) < 1e-9]
            return decades if len(decades) > 1 else found
        return found

    def _have_room(self, values: Sequence[float]) -> bool:
        """Return whether the texts of horizontal ticks stand apart."""
        sizes = _CHARACTER * np.array([len(text) for text in _tick_texts(values)])
        return bool(np.all(np.diff(self(values)) > 0.5 * (sizes[1:] + sizes[:-1]) + _SPACE))

    @property
    def _power(self) -> int:
        """Common power of ten of all ticks, shown in the label."""
        largest = max(map(abs, self._tick_values), default=0.0)
        if self.scale != "linear" or largest == 0 or 1e-2 <= largest < 1e5:
            return 0
        return math.floor(math.log10(largest) + 1e-9)


def page_colours(models: Sequence[str]) -> dict[str, str]:
    """Return the colour of each model; ink follows the light or dark theme of the page."""
    return {n: "var(--ink)" if c == INK else c for n, c in colours_of(models).items()}


def panel_svg(panel: Panel) -> str:
    """Draw a panel with all scales as groups, all but the first hidden."""
    x_axis = _x_axis(panel)
    places = x_axis(panel.x)
    values = np.concatenate([panel.values, np.asarray(panel.reference, dtype=np.float64)])
    views = []
    for scale in panel.drawn_scales:
        y_axis = Axis(*_limits(values, scale), scale, _HEIGHT - BOTTOM, TOP)
        views.append(
            {
                "scale": scale,
                "y_ticks": y_axis.ticks,
                "y_label": y_axis.label(panel.y_label),
                "reference": y_axis(panel.reference).tolist(),
                "curves": [_curve(curve, places, y_axis) for curve in panel.curves],
            }
        )
    return render(
        "driftbayes.report",
        "panel.svg",
        name=panel.name,
        about=panel.description or panel.title,
        views=views,
        x_ticks=x_axis.ticks,
        x_label=x_axis.label(panel.x_label),
        **frame(_WIDTH, _HEIGHT),
    )


def x_places(panel: Panel) -> list[float]:
    """Return the pixel of each x, for the cursor of the script."""
    return [round(float(place), 2) for place in _x_axis(panel)(panel.x)]


def _x_axis(panel: Panel) -> Axis:
    low, high = float(panel.x[0]), float(panel.x[-1])
    if low == high:
        low, high = (low / 1.5, high * 1.5) if panel.x_scale == "log" else (low - 1, high + 1)
    elif any(curve.kind in _DOTTED for curve in panel.curves):
        # The first and the last dot beside the frame, not on it.
        ends = np.array([low, high])
        if panel.x_scale == "log":
            low, high = np.exp(_widened(np.log(ends))).tolist()
        else:
            low, high = _widened(ends).tolist()
    return Axis(low, high, panel.x_scale, LEFT, _WIDTH - RIGHT)


def _widened(ends: FloatArray) -> FloatArray:
    return np.asarray(ends + 0.025 * (ends[1] - ends[0]) * np.array([-1.0, 1.0]))


def frame(width: int, height: int) -> dict[str, int]:
    """Return the size of a drawing and the edges of its frame."""
    edges = {"left": LEFT, "right": width - RIGHT, "top": TOP, "bottom": height - BOTTOM}
    return {"width": width, "height": height, **edges}


def _curve(curve: Curve, x: FloatArray, y_axis: Axis) -> dict[str, Any]:
    """Return the paths and dots of a curve."""
    is_known = np.isfinite(curve.y)
    y = y_axis(curve.y)
    bands = []
    if curve.low is not None and curve.high is not None:
        for run in runs(np.isfinite(curve.low) & np.isfinite(curve.high)):
            back = path(x[run][::-1], y_axis(curve.high[run])[::-1])
            bands.append(f"{path(x[run], y_axis(curve.low[run]))}L{back[1:]}Z")
    strong = np.zeros_like(is_known) if curve.strong is None else curve.strong
    dots = np.flatnonzero(is_known & (curve.kind in _DOTTED))
    return {
        "label": curve.label,
        "group": curve.group,
        "kind": curve.kind,
        "bands": bands,
        "lines": [path(x[r], y[r]) for r in runs(is_known & (curve.kind != "points"))],
        "strong": [path(x[run], y[run]) for run in runs(is_known & strong)],
        "dots": [(int(i), float(x[i]), float(y[i])) for i in dots],
    }


def path(x: FloatArray, y: FloatArray) -> str:
    """Return the SVG path through points."""
    return "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(x, y, strict=True))


def runs(is_inside: np.ndarray) -> list[slice]:
    """Return the runs of true values of an array."""
    return [slice(int(a), int(a + n)) for a, n in zip(*runs_of(is_inside), strict=True)]


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
    # A product such as 3 * 0.1 may miss the end by rounding.
    inside = [value for value in found if low * 0.999 <= value <= high * 1.001]
    if len(inside) < 2:
        return _even_ticks(low, high)
    return [min(max(value, low), high) for value in inside]


def _symlog_ticks(low: float, high: float) -> list[float]:
    largest = max(abs(low), abs(high), 1.0)
    powers = [10.0**p for p in range(int(math.log10(largest)) + 1)]
    # There is room for ±1 only if there are few decades.
    powers = powers[1 if len(powers) > 3 else 0 :: max(1, len(powers) // 4)]
    return [*(-value for value in powers), 0.0, *powers]


def _tick_texts(values: Sequence[float]) -> list[str]:
    """Format the ticks of an axis with enough digits to distinguish them."""
    for digits in range(1, 16):
        rounded = [float(f"{value:.{digits - 1}e}") for value in values]
        if all(math.isclose(r, v, rel_tol=1e-6) for r, v in zip(rounded, values, strict=True)):
            break
    return [_tick_text(value) for value in rounded]


def _tick_text(value: float) -> str:
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 1e5:
        return f"{value:.12g}".replace("-", "−")
    power = math.floor(math.log10(abs(value)) + 1e-9)
    mantissa = f"{value / 10.0**power:.12g}".replace("-", "−")
    front = {"1": "", "−1": "−"}.get(mantissa, f"{mantissa}·")
    return f"{front}10{str(power).translate(_SUPERSCRIPTS)}"
