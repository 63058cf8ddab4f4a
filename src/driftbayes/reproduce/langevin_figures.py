"""Figures of the Langevin experiment: the paper's 1 and 2, and both in brief."""

__all__ = ["factors_figure", "overview_figure", "parameters_figure"]

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from driftbayes.plots.scan import plot_log_bayes_factor, plot_log_occam_factor, plot_parameter
from driftbayes.plots.style import INK, journal_style
from driftbayes.typing import FloatArray

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Truths = Mapping[str, float | FloatArray]


def parameters_figure(exact: "xr.Dataset", laplace: "xr.Dataset", truths: Truths) -> "Figure":
    """Figure 1: the parameters of both models against tau."""
    from matplotlib.figure import Figure

    with journal_style():
        figure = Figure(figsize=(3.6, 6.4), layout="constrained")
        axes = figure.subplots(len(truths), 1, sharex=True)
        for ax, name in zip(axes, truths, strict=True):
            _parameter(ax, exact, laplace, name, truths)
            if ax is not axes[-1]:
                ax.set_xlabel("")
        axes[0].legend(loc="best")
    return figure


def factors_figure(exact: "xr.Dataset", laplace: "xr.Dataset") -> "Figure":
    """Figure 2: log Bayes factor and log Occam factors against tau."""
    from matplotlib.figure import Figure

    with journal_style():
        figure = Figure(figsize=(3.6, 4.6), layout="constrained")
        above, below = figure.subplots(2, 1, sharex=True)
        _bayes_factor(above, exact, laplace)
        above.set_xlabel("")
        above.legend(loc="upper right")
        plot_log_occam_factor(laplace, below)
        plot_log_occam_factor(exact, below)
        below.legend(loc="best")
    return figure


def overview_figure(exact: "xr.Dataset", laplace: "xr.Dataset", truths: Truths) -> "Figure":
    """Three parameters and the Bayes factor in one row."""
    from matplotlib.figure import Figure

    with journal_style():
        figure = Figure(figsize=(10.0, 2.6), layout="constrained")
        *panels, last = figure.subplots(1, len(truths) + 1)
        for ax, name in zip(panels, truths, strict=True):
            _parameter(ax, exact, laplace, name, truths)
        panels[-1].legend(loc="lower left")
        _bayes_factor(last, exact, laplace)
        last.legend(loc=(0.02, 0.46))
    return figure


def _parameter(
    ax: "Axes", exact: "xr.Dataset", laplace: "xr.Dataset", name: str, truths: Truths
) -> None:
    plot_parameter(laplace, name, ax)
    plot_parameter(exact, name, ax)
    tau = exact["tau"].values
    expected = np.broadcast_to(truths[name], tau.shape)
    ax.plot(tau, expected, color=INK, lw=0.8, ls=":", label="expected")
    ax.set_ylim(bottom=0)


def _bayes_factor(ax: "Axes", exact: "xr.Dataset", laplace: "xr.Dataset") -> None:
    plot_log_bayes_factor(laplace, ax=ax)
    plot_log_bayes_factor(exact, ax=ax)
