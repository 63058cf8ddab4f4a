"""Commands that inspect and convert data: info, qc, diagnose, dependence, convert."""

import argparse
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from driftbayes.cli import _console, _jax, _options
from driftbayes.cli._parser import Command, Output, Parser
from driftbayes.errors import DriftbayesError


def _add_reading(parser: Parser) -> None:
    _options.add_reading(parser)
    _options.add_json(parser)


def _add_qc(parser: Parser) -> None:
    _add_reading(parser)
    parser._option_string_actions[
        "--qc"
    ].help = "limits of the checks, for example spikes=3m/s,stuck=6h; the data are not changed"


def _info(args: argparse.Namespace) -> int:
    from driftbayes.workflow._overview import describe_format, info

    tracks = _options.read(args)
    overview = info(tracks, args.file)
    about = describe_format(args.file, args.format)
    if args.json:
        _console.print_json({"file": args.file.name, **about, **overview.to_json()})
        return 0
    rows = [
        ["format", f"{about['format']} ({about['format_summary']})"],
        ["detected by", about["recognised_by"]],
        *overview.rows(),
    ]
    _console.print_table(args.file.name, ["", ""], rows, left=2)
    if overview.suggested_command is not None:
        _console.say(f"next: {overview.suggested_command}")
    if tracks.recording_interval is None and len(tracks.intervals):
        _console.say(tracks.irregular_message())
    return 0


def _qc(args: argparse.Namespace) -> int:
    """Report the quality of the data; here --qc only sets limits."""
    from driftbayes import quality

    report = quality.inspect(_options.read_unchecked(args), args.qc or ())
    if args.json:
        _console.print_json({"file": args.file.name, **report.to_json()})
        return 0
    _console.print_result(report)
    return 0


def _add_diagnose(parser: Parser) -> None:
    _options.add_reading(parser)
    parser.add_options("""
--lags LAGS<int=60>  number of lags
--max-lag TIME  maximum lag, for example 10d (default: a quarter of the record)
--seed SEED<int=0>  random seed for the bootstrap
""")
    _options.add_netcdf(parser, "write the result as NetCDF")
    _options.add_json(parser)


def _diagnose(args: argparse.Namespace) -> int:
    from driftbayes.diagnostics import diagnose

    tracks = _options.read(args)
    tracks.check_usable()
    with _console.stage("bootstrap"):
        result = diagnose(tracks, n_lags=args.lags, max_lag=args.max_lag, seed=args.seed)
    if args.output is not None:
        _console.save_dataset(result, args.output, kind="diagnostics")
    if args.json:
        about = {
            name: json.loads(value) if str(value).startswith("[") else value
            for name, value in result.attrs.items()
        }
        values = {
            str(name): [None if not math.isfinite(v) else float(v) for v in result[name].values]
            for name in ("lag", *result.data_vars)
        }
        _console.print_json({"attributes": about, **values})
        return 0
    from driftbayes.diagnostics._describe import describe_diagnostics

    _console.print_card(describe_diagnostics(result))
    return 0


def _add_dependence(parser: Parser) -> None:
    _options.add_reading(parser)
    parser.add_options("""
--tau TAU<!>  sampling time, for example 6h
--bootstrap N<int>  also bootstrap ln K with N replicates
--draw {auto,particles,clusters,time}<=auto>  resample particles, clusters of particles or blocks
    of time
""")
    _options.add_inference(parser, weighs_models=False)
    _options.add_json(parser)


def _dependence(args: argparse.Namespace) -> int:
    tau = _options.parse_tau(args.tau)
    if args.bootstrap is None:
        _options.refuse(args, "--draw", because="--draw is for --bootstrap N")
    names = _options.model_names(args)
    if args.bootstrap is not None and len(names) != 2:
        msg = f"--bootstrap needs two models, got {', '.join(names)}; pass --models A,B"
        raise DriftbayesError(msg)
    given = _options.analysis(args)
    tracks = _options.read(args)
    replicates = None
    if args.bootstrap is None:
        from driftbayes.comparison import dependence

        result = dependence(tracks, tau)
    else:
        _jax.prepare_jax()
        from driftbayes import workflow

        given |= {"n_replicates": args.bootstrap, "units": args.draw}
        with _console.stage("bootstrap"):
            replicates = workflow.bootstrap(tracks, tau, **given)
        result = replicates.dependence
    models = []
    if result.options:
        from driftbayes.workflow._sharing import models_at

        models = models_at(tracks, result.tau, names, result.options)
    more: dict[str, Any] = {}
    lines = [] if replicates is None else [replicates.sentence]
    if models:
        more = {"models": models, "next": _options.offer_models(args, models, command="compare")}
        lines.append(f"next: {more['next']}")
    if replicates is not None:
        more["bootstrap"] = replicates.to_json()
    return _console.deliver(result, args, more=more, lines=lines)


def _add_convert(parser: Parser) -> None:
    _options.add_reading(parser)
    text = "output file: .csv, .csv.gz, .parquet, .nc or .zarr (default: the last file named)"
    parser.add_output(f"-o --output OUT  {text}", Output("trajectories"))
    parser.set_defaults(reads=_convert_reads)


def _convert_reads(args: argparse.Namespace) -> list[Path]:
    """Return the files to read; without -o, the last file named is the output."""
    files = list(args.file) if isinstance(args.file, _options.Files) else [args.file]
    if args.output is None:
        if len(files) == 1:
            args.parser.error("the following arguments are required: -o/--output")
        args.output = files.pop()
        args.file = files[0] if len(files) == 1 else _options.Files(files)
    return files


def _convert(args: argparse.Namespace) -> int:
    from driftbayes.io import write_trajectories

    tracks = _options.read(args)
    # Options for reading the source do not apply to the new file.
    known = dict(tracks.provenance)
    if "reading" in known:
        known["converted_with"] = known.pop("reading")
        tracks = replace(tracks, provenance=known)
    with _console.stage("writing"):
        write_trajectories(tracks, args.output)
    for note in tracks.provenance.get("notes", []):
        _console.note(note)
    length, time = tracks.length_unit, tracks.time_unit
    units = f"length unit {length or 'unknown'}, time unit {time or 'unknown'}"
    _console.say(_console.written(args.output, tracks))
    _console.say(units)
    if args.output.name.lower().endswith((".csv", ".csv.gz")) and (length or time):
        options = [f"--length-unit {length}"] * bool(length) + [f"--time-unit {time}"] * bool(time)
        _console.note(
            f"CSV does not store units; read it with {' '.join(options)}, or write Parquet"
        )
    return 0


COMMANDS = {
    "info": Command(
        _add_reading,
        _info,
        (
            "driftbayes info tracks.csv",
            "driftbayes info tracks.csv --columns id=particle,time=t --length-unit km",
            "driftbayes info spots.csv --format trackpy --pixel-size 0.16um --frame-interval 50ms",
        ),
    ),
    "qc": Command(
        _add_qc,
        _qc,
        ("driftbayes qc drifters.nc", "driftbayes qc drifters.nc --qc spikes=3m/s,stuck=6h"),
    ),
    "diagnose": Command(
        _add_diagnose, _diagnose, ("driftbayes diagnose tracks.csv --max-lag 20 -o diagnostics.nc",)
    ),
    "dependence": Command(
        _add_dependence,
        _dependence,
        ("driftbayes dependence tracks.csv --tau 0.5 --bootstrap 200",),
    ),
    "convert": Command(
        _add_convert,
        _convert,
        (
            "driftbayes convert tracks.xml -o tracks.parquet",
            "driftbayes convert drifters.nc -o clean.csv --qc default --units km,d",
            "driftbayes convert track1.csv track2.csv -o tracks.parquet",
        ),
    ),
}
