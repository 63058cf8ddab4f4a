"""Convert trajectories to CSV, Parquet, NetCDF or Zarr."""

__all__ = ["add_arguments", "run"]

import argparse
from dataclasses import replace

from driftbayes.cli import _console, _outputs, _reading

EXAMPLES = (
    "driftbayes convert tracks.xml tracks.parquet",
    "driftbayes convert drifters.nc clean.csv --qc default --units km,d",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    _reading.add_reading(parser)
    _outputs.add_output(
        parser,
        "output",
        output=_outputs.trajectories,
        metavar="OUT",
        help="output file: .csv, .csv.gz, .parquet, .nc or .zarr",
    )


def run(args: argparse.Namespace) -> int:
    """Read and write."""
    from driftbayes.io import write_trajectories

    trajectories = _reading.read(args)
    # The options that read the source do not apply to the new file.
    known = dict(trajectories.provenance)
    if "reading" in known:
        known["converted_with"] = known.pop("reading")
        trajectories = replace(trajectories, provenance=known)
    write_trajectories(trajectories, args.output)
    for note in trajectories.provenance.get("notes", []):
        _console.note(note)
    length, time = trajectories.length_unit, trajectories.time_unit
    units = f"length unit {length or 'unknown'}, time unit {time or 'unknown'}"
    print(f"wrote {args.output}: {trajectories!r}, {units}")
    if args.output.name.lower().endswith((".csv", ".csv.gz")) and (length or time):
        options = [f"--length-unit {length}"] * bool(length) + [f"--time-unit {time}"] * bool(time)
        _console.note(
            f"CSV does not store units; read it with {' '.join(options)}, or write Parquet"
        )
    return 0
