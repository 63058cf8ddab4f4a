"""One HTML file to read and to send on, from a scan or from trajectories."""

__all__ = ["add_parser", "run"]

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from driftbayes.cli import _console, _options
from driftbayes.errors import DriftbayesError

if TYPE_CHECKING:
    import xarray as xr


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser."""
    parser = subparsers.add_parser(
        "report",
        help=__doc__,
        description=f"{__doc__} The file is what `driftbayes scan -o FILE.nc` wrote, or "
        "trajectories, which are scanned first.",
        allow_abbrev=False,
        examples=(
            "driftbayes report tracks.csv -o report.html",
            "driftbayes report scan.nc -o report.html --title 'Tracers, March'",
        ),
    )
    _options.add_reading(parser)
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE.html", help="write here"
    )
    parser.add_argument("--title", help="of the page")
    parser.add_argument(
        "--taus",
        metavar="LOW:HIGH:COUNT[log]",
        help="sampling times, for trajectories (default: those that suit them)",
    )
    _options.add_data(parser)
    _options.add_inference(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Read or scan, build, write."""
    if args.output.suffix.lower() not in (".html", ".htm"):
        msg = f"a report is an HTML file: expected a name ending in .html, got {args.output.name!r}"
        raise DriftbayesError(msg)
    dataset = _scanned(args)
    from driftbayes.report import write_report

    for path in write_report(dataset, args.output, title=args.title):
        _console.note(f"wrote {path}")
    return 0


def _scanned(args: argparse.Namespace) -> "xr.Dataset":
    from driftbayes.io import read_scan, schema
    from driftbayes.io.contents import contents_of

    if schema.KIND_ATTRIBUTE in contents_of(args.file).attributes:
        return read_scan(args.file)
    from driftbayes.cli.scan import scan_in_memory

    taus = None if args.taus is None else _options.parse_taus(args.taus)
    result, _ = scan_in_memory(args, taus, _options.model_prior(args))
    return result.to_dataset()
