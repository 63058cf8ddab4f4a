"""Compare models at one sampling time."""

__all__ = ["add_arguments", "run"]

import argparse

from driftbayes.cli import _console, _jax, _options, _reading, _streaming

EXAMPLES = (
    "driftbayes compare tracks.csv --tau 0.5",
    "driftbayes compare tracks.csv --tau 0.5 --u-rms 1.4 --timescale 1 --json",
    "driftbayes compare drifters.nc --tau all --models langevin,langevin+noise",
    "driftbayes compare large.parquet --tau 2 --workers 8",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    _reading.add_reading(parser)
    _options.add_tau(parser)
    _options.add_data(parser)
    _options.add_inference(parser)
    parser.add_argument(
        "--sensitivity",
        action="store_true",
        help="show ln K for prior scales times 1/4 and 4 (always shown for default priors)",
    )
    _options.add_json(parser)
    _streaming.add_streaming(parser)


def run(args: argparse.Namespace) -> int:
    """Read, compare, print."""
    tau = _options.parse_tau(args.tau)
    is_streamed = _streaming.is_asked_for(args)
    how = {**_options.evidence(args), "sensitivity": args.sensitivity or None}
    if is_streamed:
        data, trajectories = _streaming.summed(args, tau)
    else:
        trajectories = _reading.read(args)
    _jax.prepare_jax()
    from driftbayes.representation import describe
    from driftbayes.workflow.analyses import compare, compare_displacements

    with _console.timed(f"evidence of {args.models}"):
        if is_streamed:
            result = compare_displacements(data, _options.setup(args, trajectories), **how)
        else:
            how |= {"cut": _options.cut(args), **_options.hypotheses(args)}
            result = compare(trajectories, "all" if tau is None else tau, **how)
    if args.json:
        quality = {k: v for k, v in trajectories.provenance.items() if k == "quality"}
        _console.print_json({**result.to_json(), **quality})
    else:
        _console.print_card(describe(result))
    return 0
