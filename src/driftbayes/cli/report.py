"""One HTML file to read and to send on, from a scan or from trajectories."""

__all__ = ["add_parser", "run"]

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from driftbayes.cli import _console, _options, _outputs, _reading
from driftbayes.errors import DriftbayesError

if TYPE_CHECKING:
    import xarray as xr

    from driftbayes.report import Examination
    from driftbayes.trajectories import Trajectories


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser."""
    parser = subparsers.add_parser(
        "report",
        help=__doc__,
        description=f"{__doc__} The file is what `driftbayes scan -o FILE.nc` wrote, or "
        "trajectories, which are scanned first. With trajectories the report also holds quality, "
        "posteriors, goodness of fit and prior sensitivity.",
        allow_abbrev=False,
        examples=(
            "driftbayes report tracks.csv -o report.html",
            "driftbayes report scan.nc -o report.html --title 'Tracers, March'",
        ),
    )
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
        help="write here, and the numbers to FILE.report.csv and FILE.report.json beside it",
    )
    parser.add_argument("--title", help="of the page")
    parser.add_argument(
        "--taus",
        metavar="LOW:HIGH:COUNT[log]",
        help="sampling times, for trajectories (default: those that suit them)",
    )
    parser.add_argument(
        "--data",
        type=Path,
        metavar="TRAJECTORIES",
        help="with a scan: the file that it was made of; read with the options of the scan, unless "
        "others are given",
    )
    parser.add_argument(
        "--replicas",
        type=int,
        default=200,
        metavar="N",
        help="data sets drawn from each model for its goodness of fit; 0 for none (default: 200)",
    )
    parser.add_argument(
        "--brief",
        action="store_true",
        help="only what the scan says; nothing is computed beyond it",
    )
    _options.add_data(parser)
    _options.add_inference(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Read or scan, examine, build, write."""
    if args.brief and args.data is not None:
        msg = "--brief leaves out all that --data is for; pass one of the two"
        raise DriftbayesError(msg)
    dataset, trajectories = _scanned(args)
    examination = None if trajectories is None else _examined(args, trajectories, dataset)
    from driftbayes.report import write_report

    written = write_report(dataset, args.output, title=args.title, examination=examination)
    for path in written:
        _console.note(f"wrote {path}")
    return 0


def _companions(path: Path) -> Iterable[Path]:
    from driftbayes.report.files import companions

    return companions(path)


def _is_companion(path: Path) -> bool:
    from driftbayes.report.files import is_companion

    return is_companion(path)


def _scanned(args: argparse.Namespace) -> "tuple[xr.Dataset, Trajectories | None]":
    """The scan, and the trajectories if there are any to examine."""
    from driftbayes.io import read_scan, schema
    from driftbayes.io.contents import contents_of

    if schema.KIND_ATTRIBUTE in contents_of(args.file).attributes:
        dataset = read_scan(args.file)
        if args.data is None:
            if not args.brief:
                _console.note(
                    "a scan alone: pass --data with the file that it was made of for quality, "
                    "posteriors, goodness of fit and prior sensitivity"
                )
            return dataset, None
        return dataset, _again(args, dataset)
    if args.data is not None:
        msg = f"--data goes with a scan, and {args.file.name!r} is none; leave --data out"
        raise DriftbayesError(msg)
    from driftbayes.cli.scan import scan_in_memory

    taus = None if args.taus is None else _options.parse_taus(args.taus)
    result, trajectories = scan_in_memory(args, taus, _options.model_prior(args))
    return result.to_dataset(), None if args.brief else trajectories


def _again(args: argparse.Namespace, dataset: "xr.Dataset") -> "Trajectories":
    """The trajectories of a scan, read as they were for it."""
    from driftbayes.report.content import parsed

    again = argparse.Namespace(**vars(args))
    again.file = args.data
    if not _reading.given_reading(args):
        stored = parsed(dataset.attrs.get("provenance")).get("reading", {})
        for name, value in stored.items():
            setattr(again, name, _reading.reading_value(name, str(value)))
    return _reading.read(again)


def _examined(
    args: argparse.Namespace, trajectories: "Trajectories", dataset: "xr.Dataset"
) -> "Examination":
    from driftbayes.cli._jax import prepare_jax

    prepare_jax()
    from driftbayes.report import examine

    with _console.progress_bar() as progress:
        return examine(trajectories, dataset, n_replicas=args.replicas, progress=progress)
