"""Predict the dispersion of particles."""

import argparse
from typing import TYPE_CHECKING

from driftbayes.cli import _console, _options
from driftbayes.cli._parser import Command, Output, Parser, netcdf, regions
from driftbayes.errors import DriftbayesError

if TYPE_CHECKING:
    from driftbayes.prediction import Forecast, PresenceMap

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
    wants_map = args.map is not None or args.figure is not None
    if args.cell is not None and not wants_map:
        raise DriftbayesError("--cell is for a map; give --map FILE.nc or --figure FILE.png too")
    if args.output is None and args.regions is None and not wants_map:
        because = "--members is for -o FILE and --regions FILE"
        _options.refuse(args, "--members", because=because)
    if wants_map and args.given is not None:
        raise DriftbayesError("--map and --figure do not support --given; use --regions")
    args.models = args.models or _MODELS[args.given]
    how = {"given": args.given, "n_draws": args.draws}
    tracks, result = _options.analyse(args, "predict", tau, horizons, **how)
    if args.output is not None:
        from driftbayes.io import write_trajectories

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
    _console.print_result(result)
    if presence is not None:
        _console.print_result(presence)
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
    if args.map is not None:
        _console.save(result, args.map)
    return _console.deliver(result, args)


def _write_presence(result: "Forecast", args: argparse.Namespace) -> "PresenceMap | None":
    """Write the map of presence and its figure, if requested."""
    if args.map is None and args.figure is None:
        return None
    presence = result.presence(args.cell)
    if args.map is not None:
        _console.save(presence, args.map)
    if args.figure is not None:
        _console.save_figure(presence.plot(), args.figure)
    return presence


def _write_regions(result: "Forecast", args: argparse.Namespace) -> None:
    """Write search regions as GeoJSON or NetCDF."""
    import json

    from driftbayes._storage import atomic_path
    from driftbayes.prediction.regions import REGION_MEMBERS, search_regions

    areas = search_regions(result.particles(max(args.members, REGION_MEMBERS)))
    if args.regions.suffix.lower() == ".nc":
        _console.save(areas, args.regions)
        return
    with atomic_path(args.regions) as temporary:
        temporary.write_text(json.dumps(areas.to_geojson()), encoding="utf-8")
    _console.note(f"wrote {args.regions}")


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
