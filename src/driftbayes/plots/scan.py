"""Draw scans over tau and prior sensitivity.

`plot_scan` draws a whole scan. The other figures of a scan take the dataset that `Scan.to_dataset`
returns and draw on one axes, so that exact evidences and Laplace's method can be overlaid.
"""

__all__ = [
    "plot_log_bayes_factor",
    "plot_log_occam_factor",
    "plot_parameter",
    "plot_prior_sensitivity",
    "plot_scan",
    "sensitivity_figure",
]

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from driftbayes._representation import number
from driftbayes.comparison._describe_scan import as_scan, scan_panels
from driftbayes.errors import DriftbayesError
from driftbayes.plots._panels import fill_axes
from driftbayes.plots.style import (
    COLUMN,
    GUIDE,
    INK,
    MORE_COLOURS,
    colours_of,
    draw_band,
    journal_axes,
    journal_figure,
    label_few,
)

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from driftbayes.comparison import PriorSensitivity, Scan

SYMBOLS = {"kappa": r"\kappa", "gamma": r"\gamma", "k": "k"}


def plot_parameter(
    dataset: "xr.Dataset", parameter: str, ax: "Axes | None" = None, *, label: str | None = None
) -> "Axes":
    """Draw one parameter against tau, with its posterior width.

    Laplace's method is drawn dashed as in the paper, mode ± standard deviation; other methods are
    drawn solid, median and central 68 %, with a thicker line where the parameter is consistent.
    """
    with journal_axes(ax) as ax:
        model, name = parameter.split(".")
        colour = _colour(dataset, model)
        chosen = dataset.sel(parameter=parameter)
        tau = dataset["tau"].values
        if dataset.attrs["method"].startswith("laplace"):
            mode, sd = chosen["map"].values, chosen["posterior_sd"].values
            ax.plot(tau, mode, ls="--", color=GUIDE, label=label or "Laplace: mode ± sd")
            draw_band(ax, tau, mode, sd, GUIDE, alpha=0.2)
        else:
            quantiles = chosen["posterior_quantile"]
            low, median, high = (quantiles.sel(quantile=q).values for q in (0.16, 0.5, 0.84))
            ax.plot(tau, median, color=colour, lw=1.0, label=label or "exact: median, 68 %")
            ax.fill_between(tau, low, high, color=colour, alpha=0.25, lw=0)
            inside = chosen["consistent"].values.astype(bool)
            if inside.any():
                steady = np.where(inside, median, np.nan)
                ax.plot(tau, steady, color=colour, lw=2.2, label="consistent in τ")
        ax.set(xscale="log", xlabel=_tau_label(dataset))
        ax.set_ylabel(f"{model}  ${SYMBOLS.get(name, name)}$")
    return ax


def plot_log_bayes_factor(
    dataset: "xr.Dataset",
    pair: str = "langevin:brownian",
    ax: "Axes | None" = None,
    *,
    label: str | None = None,
) -> "Axes":
    """Draw ln K against tau on an axis that is linear within ±1, where models are equally good."""
    with journal_axes(ax) as ax:
        laplace = dataset.attrs["method"].startswith("laplace")
        line, name = ("--", "Laplace") if laplace else ("-", "exact")
        colour = GUIDE if laplace else _colour(dataset, pair.split(":")[0])
        log_k = dataset["log_bayes_factor"].sel(pair=pair)
        ax.plot(dataset["tau"], log_k, color=colour, ls=line, label=label or name)
        if not laplace:
            ax.axhspan(-1, 1, color=GUIDE, alpha=0.15, lw=0, label="indistinguishable")
            ax.axhline(0, color=GUIDE, lw=0.6)
        ax.set_xscale("log")
        ax.set_yscale("symlog", linthresh=1.0)
        ax.set(xlabel=_tau_label(dataset), ylabel=log_factor_label(pair))
    return ax


def plot_log_occam_factor(dataset: "xr.Dataset", ax: "Axes | None" = None) -> "Axes":
    """Draw log Occam factors of all models against tau; Laplace's method is dashed."""
    with journal_axes(ax) as ax:
        laplace = dataset.attrs["method"].startswith("laplace")
        line, name = ("--", "Laplace") if laplace else ("-", "exact")
        for model in map(str, dataset["model"].values):
            occam = dataset["log_occam_factor"].sel(model=model)
            label = f"{model}, {name}"
            ax.plot(dataset["tau"], occam, color=_colour(dataset, model), ls=line, label=label)
        ax.set(xscale="log", xlabel=_tau_label(dataset), ylabel="ln Occam factor")
    return ax


def plot_scan(scan: "Scan | xr.Dataset") -> "Figure":
    """Draw diffusivities, rates, ln K against the first model, and probabilities, against tau.

    A single model without diffusivity and rate is drawn with all its parameters.

    Args:
        scan: A scan, or its dataset.

    Example:
        >>> import driftbayes as db
        >>> tracks = db.simulate("brownian", {"kappa": 1.0}, tau=0.5, n_particles=10, n_steps=20)
        >>> scan = tracks.scan([0.5, 1.0], scales=db.Scales(u_rms=1.4, time=1.0))
        >>> db.plot_scan(scan).savefig("scan.png")
    """
    whole = as_scan(scan)
    shown = ("parameter_kappa", "parameter_k", "parameter_gamma", "bayes_factors", "probabilities")
    every = scan_panels(whole)
    panels = [panel for panel in every if panel.name in shown]
    panels = panels or [panel for panel in every if panel.name.startswith("parameter_")]
    colours = colours_of(whole.models)
    rows = -(-len(panels) // 2)
    with journal_figure(7.0, 2.5 * rows, rows, 2, squeeze=False, sharex=True) as (figure, grid):
        axes = list(np.ravel(grid))
        fill_axes(axes, panels, colours)
        for ax in axes[: len(panels)]:
            label_few(ax, whole.taus)
            ax.tick_params(labelbottom=True)
        axes[len(panels) - 1].legend(fontsize=7)
    return figure


def plot_prior_sensitivity(
    result: "PriorSensitivity", pair: str | None = None, ax: "Axes | None" = None
) -> "Axes":
    """Draw ln K of two models, one line for each group of rescaled priors.

    Args:
        result: From `prior_sensitivity`.
        pair: Models, for example "langevin:brownian"; by default the first pair.
        ax: Axes to draw on; None for a new figure.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator

    with journal_axes(ax) as ax:
        name = pair or next(iter(result.log_bayes_factors))
        known = _symbols(dict.fromkeys(":".join(result.log_bayes_factors).split(":")))
        values, errors = result.log_bayes_factors[name], result.log_bayes_factor_errs[name]
        ax.axhspan(-1, 1, color=GUIDE, alpha=0.15, lw=0, label="indistinguishable")
        colours = (INK, *MORE_COLOURS)
        for i, group in enumerate(result.groups):
            symbols = ", ".join(known.get(name, name) for name in group)
            label = f"all: {symbols}" if len(result.groups) > 1 and i == 0 else symbols
            colour = colours[i % len(colours)]
            ax.plot(result.factors, values[i], color=colour, marker="o", ms=2.5, label=label)
            if np.nanmax(errors[i]) > 0:
                draw_band(ax, result.factors, values[i], errors[i], colour, alpha=0.2)
        ax.set_xscale("log", base=2)
        # With the priors as given, a factor of 1, among the labels.
        ax.xaxis.set_major_locator(LogLocator(base=4))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda factor, _: number(factor, 3)))
        ax.set_xlabel("factor on the scale of the prior")
        ax.set_ylabel(log_factor_label(name))
        ax.legend(loc="best")
    return ax


def sensitivity_figure(result: "PriorSensitivity") -> "Figure":
    """Draw ln K of the first two models for rescaled priors.

    Args:
        result: From `prior_sensitivity`.
    """
    with journal_figure(*COLUMN) as (figure, ax):
        plot_prior_sensitivity(result, ax=ax)
    return figure


def log_factor_label(pair: str) -> str:
    """Label an axis of ln K of two models; with the paper's initials for its two models."""
    return r"$\ln K_{L,B}$" if pair == "langevin:brownian" else f"ln K({pair})"


def _symbols(models: Iterable[str]) -> dict[str, str]:
    """Return the symbols of the parameters of models; a model of one's own has none."""
    from driftbayes.models import MODELS, model_named

    symbols: dict[str, str] = {}
    for model in (*MODELS, *models):
        with suppress(DriftbayesError):
            found = model_named(model, MODELS).parameters
            symbols |= {name: parameter.symbol for name, parameter in found.items()}
    return symbols


def _colour(dataset: "xr.Dataset", model: str) -> str:
    return colours_of([*map(str, dataset["model"].values)])[model]


def _tau_label(dataset: "xr.Dataset") -> str:
    unit = dataset.attrs.get("time_unit", "")
    return rf"sampling time $\tau$ ({unit})" if unit else r"sampling time $\tau$"
