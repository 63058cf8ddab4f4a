"""List supported file formats."""

__all__ = ["add_arguments", "run"]

import argparse

from driftbayes.cli import _console, _options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    _options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    """List the formats."""
    from driftbayes.io import FORMATS

    if args.json:
        _console.print_json([{"name": f.name, "summary": f.summary} for f in FORMATS])
        return 0
    rows = [[f.name, f.summary] for f in FORMATS]
    _console.print_table(
        "The format is detected automatically; --format NAME overrides",
        ["format", "description"],
        rows,
        left=2,
    )
    return 0
