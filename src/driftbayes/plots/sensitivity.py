"""Ln K against the scale of the priors."""

__all__ = ["plot_prior_sensitivity"]

from typing import TYPE_CHECKING

import numpy as np

from driftbayes.plots.scan import SYMBOLS, log_factor_label
from driftbayes.plots.style import GUIDE, INK, MORE_COLOURS, draw_band, journal_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from driftbayes.comparison import PriorSensitivity


def plot_prior_sensitivity(
    result: "PriorSensitivity", pair: str | None = None, ax: "Axes | None" = None
) -> "Axes":
    """Ln K of one pair of models, one line for each group of priors that is scaled.

    Args:
        result: From `prior_sensitivity`.
        pair: Which pair; by default the first.
        ax: Where to draw.
    """
    with journal_axes(ax) as ax:
        name = pair or next(iter(result.log_bayes_factors))
        values, errors = result.log_bayes_factors[name], result.log_bayes_factor_errs[name]
        ax.axhspan(-1, 1, color=GUIDE, alpha=0.15, lw=0, label="indistinguishable")
        colours = (INK, *MORE_COLOURS)
        for i, group in enumerate(result.groups):
            symbols = ", ".join(f"${SYMBOLS[p]}$" if p in SYMBOLS else p for p in group)
            every = len(result.groups) > 1 and i == 0
            label = f"all: {symbols}" if every else symbols
            colour = colours[i % len(colours)]
            ax.plot(result.factors, values[i], color=colour, marker="o", ms=2.5, label=label)
            if np.nanmax(errors[i]) > 0:
                draw_band(ax, result.factors, values[i], errors[i], colour, alpha=0.2)
        ax.set_xscale("log", base=2)
        ax.set_xlabel("scale of the prior / the one given")
        ax.set_ylabel(log_factor_label(name))
        ax.legend(loc="best")
    return ax
