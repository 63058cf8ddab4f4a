"""Draw goodness-of-fit checks: data as points, replicas as bands."""

__all__ = ["plot_check", "plot_quantity"]

from typing import TYPE_CHECKING

import numpy as np

from driftbayes.checks._describe import deviations_of
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
    shown = deviations_of(check, name)
    colour = colour or colours_of([check.model])[check.model]
    with journal_axes(ax) as ax:
        observed, band, fitted, at = shown.observed, shown.band, shown.fitted, shown.x
        if shown.is_curve:
            ax.fill_between(at, band[0], band[2], color=colour, alpha=0.18, lw=0)
            ax.fill_between(at, fitted[0], fitted[2], color=colour, alpha=0.4, lw=0)
            ax.plot(at, observed, color=INK, marker="o", ms=2.6, lw=0.6, zorder=3)
            ax.set(xlabel=shown.x_label, xscale=shown.x_scale)
            if shown.x_scale == "log":
                label_few(ax, at)
        else:
            places = np.arange(len(at))
            for bounds, alpha, width in ((band, 0.18, 14), (fitted, 0.4, 8)):
                ax.vlines(places, bounds[0], bounds[2], color=colour, alpha=alpha, lw=width)
            ax.plot(places, observed, color=INK, marker="o", ms=2.6, ls="", zorder=3)
            ax.set_xlim(-0.6, len(at) - 0.4)
            ax.set_xticks(places, shown.x_label.split(", "))
        if shown.reference is not None:
            ax.axhline(shown.reference, color=GUIDE, lw=0.6, zorder=0)
        ax.set_ylabel(shown.y_label)
        failed = name in [quantity.name for quantity in check.unexplained]
        weight = "bold" if failed else "normal"
        ax.set_title(f"{shown.title}\n{check.p_text(name)}", fontweight=weight)
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
