"""Figures of a scan over tau: parameters, Bayes factors, Occam factors.

Each takes the data set that `Scan.to_dataset` returns and draws on one axes, so that an exact
scan and the paper's Laplace can be laid over each other.
"""

__all__ = ["plot_log_bayes_factor", "plot_log_occam_factor", "plot_parameter"]

from typing import TYPE_CHECKING

import numpy as np

from driftbayes.plots.style import COLOURS, GUIDE, MORE_COLOURS, journal_axes, journal_style

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

_SYMBOLS = {"kappa": r"\kappa", "gamma": r"\gamma", "k": "k"}


def plot_parameter(
    dataset: "xr.Dataset", parameter: str, ax: "Axes | None" = None, *, label: str | None = None
) -> "Axes":
    """One parameter against tau, with its posterior width.

    Laplace's method is drawn as in the paper, mode ± standard deviation, dashed; other methods as
    median and central 68 %, solid, with a heavier line where the parameter is consistent.
    """
    with journal_style():
        ax = journal_axes(ax)
        model, name = parameter.split(".")
        colour = colour_of(model)
        chosen = dataset.sel(parameter=parameter)
        tau = dataset["tau"].values
        if dataset.attrs["method"].startswith("laplace"):
            mode, sd = chosen["map"].values, chosen["posterior_sd"].values
            ax.plot(tau, mode, ls="--", color=GUIDE, label=label or "Laplace: mode ± sd")
            ax.fill_between(tau, mode - sd, mode + sd, color=GUIDE, alpha=0.2, lw=0)
        else:
            quantiles = chosen["posterior_quantile"]
            low, median, high = (quantiles.sel(quantile=q).values for q in (0.16, 0.5, 0.84))
            ax.plot(tau, median, color=colour, lw=1.0, label=label or "exact: median, 68 %")
            ax.fill_between(tau, low, high, color=colour, alpha=0.25, lw=0)
            inside = chosen["consistent"].values.astype(bool)
            if inside.any():
                steady = np.where(inside, median, np.nan)
                ax.plot(tau, steady, color=colour, lw=2.2, label="consistent in τ")
        ax.set_xscale("log")
        ax.set_xlabel(_tau_label(dataset))
        ax.set_ylabel(f"{model}  ${_SYMBOLS.get(name, name)}$")
    return ax


def plot_log_bayes_factor(
    dataset: "xr.Dataset",
    pair: str = "langevin:brownian",
    ax: "Axes | None" = None,
    *,
    label: str | None = None,
) -> "Axes":
    """Ln K against tau on an axis that is linear within ±1, where models are indistinguishable."""
    with journal_style():
        ax = journal_axes(ax)
        winner = pair.split(":")[0]
        laplace = dataset.attrs["method"].startswith("laplace")
        ax.plot(
            dataset["tau"],
            dataset["log_bayes_factor"].sel(pair=pair),
            color=GUIDE if laplace else colour_of(winner),
            ls="--" if laplace else "-",
            label=label or ("Laplace" if laplace else "exact"),
        )
        if not laplace:
            ax.axhspan(-1, 1, color=GUIDE, alpha=0.15, lw=0, label="indistinguishable")
            ax.axhline(0, color=GUIDE, lw=0.6)
        ax.set_xscale("log")
        ax.set_yscale("symlog", linthresh=1.0)
        ax.set_xlabel(_tau_label(dataset))
        initials = ",".join(part[0].upper() for part in pair.split(":"))
        ax.set_ylabel(rf"$\ln K_{{{initials}}}$")
    return ax


def plot_log_occam_factor(dataset: "xr.Dataset", ax: "Axes | None" = None) -> "Axes":
    """Log Occam factors of all models against tau; Laplace's dashed, as in the paper."""
    with journal_style():
        ax = journal_axes(ax)
        laplace = dataset.attrs["method"].startswith("laplace")
        for model in dataset["model"].values:
            ax.plot(
                dataset["tau"],
                dataset["log_occam_factor"].sel(model=model),
                color=colour_of(str(model)),
                ls="--" if laplace else "-",
                label=f"{model}, {'Laplace' if laplace else 'exact'}",
            )
        ax.set_xscale("log")
        ax.set_xlabel(_tau_label(dataset))
        ax.set_ylabel("ln Occam factor")
    return ax


def colour_of(model: str) -> str:
    """The colour that a model has in every figure."""
    return COLOURS.get(model, MORE_COLOURS[sum(map(ord, model)) % len(MORE_COLOURS)])


def _tau_label(dataset: "xr.Dataset") -> str:
    unit = dataset.attrs.get("time_unit", "")
    return rf"sampling time $\tau$ ({unit})" if unit else r"sampling time $\tau$"
