"""Fit smooth fields of diffusivity and flow."""

__all__ = ["COMMANDS"]

import argparse

from driftbayes.cli import _console, _jax, _options
from driftbayes.cli._parser import Command, Parser, figure, netcdf
from driftbayes.errors import DriftbayesError


def _add_arguments(parser: Parser) -> None:
    _options.add_reading(parser)
    _options.add_tau(parser)
    parser.add_options("""
--intervals N<int>  spline intervals along the longer side (default: 16 in 1-D, 8 in 2-D)
--u-rms U  root-mean-square velocity, for example 0.2m/s, sets prior scales
--timescale T  velocity time scale, for example 2d, sets prior scales
--prior PARAM=FAMILY:NUMBERS<list>  prior of kappa (exponential) or flow (fixed), for example
    kappa=exponential:100; may be repeated
""")
    parser.add_output(
        "-o",
        "--output",
        output=netcdf,
        metavar="FILE.nc",
        help="write the fields with their errors as NetCDF by the CF conventions",
    )
    parser.add_output(
        "--figure",
        output=figure,
        metavar="FILE.png",
        help="write a figure of the fields and their errors: PNG, PDF or SVG",
    )
    _options.add_json(parser)


def _run(args: argparse.Namespace) -> int:
    tau = _options.parse_tau(args.tau)
    if (args.u_rms is None) != (args.timescale is None):
        msg = "--u-rms and --timescale must be given together"
        raise DriftbayesError(msg)
    tracks = _options.read(args)
    _jax.prepare_jax()
    from driftbayes.workflow import Scales, field

    scales = None if args.u_rms is None else Scales(args.u_rms, args.timescale)
    priors = _options.parse_priors(args.prior)
    with _console.progress_bar() as progress:
        result = field(
            tracks,
            tau,
            priors=priors,
            scales=scales,
            n_intervals=args.intervals,
            progress=progress,
        )
    if args.output is not None:
        from driftbayes.io import write_dataset

        write_dataset(result.to_dataset(), args.output, kind="field")
        _console.note(f"wrote {args.output}")
    if args.figure is not None:
        from driftbayes.plots.field import field_figure

        _console.save_figure(field_figure(result), args.figure)
    _console.print_result(result, as_json=args.json)
    return 0


COMMANDS = {
    "field": Command(
        _add_arguments,
        _run,
        (
            "driftbayes field drifters.nc --tau 4d -o field.nc --figure field.png",
            "driftbayes field tracks.csv --tau 1 --intervals 12 --json",
        ),
    )
}
