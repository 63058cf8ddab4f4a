"""Draw diagnostics of the data, from the dataset that `diagnose` returns.

Bands are ± one standard deviation; there are none for a single trajectory.
"""

__all__ = ["plot_absolute_diffusivity", "plot_kurtosis", "plot_lvaf", "plot_msd"]

from typing import TYPE_CHECKING

import numpy as np

from driftbayes.data._units import readable_times
from driftbayes.plots.style import GUIDE, INK, MORE_COLOURS, axis_label, journal_axes

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

# Range of lags, in integral time scales, beyond which a velocity autocovariance is noise.
LVAF_TIMESCALES = 8
TAYLOR = MORE_COLOURS[0]


def plot_lvaf(dataset: "xr.Dataset", ax: "Axes | None" = None) -> "Axes":
    """Draw the velocity autocovariance against lag, with the integral time scale.

    Only the first few time scales are shown; `ax.set_xlim(right=...)` shows the rest.
    """
    dataset, _ = _in_readable_time(dataset)
    with journal_axes(ax) as ax:
        timescale = dataset.attrs["timescale"]
        ax.axhline(0, color=GUIDE, lw=0.6)
        _draw_line(ax, dataset, "lvaf", INK, "data", marker="o")
        _draw_band(ax, dataset, "lvaf", INK)
        ax.axvline(timescale, color=GUIDE, ls=":", label="integral time scale")
        # At least four lags, for data without memory.
        shown = max(LVAF_TIMESCALES * timescale, float(dataset.lag[:5].max()))
        shown = min(shown, float(dataset.lag.max()))
        ax.set_xlim(-0.02 * shown, 1.02 * shown)
        _finish(ax, dataset, "velocity autocovariance", "lvaf")
        ax.legend(loc="upper right")
    return ax


def plot_absolute_diffusivity(dataset: "xr.Dataset", ax: "Axes | None" = None) -> "Axes":
    """Draw the absolute diffusivity against lag, with its ballistic limit and Taylor's integral."""
    dataset, per_time = _in_readable_time(dataset)
    with journal_axes(ax) as ax:
        data = dataset.isel(lag=slice(1, None))
        _draw_line(ax, data, "absolute_diffusivity", INK, "absolute", marker="o")
        _draw_line(ax, data, "taylor_diffusivity", TAYLOR, "Taylor integral")
        limits = _logarithmic_limits(ax)
        _draw_band(ax, data, "absolute_diffusivity", INK)
        _draw_band(ax, data, "taylor_diffusivity", TAYLOR)
        ballistic = 0.5 * float(dataset.lvaf[0]) * data.lag / per_time
        ax.plot(data.lag, ballistic, color=GUIDE, ls="--", lw=0.9, label="ballistic, $r(0)$ lag/2")
        ax.set_ylim(limits)
        _finish(ax, dataset, "diffusivity", "absolute_diffusivity")
        ax.legend(loc="best")
    return ax


def plot_msd(dataset: "xr.Dataset", ax: "Axes | None" = None) -> "Axes":
    """Draw the mean square displacement against lag, with the ballistic and diffusive slopes."""
    dataset, per_time = _in_readable_time(dataset)
    with journal_axes(ax) as ax:
        data = dataset.isel(lag=slice(1, None))
        _draw_line(ax, data, "msd", INK, "data", marker="o")
        limits = _logarithmic_limits(ax)
        _draw_band(ax, data, "msd", INK)
        ballistic = float(dataset.lvaf[0]) * (data.lag / per_time) ** 2
        label = "ballistic, $r(0)$ lag$^2$"
        ax.plot(data.lag, ballistic, color=GUIDE, ls="--", lw=0.9, label=label)
        known = data.absolute_diffusivity.dropna("lag")
        if known.size:
            diffusive = 2 * float(known[-1]) * data.lag / per_time
            label = r"diffusive, 2$\kappa$ lag"
            ax.plot(data.lag, diffusive, color=GUIDE, ls=":", label=label)
        ax.set_ylim(limits)
        _finish(ax, dataset, "mean square displacement", "msd")
        ax.legend(loc="lower right")
    return ax


def plot_kurtosis(dataset: "xr.Dataset", ax: "Axes | None" = None) -> "Axes":
    """Draw the kurtosis of displacements against lag, with the Gaussian value 3."""
    dataset, _ = _in_readable_time(dataset)
    with journal_axes(ax) as ax:
        data = dataset.isel(lag=slice(1, None))
        _draw_line(ax, data, "kurtosis", INK, "data", marker="o")
        _draw_band(ax, data, "kurtosis", INK)
        ax.axhline(3, color=GUIDE, ls="--", lw=0.9, label="Gaussian")
        ax.set_xscale("log")
        low, high = ax.get_ylim()
        # Wide enough for the noise of a Gaussian sample to look small.
        ax.set_ylim(min(low, 2.5), max(high, 3.5))
        _finish(ax, dataset, "kurtosis of displacements", "kurtosis")
        ax.legend(loc="best")
    return ax


def _in_readable_time(dataset: "xr.Dataset") -> "tuple[xr.Dataset, float]":
    """Return the dataset with lags in the unit that suits their size, and the factor to it."""
    lags, unit = readable_times(dataset.lag.values, dataset.lag.attrs.get("units", ""))
    last = float(dataset.lag[-1])
    factor = float(lags[-1]) / last if last > 0 else 1.0
    shown = dataset.assign_coords(lag=("lag", lags, {**dataset.lag.attrs, "units": unit}))
    return shown.assign_attrs(timescale=factor * dataset.attrs["timescale"]), factor


def _draw_line(
    ax: "Axes", dataset: "xr.Dataset", name: str, colour: str, label: str, marker: str = ""
) -> None:
    ax.plot(dataset.lag, dataset[name], color=colour, marker=marker, ms=2.4, label=label, zorder=3)


def _draw_band(ax: "Axes", dataset: "xr.Dataset", name: str, colour: str) -> None:
    low, high = dataset[name] - dataset[f"{name}_sd"], dataset[name] + dataset[f"{name}_sd"]
    if np.isfinite(low).any():
        ax.fill_between(dataset.lag, low, high, color=colour, alpha=0.2, lw=0, zorder=2)


def _logarithmic_limits(ax: "Axes") -> tuple[float, float]:
    """Make both axes logarithmic; return limits of at least a decade."""
    ax.set_xscale("log")
    # Clipped, not masked, so that a band below zero is cut at the edge of the figure.
    ax.set_yscale("log", nonpositive="clip")
    low, high = ax.get_ylim()
    widen = max(10 / (high / low), 1) ** 0.5
    return low / widen, high * widen


def _finish(ax: "Axes", dataset: "xr.Dataset", words: str, name: str) -> None:
    ax.set_xlabel(axis_label("lag", dataset.lag))
    ax.set_ylabel(axis_label(words, dataset[name]))
