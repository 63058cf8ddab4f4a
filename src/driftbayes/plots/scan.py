"""Figures of a scan over tau: parameters, Bayes factors, Occam factors.

Each takes the data set that `Scan.to_dataset` returns and draws on one axes, so that an exact
scan and the paper's Laplace can be laid over each other.
"""

__all__ = ["plot_log_bayes_factor", "plot_log_occam_factor", "plot_parameter"]

from typing import TYPE_CHECKING

import numpy as np

from driftbayes.plots.style import COLOURS, GUIDE, MORE_COLOURS, draw_band, journal_axes

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

SYMBOLS = {"kappa": r"\kappa", "gamma": r"\gamma", "k": "k"}


def plot_parameter(
    dataset: "xr.Dataset", parameter: str, ax: "Axes | None" = None, *, label: str | None = None
) -> "Axes":
    """One parameter against tau, with its posterior width.

    Laplace's method is drawn as in the paper, mode ± standard deviation, dashed; other methods as
    median and central 68 %, solid, with a heavier line where the parameter is consistent.
    """
    with journal_axes(ax) as ax:
        model, name = parameter.split(".")
        colour = colour_of(model)
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
    """Ln K against tau on an axis that is linear within ±1, where models are indistinguishable."""
    with journal_axes(ax) as ax:
        laplace = dataset.attrs["method"].startswith("laplace")
        line, name = ("--", "Laplace") if laplace else ("-", "exact")
        colour = GUIDE if laplace else colour_of(pair.split(":")[0])
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
    """Log Occam factors of all models against tau; Laplace's dashed, as in the paper."""
    with journal_axes(ax) as ax:
        laplace = dataset.attrs["method"].startswith("laplace")
        line, name = ("--", "Laplace") if laplace else ("-", "exact")
        for model in map(str, dataset["model"].values):
            occam = dataset["log_occam_factor"].sel(model=model)
            label = f"{model}, {name}"
            ax.plot(dataset["tau"], occam, color=colour_of(model), ls=line, label=label)
        ax.set(xscale="log", xlabel=_tau_label(dataset), ylabel="ln Occam factor")
    return ax


def colour_of(model: str) -> str:
    """Return the colour that a model has in every figure."""
    return COLOURS.get(model, MORE_COLOURS[sum(map(ord, model)) % len(MORE_COLOURS)])


def log_factor_label(pair: str) -> str:
    """Label an axis of ln K of two models by their initials."""
    initials = ",".join(part[0].upper() for part in pair.split(":"))
    return rf"$\ln K_{{{initials}}}$"


def _tau_label(dataset: "xr.Dataset") -> str:
    unit = dataset.attrs.get("time_unit", "")
    return rf"sampling time $\tau$ ({unit})" if unit else r"sampling time $\tau$"
