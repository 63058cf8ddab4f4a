"""A whole scan in one figure: diffusivities, rates, Bayes factors and probabilities."""

__all__ = ["plot_scan"]

from typing import TYPE_CHECKING

import numpy as np

from driftbayes.plots.style import GUIDE, colours_of, journal_figure

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Name of the parameter, and what its panel is called.
_PANELS = (("kappa", "k"), ("gamma",))
# Over less than this ratio of the longest to the shortest tau, every label is written out.
_SHORT = 30.0
_TITLES = {"kappa": "diffusivity", "gamma": "inverse velocity time"}


def plot_scan(dataset: "xr.Dataset") -> "Figure":
    """Parameters that models share, ln K against the first model, and probabilities, against tau.

    Args:
        dataset: Of a scan.
    """
    names = [str(name) for name in dataset["model"].values]
    colours = colours_of(names)
    tau = dataset["tau"].values
    labels = [str(label) for label in dataset["parameter"].values]
    drawn = [[label for label in labels if label.rpartition(".")[2] in group] for group in _PANELS]
    drawn = [group for group in drawn if group]
    n_panels = len(drawn) + (2 if len(names) > 1 else 0)
    rows = -(-n_panels // 2)
    with journal_figure(7.0, 2.5 * rows, rows, 2, squeeze=False, sharex=True) as (figure, panels):
        axes = list(np.ravel(panels))
        for group, ax in zip(drawn, axes, strict=False):
            for label in group:
                _band(dataset, label, colours, ax)
            ax.set_yscale("log")
            ax.set_ylabel(_TITLES[_first_name(group)] + _unit(dataset, _first_name(group)))
        if len(names) > 1:
            evidence = dataset["log_evidence"].values
            ax = axes[len(drawn)]
            for i, name in enumerate(names[1:], 1):
                ax.plot(tau, evidence[i] - evidence[0], "o-", color=colours[name], label=name)
            ax.axhline(0, color=GUIDE, lw=0.6)
            ax.set_yscale("symlog", linthresh=1.0)
            gains = (evidence[1:] - evidence[0])[np.isfinite(evidence[1:] - evidence[0])]
            # No empty half of an axis where all gains have one sign.
            ax.set_ylim(min(2 * gains.min(initial=0), -1), max(2 * gains.max(initial=0), 1))
            ax.set_ylabel(f"ln K against {names[0]}")
            ax = axes[len(drawn) + 1]
            for i, name in enumerate(names):
                chance = dataset["probability"].values[i]
                ax.plot(tau, chance, "o-", color=colours[name], label=name)
            ax.set_ylim(-0.03, 1.03)
            ax.set_ylabel("probability")
        unit = dataset.attrs.get("time_unit", "")
        for ax in axes[n_panels:]:
            ax.set_visible(False)
        for ax in axes[:n_panels]:
            ax.set_xscale("log")
            _label_few(ax, tau)
            ax.tick_params(labelbottom=True)
            ax.set_xlabel(f"sampling time τ ({unit})" if unit else "sampling time τ")
        axes[n_panels - 1].legend(fontsize=7)
    return figure


def _label_few(ax: "Axes", tau: np.ndarray) -> None:
    """Plain labels over about a decade, where powers of ten would run into each other."""
    from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

    if tau.max() < _SHORT * tau.min():
        ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.xaxis.set_major_formatter(FormatStrFormatter("%g"))
        ax.xaxis.set_minor_formatter(NullFormatter())


def _band(dataset: "xr.Dataset", label: str, colours: dict[str, str], ax: "Axes") -> None:
    tau = dataset["tau"].values
    model = label.rpartition(".")[0]
    chosen = dataset.sel(parameter=label)
    low, middle, high = (
        chosen["posterior_quantile"].sel(quantile=q).values for q in (0.16, 0.5, 0.84)
    )
    ax.plot(tau, middle, "o-", lw=1, color=colours[model], label=model)
    ax.fill_between(tau, low, high, color=colours[model], alpha=0.25, lw=0)
    inside = chosen["consistent"].values.astype(bool)
    if inside.any():
        ax.plot(tau, np.where(inside, middle, np.nan), lw=2.6, color=colours[model])


def _first_name(group: list[str]) -> str:
    name = group[0].rpartition(".")[2]
    return "kappa" if name == "k" else name


def _unit(dataset: "xr.Dataset", name: str) -> str:
    length, time = dataset.attrs.get("length_unit", ""), dataset.attrs.get("time_unit", "")
    if not (length and time):
        return ""
    return f" ({length}²/{time})" if name == "kappa" else f" (1/{time})"
