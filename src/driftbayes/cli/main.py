"""Run the command `driftbayes`."""

__all__ = ["entry_point", "main"]

import argparse
import io
import math
import os
import platform
import sys
import traceback
import warnings
from collections.abc import Sequence
from contextlib import suppress
from types import ModuleType
from typing import TextIO

from driftbayes._version import __version__
from driftbayes.cli import (
    _console,
    _jax,
    _outputs,
    _overview,
    check,
    cite,
    compare,
    completion,
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
from driftbayes.cli._parser import Parser
from driftbayes.errors import (
    OUT_OF_MEMORY,
    DriftbayesError,
    DriftbayesWarning,
    is_out_of_memory,
)

# In the order of the overview. A command has the name of its module; the docstring is its summary.
_COMMANDS: dict[str, tuple[ModuleType, ...]] = {
    "inspect data": (info, qc, diagnose, dependence, convert, formats),
    "compare models": (compare, scan, check, sensitivity, score, map, models, explore),
    "use results": (report, predict, export),
    "simulate data": (simulate, turbulence),
    "reproduce, cite, set up": (reproduce, cite, completion),
}
# Packages that a result may depend on, listed with --verbose.
_PACKAGES = ("jax", "jaxlib", "numpy", "scipy", "equinox", "xarray")


def build_parser() -> argparse.ArgumentParser:
    """Build the parser with all commands."""
    parser = Parser(
        prog="driftbayes",
        usage="driftbayes COMMAND ...",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=_overview.text(_COMMANDS),
        examples=_overview.FIRST_STEPS,
    )
    parser.set_defaults(verbosity=0)
    parser.add_argument("--version", action="version", version=f"driftbayes {__version__}")
    # The overview lists the commands in groups, which argparse cannot.
    subparsers = parser.add_subparsers(
        dest="command", metavar="COMMAND", required=True, help=argparse.SUPPRESS, prog="driftbayes"
    )
    for group in _COMMANDS.values():
        for command in group:
            _add_command(subparsers, command)
    return parser


def _add_command(subparsers: "argparse._SubParsersAction[Parser]", command: ModuleType) -> None:
    """Add the parser of a command, from its module.

    Args:
        subparsers: Of the program.
        command: Has `add_arguments`, `run` unless it has subcommands, and may have `EXAMPLES`, and
            `DETAILS` that follow the summary in its help.
    """
    parser = subparsers.add_parser(
        command.__name__.rpartition(".")[2],
        help=command.__doc__,
        description=f"{command.__doc__} {getattr(command, 'DETAILS', '')}".strip(),
        examples=getattr(command, "EXAMPLES", ()),
    )
    parser.set_defaults(run=getattr(command, "run", None))
    command.add_arguments(parser)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is 0, or 2 after a user error."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    parser = build_parser()
    if not given:
        parser.print_help()
        return 0
    args, unknown = parser.parse_known_args(given)
    if unknown:
        args.parser.error_unknown(unknown)
    _console.set_verbosity(args.verbosity)
    if _console.is_verbose():
        _console.detail(_versions())
    try:
        _check_numbers(args)
        with _outputs.announce(args).enforced(), warnings.catch_warnings():
            warnings.simplefilter("always", DriftbayesWarning)
            warnings.showwarning = _show_warning
            code = int(args.run(args))
        _jax.report_compilation()
        _console.detail("done")
        # Flush here: at exit, a closed pipe could no longer be caught.
        sys.stdout.flush()
        return code
    except DriftbayesError as error:
        if _console.is_verbose():
            traceback.print_exc()
        print(f"driftbayes: {error}", file=sys.stderr)
        return 2
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        print(f"driftbayes: {OUT_OF_MEMORY}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("driftbayes: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of our output, such as head, has closed the pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _check_numbers(args: argparse.Namespace) -> None:
    """Raise an error for numbers with which a computation would overflow, in any option."""
    from driftbayes.magnitudes import checked, checked_count

    for name, value in vars(args).items():
        option = f"--{name.replace('_', '-')}"
        # Commands check inf and nan themselves.
        if isinstance(value, float) and math.isfinite(value):
            checked(value, option)
        elif isinstance(value, int) and name != "seed":
            checked_count(value, option)


def entry_point() -> None:
    """Run the command and exit with its code."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal without κ shows a question mark in its place, not a traceback.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    sys.exit(main())


def _versions() -> str:
    """List the versions of the installed packages in one line, without importing them."""
    from importlib import metadata

    found = []
    for name in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            found.append(f"{name} {metadata.version(name)}")
    python = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    return ", ".join([f"driftbayes {__version__}", python, *found])


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    if issubclass(category, DriftbayesWarning):
        print(f"warning: {message}", file=sys.stderr)
    else:
        text = warnings.formatwarning(message, category, filename, lineno, line)
        print(text, file=file or sys.stderr, end="")
