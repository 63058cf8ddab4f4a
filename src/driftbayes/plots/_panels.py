"""Draw figures from descriptions of panels."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from driftbayes._representation import Panel, colours_of
from driftbayes.plots.style import draw_panel, journal_figure, shared_legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def fill_axes(
    axes: "Sequence[Axes]", panels: Sequence[Panel], colours: Mapping[str, str], **title: Any
) -> None:
    """Draw a panel with its title on each of the axes, and hide the remaining axes.

    Args:
        axes: Axes to draw on, at least as many as panels.
        panels: The panels.
        colours: Colour of each model.
        **title: Options of the titles, passed to matplotlib.
    """
    for ax, panel in zip(axes, panels, strict=False):
        draw_panel(panel, ax, colours)
        ax.set_title(panel.title, **title)
    for ax in axes[len(panels) :]:
        ax.set_visible(False)


def plot_panels(panels: Sequence[Panel]) -> "Figure":
    """Draw panels with one legend, in two columns.

    Args:
        panels: The panels; groups have the same colour in all of them.
    """
    groups = dict.fromkeys(curve.group for panel in panels for curve in panel.curves)
    colours = colours_of([name for name in groups if name != "data"])
    n_rows = -(-len(panels) // 2)
    with journal_figure(6.8, 2.6 * n_rows, n_rows, 2, squeeze=False) as (figure, grid):
        axes = list(grid.ravel())
        fill_axes(axes, panels, colours, fontsize=8)
        if len(groups) > 1:
            shared_legend(figure, axes[0])
    return figure
