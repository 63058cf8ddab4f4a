"""Figure of scores of ensembles."""

__all__ = ["scores_figure"]

from typing import TYPE_CHECKING

from driftbayes.plots._panels import plot_panels
from driftbayes.verification import EnsembleScores
from driftbayes.verification._describe import score_panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def scores_figure(result: EnsembleScores) -> "Figure":
    """Draw the scores of ensembles by lead time.

    Args:
        result: Scores of ensembles.
    """
    return plot_panels(score_panels(result))
