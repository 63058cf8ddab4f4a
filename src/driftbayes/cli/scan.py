"""Compare models over a range of sampling times."""

import argparse

from driftbayes.cli import _console, _options
from driftbayes.cli._parser import Command, Parser


def _add_arguments(parser: Parser) -> None:
    _options.add_reading(parser)
    parser.add_options("""
--taus LOW:HIGH:COUNT[log]  sampling times, for example 0.01:100:100log, 1h:10d:12log or
    1h,6h,1d, rounded to multiples of the recording interval (default: twelve over the range of the
    data)
""")
    _options.add_data(parser)
    _options.add_inference(parser)
    _options.add_netcdf(parser, "write the result as NetCDF")
    _options.add_figure(parser)
    _options.add_json(parser)
    _options.add_streaming(parser)


def _run(args: argparse.Namespace) -> int:
    from driftbayes._representation import counted
    from driftbayes.data._units import readable, times_in

    taus = None if args.taus is None else _options.parse_times("--taus", args.taus)
    tracks, result = _options.analyse(args, "scan", taus)
    n_found = len(result.comparisons) + len(result.skipped)
    n_wanted = 0 if taus is None else len(times_in(taus, None, "--taus"))
    if n_found < n_wanted:
        interval = readable(tracks.recording_interval or 0.0, result.comparisons[0].time_unit)
        _console.note(
            f"{n_wanted} sampling times rounded to {counted(n_found, 'multiple')} of the "
            f"recording interval {interval}"
        )
    from driftbayes.comparison._describe_scan import describe_scan

    missing = result.missing_models
    lines = [f"next: {_options.offer_models(args, missing)}"] if missing else []
    card = describe_scan(result, max_taus=None)
    return _console.deliver(result, args, card=card, lines=lines)


COMMANDS = {
    "scan": Command(
        _add_arguments,
        _run,
        (
            "driftbayes scan tracks.csv",
            "driftbayes scan tracks.csv --taus 0.1:20:20log -o scan.nc --figure scan.png",
            "driftbayes scan tracks.csv --taus 1,2,5 --models brownian,langevin,matern",
            "driftbayes scan large.parquet --taus 1:100:20log --workers 8 -o scan.nc",
        ),
    )
}
