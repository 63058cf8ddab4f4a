"""Test the goodness of fit of models, and the sensitivity of the verdict to the priors."""

import argparse

from driftbayes.cli import _console, _options
from driftbayes.cli._parser import Command, Parser
from driftbayes.errors import DriftbayesError


def _add_check(parser: Parser) -> None:
    _options.add_reading(parser)
    _options.add_tau(parser)
    parser.add_options("--replicas N<int=500>  number of replicas of each model")
    _options.add_figure(parser, "write a figure of data and replicas")
    parser.add_old_names("--figure", "-o", "--output")
    _options.add_data(parser)
    _options.add_inference(parser)
    _options.add_json(parser)
    _options.add_streaming(parser)


def _check(args: argparse.Namespace) -> int:
    tau = _options.parse_tau(args.tau)
    from driftbayes.checks._check import check_replicas

    check_replicas(args.replicas, "--replicas")
    _, result = _options.analyse(args, "check", tau, sums=False, n_replicas=args.replicas)
    return _console.deliver(result, args, dpi=200)


def _add_sensitivity(parser: Parser) -> None:
    _options.add_reading(parser)
    _options.add_data(parser)
    _options.add_tau(parser)
    _options.add_inference(parser, weighs_models=False)
    parser.add_options(
        "--factors LOW:HIGH:N<=1/16:16:17>  factors of the prior scales, logarithmically spaced"
    )
    _options.add_figure(parser, "write a figure of ln K of the first two models")
    parser.add_old_names("--figure", "-o", "--output")
    _options.add_json(parser)


def _sensitivity(args: argparse.Namespace) -> int:
    tau = _options.parse_tau(args.tau)
    factors = _parse_factors(args.factors)
    _, result = _options.analyse(args, "sensitivity", tau, factors=factors)
    return _console.deliver(result, args)


def _parse_factors(text: str) -> list[float]:
    import numpy as np

    try:
        low, high, n = text.split(":")
        ends = [_fraction(low), _fraction(high)]
        count = int(n)
    except ValueError as error:
        msg = f"--factors must be LOW:HIGH:N, got {text!r}; for example 1/16:16:17"
        raise DriftbayesError(msg) from error
    if not 0 < ends[0] <= ends[1] or not 1 <= count <= 1000:
        raise DriftbayesError(f"--factors needs 0 < LOW <= HIGH and N from 1 to 1000, got {text!r}")
    return [float(f) for f in np.geomspace(ends[0], ends[1], count)]


def _fraction(text: str) -> float:
    above, _, below = text.partition("/")
    divisor = float(below) if below else 1.0
    if divisor == 0:
        raise ValueError
    return float(above) / divisor


COMMANDS = {
    "check": Command(
        _add_check,
        _check,
        (
            "driftbayes check tracks.csv --tau 0.5",
            "driftbayes check tracks.csv --tau 0.5 --replicas 2000 --figure check.pdf",
        ),
    ),
    "sensitivity": Command(
        _add_sensitivity,
        _sensitivity,
        ("driftbayes sensitivity tracks.csv --tau 0.5 --figure sensitivity.png",),
    ),
}
