"""Figures of what the paper does not ask: what particles of one flow are worth, and numerics."""

__all__ = ["branches_figure", "effective_figure"]

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes.plots.style import (
    COLOURS,
    GUIDE,
    INK,
    MORE_COLOURS,
    draw_band,
    inward_ticks,
    journal_figure,
)
from driftbayes.reproduce.turbulence.analysis import Analysis
from driftbayes.reproduce.turbulence.effective import N_DRAWS, QUANTITIES
from driftbayes.reproduce.turbulence.figures_flow import TURNOVER
from driftbayes.reproduce.turbulence.figures_models import log_factor_axis
from driftbayes.typing import FloatArray

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PARAMETERS = {
    "log_kappa": (r"$\ln\,\kappa$", COLOURS["brownian"], "o", 0.96),
    "log_gamma": (r"$\ln\,\gamma$", COLOURS["langevin"], "s", 1.0),
    "log_k": (r"$\ln\,k$", MORE_COLOURS[0], "^", 1.04),
}
_BRANCH_COLOURS = (COLOURS["brownian"], COLOURS["langevin"], *MORE_COLOURS)


def effective_figure(analysis: Analysis) -> "Figure":
    """Spread of estimates over what independent particles would give, and what ln K is worth.

    Args:
        analysis: From `analyse`.
    """
    with journal_figure(3.5, 5.6, 2, sharex=True) as (figure, (above, below)):
        _spread_ratios(above, analysis)
        _worth(below, analysis)
        below.set_xscale("log")
        ticks = [1, 2, 5, 10, 20, 50, 100, 200]
        below.set_xticks(ticks, [str(t) for t in ticks])
        below.set_xlabel(r"sampling time $\tau$ / $\tau_\zeta$")
        inward_ticks(above, below)
    return figure


def branches_figure(analysis: Analysis) -> "Figure | None":
    """How runs from one state part, and whether their particles spread differently.

    Bands come from a jackknife over groups of particles, paired. They hold the chance of particles
    and not that of the flow: a run in single precision soon has another flow. How much flows that
    are so short differ is drawn beside them, from the realisations, as if their spread fell with
    the square root of their length; it holds the chance of their fewer particles too.

    Args:
        analysis: From `analyse`.

    Returns:
        The figure, or None if there are no such runs.
    """
    data = analysis.results.branches
    if data is None:
        return None
    with journal_figure(3.5, 5.6, 2) as (figure, (above, below)):
        _parting(above, data)
        _msd_ratios(below, data, analysis)
        inward_ticks(above, below)
    return figure


def _spread_ratios(ax: "Axes", analysis: Analysis) -> None:
    spread = analysis.spread
    x = spread.taus / TURNOVER
    error = _relative_error(spread.n_data_sets)
    for name, (label, colour, marker, shift) in _PARAMETERS.items():
        i = QUANTITIES.index(name)
        ratio = spread.over_flows[i] / spread.expected[i]
        bars: dict[str, Any] = {"color": colour, "fmt": marker, "ms": 3, "lw": 0.7}
        bars |= {"mec": "white", "mew": 0.3}
        ax.errorbar(shift * x, ratio, yerr=ratio * error, label=f"{label}, data sets", **bars)
        among = spread.over_particles[i] / spread.expected[i]
        ax.plot(x, among, color=colour, lw=0.9, ls="--", label=f"{label}, particles")
    ax.axhline(1, color=GUIDE, lw=0.6)
    ax.set(yscale="log", ylim=(0.4, 25), ylabel="spread / independent particles'")
    ax.set_yticks([0.5, 1, 2, 5, 10, 20], ["0.5", "1", "2", "5", "10", "20"])
    ax.legend(loc="upper right", ncols=2, fontsize=7)


def _worth(ax: "Axes", analysis: Analysis) -> None:
    spread = analysis.spread
    x = spread.taus / TURNOVER
    ax.plot(x, spread.mean_log_bayes_factor, color=COLOURS["langevin"], label="as believed, mean")
    shared = spread.log_bayes_factor_of_flows
    ax.plot(x, shared, color=MORE_COLOURS[0], ls="--", label="particles share a flow")
    cautious = spread.log_bayes_factor_of_all
    # A variance errs by twice as much as a standard deviation.
    error = 2 * _relative_error(spread.n_data_sets) * cautious
    ax.errorbar(
        x, cautious, yerr=error, fmt="o-", color=INK, lw=0.8, label="and are unlike each other"
    )
    ax.axhspan(-1, 1, color=GUIDE, alpha=0.18, lw=0, label="indistinguishable")
    log_factor_axis(ax, -1.5)
    ax.legend(loc="lower left", bbox_to_anchor=(0.0, 0.31), fontsize=7)


def _relative_error(n_data_sets: FloatArray) -> FloatArray:
    """Of a standard deviation over data sets divided by one over draws."""
    return np.sqrt(1 / (2 * (n_data_sets - 1)) + 1 / (2 * (N_DRAWS - 1)))


def _parting(ax: "Axes", data: "xr.Dataset") -> None:
    reference, *others = (str(name) for name in data["branch"].values)
    time, snapshots = data["time"].values[1:], data["snapshot_time"].values[1:]
    for name, colour in zip(others, _BRANCH_COLOURS, strict=False):
        one = data.sel(branch=name)
        apart = one["separation"].values[1:] / (2 * np.pi)
        ax.loglog(time / TURNOVER, apart, color=colour, label=f"{name}: particles / $2\\pi$")
        flow = one["vorticity_difference"].values[1:]
        if flow.any():
            marks: dict[str, Any] = {"color": colour, "ms": 2.5, "mfc": "white", "lw": 0.7}
            ax.plot(snapshots / TURNOVER, flow, "o-", label=f"{name}: vorticity, relative", **marks)
    ax.axhline(np.sqrt(2), color=GUIDE, lw=0.6, ls=":")
    words = r"$\sqrt{2}$, unrelated flows"
    ax.text(time[0] / TURNOVER, 1.1, words, color=GUIDE, fontsize=7, va="top")
    ax.set(ylim=(1e-10, 20), ylabel=f"rms difference from {reference}")
    ax.set_xlabel(r"time since the runs parted / $\tau_\zeta$")
    ax.legend(loc="lower right", fontsize=7)


def _msd_ratios(ax: "Axes", data: "xr.Dataset", analysis: Analysis) -> None:
    reference, *others = (str(name) for name in data["branch"].values)
    lag = data["lag"].values
    base = data["group_msd"].sel(branch=reference).values
    for name, colour in zip(others, _BRANCH_COLOURS, strict=False):
        ratio, sd = paired_ratio(data["group_msd"].sel(branch=name).values, base)
        ax.plot(lag / TURNOVER, ratio, color=colour, label=f"{name} (band: ± sd over particles)")
        draw_band(ax, lag / TURNOVER, ratio, sd, colour)
    spread = _spread_of_short_flows(data, analysis)
    for sign in (-1, 1):
        label = "± sd between two flows this short" if sign < 0 else None
        ax.plot(lag / TURNOVER, 1 + sign * spread, color=GUIDE, ls=":", lw=0.9, label=label)
    ax.axhline(1, color=GUIDE, lw=0.6)
    ax.set(xscale="log", xlabel=r"lag / $\tau_\zeta$", ylim=(0.885, 1.055))
    ax.set_ylabel(f"mean square displacement\n/ {reference}'s")
    ax.legend(loc="lower left")


def paired_ratio(values: FloatArray, base: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Ratio of means over groups, and its standard deviation by leaving out a pair at a time.

    Args:
        values: (lag, group).
        base: Of the same groups, what to divide by.
    """
    n = values.shape[-1]
    above, below = (v.sum(axis=-1, keepdims=True) - v for v in (values, base))
    without = above / below
    squares = (without - without.mean(axis=-1, keepdims=True)) ** 2
    ratio = values.mean(axis=-1) / base.mean(axis=-1)
    return ratio, np.sqrt((n - 1) / n * squares.sum(axis=-1))


def _spread_of_short_flows(data: "xr.Dataset", analysis: Analysis) -> FloatArray:
    """Relative standard deviation between two independent flows as short as the branches."""
    first = analysis.realisations[0]
    configs = json.loads(data.attrs["configs"])
    short = configs[str(data["branch"].values[0])]["config"]["duration"]
    stretch = analysis.results.config(first.name)["duration"] / short
    mean, sd = analysis.band(lambda r: r.summary["msd"].values[1:])
    known = first.summary["lag"].values[1:]
    return np.interp(data["lag"].values, known, sd / mean) * np.sqrt(2 * stretch)
