"""Figures of posterior draws, drawn by ArviZ in the house style.

For anything more, give `to_datatree(draws, data)` to arviz-plots itself.
"""

__all__ = ["plot_posterior_pair", "plot_trace"]

import warnings
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from driftbayes.errors import DriftbayesError
from driftbayes.inference.draws import PosteriorDraws, to_datatree
from driftbayes.plots.scan import colour_of
from driftbayes.plots.style import COLUMN, journal_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_posterior_pair(draws: PosteriorDraws) -> "Figure":
    """Every parameter against every other, with its own density on the diagonal."""
    arviz_plots = _arviz_plots()
    colour = colour_of(draws.hypothesis.name)
    side = COLUMN[0] * max(len(draws.names) / 2, 1)
    with journal_style():
        matrix = arviz_plots.plot_pair(
            to_datatree(draws),
            backend="matplotlib",
            visuals={
                "scatter": {"color": colour, "alpha": 0.2, "width": 0},
                "dist": {"color": colour},
                "credible_interval": False,
                "point_estimate": False,
                "point_estimate_text": False,
            },
            figure_kwargs={"figsize": (side, side), "layout": "constrained"},
        )
        # ArviZ names the upright axis of the first density after the parameter, which lies across.
        for i in range(len(draws.names)):
            matrix.viz["plot"][i, i].item().set_ylabel("density")
    return _figure(matrix)


def plot_trace(draws: PosteriorDraws) -> "Figure":
    """Every parameter along the draws: without trend or pause if they are independent."""
    size = (COLUMN[0] * len(draws.names), COLUMN[1])
    arviz_plots = _arviz_plots()
    with journal_style():
        collection = arviz_plots.plot_trace(
            to_datatree(draws),
            backend="matplotlib",
            # One chain; the default colours of matplotlib 3.11 arviz-plots 0.8 cannot read.
            color=[colour_of(draws.hypothesis.name)],
            visuals={"trace": {"width": 0.4}},
            figure_kwargs={"figsize": size, "layout": "constrained"},
        )
    return _figure(collection)


def _figure(collection: Any) -> "Figure":
    return collection.viz["figure"].item()


def _arviz_plots() -> Any:
    with warnings.catch_warnings():
        # What arviz-plots 0.8 does on import, matplotlib 3.11 warns of.
        warnings.simplefilter("ignore")
        # It also takes a module for loaded that matplotlib 3.11 does not load by itself (issue 500
        # of arviz-plots; its later versions need Python 3.12).
        with suppress(ImportError):
            import_module("matplotlib.style.core")
        try:
            import_module("arviz_plots.backend.matplotlib")
            return import_module("arviz_plots")
        except ImportError as error:
            msg = "figures of posterior draws need arviz-plots: pip install 'driftbayes[arviz]'"
            raise DriftbayesError(msg) from error
