"""Draw goodness-of-fit checks: data as points, replicas as bands."""

__all__ = ["plot_check", "plot_quantity"]

from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes.checks._describe import SEPARATE, deviation_panel
from driftbayes.plots.style import (
    COLUMN,
    GUIDE,
    INK,
    colours_of,
    journal_axes,
    journal_style,
    label_few,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from driftbayes.checks import FitCheck, ModelCheck

_PER_ROW = 4


def plot_quantity(
    check: "ModelCheck", name: str, ax: "Axes | None" = None, *, colour: str | None = None
) -> "Axes":
    """Draw one quantity of the data, as points, and of replicas of one model, as bands.

    The light band holds 95 % of the replicas, the dark one 95 % of those whose fit equals that of
    the data. Points outside the dark band contradict the model.

    Args:
        check: Check of one model.
        name: Name of the quantity.
        ax: Axes to draw on; None for a new figure.
        colour: Colour of the model.
    """
    panel = deviation_panel(check, name)
    bands = [(c.low, c.high) for c in panel.curves if c.low is not None and c.high is not None]
    colour = colour or colours_of([check.model])[check.model]
    data: dict[str, Any] = {"color": INK, "marker": "o", "ms": 2.6, "zorder": 3}
    with journal_axes(ax) as ax:
        at, observed = panel.x, panel.curves[-1].y
        if name in SEPARATE:
            places = np.arange(len(at))
            for (low, high), alpha, width in zip(bands, (0.18, 0.4), (14, 8), strict=True):
                ax.vlines(places, low, high, color=colour, alpha=alpha, lw=width)
            ax.plot(places, observed, ls="", **data)
            ax.set_xlim(-0.6, len(at) - 0.4)
            ax.set_xticks(places, panel.x_label.split(", "))
        else:
            for (low, high), alpha in zip(bands, (0.18, 0.4), strict=True):
                ax.fill_between(at, low, high, color=colour, alpha=alpha, lw=0)
            ax.plot(at, observed, lw=0.6, **data)
            ax.set(xlabel=panel.x_label, xscale=panel.x_scale)
            if panel.x_scale == "log":
                label_few(ax, at)
        for value in panel.reference:
            ax.axhline(value, color=GUIDE, lw=0.6, zorder=0)
        ax.set_ylabel(panel.y_label)
        failed = name in [quantity.name for quantity in check.unexplained]
        weight = "bold" if failed else "normal"
        ax.set_title(f"{panel.title}\n{check.p_text(name)}", fontweight=weight)
    return ax


def plot_check(result: "FitCheck") -> "Figure":
    """Draw all quantities of all models, in rows of four panels for each model."""
    import matplotlib.pyplot as plt

    colours = colours_of(list(result.models))
    with journal_style():
        n_rows = -(-len(result.quantities) // _PER_ROW)
        height = n_rows * 0.86 * COLUMN[1] * len(result.models)
        figure = plt.figure(figsize=(2.6 * COLUMN[0], height), layout="constrained")
        parts = figure.subfigures(len(result.models), 1, squeeze=False)[:, 0]
        for part, (model, check) in zip(parts, result.models.items(), strict=True):
            names = [quantity.name for quantity in check.quantities]
            if not names:
                part.suptitle(f"{model}   (not checked)", color=colours[model])
                continue
            bands = f"points: data; light: 95 % of {check.n_replicas} replicas"
            bands += "; dark: at equal fit" if check.is_at_equal_fit else ", not at equal fit"
            part.suptitle(f"{model}   ({bands})", color=colours[model])
            panels = np.ravel(part.subplots(n_rows, _PER_ROW))
            for ax, name in zip(panels, names, strict=False):
                ax.tick_params(which="both", direction="in", top=True, right=True, width=0.6)
                plot_quantity(check, name, ax, colour=colours[model])
            for ax in panels[len(names) :]:
                ax.set_visible(False)
    return figure
