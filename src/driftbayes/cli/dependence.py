"""Estimate the effective number of independent particles, and the corrected ln K."""

__all__ = ["add_arguments", "run"]

import argparse

from driftbayes.cli import _console, _jax, _options, _reading
from driftbayes.errors import DriftbayesError

EXAMPLES = ("driftbayes dependence tracks.csv --tau 0.5 --bootstrap 200",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    _reading.add_reading(parser)
    parser.add_argument("--tau", type=float, required=True, help="sampling time")
    parser.add_argument(
        "--bootstrap",
        type=int,
        metavar="N",
        help="also bootstrap ln K with N replicates",
    )
    parser.add_argument(
        "--draw",
        choices=("auto", "particles", "clusters", "time"),
        default="auto",
        help="resample particles, clusters of particles or blocks of time (default: auto)",
    )
    _options.add_inference(parser)
    _options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Read, estimate, resample and print."""
    _options.check_seed(args.seed)
    trajectories = _reading.read(args)
    _jax.prepare_jax()
    from driftbayes.comparison import bootstrap, dependence

    replicates = None
    if args.bootstrap is None:
        found = dependence(trajectories, args.tau)
    else:
        names = _options.model_names(args)
        if len(names) != 2:
            msg = f"--bootstrap needs two models, got {', '.join(names)}; pass --models A,B"
            raise DriftbayesError(msg)
        setup = _options.setup(args, trajectories)
        _options.print_priors(setup)
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
    few = f" ({found.n_sampled} sampled)" if found.n_sampled < found.n_particles else ""
    rows = [
        ["mean correlation of simultaneous displacements", f"{found.mean_correlation:.4f}"],
        ["mean squared correlation, bias-corrected", f"{found.mean_square:.4f}"],
        ["bias of the squared correlation", f"{found.noise:.2g}"],
        [
            "variance inflation, second moments",
            f"{found.inflation:.4g} ± {found.inflation_err:.1g}",
        ],
        ["effective number of particles, second moments", f"{found.n_effective:.3g}"],
        ["effective number of particles, mean flow", f"{found.n_effective_mean:.3g}"],
        ["clusters of particles", str(found.n_clusters)],
    ]
    title = f"tau = {found.tau:g}{unit}: {found.n_particles} particles{few}, {found.n_steps} steps"
    _console.print_table(title, ["", ""], rows)
    print(found.sentence)
    if replicates is not None:
        print(replicates.sentence)
    return 0
