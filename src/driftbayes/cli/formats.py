"""The formats that files of trajectories are read in."""

__all__ = ["add_parser", "run"]

import argparse

from driftbayes.cli import _console, _options


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser."""
    parser = subparsers.add_parser("formats", help=__doc__, description=__doc__, allow_abbrev=False)
    _options.add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """List them."""
    from driftbayes.io import FORMATS

    if args.json:
        _console.print_json([{"name": one.name, "summary": one.summary} for one in FORMATS])
        return 0
    rows = [[one.name, one.summary] for one in FORMATS]
    _console.print_table("found by content, or by --format NAME", ["format", ""], rows, left=2)
    return 0
