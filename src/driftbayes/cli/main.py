"""Run the command `driftbayes`."""

import argparse
import errno
import io
import math
import os
import platform
import shlex
import shutil
import sys
import textwrap
import traceback
import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import TextIO

from driftbayes._version import __version__
from driftbayes.cli import _console, _jax, _options
from driftbayes.cli._parser import Commands, Parser, announce
from driftbayes.errors import (
    OUT_OF_MEMORY,
    ColumnsError,
    DriftbayesError,
    DriftbayesWarning,
    is_out_of_memory,
)

# Module and summary of each command, in the order of the overview.
_COMMANDS: dict[str, dict[str, tuple[str, str]]] = {
    "inspect data": {
        "info": ("data", "Describe a file of trajectories and suggest sampling times."),
        "qc": ("data", "Report data-quality problems without changing the data."),
        "diagnose": (
            "data",
            "Estimate velocity autocovariance, diffusivity and kurtosis without a model.",
        ),
        "dependence": (
            "data",
            "Estimate the effective number of independent particles, and the corrected ln K.",
        ),
        "convert": ("data", "Convert trajectories to CSV, Parquet, NetCDF or Zarr."),
        "formats": ("about", "List supported file formats."),
    },
    "compare models": {
        "compare": ("compare", "Compare models at one sampling time."),
        "scan": ("scan", "Compare models over a range of sampling times."),
        "check": ("check", "Test the goodness of fit of each model with simulated replicas."),
        "sensitivity": ("check", "Compute the sensitivity of the verdict to the priors."),
        "pairs": ("pairs", "Compare laws of relative dispersion for pairs of particles."),
        "field": ("field", "Fit smooth fields of diffusivity and flow, with evidence for them."),
        "segments": ("segments", "Find where each track changes, with probabilities."),
        "score": ("score", "Score predictions of models, or ensembles of a simulator."),
        "backtest": (
            "backtest",
            "Forecast observed particles from earlier positions, and score the forecasts.",
        ),
        "map": ("map", "Test whether dispersion varies in space, and map it."),
        "models": ("about", "List models with their parameters, units and limits."),
        "explore": (
            "explore",
            "Explore files, models and priors interactively in a local web page.",
        ),
    },
    "use results": {
        "report": ("report", "Write a self-contained HTML report from trajectories or a scan."),
        "predict": (
            "predict",
            "Predict the dispersion of particles under each model and their average.",
        ),
        "recommend": (
            "recommend",
            "Recommend a diffusivity or random flight for a horizon, with the loss of others.",
        ),
        "export": (
            "report",
            "Export a scan, map or field for Parcels, OpenDrift or other simulators.",
        ),
    },
    "simulate data": {
        "example": ("example", "Write a small synthetic data set to start with."),
        "simulate": ("simulate", "Simulate trajectories of a model exactly."),
        "turbulence": (
            "turbulence",
            "Simulate particles in forced two-dimensional turbulence: run, resume, render a movie.",
        ),
    },
    "reproduce, cite, set up": {
        "reproduce": ("reproduce", "Reproduce the experiments, figures and numbers of the paper."),
        "cite": ("about", "Print BibTeX entries for the method and this software."),
        "completion": ("about", "Print a completion script for bash, zsh or fish."),
    },
}
_SUMMARY = (
    "Bayesian comparison of stochastic models of particle dispersion: which model explains "
    "trajectories, with which parameters, at which sampling time, and with what certainty."
)
_FIRST_STEPS = (
    "driftbayes example drifters                    # write a file to start with",
    "driftbayes info tracks.csv                     # describe a file",
    "driftbayes compare tracks.csv --tau 0.5        # compare at one sampling time",
    "driftbayes report tracks.csv                   # write a full report",
    "driftbayes compare --help                      # show options and examples",
)
_WIDTH, _INDENT = 80, 15
# Packages that a result may depend on, listed with --verbose.
_PACKAGES = ("jax", "jaxlib", "numpy", "scipy", "equinox", "xarray")
# Errors of a full disk, to which stdout may be directed.
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}


def build_parser() -> Parser:
    """Build the parser of the program; parsers of commands are built on first use."""
    parser = Parser(
        prog="driftbayes",
        usage="driftbayes COMMAND ...",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=_overview(),
        examples=_FIRST_STEPS,
    )
    parser.set_defaults(verbosity=0, program=parser)
    parser.add_argument("--version", action="version", version=f"driftbayes {__version__}")
    # The overview lists the commands in groups, which argparse cannot do.
    action = parser.add_subparsers(
        dest="command", metavar="COMMAND", required=True, help=argparse.SUPPRESS, prog="driftbayes"
    )
    table = {name: entry for group in _COMMANDS.values() for name, entry in group.items()}
    action.choices = action._name_parser_map = Commands(table)
    for name, (_, summary) in table.items():
        # Names and summaries for completion.
        action._choices_actions.append(action._ChoicesPseudoAction(name, (), summary))
    return parser


def _overview() -> str:
    """Return the purpose of the program and its commands."""
    width = min(_WIDTH, shutil.get_terminal_size().columns)
    lines = textwrap.wrap(_SUMMARY, width)
    for heading, group in _COMMANDS.items():
        lines += ["", f"{heading}:"]
        for name, (_, summary) in group.items():
            about = textwrap.wrap(summary, width - _INDENT)
            lines.append(f"  {name:{_INDENT - 2}}{about[0]}")
            lines += [" " * _INDENT + more for more in about[1:]]
    return "\n".join(lines)


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
    _console.set_verbosity(args.verbosity, bars=not getattr(args, "json", False))
    if _console.is_verbose():
        _console.detail(_versions())
    try:
        _check_numbers(args)
        with announce(args).enforced(), warnings.catch_warnings():
            warnings.simplefilter("always", DriftbayesWarning)
            warnings.showwarning = _show_warning
            args.words = given
            with _options.file_models(args):
                code = int(args.run(args))
        _jax.report_compilation()
        _console.detail("done")
        # Flush here, because a closed pipe can no longer be caught at exit.
        sys.stdout.flush()
        return code
    except DriftbayesError as error:
        if _console.is_verbose():
            traceback.print_exc()
        _console.complain(f"driftbayes: {error}")
        if isinstance(error, ColumnsError):
            others = _options.without(given, "--columns")
            words = ["driftbayes", *others, "--columns", error.option]
            _console.complain(f"next: {shlex.join(words)}")
        return 2
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        _console.complain(f"driftbayes: {OUT_OF_MEMORY}")
        return 2
    except KeyboardInterrupt:
        print("driftbayes: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of our output, for example head, has closed the pipe.
        _discard_output()
        return 0
    except OSError as error:
        # Errors of files have a name, and are reported where they are written.
        if error.errno not in _FULL or error.filename is not None:
            raise
        _discard_output()
        reason = os.strerror(error.errno).lower()
        _console.complain(f"driftbayes: cannot write the output: {reason}; free some space")
        return 2


def _discard_output() -> None:
    """Discard what is still to be written to stdout, which would fail again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _check_numbers(args: argparse.Namespace) -> None:
    """Raise an error for numbers in options that would overflow in computations."""
    from driftbayes._magnitudes import checked, checked_count

    for name, value in vars(args).items():
        option = f"--{name.replace('_', '-')}"
        # Commands check inf and nan themselves.
        if isinstance(value, float) and math.isfinite(value):
            checked(value, option)
        elif isinstance(value, int) and name != "seed":
            checked_count(value, option)


def entry_point() -> None:
    """Run the command and exit with its code."""
    for name in ("stdout", "stderr"):
        # A stream closed by the shell (>&-).
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show κ prints a question mark instead of a traceback.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    sys.exit(main())


def _versions() -> str:
    """List the versions of the installed packages in one line, without importing them."""
    from importlib import metadata

    packages = []
    for name in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            packages.append(f"{name} {metadata.version(name)}")
    python = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    return ", ".join([f"driftbayes {__version__}", python, *packages])


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    if issubclass(category, DriftbayesWarning):
        _console.complain(f"warning: {message}")
    else:
        text = warnings.formatwarning(message, category, filename, lineno, line)
        print(text, file=file or sys.stderr, end="")
