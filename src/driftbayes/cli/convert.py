"""Write trajectories of any known format as CSV, Parquet, NetCDF or Zarr."""

__all__ = ["add_parser", "run"]

import argparse
from dataclasses import replace

from driftbayes.cli import _console, _outputs, _reading


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser."""
    parser = subparsers.add_parser(
        "convert",
        help=__doc__,
        description=__doc__,
        allow_abbrev=False,
        examples=(
            "driftbayes convert tracks.xml tracks.parquet",
            "driftbayes convert drifters.nc clean.csv --qc default --units km,d",
        ),
    )
    _reading.add_reading(parser)
    _outputs.add_output(
        parser,
        "output",
        output=_outputs.trajectories,
        metavar="OUT",
        help="its name ends in .csv, .csv.gz, .parquet, .nc or .zarr",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Read, write, say so."""
    from driftbayes.io import write_trajectories

    trajectories = _reading.read(args)
    # How the source was read is not how this file is to be read.
    known = dict(trajectories.provenance)
    if "reading" in known:
        known["converted_with"] = known.pop("reading")
        trajectories = replace(trajectories, provenance=known)
    write_trajectories(trajectories, args.output)
    for note in trajectories.provenance.get("notes", []):
        _console.note(note)
    length, time = trajectories.length_unit, trajectories.time_unit
    units = f"lengths in {length or 'no known unit'}, times in {time or 'no known unit'}"
    print(f"wrote {args.output}: {trajectories!r}, {units}")
    if args.output.name.lower().endswith((".csv", ".csv.gz")) and (length or time):
        told = [f"--length-unit {length}"] * bool(length) + [f"--time-unit {time}"] * bool(time)
        _console.note(f"CSV holds no units: read it with {' '.join(told)}, or write Parquet")
    return 0
