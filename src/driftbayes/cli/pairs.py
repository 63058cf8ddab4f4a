"""Compare laws of relative dispersion for pairs of particles."""

__all__ = ["COMMANDS"]

import argparse
from typing import Any

from driftbayes.cli import _console, _jax, _options
from driftbayes.cli._parser import Command, Parser
from driftbayes.errors import DriftbayesError


def _add_arguments(parser: Parser) -> None:
    _options.add_reading(parser)
    parser.add_options("""
--tau TAU  sampling time, for example 6h
--taus TAU,...  sampling times of a scan, in place of --tau
--within R  pairs begin when two particles are within this distance of each other (default:
    all particles are paired when they are first seen)
--models NAME,...<=all>  laws to compare: rayleigh, richardson, lundgren, power
--prior PARAM=FAMILY:NUMBERS<list>  prior of xi or of K, the relative diffusivity at the reference
    separation, for example K=exponential:100; may be repeated
--seed SEED<int=0>  random seed of the bootstrap and of draws
""")
    _options.add_json(parser)


def _run(args: argparse.Namespace) -> int:
    _options.check_seed(args.seed)
    if (args.tau is None) == (args.taus is None):
        msg = "give one sampling time (--tau T) or several (--taus T,...)"
        raise DriftbayesError(msg)
    tracks = _options.read(args)
    _jax.prepare_jax()
    from driftbayes.relative import pairs
    from driftbayes.representation import describe

    how: dict[str, Any] = {
        "within": args.within,
        "models": args.models,
        "priors": _options.parse_priors(args.prior),
        "seed": args.seed,
    }
    result = pairs(tracks, args.taus.split(",") if args.tau is None else args.tau, **how)
    if args.json:
        _console.print_json(result.to_json())
    else:
        _console.print_card(describe(result))
    return 0


COMMANDS = {
    "pairs": Command(
        _add_arguments,
        _run,
        (
            "driftbayes pairs drifters.nc --tau 6h --within 10km",
            "driftbayes pairs tracks.csv --taus 1,2,4,8 --within 0.5 --json",
        ),
    )
}
