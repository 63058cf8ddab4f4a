"""Draw laws of relative dispersion: evidences and the exponent against tau, and the statistics."""

__all__ = ["plot_pairs"]

from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes.plots._panels import fill_axes
from driftbayes.plots.style import colours_of, journal_figure, label_few
from driftbayes.relative import PairComparison, PairScan
from driftbayes.relative._describe import pair_panels, pair_scan_panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_pairs(result: PairComparison | PairScan) -> "Figure":
    """Draw a comparison of laws of relative dispersion, or a scan of them.

    A scan starts with the evidence of each law and the posteriors of ξ and K against tau, thicker
    where they do not depend on it. Then follow relative dispersion, structure functions, relative
    diffusivity and Lyapunov exponent with 95 % bootstrap errors, and those of the fitted law.

    Args:
        result: From `pairs`.
    """
    if isinstance(result, PairScan):
        panels, first = pair_scan_panels(result), result.results[0]
    else:
        panels, first = pair_panels(result), result
    colours = colours_of(list(first.comparison.evidences))
    rows = -(-len(panels) // 2)
    with journal_figure(7.0, 2.4 * rows, rows, 2, squeeze=False) as (figure, grid):
        axes = list(np.ravel(grid))
        fill_axes(axes, panels, colours)
        for ax, panel in zip(axes, panels, strict=False):
            label_few(ax, panel.x)
        handles: dict[str, Any] = {}
        for ax in axes[: len(panels)]:
            for handle, name in zip(*ax.get_legend_handles_labels(), strict=True):
                # Parameters have the colours of their laws and are not listed.
                if "." not in name:
                    handles.setdefault(name, handle)
        figure.legend(
            handles.values(), handles, loc="outside upper center", ncols=len(handles), fontsize=7
        )
    return figure
