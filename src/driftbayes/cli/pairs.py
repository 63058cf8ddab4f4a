"""Compare laws of relative dispersion for pairs of particles."""

import argparse
from typing import TYPE_CHECKING, Any

from driftbayes.cli import _console, _jax, _options
from driftbayes.cli._parser import Command, Parser
from driftbayes.errors import DriftbayesError

if TYPE_CHECKING:
    from driftbayes.relative import PairComparison, PairScan


def _add_arguments(parser: Parser) -> None:
    _options.add_reading(parser)
    parser.add_options("""
--tau TAU  sampling time, for example 6h
--taus LOW:HIGH:COUNT[log]  sampling times of a scan, in place of --tau, for example 1h:10d:12log
    or 1h,6h,1d, rounded to multiples of the recording interval (default: twelve over the range of
    the data)
--within R  pair particles when they are first within this distance of each other (default: pair
    all particles when they are first observed)
--models NAME,...<=all>  laws to compare: rayleigh, richardson, lundgren, power
--prior PARAM=FAMILY:NUMBERS<list>  prior of xi or of K, the relative diffusivity at the reference
    separation, for example K=exponential:100; may be repeated
--seed SEED<int=0>  random seed of the bootstrap and of draws
""")
    _options.add_figure(parser)
    _options.add_json(parser)


def _run(args: argparse.Namespace) -> int:
    _options.check_seed(args.seed)
    if args.tau is not None and args.taus is not None:
        msg = "--tau and --taus exclude each other; give one sampling time or several"
        raise DriftbayesError(msg)
    taus = None if args.taus is None else _options.parse_times("--taus", args.taus)
    tracks = _options.read(args)
    _jax.prepare_jax()
    from driftbayes.relative import compare_pairs, scan_pairs
    from driftbayes.workflow import suggested_taus

    how: dict[str, Any] = {
        "within": args.within,
        "models": args.models,
        "priors": _options.parse_priors(args.prior),
        "seed": args.seed,
    }
    result: PairComparison | PairScan
    with _console.stage("pairs"):
        if args.tau is not None:
            result = compare_pairs(tracks, args.tau, **how)
        else:
            result = scan_pairs(tracks, taus or suggested_taus(tracks), **how)
    return _console.deliver(result, args, dpi=200)


COMMANDS = {
    "pairs": Command(
        _add_arguments,
        _run,
        (
            "driftbayes pairs drifters.nc --tau 6h --within 10km",
            "driftbayes pairs drifters.nc --within 10km --figure pairs.png",
            "driftbayes pairs tracks.csv --taus 1,2,4,8 --within 0.5 --json",
        ),
    )
}
