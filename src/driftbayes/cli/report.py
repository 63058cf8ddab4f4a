"""One HTML file to read and to send on, from a scan."""

__all__ = ["add_parser", "run"]

import argparse
from pathlib import Path

from driftbayes.cli import _console


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser."""
    parser = subparsers.add_parser("report", help=__doc__, description=__doc__, allow_abbrev=False)
    parser.add_argument("scan", type=Path, help="result of `driftbayes scan -o FILE.nc`")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE.html", help="write here"
    )
    parser.add_argument("--title", help="of the page")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Read, build, write."""
    from driftbayes.io import read_scan
    from driftbayes.report import write_report

    for path in write_report(read_scan(args.scan), args.output, title=args.title):
        _console.note(f"wrote {path}")
    return 0
