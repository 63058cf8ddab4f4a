"""Forecast observed particles from earlier positions, and score the forecasts."""

import argparse

from driftbayes.cli import _console, _options
from driftbayes.cli._parser import Command, Parser


def _add_arguments(parser: Parser) -> None:
    _options.add_reading(parser)
    _options.add_tau(parser)
    parser.add_options("""
--horizons T[,T...]<!>  lead times, for example 1d,3d
--origins N<int=10>  number of forecast origins, over the last two thirds of the data
--members N<int=50>  members of each forecast
--kappa K  also score a fixed diffusivity, for example 10m2/s, as a simulator would use
--errors {drifters,starts}<=drifters>  errors by bootstrap over drifters, or over origins, for
    drifters that move together
""")
    _options.add_figure(parser, "write a figure of the scores by lead time")
    _options.add_data(parser)
    _options.add_inference(parser)
    _options.add_json(parser)


def _run(args: argparse.Namespace) -> int:
    tau = _options.parse_tau(args.tau)
    horizons = _options.parse_times("--horizons", args.horizons)
    how = {name: getattr(args, name) for name in ("origins", "members", "kappa", "errors")}
    _, result = _options.analyse(args, "backtest", tau, horizons, **how)
    return _console.deliver(result, args)


COMMANDS = {
    "backtest": Command(
        _add_arguments,
        _run,
        (
            "driftbayes backtest drifters.nc --tau 6h --horizons 1d,3d --kappa 100m2/s",
            "driftbayes backtest tracks.csv --tau 0.5 --horizons 1,2,4 --origins 20 --json",
        ),
    )
}
