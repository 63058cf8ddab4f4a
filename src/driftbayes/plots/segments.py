"""Draw tracks coloured by segment, their parameters over time, and change probabilities."""

__all__ = ["plot_segments"]

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from driftbayes._representation import with_unit
from driftbayes.data._units import readable_unit
from driftbayes.errors import DriftbayesError, did_you_mean, expect, shown
from driftbayes.plots.style import COLOURS, GUIDE, INK, MORE_COLOURS, inward_ticks, journal_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from driftbayes.changes._analysis import Segments

_MAX_TRACKS = 4


def plot_segments(
    result: "Segments", tracks: "list[int | str] | None" = None, *, parameter: str | None = None
) -> "Figure":
    """Draw tracks, one row each: path by segment, a parameter over time, and P(change).

    Args:
        result: Changes along tracks.
        tracks: Numbers or ids of the tracks; by default the four most likely to change.
        parameter: Parameter to draw, averaged over all segmentations; by default the first.

    Example:
        >>> import driftbayes as db
        >>> tracks = db.simulate("brownian", {"kappa": 1.0}, tau=0.5, n_particles=10, n_steps=20)
        >>> found = tracks.segments(0.5, scales=db.Scales(u_rms=1.4, time=1.0))
        >>> db.plot_segments(found, [0]).savefig("segments.png")
    """
    from driftbayes.changes._analysis import Segments
    from driftbayes.changes._posterior import most_likely_to_change

    expect(result, Segments, "result", "Segments, as tracks.segments() returns them")
    ids = [track.id for track in result.tracks]
    if tracks is None:
        chosen = most_likely_to_change(result.tracks, _MAX_TRACKS)
    else:
        chosen = [ids.index(result[track].id) for track in tracks]
    name = result.names[0] if parameter is None else parameter
    if name not in result.names:
        near = did_you_mean(name, result.names)
        every = ", ".join(result.names)
        raise DriftbayesError(f"parameter must be one of {every}, got {shown(name)}{near}")
    column = result.names.index(name)
    known = result.hypothesis.model.parameters
    symbol = known[name].symbol if name in known else name
    # The same unit in all rows.
    spans = [float(np.ptp(result.tracks[which].times)) for which in chosen]
    per_time = readable_unit([max(spans)], result.data.time_unit, 3)
    with journal_figure(7.2, 1.9 * len(chosen) + 0.3, len(chosen), 3, squeeze=False) as both:
        figure, axes = both
        for row, which in zip(axes, chosen, strict=True):
            label = with_unit(symbol, result.units[column])
            _draw(result, which, row, column, label, per_time)
            row[0].set_title(f"track {ids[which]}", loc="left")
    return figure


def _draw(
    result: "Segments",
    which: int,
    axes: "np.ndarray",
    column: int,
    label: str,
    per_time: tuple[float, str],
) -> None:
    track = result.tracks[which]
    factor, unit = per_time
    path, begin = result.path(which), track.times[0]
    sizes = [float(size) for size in np.ptp(path, axis=0)]
    scale, length = readable_unit(sizes, result.data.length_unit, 3)
    path = scale * path
    times, time_label = factor * (track.times - begin), with_unit("time since start", unit)
    place, value, chance = axes
    colours = [*COLOURS.values(), *MORE_COLOURS]
    edges = track.edges
    for k, (i, j) in enumerate(pairwise(edges)):
        inside = slice(i, j + 1)
        colour = colours[k % len(colours)]
        if result.data.n_dim == 1:
            place.plot(times[inside], path[inside, 0], color=colour, lw=0.8)
        else:
            place.plot(path[inside, 0], path[inside, 1], color=colour, lw=0.8)
        value.axvspan(times[i], times[j], color=colour, alpha=0.15, lw=0)
    if result.data.n_dim == 1:
        place.set(xlabel=time_label, ylabel=with_unit("x", length))
    else:
        place.set(xlabel=with_unit("x", length), ylabel=with_unit("y", length))
        place.set_aspect("equal", adjustable="datalim")
    _draw_parameter(value, times, track.average[:, column], track.average_sd[:, column])
    value.set(xlabel=time_label, ylabel=label, xlim=(times[0], times[-1]))
    chance.vlines(times, 0, track.probability, color=INK, lw=0.8)
    # Intervals of the changes, at three heights because they may overlap.
    for k, (low, high) in enumerate(factor * (track.intervals - begin)):
        chance.plot([low, high], [0.97 - 0.05 * (k % 3)] * 2, color=GUIDE, lw=2)
    chance.set(xlabel=time_label, ylabel="P(change)", ylim=(0, 1.02), xlim=(times[0], times[-1]))
    inward_ticks(*axes)


def _draw_parameter(ax: "Axes", times: np.ndarray, mean: np.ndarray, sd: np.ndarray) -> None:
    """Draw mean ± standard deviation over time, on a log scale if the mean varies much."""
    if mean.min() > 0 and mean.max() > 5 * mean.min():
        ax.set_yscale("log")
        # In ln θ, so that the band stays above zero.
        spread = np.sqrt(np.log1p((sd / mean) ** 2))
        low, high = mean * np.exp(-spread), mean * np.exp(spread)
    else:
        low, high = mean - sd, mean + sd
    ends = [np.append(values, values[-1]) for values in (low, high, mean)]
    ax.fill_between(times, ends[0], ends[1], color=INK, alpha=0.25, lw=0, step="post")
    ax.step(times, ends[2], color=INK, lw=1, where="post")
