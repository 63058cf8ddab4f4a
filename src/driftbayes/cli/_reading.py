"""The file, how to read it, and how that is remembered."""

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
    from driftbayes.trajectories import Trajectories

# What `add_reading` asks for beside the file, in the order in which a command line is written.
READING = (
    *("format", "columns", "missing", "coordinates", "frame", "pixel_size", "frame_interval"),
    *("length_unit", "time_unit", "units", "period", "drop_short", "noise", "qc"),
)


def add_reading(parser: argparse.ArgumentParser, *, needs_file: bool = True) -> None:
    """The file, and how to read it."""
    parser.add_argument(
        "file",
        type=Path,
        nargs=None if needs_file else "?",
        help="trajectories: any of `driftbayes formats`, found by content",
    )
    group = parser.add_argument_group("reading")
    group.add_argument(
        "--format",
        metavar="NAME",
        help="of the file, see `driftbayes formats` (default: by content)",
    )
    group.add_argument(
        "--columns",
        metavar="NAME=COLUMN,...",
        help="names in the file for id, time, x, y, z, sd, or lon and lat; an empty one is ignored",
    )
    group.add_argument(
        "--missing",
        metavar="NUMBER,...",
        help="numbers that stand for a missing position or time, as -999; none if every number is "
        "data (default: what the file declares)",
    )
    group.add_argument(
        "--coordinates",
        choices=("degrees", "plane"),
        help="longitude and latitude, to be laid on a plane in metres, or a plane already",
    )
    group.add_argument(
        "--frame",
        choices=("auto", "local", "transported"),
        default="auto",
        help="axes for longitude and latitude: east and north everywhere, or carried along the "
        "path, as near a pole (default: auto)",
    )
    group.add_argument("--pixel-size", metavar="SIZE", help="of positions in pixels, as in 0.16um")
    group.add_argument("--frame-interval", metavar="TIME", help="of times in frames, as in 7.48ms")
    group.add_argument("--length-unit", help="unit of the positions, to be printed with results")
    group.add_argument("--time-unit", help="unit of the times, to be printed with results")
    group.add_argument(
        "--units",
        metavar="LENGTH,TIME",
        help="convert positions and times to these, as in km,d; --period, --noise and --tau are "
        "then in them; an empty one stays as it is",
    )
    group.add_argument(
        "--period",
        metavar="L[,L...]",
        help="the domain is periodic with this length, one for all axes or one each ('-': not)",
    )
    group.add_argument(
        "--drop-short", action="store_true", help="leave out trajectories of fewer than two points"
    )
    group.add_argument(
        "--noise",
        type=float,
        metavar="SD",
        help="standard deviation of the measurement error of every position",
    )
    group.add_argument(
        "--qc",
        metavar="CHECK[=LIMIT],...",
        help="mend what checks find, for example spikes=3m/s,stuck=6h,drogued,min-points=20, or "
        "default; otherwise findings are told and nothing is changed, see `driftbayes qc`",
    )


def read(args: argparse.Namespace) -> "Trajectories":
    """The trajectories that the reading options ask for, repaired if --qc says so."""
    from driftbayes import quality
    from driftbayes.workflow.reading import check_quality

    tracks = check_quality(read_unchecked(args), args.qc)
    for done in quality.applied(tracks) if args.qc is not None else ():
        _console.note(f"qc: {done}")
    return tracks


def read_unchecked(args: argparse.Namespace) -> "Trajectories":
    """The trajectories as they are in the file."""
    from driftbayes.workflow.reading import load, with_reading

    with _console.timed(f"reading {args.file}"):
        found = load(args.file, format=args.format, **preparing(args), **reading(args))
    _console.detail(f"{found!r}, read as {found.provenance.get('reader', 'it is')}")
    return with_reading(found, given_reading(args))


def preparing(args: argparse.Namespace) -> dict[str, Any]:
    """What the user asks for beyond reading; of a part of a file, or of the whole."""
    return {name: getattr(args, name) for name in ("units", "noise", "period", "drop_short")}


def given_reading(args: argparse.Namespace) -> dict[str, str]:
    """The options of reading that were given, as they would be written again."""
    given = {name: getattr(args, name) for name in READING}
    usual = {"frame": "auto", "drop_short": False}
    return {
        name: "" if value is True else str(value)
        for name, value in given.items()
        if value != usual.get(name)
    }


def reading_value(name: str, text: str) -> "str | float | bool":
    """An option of reading from what `given_reading` wrote."""
    if name == "drop_short":
        return True
    return float(text) if name == "noise" else text


def reading(args: argparse.Namespace) -> dict[str, Any]:
    """What the user says about how to read a file, by the names of `ReadOptions`."""
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
    from driftbayes.units import parse_quantity

    return None if text is None else parse_quantity(text, option)


def _parse_columns(text: str | None) -> dict[str, str | None] | None:
    if text is None:
        return None
    pairs = [item.partition("=") for item in text.split(",") if item]
    if any(not equals for _, equals, _ in pairs):
        msg = f"--columns must be written NAME=COLUMN,..., for example x=lon,y=lat, got {text!r}"
        raise DriftbayesError(msg)
    return {name: column or None for name, _, column in pairs}


def _parse_missing(text: str | None) -> tuple[float, ...] | None:
    if text is None:
        return None
    return () if text == "none" else tuple(numbers("--missing", text.split(",")))
