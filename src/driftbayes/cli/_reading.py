"""The file, how to read it, and how that is remembered."""

__all__ = [
    "add_reading",
    "after_reading",
    "given_reading",
    "read",
    "read_unchecked",
    "reading",
    "reading_value",
    "recorded",
]

import argparse
from collections.abc import Mapping
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
    """The trajectories that the reading options ask for, mended if --qc says so."""
    from driftbayes import quality

    trajectories = read_unchecked(args)
    if args.qc is None:
        for note in quality.inspect(trajectories).notes:
            _console.doubt(f"note: {note}")
        return trajectories
    mended = quality.apply(trajectories, args.qc)
    for done in quality.applied(mended):
        _console.note(f"qc: {done}")
    return mended


def read_unchecked(args: argparse.Namespace) -> "Trajectories":
    """The trajectories as they are in the file."""
    from dataclasses import replace

    from driftbayes.io import read_trajectories

    with _console.timed(f"reading {args.file}"):
        trajectories = read_trajectories(args.file, format=args.format, **reading(args))
        made = after_reading(trajectories, args.units, args.drop_short, args.period, args.noise)
    _console.detail(f"{made!r}, read as {made.provenance.get('reader', 'it is')}")
    return replace(made, provenance=recorded(made.provenance, args))


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


def recorded(provenance: Mapping[str, Any], args: argparse.Namespace) -> dict[str, Any]:
    """The provenance with the options of reading in it, from which data can be read again."""
    # A file that was converted may remember how its own source was read.
    others = {name: value for name, value in provenance.items() if name != "reading"}
    given = given_reading(args)
    return {**others, "reading": given} if given else others


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


def after_reading(
    trajectories: "Trajectories",
    units: str | None,
    drop_short: bool,  # noqa: FBT001
    period: str | None,
    noise: float | None,
) -> "Trajectories":
    """What the reading options ask for beyond reading; of a part of a file, or of the whole."""
    from dataclasses import replace

    import numpy as np

    if units is not None:
        trajectories = _converted(trajectories, units)
    if drop_short:
        trajectories = trajectories.drop_short()
    if period is not None:
        trajectories = trajectories.unwrap(_parse_period(period, trajectories.n_dim))
    if noise is not None:
        if not (np.isfinite(noise) and noise > 0):
            msg = f"--noise must be a positive number, got {noise}"
            raise DriftbayesError(msg)
        trajectories = replace(
            trajectories,
            position_sd=np.full(len(trajectories.times), noise),
            provenance={**trajectories.provenance, "noise": noise},
        )
    return trajectories


def _converted(trajectories: "Trajectories", text: str) -> "Trajectories":
    """The same trajectories in the units of `--units`, which is recorded."""
    from dataclasses import replace

    from driftbayes.units import length_factor, time_factor

    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 2:
        msg = f"--units must be a unit of length and one of time, for example km,d, got {text!r}"
        raise DriftbayesError(msg)
    factors: dict[str, tuple[float, str]] = {}
    old = {"length": trajectories.length_unit, "time": trajectories.time_unit}
    finders = {"length": length_factor, "time": time_factor}
    advice = {"px": "--pixel-size", "frame": "--frame-interval"}
    for (what, unit), wanted in zip(old.items(), parts, strict=True):
        if wanted in ("", unit):
            continue
        # The wanted one first: a slip in it is the nearer one.
        finders[what](wanted)
        if not unit or unit in advice:
            has = f"is {unit!r}" if unit else "is not in the file"
            msg = (
                f"--units needs a unit of {what} to convert from, and it {has}; pass "
                f"{advice.get(unit, f'--{what}-unit')}"
            )
            raise DriftbayesError(msg)
        factors[what] = finders[what](unit, wanted)
    if not factors:
        return trajectories
    converted = trajectories.in_units(length=factors.get("length"), time=factors.get("time"))
    changes = {what: [old[what], name] for what, (_, name) in factors.items()}
    return replace(converted, provenance={**trajectories.provenance, "units": changes})


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


def _parse_period(text: str, n_dim: int) -> list[float | None]:
    parts = text.split(",")
    if len(parts) == 1:
        parts = parts * n_dim
    return [None if part == "-" else numbers("--period", [part])[0] for part in parts]
