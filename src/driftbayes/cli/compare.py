"""Compare models at one sampling time."""

import argparse

from driftbayes.cli import _console, _options
from driftbayes.cli._parser import Command, Parser


def _add_arguments(parser: Parser) -> None:
    _options.add_reading(parser)
    _options.add_tau(parser)
    _options.add_data(parser)
    _options.add_inference(parser)
    text = "show ln K for prior scales times 1/4 and 4 (always shown for default priors)"
    parser.add_options(f"--sensitivity  {text}")
    _options.add_json(parser)
    _options.add_streaming(parser)


def _run(args: argparse.Namespace) -> int:
    tau = _options.parse_tau(args.tau)
    tracks, result = _options.analyse(args, "compare", tau, sensitivity=args.sensitivity or None)
    more = {name: value for name, value in tracks.provenance.items() if name == "quality"}
    lines = []
    if result.missing_models:
        more["next"] = _options.offer_models(args, result.missing_models)
        lines = [f"next: {more['next']}"]
    return _console.deliver(result, args, more=more, lines=lines)


COMMANDS = {
    "compare": Command(
        _add_arguments,
        _run,
        (
            "driftbayes compare tracks.csv --tau 0.5",
            "driftbayes compare tracks.csv --tau 0.5 --u-rms 1.4 --timescale 1 --json",
            "driftbayes compare drifters.nc --tau all --models langevin,langevin+noise",
            "driftbayes compare large.parquet --tau 2 --workers 8",
        ),
    )
}
