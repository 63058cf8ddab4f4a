"""Compare models over a range of sampling times."""

__all__ = ["COMMANDS"]

import argparse

from driftbayes.cli import _console, _jax, _options
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
    from driftbayes.io import write_scan

    taus = None if args.taus is None else _options.parse_times("--taus", args.taus)
    with _console.progress_bar() as progress:
        tracks = _options.read_large(args, progress)
        _jax.prepare_jax()
        from driftbayes.workflow import scan

        with _console.timed(f"scan with {args.models}"):
            result = scan(tracks, taus, progress=progress, **_options.analysis(args))
    _options.note_blocks(args, tracks)
    n_found = len(result.comparisons) + len(result.skipped)
    n_wanted = 0 if taus is None else len(times_in(taus, None, "--taus"))
    if n_found < n_wanted:
        interval = readable(tracks.recording_interval or 0.0, result.comparisons[0].time_unit)
        _console.note(
            f"{n_wanted} sampling times rounded to {counted(n_found, 'multiple')} of the "
            f"recording interval {interval}"
        )
    if args.output is not None:
        write_scan(result.to_dataset(), args.output)
        _console.note(f"wrote {args.output}")
    if args.figure is not None:
        _console.save_figure(result.plot(), args.figure)
    if args.json:
        _console.print_json(result.to_json())
    else:
        from driftbayes.comparison._describe_scan import describe_scan

        _console.print_card(describe_scan(result, max_taus=None))
        if result.missing_models:
            _console.say(f"next: {_options.offer_models(args, result.missing_models)}")
    return 0


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
