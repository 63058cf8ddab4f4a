"""Write example data."""

import argparse
from pathlib import Path

from driftbayes.cli import _console, _jax
from driftbayes.cli._parser import Command, Output, Parser
from driftbayes.errors import DriftbayesError

# File of each example, repeated here so that --help need not import them; a test compares them.
FILES = {
    "parcels": "parcels.parquet",
    "drifters": "drifters.csv",
    "buoys": "buoys.csv",
    "particles": "particles.csv",
    "animal": "animal.csv",
}


def _add_arguments(parser: Parser) -> None:
    parser.add_argument(
        "name",
        nargs="?",
        choices=tuple(FILES),
        metavar="NAME",
        help=f"one of {', '.join(FILES)} (default: list them)",
    )
    parser.add_output(
        "-o --output FILE  output file (default: the name of the example, in the working "
        "directory)",
        Output(
            suffixes=(".csv", ".parquet"),
            what="an example is a CSV or Parquet file",
            default=lambda args: Path(FILES[args.name]) if args.name else None,
        ),
    )


def _run(args: argparse.Namespace) -> int:
    if args.name is None and args.output is not None:
        msg = f"-o needs the name of an example: one of {', '.join(FILES)}"
        raise DriftbayesError(msg)
    _jax.prepare_jax()
    from driftbayes.workflow._examples import EXAMPLES, write_example

    if args.name is None:
        rows = [[name, example.summary] for name, example in EXAMPLES.items()]
        _console.print_table("synthetic data", ["name", "content"], rows, left=2)
        _console.say("Write one with: driftbayes example NAME")
        return 0
    path = write_example(args.name, args.output)
    example = EXAMPLES[args.name]
    _console.note(f"wrote {path}")
    _console.say(f"{example.summary}; synthetic, truth: {example.truth}")
    _console.say(f"next: driftbayes info {path}")
    return 0


COMMANDS = {
    "example": Command(
        _add_arguments,
        _run,
        ("driftbayes example", "driftbayes example drifters"),
        "The data are synthetic: they are simulated from fixed seeds, with known parameters.",
    )
}
