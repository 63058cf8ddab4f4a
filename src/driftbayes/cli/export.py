"""Export fitted parameters of a scan for Parcels, OpenDrift or other simulators."""

__all__ = ["add_arguments", "run"]

import argparse
from pathlib import Path

from driftbayes.cli import _console, _outputs

# Known here so that --help need not import them; a test compares them.
SIMULATORS = ("parcels", "parcels3", "opendrift", "json")


EXAMPLES = (
    "driftbayes export scan.nc --for json",
    "driftbayes export scan.nc --for opendrift --length-unit km --time-unit h",
    "driftbayes export scan.nc --for parcels --model langevin --tau 3600 -o dispersion.py",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("scan", type=Path, help="scan written by `driftbayes scan -o FILE.nc`")
    parser.add_argument(
        "--for",
        dest="simulator",
        choices=SIMULATORS,
        required=True,
        help="target simulator; parcels is version 4, parcels3 version 3",
    )
    parser.add_argument(
        "--model", help="model to export (default: the most probable consistent model)"
    )
    parser.add_argument(
        "--tau", type=float, help="time scale of the simulation, in the unit of the scan"
    )
    parser.add_argument("--length-unit", help="length unit of the scan, if the file has none")
    parser.add_argument("--time-unit", help="time unit of the scan, if the file has none")
    _outputs.add_output(
        parser,
        "-o",
        "--output",
        output=_outputs.Output(),
        metavar="FILE",
        help="output file (default: stdout)",
    )


def run(args: argparse.Namespace) -> int:
    """Read, choose and print."""
    from driftbayes.io import atomic_path, read_scan
    from driftbayes.simulators import export, recommend

    recommendation = recommend(
        read_scan(args.scan),
        model=args.model,
        tau=args.tau,
        length_unit=args.length_unit,
        time_unit=args.time_unit,
    )
    text = export(recommendation, args.simulator)
    for note in recommendation.notes:
        _console.doubt(note)
    if args.output is None:
        print(text, end="")
        return 0
    with atomic_path(args.output) as temporary:
        temporary.write_text(text, encoding="utf-8")
    _console.note(f"wrote {args.output}")
    return 0
