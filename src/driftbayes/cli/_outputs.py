"""Define the options that name output files; check them before anything is computed."""

__all__ = ["Output", "add_output", "announce", "figure", "netcdf", "trajectories"]

import argparse
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from driftbayes.errors import DriftbayesError

if TYPE_CHECKING:
    from driftbayes.storage import Outputs

# Paths that are neither read nor overwritten: directories for temporary files.
_NEITHER = {"scratch"}


@dataclass(frozen=True)
class Output:
    """Kind of an output.

    Args:
        kind: A file; trajectories, in a file or a Zarr store; a directory that the command fills;
            or a directory of a run that it resumes.
        suffixes: Allowed file suffixes in lower case; any if empty.
        what: Beginning of the message on a wrong suffix: "a report is an HTML file".
        companions: Files written beside it.
        is_ours: Whether an existing companion was written by driftbayes.
        default: Path if the option is not given.
        check: Raises `DriftbayesError` if a directory may not be filled.
    """

    kind: Literal["file", "trajectories", "folder", "continued"] = "file"
    suffixes: tuple[str, ...] = ()
    what: str = ""
    companions: Callable[[Path], Iterable[Path]] | None = None
    is_ours: Callable[[Path], bool] | None = None
    default: Callable[[argparse.Namespace], Path | None] | None = None
    check: Callable[[Path, argparse.Namespace], None] | None = None


netcdf = Output(suffixes=(".nc",), what="results are NetCDF files")
figure = Output(suffixes=(".png", ".pdf", ".svg"), what="a figure is a PNG, PDF or SVG file")
trajectories = Output("trajectories")


def add_output(
    parser: argparse.ArgumentParser,
    *flags: str,
    output: Output,
    overwrite: bool = True,
    **options: Any,
) -> None:
    """Add an argument that names an output.

    Args:
        parser: Parser of the command.
        *flags: As for `add_argument`.
        output: Kind of the output.
        overwrite: Whether to add the option --overwrite.
        **options: As for `add_argument`.
    """
    action = parser.add_argument(*flags, type=Path, **options)
    written = _written(parser)
    written[action.dest] = output
    if overwrite and "--overwrite" not in parser._option_string_actions:
        parser.add_argument(
            "--overwrite",
            action="store_true",
            help="replace existing output files (never an input file)",
        )


def announce(args: argparse.Namespace) -> "Outputs":
    """Check the outputs of a command against its inputs.

    Args:
        args: Parsed arguments; `args.parser` is the parser of the command.

    Raises:
        DriftbayesError: If an output may not or cannot be written.
    """
    from driftbayes.storage import Outputs

    written = _written(args.parser)
    reads = getattr(args, "reads", _reads)
    outputs = Outputs(reads=reads(args), overwrite=getattr(args, "overwrite", False))
    for dest, output in written.items():
        path = getattr(args, dest)
        if path is None and output.default is not None:
            path = output.default(args)
        if path is not None:
            _add(outputs, path, output, args)
    return outputs


def _add(outputs: "Outputs", path: Path, output: Output, args: argparse.Namespace) -> None:
    if output.suffixes and not path.name.lower().endswith(output.suffixes):
        *others, last = output.suffixes
        ends = f"{', '.join(others)} or {last}" if others else last
        msg = f"{output.what}: expected a name ending in {ends}, got {path.name!r}"
        raise DriftbayesError(msg)
    if output.kind == "folder":
        check = output.check
        outputs.add_folder(path, check=None if check is None else lambda found: check(found, args))
    elif output.kind == "continued":
        outputs.add_folder(path, continues=True)
    elif output.kind == "trajectories":
        _add_trajectories(outputs, path)
    else:
        outputs.add_file(path)
    if output.companions is not None:
        for companion in output.companions(path):
            outputs.add_file(companion, is_ours=output.is_ours)


def _add_trajectories(outputs: "Outputs", path: Path) -> None:
    from driftbayes.io import written_suffix, zarr_store
    from driftbayes.io.reading import require

    if written_suffix(path) == ".zarr":
        require("Zarr stores", "zarr", "xarray")
        outputs.add_store(path, is_ours=zarr_store.is_own_store)
    else:
        outputs.add_file(path)


def _reads(args: argparse.Namespace) -> list[Path]:
    """Return all paths among the arguments that are not outputs."""
    written = _written(args.parser)
    return [
        path
        for action in args.parser._actions
        if action.dest not in written and action.dest not in _NEITHER
        for value in [getattr(args, action.dest, None)]
        for path in (value if isinstance(value, list) else [value])
        if isinstance(path, Path)
    ]


def _written(parser: argparse.ArgumentParser) -> dict[str, Output]:
    from driftbayes.cli._parser import Parser

    if not isinstance(parser, Parser):
        msg = f"outputs belong to a command, got a {type(parser).__name__}"
        raise TypeError(msg)
    return parser.written
