"""Fit smooth fields of diffusivity and flow, or of velocity scale, memory time and flow."""

import argparse

from driftbayes.cli import _console, _options
from driftbayes.cli._parser import Command, Parser
from driftbayes.errors import DriftbayesError


def _add_arguments(parser: Parser) -> None:
    _options.add_reading(parser)
    _options.add_tau(parser)
    parser.add_options("""
--model {brownian,langevin}<str=brownian>  fields of kappa and the mean flow, or of the velocity
    scale sigma, the memory time T and the mean flow
--density {auto,local,fokker-planck}<str=auto>  density of Brownian steps: local Gaussian,
    Fokker-Planck on a grid, or the latter if kappa changes strongly over a step
--walls LOW,HIGH<list>  positions of reflecting walls along an axis, in the unit of the data; once
    for each axis
--hypotheses NAMES  which fields may vary, separated by commas: kappa, flow, both; or sigma, time,
    both (of these), flow (default: all)
--intervals N<int>  spline intervals along the longer side (default: 16 in 1-D, 8 in 2-D)
--prior PARAM=FAMILY:NUMBERS<list>  prior of kappa, gamma or k (exponential) or flow (fixed), for
    example kappa=exponential:100; may be repeated
""")
    parser.add_options(_options.SCALES)
    _options.add_netcdf(parser, "write the fields with their errors as NetCDF with CF conventions")
    _options.add_figure(parser, "write a figure of the fields and their errors")
    _options.add_json(parser)


def _run(args: argparse.Namespace) -> int:
    tau = _options.parse_tau(args.tau)
    how = {"model": args.model, "density": args.density, "n_intervals": args.intervals}
    how["walls"] = _parse_walls(args.walls)
    if args.hypotheses is not None:
        how["hypotheses"] = args.hypotheses.split(",")
    _, result = _options.analyse(args, "field", tau, **how)
    return _console.deliver(result, args)


def _parse_walls(texts: list[str]) -> list[list[float]] | None:
    """Return the lower and upper walls along all axes."""
    if not texts:
        return None
    pairs = []
    for text in texts:
        try:
            low, high = (float(part) for part in text.split(","))
        except ValueError:
            msg = f"--walls needs a lower and an upper number, for example 0,100; got {text!r}"
            raise DriftbayesError(msg) from None
        pairs.append((low, high))
    return [list(ends) for ends in zip(*pairs, strict=True)]


COMMANDS = {
    "field": Command(
        _add_arguments,
        _run,
        (
            "driftbayes field drifters.nc --tau 4d -o field.nc --figure field.png",
            "driftbayes field tracks.csv --tau 1 --intervals 12 --json",
            "driftbayes field tracks.csv --tau 0.1 --model langevin --hypotheses sigma,time",
        ),
    )
}
