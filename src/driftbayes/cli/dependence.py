"""Whether particles move together, how many independent ones they are worth, and ln K then."""

__all__ = ["add_parser", "run"]

import argparse
from typing import TYPE_CHECKING

from driftbayes.cli import _console, _options, _reading
from driftbayes.errors import DriftbayesError

if TYPE_CHECKING:
    pass


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser."""
    parser = subparsers.add_parser(
        "dependence",
        help=__doc__,
        description=__doc__,
        allow_abbrev=False,
        examples=("driftbayes dependence tracks.csv --tau 0.5 --bootstrap 200",),
    )
    _reading.add_reading(parser)
    parser.add_argument("--tau", type=float, required=True, help="sampling time")
    parser.add_argument(
        "--bootstrap",
        type=int,
        metavar="N",
        help="also draw N replicates of ln K, over particles, clusters of them or blocks of time",
    )
    parser.add_argument(
        "--draw",
        choices=("auto", "particles", "clusters", "time"),
        default="auto",
        help="what the bootstrap draws (default: auto)",
    )
    _options.add_inference(parser)
    _options.add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Read, look, draw, print."""
    from driftbayes.cli._jax import prepare_jax

    _options.check_seed(args.seed)
    trajectories = _reading.read(args)
    prepare_jax()
    from driftbayes.comparison import bootstrap, dependence

    replicates = None
    if args.bootstrap is None:
        found = dependence(trajectories, args.tau)
    else:
        names = _options.model_names(args)
        if len(names) != 2:
            msg = f"--bootstrap compares two models, got {', '.join(names)}: pass --models A,B"
            raise DriftbayesError(msg)
        setup = _options.setup(args, trajectories)
        _options.say_priors(setup)
        replicates = bootstrap(
            trajectories,
            setup.hypotheses,
            args.tau,
            n_replicates=args.bootstrap,
            units=args.draw,
            method=args.method,
            seed=args.seed,
        )
        found = replicates.dependence
    if args.json:
        drawn = {} if replicates is None else {"bootstrap": replicates.to_json()}
        _console.print_json({**found.to_json(), **drawn})
        return 0
    unit = f" {found.time_unit}" if found.time_unit else ""
    few = f" ({found.n_sampled} looked at)" if found.n_sampled < found.n_particles else ""
    rows = [
        ["mean correlation of simultaneous displacements", f"{found.mean_correlation:.4f}"],
        ["mean square of it, less noise", f"{found.mean_square:.4f}"],
        ["noise in the square", f"{found.noise:.2g}"],
        ["variance of second moments, times", f"{found.inflation:.4g} ± {found.inflation_err:.1g}"],
        ["effective number, second moments", f"{found.n_effective:.3g}"],
        ["effective number, mean flow", f"{found.n_effective_mean:.3g}"],
        ["clusters", str(found.n_clusters)],
    ]
    title = f"tau = {found.tau:g}{unit}: {found.n_particles} particles{few}, {found.n_steps} steps"
    _console.print_table(title, ["", ""], rows)
    print(found.sentence)
    if replicates is not None:
        print(replicates.sentence)
    return 0
