"""Figures of a check: data as points, what replicas do as bands."""

__all__ = ["plot_check", "plot_quantity"]

from typing import TYPE_CHECKING

import numpy as np

from driftbayes.errors import DriftbayesError
from driftbayes.plots.scan import colour_of
from driftbayes.plots.style import COLUMN, GUIDE, INK, journal_axes, journal_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from driftbayes.checks import FitCheck, ModelCheck

# Quantity: title, label of the upright axis.
_TITLES = {
    "msd": ("mean square displacement", "over the median replica"),
    "autocovariance": ("autocovariance of steps", "over the variance"),
    "kurtosis": ("kurtosis", "3 for a Gaussian"),
    "distribution": ("steps beyond a size", "over the median replica"),
    "particles": ("differences between particles", "own mean square / all"),
    "innovation_shape": ("shape of innovations", "standard deviations away"),
    "innovation_whiteness": ("autocorrelation of innovations", ""),
    "innovation_particles": ("innovations between particles", "spread, 1 by chance"),
}
# Drawn over the median of the replicas: of numbers over decades differences would not be seen.
_RELATIVE = ("msd", "distribution")


def plot_quantity(check: "ModelCheck", name: str, ax: "Axes | None" = None) -> "Axes":
    """One quantity of the data, as points, among replicas of one model.

    The light band holds 95 % of the replicas, the dark one 95 % of those that would have been
    fitted like the data: points outside the dark band speak against the model.

    Args:
        check: The check of one model.
        name: Name of the quantity.
        ax: Where to draw.
    """
    known = {quantity.name: quantity for quantity in check.quantities}
    if name not in known:
        msg = f"there is no quantity {name!r} in this check; there are {', '.join(known)}"
        raise DriftbayesError(msg)
    with journal_style():
        ax = journal_axes(ax)
        quantity, one = known[name], check.deviations[name]
        observed, band, fitted, at = one.observed, one.band, one.fitted_band, quantity.at
        if name in _RELATIVE:
            unit = np.where(band[1] == 0, 1.0, band[1])
            observed, band, fitted = observed / unit, band / unit, fitted / unit
        elif name == "autocovariance":
            variance = check.deviations["msd"].band[1][0]
            observed, band, fitted = observed / variance, band / variance, fitted / variance
        elif name == "innovation_shape":
            # Two numbers of different kinds: both in units of the band's half width.
            half = np.maximum(0.5 * (fitted[2] - fitted[0]) / 1.96, np.finfo(float).tiny)
            centre = fitted[1]
            observed, band, fitted = ((v - centre) / half for v in (observed, band, fitted))
        colour = colour_of(check.model)
        is_curve = name not in ("innovation_shape", "innovation_particles")
        if is_curve:
            ax.fill_between(at, band[0], band[2], color=colour, alpha=0.18, lw=0)
            ax.fill_between(at, fitted[0], fitted[2], color=colour, alpha=0.4, lw=0)
            ax.plot(at, observed, color=INK, marker="o", ms=2.6, lw=0.6, zorder=3)
            ax.set_xlabel(quantity.about)
        else:
            places = np.arange(len(at))
            for bounds, alpha, width in ((band, 0.18, 0.5), (fitted, 0.4, 0.3)):
                ax.bar(
                    *(places, bounds[2] - bounds[0], width, bounds[0]),
                    color=colour,
                    alpha=alpha,
                    lw=0,
                )
            ax.plot(places, observed, color=INK, marker="o", ms=2.6, ls="", zorder=3)
            ax.set_xlim(-0.6, len(at) - 0.4)
            ax.set_xticks(places, quantity.about.split(", ") if len(at) > 1 else [""])
        if name in ("autocovariance", "innovation_whiteness", "innovation_shape"):
            ax.axhline(0, color=GUIDE, lw=0.6, zorder=0)
        if name in _RELATIVE:
            ax.axhline(1, color=GUIDE, lw=0.6, zorder=0)
        ax.set_ylabel(_TITLES[name][1])
        ax.text(
            *(0.97, 0.95, f"p {'<' if _is_least(check, name) else '='} {one.p_value:.2g}"),
            transform=ax.transAxes,
            ha="right",
            va="top",
            fontweight="bold" if quantity in check.unexplained else "normal",
            bbox={"facecolor": "white", "alpha": 0.7, "lw": 0, "pad": 1},
        )
    return ax


def plot_check(result: "FitCheck") -> "Figure":
    """All quantities of all models: a row for each model, a column for each quantity."""
    import matplotlib.pyplot as plt

    names = [quantity.name for quantity in next(iter(result.models.values())).quantities]
    with journal_style():
        figure = plt.figure(
            figsize=(0.62 * COLUMN[0] * 4, 0.8 * COLUMN[1] * -(-len(names) // 4) * len(result.models)),
            layout="constrained",
        )
        parts = np.atleast_1d(figure.subfigures(len(result.models), 1))
        for part, (model, check) in zip(parts, result.models.items(), strict=True):
            part.suptitle(f"{model}: {check.n_replicas} replicas", color=colour_of(model))
            rows = -(-len(names) // 4)
            panels = np.ravel(part.subplots(rows, min(len(names), 4)))
            for ax, name in zip(panels, names, strict=False):
                ax.tick_params(which="both", direction="in", top=True, right=True, width=0.6)
                plot_quantity(check, name, ax)
                ax.set_title(_TITLES[name][0])
            for ax in panels[len(names) :]:
                ax.set_visible(False)
    return figure


def _is_least(check: "ModelCheck", name: str) -> bool:
    return check.p_values[name] * (check.n_replicas + 1) < 1.5
