"""Test whether dispersion varies in space, and map it by evidence or on a fixed grid."""

import argparse
from typing import Any

from driftbayes.cli import _console, _jax, _options
from driftbayes.cli._parser import Command, Parser
from driftbayes.errors import DriftbayesError


def _add_arguments(parser: Parser) -> None:
    _options.add_reading(parser)
    parser.add_options("""
--taus T[,T...]<!>  sampling time, for example 1d; with --cell also several; 'all' for irregular
    times
--depth N<int>  divide the region into four at most N times (default: as the data allow)
--split P<float=0.5>  prior probability that a cell is divided
--cell SIDE  use a fixed grid instead, with cells of this size: 5deg for longitude and latitude,
    50km or a number for a plane
--n-tau N<int>  steps per run (default: whole trajectories; with --cell 10)
--seasons  map DJF, MAM, JJA and SON separately; with --cell
--min-windows N<int>  minimum number of windows in a cell (default: 20); with --cell
""")
    _options.add_inference(parser, weighs_models=False)
    parser.set_defaults(models="brownian+mean,langevin+mean")
    parser.add_old_names("--taus", "--tau")
    _options.add_netcdf(parser, "write the map as NetCDF with CF conventions")
    _options.add_figure(parser, "write a figure of the map at the first sampling time")
    _options.add_json(parser)


def _run(args: argparse.Namespace) -> int:
    taus = args.taus if args.taus == "all" else _options.parse_times("--taus", args.taus)
    given = _options.analysis(args)
    how: dict[str, Any] = {name: given[name] for name in ("models", "priors", "scales")}
    if args.cell is None:
        if args.seasons or args.min_windows is not None:
            option = "--seasons" if args.seasons else "--min-windows"
            msg = f"{option} is for a fixed grid; give --cell too, or omit {option}"
            raise DriftbayesError(msg)
        because = "a map by evidence is integrated exactly"
        _options.refuse(args, "--method", "--coords", "--seed", because=because)
        how |= {"depth": args.depth, "split": args.split, "n_tau": args.n_tau}
    else:
        if args.json:
            msg = "a fixed grid has no evidence to print as JSON; write it with -o, or omit --cell"
            raise DriftbayesError(msg)
        because = "a fixed grid (--cell) is not divided"
        _options.refuse(args, "--depth", "--split", because=because)
        fixed = {"n_tau": args.n_tau, "min_windows": args.min_windows}
        how |= {name: number for name, number in fixed.items() if number is not None}
        how |= {name: given[name] for name in ("method", "seed")}
        how |= {"seasons": args.seasons, "cell": args.cell}
    tracks = _options.read(args)
    _jax.prepare_jax()
    from driftbayes import workflow

    with _console.progress_bar() as progress:
        result: Any = workflow.map(tracks, taus, progress=progress, **how)
    if args.cell is None:
        return _console.deliver(result, args)
    if args.output is not None:
        _console.save_dataset(result, args.output, kind="map")
    if args.figure is not None:
        from driftbayes.plots.map import map_figure

        _console.save_figure(map_figure(result), args.figure)
    from driftbayes.comparison.regions import describe_cells

    _console.print_card(describe_cells(result))
    return 0


COMMANDS = {
    "map": Command(
        _add_arguments,
        _run,
        (
            "driftbayes map drifters.nc --taus 1d -o map.nc --figure map.png",
            "driftbayes map drifters.nc --taus 8d --models langevin+mean --json",
            "driftbayes map drifters.nc --cell 5deg --taus 6h,1d --seasons -o grid.nc",
        ),
    )
}
