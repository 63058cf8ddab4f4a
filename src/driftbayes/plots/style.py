"""One journal style for all figures: fixed colours, one column, nothing that is not data."""

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
    "inward_ticks",
    "journal_axes",
    "journal_figure",
    "journal_style",
    "shared_legend",
]

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from driftbayes.typing import FloatArray

# From the palette of Okabe and Ito, told apart with every common kind of colour blindness.
# A model has its colour in every figure.
COLOURS = {"brownian": "#D55E00", "langevin": "#0072B2"}
# For models that come later, in order of appearance.
MORE_COLOURS = ("#009E73", "#CC79A7", "#E69F00", "#56B4E9")
INK = "#1A1A1A"
GUIDE = "#767676"
COLUMN = (3.4, 2.5)
# A longer label would not fit along the shorter side of a figure.
LABEL_LENGTH = 30

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


def colours_of(names: Sequence[str]) -> dict[str, str]:
    """Choose a colour for each model of a figure: its own, or the next of the others in order."""
    others = [name for name in names if name not in COLOURS]
    # Where neither plain model is shown, their colours are free, and are the clearest.
    free = [colour for name, colour in COLOURS.items() if name not in names]
    palette = [*free, *MORE_COLOURS, GUIDE, INK]
    cycle = {name: palette[i % len(palette)] for i, name in enumerate(others)}
    return {name: COLOURS.get(name) or cycle[name] for name in names}


@contextmanager
def journal_style() -> Iterator[None]:
    """Make figures in the house style inside a `with` block; nothing changes outside it."""
    import matplotlib as mpl

    with mpl.rc_context(RC):
        yield


@contextmanager
def journal_figure(
    width: float, height: float, rows: int = 1, columns: int = 1, **options: Any
) -> "Iterator[tuple[Figure, Any]]":
    """Make a figure and its panels, in the house style inside a `with` block.

    Args:
        width: In inches.
        height: In inches.
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
    """Draw in the house style inside a `with` block, on the given axes or on a new figure.

    Args:
        ax: Left as they are, or None for those of a new one-column figure.
    """
    with journal_style():
        if ax is None:
            import matplotlib.pyplot as plt

            _, ax = plt.subplots(figsize=COLUMN, layout="constrained")
            inward_ticks(ax)
        yield ax


def inward_ticks(*axes: "Axes") -> None:
    """Set the ticks of the house style, which matplotlib would make after the style has ended."""
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
    """Draw one standard deviation to either side of a mean."""
    ax.fill_between(x, mean - sd, mean + sd, color=colour, alpha=alpha, lw=0, label=label)


def shared_legend(figure: "Figure", ax: "Axes") -> None:
    """Draw the legend of one panel above the whole figure, in two columns."""
    handles, names = ax.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=2, fontsize=7)


def axis_label(words: str, variable: "xr.DataArray") -> str:
    """Words and unit of an axis: "m2 s-1" is set as m² s⁻¹, an unknown unit left out.

    Args:
        words: What the axis shows.
        variable: Variable whose attribute `units` holds the unit.
    """
    unit = variable.attrs.get("units", "")
    if unit in ("", "1"):
        return words
    typeset = re.sub(r"(?<=[A-Za-z)])(-?\d+)", r"$^{\1}$", unit)
    space = " " if len(words) + len(unit) <= LABEL_LENGTH else "\n"
    return f"{words}{space}({typeset})"
