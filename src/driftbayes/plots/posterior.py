"""Draw posterior draws with ArviZ in the journal style.

For other figures, pass `to_datatree(draws, data)` to arviz-plots.
"""

__all__ = ["plot_posterior_pair", "plot_trace"]

import warnings
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from driftbayes.errors import DriftbayesError
from driftbayes.inference._draws import PosteriorDraws, to_datatree
from driftbayes.plots.style import COLUMN, colours_of, journal_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_posterior_pair(draws: PosteriorDraws) -> "Figure":
    """Draw every parameter against every other, with its density on the diagonal."""
    arviz_plots = _arviz_plots()
    colour = _colour(draws)
    # Wide enough for a label beside a power of ten.
    side = max(0.65 * len(draws.names), 1) * COLUMN[0]
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
        # ArviZ labels the vertical axis of the first density with the parameter, which is on x.
        for i in range(len(draws.names)):
            matrix.viz["plot"][i, i].item().set_ylabel("density")
    return _figure(matrix)


def plot_trace(draws: PosteriorDraws) -> "Figure":
    """Draw every parameter along the draws; independent draws show no trend."""
    size = (COLUMN[0] * len(draws.names), COLUMN[1])
    arviz_plots = _arviz_plots()
    with journal_style():
        collection = arviz_plots.plot_trace(
            to_datatree(draws),
            backend="matplotlib",
            # One colour, because arviz-plots 0.8 cannot read the defaults of matplotlib 3.11.
            color=[_colour(draws)],
            visuals={"trace": {"width": 0.4}},
            figure_kwargs={"figsize": size, "layout": "constrained"},
        )
    return _figure(collection)


def _colour(draws: PosteriorDraws) -> str:
    return colours_of([draws.hypothesis.name])[draws.hypothesis.name]


def _figure(collection: Any) -> "Figure":
    return collection.viz["figure"].item()


def _arviz_plots() -> Any:
    with warnings.catch_warnings():
        # The import of arviz-plots 0.8 causes warnings of matplotlib 3.11.
        warnings.simplefilter("ignore")
        # arviz-plots 0.8 assumes that this module is loaded, which matplotlib 3.11 does not do by
        # itself (issue 500 of arviz-plots; later versions need Python 3.12).
        with suppress(ImportError):
            import_module("matplotlib.style.core")
        try:
            import_module("arviz_plots.backend.matplotlib")
            return import_module("arviz_plots")
        except ImportError as error:
            msg = "figures of posterior draws need arviz-plots: pip install 'driftbayes[arviz]'"
            raise DriftbayesError(msg) from error
