"""Predict the dispersion of particles."""

__all__ = ["COMMANDS"]

import argparse
from typing import TYPE_CHECKING

from driftbayes.cli import _console, _jax, _options
from driftbayes.cli._parser import Command, Output, Parser, netcdf, regions
from driftbayes.errors import DriftbayesError

if TYPE_CHECKING:
    from driftbayes.prediction import Forecast, LostForecast, PresenceMap

_MODELS = {None: "brownian,langevin", "others": "brownian+flow,langevin+flow"}


def _add_predict(parser: Parser) -> None:
    _options.add_reading(parser)
    _options.add_tau(parser, required=False)
    parser.add_options("""
--horizon T[,T...]<!>  forecast times, for example 1d,10d
--members N<int=100>  ensemble members per particle, for -o and --regions
--draws N<int=1000>  number of posterior draws
--cell SIDE  cell size for --map and --figure: 0.1deg for longitude and latitude, 10km or a number
    for a plane (default: a hundredth of the longer side of the map)
--space FILE.nc<path>  read diffusivity and flow from this map or field (`driftbayes map -o`, `field
    -o`), and transport the probability of presence; for --map and --figure, without a fit
--space-model MODEL  model of the map of --space (default: the one with the largest evidence)
--given {others}  predict lost particles from those that are still observed
""")
    parser.add_output(
        "-o --output FILE  write an ensemble of future trajectories from the last observed "
        "positions, named particle/member: CSV, Parquet, NetCDF or Zarr",
        Output("trajectories"),
    )
    parser.add_output(
        "--regions FILE.geojson  write the regions that contain each particle with 50 and 95 %% "
        "probability at each time: GeoJSON, or NetCDF (FILE.nc)",
        regions,
    )
    parser.add_output(
        "--map FILE.nc  write the probability of presence in each cell of a grid at each time, as "
        "NetCDF with CF conventions",
        netcdf,
    )
    _options.add_figure(parser, "write a figure of this map with the 50 and 95 %% regions")
    _options.add_data(parser)
    _options.add_inference(parser)
    parser.set_defaults(models=None)
    parser._option_string_actions["--models"].help = (
        f"models to average, see `driftbayes models` (default: {_MODELS[None]}; with --given "
        f"others: {_MODELS['others']})"
    )
    _options.add_json(parser)


def _predict(args: argparse.Namespace) -> int:
    if args.space is not None:
        return _predict_in_space(args)
    if args.tau is None or args.space_model is not None:
        problem = "--space-model is for --space FILE.nc" if args.tau else "predict needs --tau"
        raise DriftbayesError(
            f"{problem}; or read dispersion that varies in space from a file, with --space FILE.nc"
        )
    tau = _options.parse_tau(args.tau)
    horizons = _options.parse_times("--horizon", args.horizon)
    for option, number in (("--members", args.members), ("--draws", args.draws)):
        if number < 1:
            raise DriftbayesError(f"{option} must be 1 or more, got {number}")
    _options.check_seed(args.seed)
    wants_map = args.map is not None or args.figure is not None
    if args.cell is not None and not wants_map:
        raise DriftbayesError("--cell is for a map; give --map FILE.nc or --figure FILE.png too")
    if args.output is None and args.regions is None:
        because = "--members is for -o FILE and --regions FILE"
        _options.refuse(args, "--members", because=because)
    if wants_map and args.given is not None:
        raise DriftbayesError("--map and --figure do not support --given; use --regions")
    args.models = args.models or _MODELS[args.given]
    tracks = _options.read(args)
    _jax.prepare_jax()
    from driftbayes.io import write_trajectories
    from driftbayes.prediction._lost import LostForecast
    from driftbayes.workflow import predict

    with _console.progress_bar() as progress:
        given = {**_options.analysis(args), "n_draws": args.draws, "progress": progress}
        result = predict(tracks, tau, horizons, given=args.given, **given)
    if args.output is not None:
        ensemble = result.particles(args.members)
        written = ensemble.trajectories(
            predicted_from=str(args.file),
            tau=args.tau,
            seed=args.seed,
            models=",".join(ensemble.models),
            data_fingerprint=tracks.fingerprint,
        )
        write_trajectories(written, args.output)
        _console.note(_console.written(args.output, written))
    if args.regions is not None:
        _write_regions(result, args)
    presence = _write_presence(result, args)
    if args.json:
        more = {} if presence is None else {"presence": presence.to_json()}
        _console.print_json(result.to_json() | more)
        return 0
    if isinstance(result, LostForecast):
        _print_lost(result)
    else:
        _print_prediction(result)
    if presence is not None:
        from driftbayes._representation import describe

        _console.print_card(describe(presence))
    for text in result.warnings:
        _console.say(f"warning: {text}")
    return 0


def _predict_in_space(args: argparse.Namespace) -> int:
    """Transport the probability of presence in a map or a field."""
    horizons = _options.parse_times("--horizon", args.horizon)
    unsupported = {"-o": args.output, "--regions": args.regions, "--given": args.given}
    unsupported |= {"--tau": args.tau, "--models": args.models}
    for option, value in unsupported.items():
        if value is not None:
            msg = f"{option} needs a fit, which --space FILE.nc replaces; omit one of them"
            raise DriftbayesError(msg)
    others = ("--members", "--draws", *_options.DATA, *_options.INFERENCE)
    _options.refuse(args, *others, because="--space FILE.nc replaces a fit of models")
    tracks = _options.read(args)
    from driftbayes.workflow import presence

    result = presence(tracks, horizons, args.space, model=args.space_model, cell=args.cell)
    _write_map(result, args)
    _console.print_result(result, as_json=args.json)
    return 0


def _write_presence(result: "Forecast", args: argparse.Namespace) -> "PresenceMap | None":
    """Write the map of presence and its figure, if requested."""
    if args.map is None and args.figure is None:
        return None
    presence = result.presence(args.cell)
    _write_map(presence, args)
    return presence


def _write_map(presence: "PresenceMap", args: argparse.Namespace) -> None:
    """Write a map of presence and its figure."""
    if args.map is not None:
        _console.save_dataset(presence.to_dataset(), args.map, kind="presence")
    if args.figure is not None:
        from driftbayes.plots.presence import presence_figure

        _console.save_figure(presence_figure(presence), args.figure)


def _write_regions(result: "Forecast", args: argparse.Namespace) -> None:
    """Write search regions as GeoJSON or NetCDF."""
    import json

    from driftbayes._storage import atomic_path
    from driftbayes.prediction.regions import REGION_MEMBERS, search_regions

    areas = search_regions(result.particles(max(args.members, REGION_MEMBERS)))
    if args.regions.suffix.lower() == ".nc":
        _console.save_dataset(areas.to_dataset(), args.regions, kind="regions")
        return
    with atomic_path(args.regions) as temporary:
        temporary.write_text(json.dumps(areas.to_geojson()), encoding="utf-8")
    _console.note(f"wrote {args.regions}")


def _print_prediction(made: "Forecast") -> None:
    """Print the predicted dispersion as a table."""
    from driftbayes._representation import number, with_unit
    from driftbayes.data._units import readable, readable_unit

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
                [
                    number(horizon * per_time, 5),
                    name,
                    number(result.probabilities[name]) if name in result.probabilities else "",
                    own,
                    " … ".join(number(edge * per_length) for edge in sd[[0, -1]]),
                    median,
                    largest,
                    number(spread.diffusivity[i]),
                    " … ".join(number(edge) for edge in k[[0, -1]]),
                ]
            )
    title = (
        f"Predicted displacement in {result.n_dim}D after time T, fit at tau = "
        f"{readable(tau, time)}; Var(Δx_i) = 2κT per axis"
    )
    diffusivity = f"{length}²/{time}" if length and time else ""
    columns = [
        *(with_unit("T", time_shown), "model", "probability"),
        *(with_unit("sd", length_shown), "95 % of sd"),
        *(with_unit(name, length_shown) for name in ("median |ΔX|", "97.5 % |ΔX|")),
        *(with_unit("κ = Var/2T", diffusivity), "95 % of κ"),
    ]
    _console.print_table(title, columns, rows, left=2, keys=2)


def _print_lost(made: "LostForecast") -> None:
    """Print the positions of lost particles, with and without those still observed."""
    from driftbayes._representation import number, with_unit
    from driftbayes.data._units import readable, readable_unit

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
                [
                    *(str(name), number(horizon * per_time, 5), str(lost.n_seen[p, i])),
                    ", ".join(number(value, 6) for value in mean),
                    *(number(radius * per_length) for radius in region.radii),
                    number(alone.radii[1] * per_length),
                    number(region.radii[1] / alone.radii[1], 2),
                ]
            )
    tau = readable(made.data.tau, time)
    models = ", ".join(f"{name} ({number(p)})" for name, p in made.prediction.probabilities.items())
    title = (
        "Lost particles a time T after their last position, given those still observed, fit at "
        f"tau = {tau}; radii of circles as large as the 50 % and 95 % regions; {models}"
    )
    place = "mean lon, lat (°)" if lonlat is not None else "mean position"
    columns = [
        *("particle", with_unit("T", time_shown), "still observed"),
        place if lonlat is not None else with_unit(place, made.data.length_unit),
        *(with_unit(name, length_shown) for name in ("50 %", "95 %", "95 % alone")),
        "ratio",
    ]
    _console.print_table(title, columns, rows, left=1, keys=2)
    if lost.left_out:
        names = ", ".join(lost.left_out)
        _console.say(f"not predicted, because their last position is isolated: {names}")


COMMANDS = {
    "predict": Command(
        _add_predict,
        _predict,
        (
            "driftbayes predict tracks.csv --tau 0.5 --horizon 5,10",
            "driftbayes predict tracks.csv --tau 0.5 --horizon 5 --members 50 -o futures.parquet",
            "driftbayes predict tracks.csv --tau 0.5 --horizon 5 --map where.nc --figure where.png",
            "driftbayes predict drifters.nc --tau 6h --horizon 1d,5d --given others",
            "driftbayes predict drifters.nc --horizon 5d --space map.nc --figure where.png",
        ),
    ),
}
