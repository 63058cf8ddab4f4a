"""Compare models at one sampling time."""

import argparse
from typing import Any

from driftbayes.cli import _console, _jax, _options
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
    with _console.progress_bar() as progress:
        tracks = _options.read_large(args, progress)
        _jax.prepare_jax()
        from driftbayes.workflow import compare

        with _console.timed(f"evidence of {args.models}"):
            wanted: dict[str, Any] = {"sensitivity": args.sensitivity or None, "progress": progress}
            result = compare(tracks, tau, **wanted, **_options.analysis(args))
    _options.note_blocks(args, tracks)
    models = result.missing_models
    command = _options.offer_models(args, models) if models else ""
    if args.json:
        more = {k: v for k, v in tracks.provenance.items() if k == "quality"}
        _console.print_json({**result.to_json(), **more, **({"next": command} if command else {})})
        return 0
    from driftbayes._representation import describe

    _console.print_card(describe(result))
    if command:
        _console.say(f"next: {command}")
    return 0


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
