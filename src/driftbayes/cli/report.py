"""Report and export results."""

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from driftbayes.cli import _console, _jax, _options
from driftbayes.cli._parser import Command, Output, Parser
from driftbayes.errors import DriftbayesError

if TYPE_CHECKING:
    from driftbayes.comparison import Scan
    from driftbayes.data._trajectories import Trajectories

# Repeated here so that --help need not import them; a test compares them.
SIMULATORS = ("parcels", "parcels3", "opendrift", "json")


def _add_report(parser: Parser) -> None:
    _options.add_reading(parser)
    parser.add_output(
        "-o --output FILE.html  output file (default: the name of the input, ending in .html, in "
        "the working directory); the numbers go to FILE.report.csv and FILE.report.json",
        Output(
            suffixes=(".html", ".htm"),
            what="a report is an HTML file",
            companions=_companions,
            is_ours=_is_companion,
            default=_default_path,
        ),
    )
    parser.add_options("""
--title TITLE  title of the report
--taus LOW:HIGH:COUNT[log]  sampling times, for trajectories (default: twelve over the range of
    the data)
--data TRAJECTORIES<path>  with a scan: the file of its trajectories, read with the options of the
    scan unless others are given
--replicas N<int=200>  replicas of each model for the goodness of fit; 0 for none
--pairs  also compare laws of relative dispersion, as `driftbayes pairs` does
--within R  with --pairs: distance at which pairs begin
--forecast T[,T...]  also draw search regions at these times after the last positions, and score
    forecasts from five earlier origins, as `driftbayes backtest` does
--brief  report only the scan, without quality, posteriors and goodness of fit
""")
    _options.add_data(parser)
    _options.add_inference(parser)


def _report(args: argparse.Namespace) -> int:
    for option in ("data", "pairs", "forecast"):
        if args.brief and getattr(args, option):
            raise DriftbayesError(f"--brief and --{option} exclude each other; give one of them")
    if args.brief:
        _options.refuse(args, "--replicas", because="--brief omits the goodness of fit")
    if args.within is not None and not args.pairs:
        raise DriftbayesError("--within is the distance of --pairs; add --pairs")
    if args.forecast is not None:
        _options.parse_times("--forecast", args.forecast)
    if args.replicas != 0:
        from driftbayes.checks._check import check_replicas

        check_replicas(args.replicas, "--replicas")
    source, tracks = _load(args)
    _jax.prepare_jax()
    from driftbayes.workflow import write_report

    with _console.progress_bar() as progress:
        made = write_report(
            source,
            args.output or _default_path(args),
            tracks=tracks,
            title=args.title,
            forecast=args.forecast,
            brief=args.brief,
            n_replicas=args.replicas,
            pairs=args.pairs,
            within=args.within,
            progress=progress,
            **({} if args.taus is None else {"taus": _options.parse_times("--taus", args.taus)}),
            **_options.analysis(args),
        )
    for path in made.paths:
        _console.note(f"wrote {path}")
    for sentence in made.sentences:
        _console.say(sentence)
    if made.scan.missing_models:
        from driftbayes.comparison._describe_scan import shared_motion_command

        _console.say(f"next: {shared_motion_command(made.scan, str(args.data or args.file))}")
    return 0


def _default_path(args: argparse.Namespace) -> Path:
    from driftbayes.report._page import default_path

    return default_path(args.file)


def _companions(path: Path) -> Iterable[Path]:
    from driftbayes.report._page import companions

    return companions(path)


def _is_companion(path: Path) -> bool:
    from driftbayes.report._page import is_companion

    return is_companion(path)


def _load(args: argparse.Namespace) -> "tuple[Trajectories | Scan, Trajectories | None]":
    """Read trajectories, or a scan and the trajectories of --data."""
    from driftbayes.comparison._describe_scan import as_scan
    from driftbayes.data import _schema as schema
    from driftbayes.io import read_scan
    from driftbayes.io._formats import contents_of

    if schema.KIND_ATTRIBUTE not in contents_of(args.file).attributes:
        if args.data is not None:
            msg = f"--data needs a scan, got trajectories in {args.file.name!r}; omit --data"
            raise DriftbayesError(msg)
        return _options.read(args), None
    scan = as_scan(read_scan(args.file))
    _refuse_options_of_scans(args)
    if args.data is not None:
        return scan, _read_data(args, scan)
    for option in ("forecast", "pairs"):
        if getattr(args, option):
            msg = f"--{option} needs the trajectories of the scan; pass --data TRAJECTORIES"
            raise DriftbayesError(msg)
    if not args.brief:
        _console.note(
            "the report has only the scan; pass --data TRAJECTORIES to add quality, posteriors, "
            "goodness of fit and prior sensitivity"
        )
    return scan, None


def _refuse_options_of_scans(args: argparse.Namespace) -> None:
    """Refuse options that apply to trajectories, for the report of a stored scan."""
    options = ["--taus", "--models"]
    because = "the file is a scan, whose models and sampling times are in the report"
    if args.forecast is None:
        options += [*_options.DATA, *_options.INFERENCE]
    _options.refuse(args, *options, because=because)
    if args.data is None:
        reading = (f"--{name.replace('_', '-')}" for name in _options.READING)
        because = "without --data TRAJECTORIES the report has only the scan"
        _options.refuse(args, "--replicas", *reading, because=because)


def _read_data(args: argparse.Namespace, scan: "Scan") -> "Trajectories":
    """Read the trajectories of a scan with the options of the scan."""
    from driftbayes.comparison._describe_scan import stored

    reading = argparse.Namespace(**vars(args))
    reading.file = args.data
    if not _options.given_reading(args):
        for name, text in stored(scan, "provenance").get("reading", {}).items():
            setattr(reading, name, {"drop_short": True}.get(name, str(text)))
    return _options.read(reading)


def _add_export(parser: Parser) -> None:
    parser.add_argument(
        "file",
        type=Path,
        metavar="FILE.nc",
        help="scan, map or field written by `driftbayes scan`, `map` or `field` with -o",
    )
    parser.add_argument(
        "--for",
        dest="simulator",
        choices=SIMULATORS,
        required=True,
        help="target simulator; parcels is version 4, parcels3 version 3",
    )
    parser.add_options("""
--model MODEL  model to export (default: for a scan the most probable consistent model, for a map
    the one with the largest evidence)
--tau TAU  for a scan: time scale of the simulation, for example 1h or a number in its unit
--no-flow  for a map or field: omit the mean flow; use your own currents for advection
--length-unit LENGTH_UNIT  length unit of the file, if it has none
--time-unit TIME_UNIT  time unit of the file, if it has none
""")
    parser.add_output(
        "-o --output FILE  output file (default: stdout); for a map or field the grid, FILE.nc, "
        "and the code that uses it is printed",
        Output(),
    )


def _export(args: argparse.Namespace) -> int:
    from driftbayes.workflow import export

    text = export(
        args.file,
        args.simulator,
        args.output,
        model=args.model,
        tau=args.tau,
        with_flow=not args.no_flow,
        length_unit=args.length_unit,
        time_unit=args.time_unit,
    )
    # The code that uses a grid is printed beside the file.
    if args.output is None or args.output.suffix == ".nc":
        print(text, end="")
    if args.output is not None:
        _console.note(f"wrote {args.output}")
    return 0


COMMANDS = {
    "report": Command(
        _add_report,
        _report,
        (
            "driftbayes report tracks.csv",
            "driftbayes report scan.nc -o report.html --title 'Tracers, March'",
        ),
        "The input is a scan written by `driftbayes scan -o FILE.nc`, or trajectories, which are "
        "scanned first; irregular times are compared without a scan. With trajectories the "
        "report includes data quality, posteriors, goodness of fit and prior sensitivity.",
    ),
    "export": Command(
        _add_export,
        _export,
        (
            "driftbayes export scan.nc --for json",
            "driftbayes export scan.nc --for opendrift --length-unit km --time-unit h",
            "driftbayes export scan.nc --for parcels --model langevin --tau 3600 -o dispersion.py",
            "driftbayes export map.nc --for parcels -o K.nc",
            "driftbayes export field.nc --for opendrift -o K.nc",
        ),
    ),
}
