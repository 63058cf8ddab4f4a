"""Draw the probability of presence."""

__all__ = ["presence_figure"]

from typing import TYPE_CHECKING

import numpy as np

from driftbayes._representation import with_unit
from driftbayes.data._units import readable, readable_unit
from driftbayes.plots._coast import draw_coast, shrinking
from driftbayes.plots.style import INK, inward_ticks, journal_figure
from driftbayes.prediction._predict import LEVELS
from driftbayes.prediction._presence import PresenceMap

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MAX_PANELS = 6


def presence_figure(presence: PresenceMap) -> "Figure":
    """Draw the probability of presence with its regions, in a panel for each of the first horizons.

    Args:
        presence: The map of presence.
    """
    from matplotlib.colors import LogNorm

    n = min(len(presence.horizons), _MAX_PANELS)
    size = np.sqrt(presence.areas.sum() * presence.probability.shape[2])
    per_length, unit = readable_unit([float(size)], presence.length_unit)
    per = 1.0 if presence.in_degrees else per_length
    x, y = (edges * per for edges in presence.edges)
    density = presence.probability / (presence.areas[:, None] * per_length**2)
    most = float(density[:n].max())
    shared = {"squeeze": False, "sharex": True, "sharey": True}
    with journal_figure(0.6 + 3.0 * n, 3.0, 1, n, **shared) as (figure, (axes,)):
        inward_ticks(*axes)
        for i, ax in enumerate(axes):
            mesh = ax.pcolormesh(
                x,
                y,
                np.ma.masked_less(density[i], 1e-3 * most),
                norm=LogNorm(1e-3 * most, most),
                cmap="viridis",
                rasterized=True,
            )
            middles = [0.5 * (edges[1:] + edges[:-1]) for edges in (x, y)]
            if min(density[i].shape) > 1:
                ax.contour(*middles, presence.level[i], LEVELS, colors=["w", INK], linewidths=0.9)
            ax.plot(*(presence.last.T * per), "+", color="#D55E00", ms=4, mew=0.9)
            ax.set_title(f"after {readable(presence.horizons[i], presence.time_unit)}")
            if presence.in_degrees:
                ax.set(xlim=x[[0, -1]], ylim=y[[0, -1]])
                draw_coast(ax)
                ax.set_aspect(1 / shrinking(y))
            else:
                ax.set_aspect("equal")
            ax.set_xlabel("longitude (°)" if presence.in_degrees else with_unit("x", unit))
        axes[0].set_ylabel("latitude (°)" if presence.in_degrees else with_unit("y", unit))
        square = f"1/{unit}²" if unit else ""
        low, high = (f"{100 * level:g} %" for level in LEVELS)
        lines = f"; lines: regions of {low} (white) and {high} (black)"
        words = "+: last positions" + (lines if min(density[0].shape) > 1 else "")
        # One panel is narrower than the line.
        words = words.replace("; ", "\n") if n == 1 else words
        figure.suptitle(words, fontsize=8.5)
        figure.colorbar(mesh, ax=axes, label=with_unit("probability density", square))
    return figure
