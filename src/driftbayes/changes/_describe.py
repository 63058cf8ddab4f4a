"""Describe change points as a card of facts and tables."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from driftbayes._representation import (
    Card,
    Table,
    amount,
    describe,
    number,
    summarise,
    with_error,
    with_unit,
)
from driftbayes.changes._analysis import Segments
from driftbayes.changes._posterior import TrackSegments, most_likely_to_change
from driftbayes.data._units import readable, readable_unit

_MAX_TRACKS = 20
# Probability above which a track is counted as changing.
_LIKELY = 0.95
_MINUTE, _DAY = 60.0, 86400.0


@summarise.register
def _(result: Segments) -> str:
    n_changed = sum(track.any_change > _LIKELY for track in result.tracks)
    log_k = f"ln K(change:none) = {number(result.log_bayes_factor_change)}"
    if len(result) == 1:
        track = result.tracks[0]
        return f"P(change) = {number(track.any_change, 3)} for track {track.id}; {log_k}"
    tracks = f"{n_changed:,} of {len(result):,} tracks {'changes' if n_changed == 1 else 'change'}"
    return f"{tracks} (P > {_LIKELY:g}); {log_k} for all tracks together"


@describe.register
def describe_segments(result: Segments) -> Card:
    """Describe the verdict, the tracks most likely to change, and their segments."""
    data, priors = result.data, result.hypothesis.priors
    unit = f"1/{data.time_unit}" if data.time_unit else ""
    n_steps = sum(track.n_steps for track in result.tracks)
    facts = [
        ("tau", readable(data.tau, data.time_unit)),
        ("tracks", f"{len(result):,}; {n_steps:,} steps, {data.n_dim}D"),
        ("model", result.hypothesis.name),
        ("priors", ", ".join(f"{k} ~ {p.describe(4)}" for k, p in priors.items())),
        ("rate of changes", f"{amount(result.rate, unit, 4)} (prior)"),
        ("ln Z, changes", number(result.log_evidence, 8)),
        ("ln Z, no change", number(result.log_evidence_no_change, 8)),
        ("fingerprint", data.fingerprint),
    ]
    if result.n_short:
        facts.insert(2, ("too short", f"{result.n_short:,} tracks with fewer than two steps"))
    # The tracks most likely to change, in file order.
    shown = [result.tracks[i] for i in most_likely_to_change(result.tracks, _MAX_TRACKS)]
    tables = (_track_table(result, shown), _segment_table(result, shown))
    coarse = [track for track in result.tracks if track.spacing > 1]
    warnings = []
    if coarse:
        coarsest = max(coarse, key=lambda track: track.spacing)
        count = "1 track is" if len(coarse) == 1 else f"{len(coarse):,} tracks are"
        warnings.append(
            f"{count} too long to consider a change after every step; only every "
            f"{coarsest.spacing}th step of {coarsest.id} is considered"
        )
    return Card("Segments", summarise(result), tuple(facts), (), tables, tuple(warnings))


def _track_table(result: Segments, shown: list[TrackSegments]) -> Table:
    """Tabulate the probability and number of changes of the tracks shown."""
    rows = []
    for track in shown:
        likely = int(np.argmax(track.n_changes))
        any_change, chance = number(track.any_change, 3), number(float(track.n_changes[likely]), 3)
        log_k, steps = f"{track.log_bayes_factor:.2f}", f"{track.n_steps:,}"
        rows.append((track.id, steps, any_change, log_k, str(likely), chance))
    title = "Tracks"
    if len(shown) < len(result):
        title = f"Tracks most likely to change, {len(shown)} of {len(result):,}"
    heads = ("track", "steps", "P(change)", "ln K", "changes", "P(changes)")
    return Table(heads, tuple(rows), "lrrrrr", title=title)


def _segment_table(result: Segments, shown: list[TrackSegments]) -> Table:
    """Tabulate the segments of the tracks shown."""
    shown_time, name = _clock(result, shown)
    rows = []
    known = result.hypothesis.model.parameters
    symbols = [known[p].symbol if p in known else p.replace("flow_", "U_") for p in result.names]
    for track in shown:
        for k, (i, j) in enumerate(pairwise(track.edges)):
            begin, end = (shown_time(track.times[e]) for e in (i, j))
            interval = " … ".join(map(shown_time, track.intervals[k - 1])) if k else "-"
            values = map(with_error, track.mean[k], track.sd[k])
            steps = f"{track.candidates[j] - track.candidates[i]:,}"
            rows.append((track.id, begin, interval, end, steps, *values))
    heads = ["track", with_unit("from", name), "95 % interval", with_unit("to", name), "steps"]
    heads += [with_unit(text, unit) for text, unit in zip(symbols, result.units, strict=True)]
    title = "Segments, with the most probable number of changes of each track"
    return Table(tuple(heads), tuple(rows), "lrrrr" + "r" * len(symbols), title=title, keys=2)


def _clock(result: Segments, shown: list[TrackSegments]) -> tuple[Callable[[float], str], str]:
    """Return a formatter of times and their unit; dates where the time origin is known."""
    tau = result.data.tau
    if result.time_origin is not None and tau >= _MINUTE:
        origin = np.datetime64(result.time_origin, "s")
        unit = "D" if tau >= _DAY else "m"

        def date(value: float) -> str:
            date_time = origin + np.timedelta64(round(float(value)), "s")
            return str(date_time.astype(f"datetime64[{unit}]")).replace("T", " ")

        return date, ""
    span = max(float(track.times[-1] - track.times[0]) for track in shown)
    factor, name = readable_unit([span], result.data.time_unit)
    # Resolve a tenth of a step.
    places = 1 - int(np.floor(np.log10(factor * tau)))
    return lambda value: number(round(factor * float(value), places), 15), name
