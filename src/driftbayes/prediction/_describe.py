"""Describe forecasts and scores."""

from collections.abc import Sequence
from itertools import combinations
from math import inf, isfinite

from driftbayes._representation import (
    Card,
    Table,
    counted,
    describe,
    number,
    summarise,
    with_error,
    with_unit,
)
from driftbayes.data._units import DIFFUSIVITY, readable, readable_unit, unit_of
from driftbayes.prediction._forecast import Forecast
from driftbayes.prediction._lost import LostForecast
from driftbayes.prediction._scores import Scores
from driftbayes.prediction._tables import LearnedScores, TrajectoryScores


@summarise.register
def _(made: Forecast) -> str:
    unit = made.data.time_unit
    times = ", ".join(readable(horizon, unit) for horizon in made.prediction.horizons)
    models = ", ".join(made.prediction.probabilities)
    return f"{models} after {times}, fit at tau = {readable(made.data.tau, unit)}"


@summarise.register
def _(made: LostForecast) -> str:
    forecast: str = summarise.dispatch(Forecast)(made)
    return f"{forecast}; {made.lost!r}"


@describe.register
def _(made: Forecast) -> Card:
    result, length, time = made.prediction, made.data.length_unit, made.data.time_unit
    per_time, time_shown = readable_unit(result.horizons, time)
    sizes = [size for spread in result.spreads.values() for size in spread.sd]
    per_length, length_shown = readable_unit(sizes, length)
    rows = []
    for i, horizon in enumerate(result.horizons):
        for name, spread in result.spreads.items():
            sd, k = spread.sd_quantiles[i], spread.diffusivity_quantiles[i]
            lengths = [spread.sd[i], *spread.distance_quantiles[i][[2, -1]]]
            own, median, largest = (number(size * per_length) for size in lengths)
            rows.append(
                (
                    number(horizon * per_time, 5),
                    name,
                    number(result.probabilities[name]) if name in result.probabilities else "",
                    own,
                    " … ".join(number(edge * per_length) for edge in sd[[0, -1]]),
                    median,
                    largest,
                    number(spread.diffusivity[i]),
                    " … ".join(number(edge) for edge in k[[0, -1]]),
                )
            )
    columns = (
        *(with_unit("T", time_shown), "model", "probability"),
        *(with_unit("sd", length_shown), "95 % of sd"),
        *(with_unit(name, length_shown) for name in ("median |ΔX|", "97.5 % |ΔX|")),
        *(with_unit("κ = Var/2T", unit_of(DIFFUSIVITY, (length, time))), "95 % of κ"),
    )
    headline = (
        f"displacement in {result.n_dim}D after time T, fit at tau = "
        f"{readable(made.data.tau, time)}; Var(Δx_i) = 2κT per axis"
    )
    table = Table(columns, tuple(rows), "llrrrrrrr", keys=2)
    return Card("Forecast", headline, tables=(table,), warnings=made.warnings)


@describe.register
def _(made: LostForecast) -> Card:
    """Describe positions of lost particles, with and without those still observed."""
    lost, time = made.lost, made.data.time_unit
    horizons = lost.given.horizons[1:]
    per_time, time_shown = readable_unit(horizons, time)
    sizes = [
        size
        for particles in lost.regions.values()
        for regions in particles
        for region in regions
        for size in region.radii
    ]
    per_length, length_shown = readable_unit(sizes, made.data.length_unit)
    lonlat, rows = lost.mean_lonlat, []
    for p, name in enumerate(lost.given.ids):
        for i, horizon in enumerate(horizons):
            region, alone = (lost.regions[key][p][i] for key in ("given", "alone"))
            mean = region.mean if lonlat is None else lonlat[p, i]
            rows.append(
                (
                    *(str(name), number(horizon * per_time, 5), str(lost.n_seen[p, i])),
                    ", ".join(number(value, 6) for value in mean),
                    *(number(radius * per_length) for radius in region.radii),
                    number(alone.radii[1] * per_length),
                    number(region.radii[1] / alone.radii[1], 2),
                )
            )
    models = ", ".join(f"{name} ({number(p)})" for name, p in made.prediction.probabilities.items())
    headline = (
        "lost particles a time T after their last position, given those still observed, fit at "
        f"tau = {readable(made.data.tau, time)}; radii of circles as large as the 50 % and 95 % "
        f"regions; {models}"
    )
    place = "mean lon, lat (°)" if lonlat is not None else "mean position"
    columns = (
        *("particle", with_unit("T", time_shown), "still observed"),
        place if lonlat is not None else with_unit(place, made.data.length_unit),
        *(with_unit(name, length_shown) for name in ("50 %", "95 %", "95 % alone")),
        "ratio",
    )
    left_out = ", ".join(lost.left_out)
    sentences = (f"not predicted, because their last position is isolated: {left_out}",)
    table = Table(columns, tuple(rows), "lrrrrrrr", keys=2)
    shown = sentences if left_out else ()
    return Card("Forecast", headline, (), shown, (table,), made.warnings)


@summarise.register
def _(scores: Scores) -> str:
    return f"at tau = {readable(scores.tau, scores.time_unit)}, {scores.leave_one_out!r}"


@describe.register
def _(scores: Scores) -> Card:
    n, at = len(scores.leave_one_out.counts), readable(scores.tau, scores.time_unit)
    what = counted(n, "trajectory", "trajectories")
    headline = f"log density of {what} at tau = {at}, in nats; larger is better"
    tables = [_whole_table(scores.prequential, scores.leave_one_out)]
    sentences, warnings = [scores.remark], scores.warnings
    if scores.held_out:
        tables.append(_held_out_table(scores.held_out, scores.time_unit))
    if scores.learned is not None:
        learned = describe_learned(scores.learned)
        title = f"{learned.headline[0].upper()}{learned.headline[1:]}"
        tables.append(Table(("", ""), learned.facts, "ll", title=title))
        tables += learned.tables
        sentences, warnings = [*learned.sentences, *sentences], (*learned.warnings, *warnings)
    return Card("Scores", headline, (), tuple(sentences), tuple(tables), warnings)


def _whole_table(step: TrajectoryScores, left: TrajectoryScores) -> Table:
    """Tabulate log densities of whole trajectories, and differences between models."""
    n = len(left.counts)
    rows = []
    for name in left.values:
        mean, error = left.mean(name)
        shown = (with_error(n * mean, n * error), with_error(mean, error))
        rows.append((name, f"{step.total(name):.4f}", *shown))
    for first, second in combinations(left.values, 2):
        mean, error = left.difference(second, first)
        gap = step.total(second) - step.total(first)
        shown = (with_error(n * mean, n * error), with_error(mean, error))
        rows.append((f"{second} − {first}", f"{gap:.4f}", *shown))
    columns = ("model", "sequential (ln Z)", "leave-one-out ± se", "per trajectory")
    return Table(columns, tuple(rows), "lrrr")


def _held_out_table(many: Sequence[TrajectoryScores], time_unit: str) -> Table:
    """Tabulate scores of displacements, each with its difference from the model average."""
    per_time, unit = readable_unit([scores.tau for scores in many], time_unit)
    rows = []
    for scores in many:
        last = list(scores.values)[-1]
        for name in scores.values:
            mean, (gap, error) = scores.mean(name)[0], scores.difference(name, last)
            # A model of probability one differs from the average only by rounding.
            alike = abs(gap) <= 1e-12 * abs(mean)
            versus = "0" if alike else with_error(gap, error)
            best = "larger" if scores.larger_is_better else "smaller"
            at = (number(scores.tau * per_time, 5), scores.rule, name)
            rows.append((*at, with_error(*scores.mean(name)), "" if name == last else versus, best))
    columns = (
        *(with_unit("time", unit), "score", "model", "mean ± se"),
        *("minus average ± se", "better"),
    )
    n = len(many[0].counts)
    title = f"Displacements of {counted(n, 'held-out trajectory', 'held-out trajectories')}"
    return Table(columns, tuple(rows), "lllrrr", title=title)


@describe.register
def describe_learned(result: LearnedScores) -> Card:
    """Describe held-out and sequential scores of all rows."""
    held = result.held_out
    base = result.start
    rows = []
    for name in held.values:
        mean, (gap, error) = held.mean(name), held.difference(name, base)
        versus = "" if name == base else with_error(gap, error)
        total = result.sequential[name]
        shown = f"{total:.1f}" if isfinite(total) else "unknown"
        rows.append((name, shown, with_error(*mean), versus))
    # A model without an evidence has no score, and comes last.
    means = {name: held.mean(name)[0] for name in held.values}
    order = sorted(means, key=lambda name: -means[name] if isfinite(means[name]) else inf)
    best, second = order[:2]
    lead = with_error(*held.difference(best, second))
    n_steps = int(held.counts.sum())
    facts = (
        ("data", f"{len(held.counts):,} trajectories, {n_steps:,} displacements"),
        ("folds", str(result.training["n_folds"])),
        ("blocks", f"{', '.join(map(str, result.blocks))} trajectories in random order"),
        ("first block", f"coded by {base} in learned and tree rows"),
        ("seed", str(result.seed)),
    )
    sentences = (
        f"{best} predicts displacements of other trajectories best, by {lead} nats more than "
        f"{second}.",
        f"{result.training['n_without_previous']:,} displacements have no previous one: there rows "
        "with memory use the density without memory, models that of a first displacement.",
        result.remark,
    )
    table = Table(
        columns=("model", "sequential", "held out, per step", f"minus {base} ± se"),
        rows=tuple(rows),
        sides="lrrr",
        title="Log densities in nats; larger is better",
    )
    headline = f"held-out log density per displacement, best: {best}"
    return Card("Scores of learned densities", headline, facts, sentences, (table,), held.warnings)
