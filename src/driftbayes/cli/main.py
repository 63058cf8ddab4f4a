"""The command `driftbayes`."""

__all__ = ["entry_point", "main"]

import argparse
import io
import os
import sys
import warnings
from collections.abc import Sequence
from typing import TextIO

from driftbayes._version import __version__
from driftbayes.cli import (
    check,
    cite,
    compare,
    convert,
    dependence,
    diagnose,
    explore,
    export,
    formats,
    info,
    map,
    models,
    predict,
    qc,
    report,
    reproduce,
    scan,
    score,
    sensitivity,
    simulate,
    turbulence,
)
from driftbayes.errors import DriftbayesError, DriftbayesWarning

_COMMANDS = (
    *(compare, scan, check, dependence, sensitivity, predict, score),
    *(map, simulate, turbulence, diagnose, export, report, explore),
    *(info, qc, convert, formats, models, reproduce, cite),
)


def build_parser() -> argparse.ArgumentParser:
    """The parser with all subcommands."""
    parser = argparse.ArgumentParser(
        prog="driftbayes",
        allow_abbrev=False,
        description=(
            "Which stochastic model of dispersion explains particle trajectories, with which "
            "parameters, at which time scale, and how sure we are."
        ),
    )
    parser.add_argument("--version", action="version", version=f"driftbayes {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in _COMMANDS:
        command.add_parser(subparsers)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is 0, or 2 for a user's slip."""
    args = build_parser().parse_args(arguments)
    warnings.showwarning = _show_warning
    try:
        code = int(args.run(args))
        # Here and not when Python ends, where a reader that left could no longer be forgiven.
        sys.stdout.flush()
        return code
    except DriftbayesError as error:
        print(f"driftbayes: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("driftbayes: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of our output left; what it has is what it wanted.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def entry_point() -> None:
    """Run the command and leave with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that knows no κ shows a question mark in its place, not a traceback.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    sys.exit(main())


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    if issubclass(category, DriftbayesWarning):
        print(f"driftbayes: warning: {message}", file=sys.stderr)
    else:
        text = warnings.formatwarning(message, category, filename, lineno, line)
        print(text, file=file or sys.stderr, end="")
