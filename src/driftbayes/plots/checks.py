"""Figures of a check: data as points, what replicas do as bands."""

__all__ = ["Drawn", "drawn_quantity", "plot_check", "plot_quantity"]

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from driftbayes.errors import DriftbayesError
from driftbayes.plots.scan import colour_of
from driftbayes.plots.style import COLUMN, GUIDE, INK, journal_axes, journal_style
from driftbayes.suggest import did_you_mean

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from driftbayes.checks import FitCheck, ModelCheck
    from driftbayes.typing import FloatArray

# Quantity: title, label of the upright axis.
_TITLES = {
    "fit": ("best-fitting parameters", "pull of the data, in sd"),
    "mean": ("mean displacement", "deviation, in sd"),
    "msd": ("mean square displacement", "over median replica"),
    "autocovariance": ("autocovariance of steps", "over the variance"),
    "kurtosis": ("kurtosis", "3 for a Gaussian"),
    "distribution": ("steps beyond a size", "over median replica"),
    "particles": ("spread between particles", "mean square over all's"),
    "together": ("correlation of particles", "mean over pairs"),
    "axes": ("innovations: isotropy", "deviation, in sd"),
    "innovation_shape": ("innovations: shape", "deviation, in sd"),
    "innovation_whiteness": ("innovations: correlation", ""),
    "innovation_particles": ("innovations: particles", "spread, 1 by chance"),
}
# Numbers of different kinds, drawn in units of the half width of their band.
_IN_SD = ("mean", "axes", "innovation_shape")
_PER_ROW = 4
# Numbers that are no curve.
_APART = (*_IN_SD, "fit", "together", "innovation_particles")
# Drawn over the median of the replicas: of numbers over decades differences would not be seen.
_RELATIVE = ("msd", "distribution")


@dataclass(frozen=True, eq=False)
class Drawn:
    """A quantity in the form in which it is drawn.

    Args:
        title: Of its panel.
        label: Of the upright axis.
        about: Of the other.
        at: Where on that.
        observed: The data's values.
        band: Low, median and high of 95 % of the replicas.
        fitted: The same of those that would have been fitted like the data.
        is_curve: Whether the values belong together as a curve.
        reference: Where the model would have it, if there is one such value.
    """

    title: str
    label: str
    about: str
    at: "FloatArray"
    observed: "FloatArray"
    band: "FloatArray"
    fitted: "FloatArray"
    is_curve: bool
    reference: float | None


def drawn_quantity(check: "ModelCheck", name: str) -> Drawn:
    """One quantity of data and replicas, over what makes differences visible.

    Args:
        check: The check of one model.
        name: Name of the quantity.
    """
    known = {quantity.name: quantity for quantity in check.quantities}
    if name not in known:
        near = did_you_mean(name, known)
        msg = f"there is no quantity {name!r} in this check; there are {', '.join(known)}{near}"
        raise DriftbayesError(msg)
    quantity, one = known[name], check.deviations[name]
    observed, band, fitted = one.observed, np.asarray(one.band), np.asarray(one.fitted_band)
    if name in _RELATIVE:
        unit = np.where(band[1] == 0, 1.0, band[1])
        observed, band, fitted = observed / unit, band / unit, fitted / unit
    elif name == "autocovariance":
        variance = check.deviations["msd"].band[1][0]
        observed, band, fitted = observed / variance, band / variance, fitted / variance
    elif name in _IN_SD:
        half = np.maximum(0.5 * (fitted[2] - fitted[0]) / 1.96, np.finfo(float).tiny)
        centre = fitted[1]
        observed, band, fitted = ((v - centre) / half for v in (observed, band, fitted))
    is_zero = name in ("autocovariance", "innovation_whiteness", "fit", "together", *_IN_SD)
    return Drawn(
        *_TITLES[name],
        quantity.about,
        quantity.at,
        observed,
        band,
        fitted,
        is_curve=name not in _APART,
        reference=0.0 if is_zero else 1.0 if name in _RELATIVE else None,
    )


def plot_quantity(check: "ModelCheck", name: str, ax: "Axes | None" = None) -> "Axes":
    """One quantity of the data, as points, among replicas of one model.

    The light band holds 95 % of the replicas, the dark one 95 % of those that would have been
    fitted like the data: points outside the dark band speak against the model.

    Args:
        check: The check of one model.
        name: Name of the quantity.
        ax: Where to draw.
    """
    one = drawn_quantity(check, name)
    with journal_axes(ax) as ax:
        observed, band, fitted, at = one.observed, one.band, one.fitted, one.at
        colour = colour_of(check.model)
        if one.is_curve:
            ax.fill_between(at, band[0], band[2], color=colour, alpha=0.18, lw=0)
            ax.fill_between(at, fitted[0], fitted[2], color=colour, alpha=0.4, lw=0)
            ax.plot(at, observed, color=INK, marker="o", ms=2.6, lw=0.6, zorder=3)
            ax.set_xlabel(one.about)
        else:
            places = np.arange(len(at))
            for bounds, alpha, width in ((band, 0.18, 14), (fitted, 0.4, 8)):
                ax.vlines(places, bounds[0], bounds[2], color=colour, alpha=alpha, lw=width)
            ax.plot(places, observed, color=INK, marker="o", ms=2.6, ls="", zorder=3)
            ax.set_xlim(-0.6, len(at) - 0.4)
            ax.set_xticks(places, one.about.split(", "))
        if one.reference is not None:
            ax.axhline(one.reference, color=GUIDE, lw=0.6, zorder=0)
        ax.set_ylabel(one.label)
        failed = name in [quantity.name for quantity in check.unexplained]
        weight = "bold" if failed else "normal"
        ax.set_title(f"{one.title}\n{check.p_text(name)}", fontweight=weight)
    return ax


def plot_check(result: "FitCheck") -> "Figure":
    """All quantities of all models: rows of four panels for each model."""
    import matplotlib.pyplot as plt

    with journal_style():
        n_rows = -(-len(result.quantities) // _PER_ROW)
        height = n_rows * 0.86 * COLUMN[1] * len(result.models)
        figure = plt.figure(figsize=(2.6 * COLUMN[0], height), layout="constrained")
        parts = figure.subfigures(len(result.models), 1, squeeze=False)[:, 0]
        for part, (model, check) in zip(parts, result.models.items(), strict=True):
            names = [quantity.name for quantity in check.quantities]
            if not names:
                part.suptitle(f"{model}   (not checked)", color=colour_of(model))
                continue
            bands = f"points: data; light: 95 % of {check.n_replicas} replicas"
            bands += "; dark: at equal fit" if check.is_at_equal_fit else ", not at equal fit"
            part.suptitle(f"{model}   ({bands})", color=colour_of(model))
            panels = np.ravel(part.subplots(n_rows, _PER_ROW))
            for ax, name in zip(panels, names, strict=False):
                ax.tick_params(which="both", direction="in", top=True, right=True, width=0.6)
                plot_quantity(check, name, ax)
            for ax in panels[len(names) :]:
                ax.set_visible(False)
    return figure
