"""Find where each track changes."""

import argparse

from driftbayes.cli import _console, _options
from driftbayes.cli._parser import Command, Output, Parser

_TABLE = Output(suffixes=(".nc", ".csv"), what="segments are written as NetCDF or CSV")


def _add_arguments(parser: Parser) -> None:
    _options.add_reading(parser)
    _options.add_tau(parser)
    parser.add_options("""
--model NAME<=brownian>  what changes: brownian (diffusivity), brownian+mean (diffusivity and mean
    velocity) or langevin (memory and diffusivity)
--rate RATE  expected changes per time, for example 0.5/s (default: a track of mean duration
    changes with probability 1/2)
--prior PARAM=FAMILY:NUMBERS<list>  prior of a parameter of each segment, for example
    kappa=exponential:2; may be repeated
""")
    parser.add_options(_options.SCALES)
    text = "write all numbers as NetCDF, or the segments as CSV"
    parser.add_output(f"-o --output FILE.nc  {text}", _TABLE)
    _options.add_figure(parser, "write a figure of the tracks most likely to change")
    _options.add_json(parser)


def _run(args: argparse.Namespace) -> int:
    tau = _options.parse_tau(args.tau)
    _, result = _options.analyse(args, "segments", tau, model=args.model, rate=args.rate)
    return _console.deliver(result, args)


COMMANDS = {
    "segments": Command(
        _add_arguments,
        _run,
        (
            "driftbayes segments tracks.csv --tau 0.1",
            "driftbayes segments spots.csv --tau 10ms --noise 0.03um --figure changes.png",
            "driftbayes segments animal.csv --tau all --model brownian+mean -o segments.csv",
        ),
    )
}
