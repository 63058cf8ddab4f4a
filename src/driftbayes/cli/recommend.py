"""Recommend a diffusivity or random flight for a horizon."""

import argparse

from driftbayes.cli import _console, _options
from driftbayes.cli._parser import Command, Parser


def _add_arguments(parser: Parser) -> None:
    _options.add_reading(parser)
    _options.add_tau(parser)
    parser.add_options("""
--horizon T[,T...]<!>  lead times, for example 1d,10d
--kappa K  also evaluate this diffusivity, for example 100m2/s
--arrival SHAPE:DISTANCE  also compare the probability of first arrival at a straight line
    (line:30km) or at a distance from the start (circle:30km)
--draws N<int=1000>  number of posterior draws
""")
    _options.add_data(parser)
    _options.add_inference(parser)
    _options.add_json(parser)


def _run(args: argparse.Namespace) -> int:
    tau = _options.parse_tau(args.tau)
    horizons = _options.parse_times("--horizon", args.horizon)
    how = {"kappa": args.kappa, "arrival": args.arrival, "n_draws": args.draws}
    _, result = _options.analyse(args, "recommend", tau, horizons, **how)
    return _console.deliver(result, args)


COMMANDS = {
    "recommend": Command(
        _add_arguments,
        _run,
        (
            "driftbayes recommend drifters.nc --tau 6h --horizon 1d,10d --kappa 100m2/s",
            "driftbayes recommend drifters.nc --tau 6h --horizon 3d --arrival line:30km",
            "driftbayes recommend tracks.csv --tau 0.5 --horizon 5 --json",
        ),
    )
}
