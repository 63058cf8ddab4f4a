"""Describe forecasts."""

__all__ = ["left_out", "lost_table", "spread_table"]

from driftbayes._representation import Card, Table, describe, number, summarise, with_unit
from driftbayes.data._units import readable, readable_unit
from driftbayes.prediction._forecast import Forecast
from driftbayes.prediction._lost import LostForecast


@summarise.register
def _(made: Forecast) -> str:
    unit = made.data.time_unit
    times = ", ".join(readable(time, unit) for time in made.prediction.horizons)
    models = ", ".join(made.prediction.probabilities)
    return f"{models} after {times}, fit at tau = {readable(made.data.tau, unit)}"


@summarise.register
def _(made: LostForecast) -> str:
    return f"{summarise.dispatch(Forecast)(made)}; {made.lost!r}"


@describe.register
def _(made: Forecast) -> Card:
    headline = summarise.dispatch(Forecast)(made)
    return Card("Forecast", headline, tables=(spread_table(made),), warnings=made.warnings)


@describe.register
def _(made: LostForecast) -> Card:
    headline, more = summarise.dispatch(Forecast)(made), left_out(made)
    tables = (lost_table(made),)
    return Card("LostForecast", headline, (), (more,) * bool(more), tables, made.warnings)


def spread_table(made: Forecast) -> Table:
    """Return the predicted dispersion, one row per time and model."""
    result, tau = made.prediction, made.data.tau
    length, time = made.data.length_unit, made.data.time_unit
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
    title = (
        f"Predicted displacement in {result.n_dim}D after time T, fit at tau = "
        f"{readable(tau, time)}; Var(Δx_i) = 2κT per axis"
    )
    diffusivity = f"{length}²/{time}" if length and time else ""
    columns = (
        *(with_unit("T", time_shown), "model", "probability"),
        *(with_unit("sd", length_shown), "95 % of sd"),
        *(with_unit(name, length_shown) for name in ("median |ΔX|", "97.5 % |ΔX|")),
        *(with_unit("κ = Var/2T", diffusivity), "95 % of κ"),
    )
    return Table(columns, tuple(rows), "llrrrrrrr", title=title, keys=2)


def lost_table(made: LostForecast) -> Table:
    """Return the positions of lost particles, with and without those still observed."""
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
    tau = readable(made.data.tau, time)
    models = ", ".join(f"{name} ({number(p)})" for name, p in made.prediction.probabilities.items())
    title = (
        "Lost particles a time T after their last position, given those still observed, fit at "
        f"tau = {tau}; radii of circles as large as the 50 % and 95 % regions; {models}"
    )
    place = "mean lon, lat (°)" if lonlat is not None else "mean position"
    columns = (
        *("particle", with_unit("T", time_shown), "still observed"),
        place if lonlat is not None else with_unit(place, made.data.length_unit),
        *(with_unit(name, length_shown) for name in ("50 %", "95 %", "95 % alone")),
        "ratio",
    )
    return Table(columns, tuple(rows), "lrrrrrrr", title=title, keys=2)


def left_out(made: LostForecast) -> str:
    """Return a sentence on the lost particles that are not predicted; may be empty."""
    names = ", ".join(made.lost.left_out)
    return f"not predicted, because their last position is isolated: {names}" if names else ""
