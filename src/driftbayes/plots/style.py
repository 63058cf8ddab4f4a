"""Draw panels and figures with matplotlib in a journal style."""

__all__ = [
    "COLOURS",
    "COLUMN",
    "GUIDE",
    "INK",
    "MORE_COLOURS",
    "RC",
    "axis_label",
    "colours_of",
    "draw_band",
    "draw_panel",
    "inward_ticks",
    "journal_axes",
    "journal_figure",
    "journal_style",
    "label_few",
    "shared_legend",
]

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes._representation import COLOURS, GUIDE, INK, MORE_COLOURS, Panel, colours_of

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from driftbayes._typing import FloatArray

COLUMN = (3.4, 2.5)
# Maximum length of a label on one line along the shorter side of a figure.
LABEL_LENGTH = 30
# Maximum ratio of the last to the first value for labels other than powers of ten.
_MAX_PLAIN_RATIO = 100.0

RC: dict[Any, Any] = {
    "figure.figsize": COLUMN,
    "figure.dpi": 150,
    "savefig.dpi": 300,
    "font.size": 8.5,
    "axes.labelsize": 8.5,
    "axes.titlesize": 8.5,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "legend.handlelength": 1.8,
    "axes.linewidth": 0.6,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.formatter.use_mathtext": True,
    "axes.formatter.limits": (-3, 4),
    "text.color": INK,
    "lines.linewidth": 1.2,
    "lines.markersize": 3,
    "mathtext.fontset": "dejavusans",
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
}


@contextmanager
def journal_style() -> Iterator[None]:
    """Use the journal style inside a `with` block; nothing changes outside it."""
    import matplotlib as mpl

    with mpl.rc_context(RC):
        yield


@contextmanager
def journal_figure(
    width: float, height: float, rows: int = 1, columns: int = 1, **options: Any
) -> "Iterator[tuple[Figure, Any]]":
    """Make a figure and its panels in the journal style inside a `with` block.

    Args:
        width: Width in inches.
        height: Height in inches.
        rows: Rows of panels.
        columns: Columns of panels.
        **options: Passed to `Figure.subplots`.
    """
    from matplotlib.figure import Figure

    with journal_style():
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure, figure.subplots(rows, columns, **options)


@contextmanager
def journal_axes(ax: "Axes | None") -> "Iterator[Axes]":
    """Draw in the journal style inside a `with` block, on the given axes or on a new figure."""
    with journal_style():
        if ax is None:
            import matplotlib.pyplot as plt

            _, ax = plt.subplots(figsize=COLUMN, layout="constrained")
            inward_ticks(ax)
        yield ax


def inward_ticks(*axes: "Axes") -> None:
    """Set the ticks of the journal style, which matplotlib creates after the style has ended."""
    for ax in axes:
        ax.tick_params(which="both", direction="in", top=True, right=True, width=0.6, labelsize=8)
        ax.tick_params(which="major", length=3.5)
        ax.tick_params(which="minor", length=2)


def draw_band(
    ax: "Axes",
    x: "FloatArray",
    mean: "FloatArray",
    sd: "FloatArray",
    colour: str,
    *,
    label: str | None = None,
    alpha: float = 0.25,
) -> None:
    """Draw a band of ± one standard deviation around a mean."""
    ax.fill_between(x, mean - sd, mean + sd, color=colour, alpha=alpha, lw=0, label=label)


_FORMATS = {"line": "o-", "plain": "-", "dashed": "--", "points": "o"}


def draw_panel(
    panel: Panel, ax: "Axes | None" = None, colours: Mapping[str, str] | None = None
) -> "Axes":
    """Draw a panel on its first scale.

    Args:
        panel: Description of curves, bands and axes.
        ax: Axes to draw on; None for a new figure.
        colours: Colour of each model, if other panels share them.
    """
    models = list(dict.fromkeys(curve.group for curve in panel.curves if curve.group != "data"))
    colours = {**colours_of(models), **(colours or {}), "data": INK}
    scale = panel.drawn_scales[0]
    with journal_axes(ax) as ax:
        for value in panel.reference:
            ax.axhline(value, color=GUIDE, lw=0.6, zorder=0)
        for curve in panel.curves:
            style: dict[str, Any] = {"color": colours[curve.group]}
            if curve.low is not None and curve.high is not None:
                ax.fill_between(panel.x, curve.low, curve.high, alpha=0.25, linewidth=0, **style)
            if curve.low is None or np.isfinite(curve.y).any():
                form = _FORMATS[curve.kind]
                ax.plot(panel.x, curve.y, form, lw=1, ms=2.6, label=curve.label, **style)
            if curve.strong is not None and curve.strong.any():
                ax.plot(panel.x, np.where(curve.strong, curve.y, np.nan), lw=2.6, **style)
        ax.set_xscale(panel.x_scale)
        if scale == "symlog":
            ax.set_yscale("symlog", linthresh=1.0)
            # Avoid an empty half of the axis if all values have the same sign.
            low, high = panel.values.min(initial=0), panel.values.max(initial=0)
            ax.set_ylim(min(2 * low, -1), max(2 * high, 1))
        else:
            ax.set_yscale(scale)
        if scale == "log":
            _label_short_range(ax)
        ax.set(xlabel=panel.x_label, ylabel=panel.y_label)
    return ax


def _label_short_range(ax: "Axes") -> None:
    """Label 1, 2 and 5, or evenly, a logarithmic y axis with less than two powers of ten."""
    from matplotlib.ticker import (
        FormatStrFormatter,
        LogFormatterSciNotation,
        LogLocator,
        MaxNLocator,
        NullFormatter,
        NullLocator,
        ScalarFormatter,
    )

    low, high = ax.get_ylim()
    powers = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
    inside = [low <= power <= high for power in powers]
    labelled = np.outer(powers, (1.0, 2.0, 5.0))
    if sum(inside) > 1:
        return
    if np.sum((labelled >= low) & (labelled <= high)) < 2:
        ax.yaxis.set_major_locator(MaxNLocator(5))
        ax.yaxis.set_major_formatter(ScalarFormatter())
        ax.yaxis.set_minor_locator(NullLocator())
        return
    ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    plain = low >= 1e-3 and high <= 1e4
    powers_of_ten = LogFormatterSciNotation(minor_thresholds=(np.inf, np.inf))
    ax.yaxis.set_major_formatter(FormatStrFormatter("%g") if plain else powers_of_ten)
    ax.yaxis.set_minor_formatter(NullFormatter())


def label_few(ax: "Axes", x: "FloatArray") -> None:
    """Label a logarithmic x axis plainly: 1, 2, 5, 10 … if the range is short, or 1, 10, 100."""
    from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

    ratio = x.max() / x.min()
    if ratio < _MAX_PLAIN_RATIO:
        ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    if ratio < _MAX_PLAIN_RATIO or (x.min() >= 1e-3 and x.max() <= 1e4):
        ax.xaxis.set_major_formatter(FormatStrFormatter("%g"))
        ax.xaxis.set_minor_formatter(NullFormatter())


def shared_legend(figure: "Figure", ax: "Axes") -> None:
    """Draw the legend of one panel above the whole figure, in two columns."""
    handles, names = ax.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=2, fontsize=7)


def axis_label(words: str, variable: "xr.DataArray") -> str:
    """Label an axis by words and the `units` of a variable; "m2 s-1" is set as m² s⁻¹."""
    unit = variable.attrs.get("units", "")
    if unit in ("", "1"):
        return words
    typeset = re.sub(r"(?<=[A-Za-z)])(-?\d+)", r"$^{\1}$", unit)
    space = " " if len(words) + len(unit) <= LABEL_LENGTH else "\n"
    return f"{words}{space}({typeset})"
