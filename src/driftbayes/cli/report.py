"""Write a self-contained HTML report from trajectories or a scan."""

__all__ = ["add_arguments", "run"]

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from driftbayes.cli import _console, _jax, _options, _outputs, _reading
from driftbayes.errors import DriftbayesError

if TYPE_CHECKING:
    from driftbayes.comparison import Scan
    from driftbayes.data.trajectories import Trajectories
    from driftbayes.report import Examination


EXAMPLES = (
    "driftbayes report tracks.csv -o report.html",
    "driftbayes report scan.nc -o report.html --title 'Tracers, March'",
)
DETAILS = (
    "The input is a scan written by `driftbayes scan -o FILE.nc`, or trajectories, which are "
    "scanned first. With trajectories the report includes data quality, posteriors, goodness of "
    "fit and prior sensitivity."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    _reading.add_reading(parser)
    _outputs.add_output(
        parser,
        "-o",
        "--output",
        output=_outputs.Output(
            suffixes=(".html", ".htm"),
            what="a report is an HTML file",
            companions=_companions,
            is_ours=_is_companion,
        ),
        required=True,
        metavar="FILE.html",
        help="output file; the numbers go to FILE.report.csv and FILE.report.json",
    )
    parser.add_argument("--title", help="title of the report")
    parser.add_argument(
        "--taus",
        metavar="LOW:HIGH:COUNT[log]",
        help="sampling times, for trajectories (default: twelve over the range of the data)",
    )
    parser.add_argument(
        "--data",
        type=Path,
        metavar="TRAJECTORIES",
        help="with a scan: the file of its trajectories, read with the options of the scan unless "
        "others are given",
    )
    parser.add_argument(
        "--replicas",
        type=int,
        default=200,
        metavar="N",
        help="replicas of each model for the goodness of fit; 0 for none (default: 200)",
    )
    parser.add_argument(
        "--brief",
        action="store_true",
        help="report only the scan, without quality, posteriors and goodness of fit",
    )
    _options.add_data(parser)
    _options.add_inference(parser)


def run(args: argparse.Namespace) -> int:
    """Read or scan, examine and write."""
    if args.brief and args.data is not None:
        msg = "--brief and --data exclude each other; give one of them"
        raise DriftbayesError(msg)
    scan, trajectories = _scanned(args)
    examination = None if trajectories is None else _examined(args, trajectories, scan)
    from driftbayes.report import write_report

    written = write_report(scan, args.output, title=args.title, examination=examination)
    for path in written:
        _console.note(f"wrote {path}")
    return 0


def _companions(path: Path) -> Iterable[Path]:
    from driftbayes.report.page import companions

    return companions(path)


def _is_companion(path: Path) -> bool:
    from driftbayes.report.page import is_companion

    return is_companion(path)


def _scanned(args: argparse.Namespace) -> "tuple[Scan, Trajectories | None]":
    """Return the scan, and the trajectories if there are any to examine."""
    from driftbayes.comparison.describe import as_scan
    from driftbayes.data import schema
    from driftbayes.io import read_scan
    from driftbayes.io.formats import contents_of

    if schema.KIND_ATTRIBUTE in contents_of(args.file).attributes:
        scan = as_scan(read_scan(args.file))
        if args.data is None:
            if not args.brief:
                _console.note(
                    "the report has only the scan; pass --data TRAJECTORIES to add quality, "
                    "posteriors, goodness of fit and prior sensitivity"
                )
            return scan, None
        return scan, _again(args, scan)
    if args.data is not None:
        msg = f"--data needs a scan, got trajectories in {args.file.name!r}; omit --data"
        raise DriftbayesError(msg)
    from driftbayes.cli.scan import scan_in_memory

    taus = None if args.taus is None else _options.parse_taus(args.taus)
    result, trajectories = scan_in_memory(args, taus, _options.model_prior(args))
    return result, None if args.brief else trajectories


def _again(args: argparse.Namespace, scan: "Scan") -> "Trajectories":
    """Read the trajectories of a scan with the options of the scan."""
    from driftbayes.comparison.describe import stored

    again = argparse.Namespace(**vars(args))
    again.file = args.data
    if not _reading.given_reading(args):
        for name, value in stored(scan, "provenance").get("reading", {}).items():
            setattr(again, name, _reading.reading_value(name, str(value)))
    return _reading.read(again)


def _examined(
    args: argparse.Namespace, trajectories: "Trajectories", scan: "Scan"
) -> "Examination":
    _jax.prepare_jax()
    from driftbayes.report import examine

    with _console.progress_bar() as progress:
        return examine(trajectories, scan, n_replicas=args.replicas, progress=progress)
