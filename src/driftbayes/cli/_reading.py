"""Define the options for reading a file, and read it."""

__all__ = [
    "add_reading",
    "given_reading",
    "preparing",
    "read",
    "read_unchecked",
    "reading",
    "reading_value",
]

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from driftbayes.cli import _console
from driftbayes.cli._options import numbers
from driftbayes.errors import DriftbayesError

if TYPE_CHECKING:
    from driftbayes.data.trajectories import Trajectories

# Options of `add_reading`, in the order in which a command line is written.
READING = (
    *("format", "columns", "missing", "coordinates", "frame", "pixel_size", "frame_interval"),
    *("length_unit", "time_unit", "units", "period", "drop_short", "noise", "qc"),
)


def add_reading(parser: argparse.ArgumentParser, *, needs_file: bool = True) -> None:
    """Add the file and the options for reading it."""
    parser.add_argument(
        "file",
        type=Path,
        nargs=None if needs_file else "?",
        help="trajectories; the format is detected automatically, see `driftbayes formats`",
    )
    group = parser.add_argument_group("reading")
    group.add_argument(
        "--format",
        metavar="NAME",
        help="file format, see `driftbayes formats` (default: detected automatically)",
    )
    group.add_argument(
        "--columns",
        metavar="NAME=COLUMN,...",
        help="column names of id, time, x, y, z, sd, or lon and lat; an empty name is ignored",
    )
    group.add_argument(
        "--missing",
        metavar="NUMBER,...",
        help="values that mark missing data, for example -999; 'none' if every number is valid "
        "(default: as declared in the file)",
    )
    group.add_argument(
        "--coordinates",
        choices=("degrees", "plane"),
        help="longitude and latitude, to be projected on a plane in metres, or plane coordinates",
    )
    group.add_argument(
        "--frame",
        choices=("auto", "local", "transported"),
        default="auto",
        help="axes for longitude and latitude: local east and north, or parallel transport along "
        "the path, for example near a pole (default: auto)",
    )
    group.add_argument("--pixel-size", metavar="SIZE", help="pixel size, for example 0.16um")
    group.add_argument(
        "--frame-interval", metavar="TIME", help="frame interval, for example 7.48ms"
    )
    group.add_argument("--length-unit", help="unit of positions, printed with results")
    group.add_argument("--time-unit", help="unit of times, printed with results")
    group.add_argument(
        "--units",
        metavar="LENGTH,TIME",
        help="convert positions and times to these units, for example km,d; --period, --noise and "
        "--tau are in the new units; an empty unit is not converted",
    )
    group.add_argument(
        "--period",
        metavar="L[,L...]",
        help="period of the domain, one for all axes or one per axis ('-': not periodic)",
    )
    group.add_argument(
        "--drop-short", action="store_true", help="omit trajectories with fewer than two positions"
    )
    group.add_argument(
        "--noise",
        type=float,
        metavar="SD",
        help="standard deviation of the measurement error of positions",
    )
    group.add_argument(
        "--qc",
        metavar="CHECK[=LIMIT],...",
        help="repair the data: default, or for example spikes=3m/s,stuck=6h,drogued,min-points=20; "
        "without it findings are reported, not changed, see `driftbayes qc`",
    )


def read(args: argparse.Namespace) -> "Trajectories":
    """Read the trajectories; repair them if --qc is given."""
    from driftbayes import quality
    from driftbayes.workflow.reading import check_quality

    tracks = check_quality(read_unchecked(args), args.qc)
    for done in quality.applied(tracks) if args.qc is not None else ():
        _console.note(f"qc: {done}")
    return tracks


def read_unchecked(args: argparse.Namespace) -> "Trajectories":
    """Read the trajectories without quality checks."""
    from driftbayes.workflow.reading import load, with_reading

    with _console.timed(f"reading {args.file}"):
        found = load(args.file, format=args.format, **preparing(args), **reading(args))
    _console.detail(f"{found!r}, reader: {found.provenance.get('reader', 'none')}")
    return with_reading(found, given_reading(args))


def preparing(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options that change trajectories after they are read."""
    return {name: getattr(args, name) for name in ("units", "noise", "period", "drop_short")}


def given_reading(args: argparse.Namespace) -> dict[str, str]:
    """Return the given reading options as text."""
    given = {name: getattr(args, name) for name in READING}
    usual = {"frame": "auto", "drop_short": False}
    return {
        name: "" if value is True else str(value)
        for name, value in given.items()
        if value != usual.get(name)
    }


def reading_value(name: str, text: str) -> "str | float | bool":
    """Parse the text of a reading option from `given_reading`."""
    if name == "drop_short":
        return True
    return float(text) if name == "noise" else text


def reading(args: argparse.Namespace) -> dict[str, Any]:
    """Return the reading options by the names of `ReadOptions`."""
    return {
        "columns": _parse_columns(args.columns),
        "missing": _parse_missing(args.missing),
        "length_unit": args.length_unit,
        "time_unit": args.time_unit,
        "coordinates": args.coordinates,
        "frame": args.frame,
        "pixel_size": _quantity(args.pixel_size, "--pixel-size"),
        "frame_interval": _quantity(args.frame_interval, "--frame-interval"),
    }


def _quantity(text: str | None, option: str) -> tuple[float, str] | None:
    from driftbayes.data.units import parse_quantity

    return None if text is None else parse_quantity(text, option)


def _parse_columns(text: str | None) -> dict[str, str | None] | None:
    if text is None:
        return None
    pairs = [item.partition("=") for item in text.split(",") if item]
    if any(not equals for _, equals, _ in pairs):
        msg = f"--columns must be NAME=COLUMN,..., got {text!r}; for example x=lon,y=lat"
        raise DriftbayesError(msg)
    return {name: column or None for name, _, column in pairs}


def _parse_missing(text: str | None) -> tuple[float, ...] | None:
    if text is None:
        return None
    return () if text == "none" else tuple(numbers("--missing", text.split(",")))
