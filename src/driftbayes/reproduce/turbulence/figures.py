"""All figures of section 5, and those that go beyond it."""

__all__ = ["all_figures"]

from typing import TYPE_CHECKING

from driftbayes.reproduce.turbulence.analysis import Analysis
from driftbayes.reproduce.turbulence.figures_beyond import branches_figure, effective_figure
from driftbayes.reproduce.turbulence.figures_flow import (
    flow_figure,
    spectrum_figure,
    trajectories_figure,
    vorticity_figure,
)
from driftbayes.reproduce.turbulence.figures_models import (
    diffusivity_figure,
    factors_figure,
    lvaf_figure,
    parameters_figure,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def all_figures(analysis: Analysis) -> "dict[str, Figure]":
    """Figures by name; those numbered have the paper's number.

    Args:
        analysis: From `analyse`.
    """
    figures = {
        "figure3": vorticity_figure(analysis),
        "figure4": spectrum_figure(analysis),
        "figure5": trajectories_figure(analysis),
        "figure6": lvaf_figure(analysis),
        "figure7": diffusivity_figure(analysis),
        "figure8": parameters_figure(analysis),
        "figure9": factors_figure(analysis),
        "flow": flow_figure(analysis),
        "effective": effective_figure(analysis),
    }
    branches = branches_figure(analysis)
    if branches is not None:
        figures["branches"] = branches
    return figures
