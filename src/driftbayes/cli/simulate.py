"""Exact trajectories from a model, to a file."""

__all__ = ["add_parser", "run"]

import argparse

from driftbayes.cli import _console, _options, _outputs
from driftbayes.errors import DriftbayesError

# Known here so that --help need not import the models; a test compares the two.
PARAMETERS = {
    "brownian": ("kappa",),
    "langevin": ("gamma", "k"),
    "fractional": ("hurst", "kappa", "reference"),
    "confined_brownian": ("well", "kappa"),
    "second_order": ("gamma", "accel", "k"),
    "matern": ("gamma", "smoothness", "k"),
    "oscillating": ("gamma", "omega", "k"),
    "confined": ("gamma", "well", "k"),
    "two_scale": ("gamma", "ratio", "share", "k"),
}
_EXAMPLES = (
    "langevin --gamma 1 --k 1 --particles 100 --steps 50 --tau 0.1 -o tracks.csv",
    "brownian --kappa 0.5 --particles 20 --steps 200 --tau 1 --dim 3 --seed 7 -o tracks.nc",
)


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser."""
    parser = subparsers.add_parser(
        "simulate",
        help=__doc__,
        description=__doc__,
        allow_abbrev=False,
        examples=(f"driftbayes simulate {example}" for example in _EXAMPLES),
    )
    models = parser.add_subparsers(dest="model", metavar="MODEL", required=True)
    for model, parameters in PARAMETERS.items():
        own = [example for example in _EXAMPLES if example.startswith(f"{model} ")]
        sub = models.add_parser(
            model,
            help=f"parameters {', '.join(parameters)}",
            examples=(f"driftbayes simulate {example}" for example in own),
        )
        for name in parameters:
            sub.add_argument(f"--{name}", type=float, required=True)
        sub.add_argument("--particles", type=int, required=True)
        sub.add_argument("--steps", type=int, required=True, help="steps per particle")
        sub.add_argument("--tau", type=float, required=True, help="time between positions")
        sub.add_argument("--dim", type=int, default=2, help="1 to 3 (default: 2)")
        sub.add_argument("--seed", type=int, default=0, help="(default: 0)")
        _outputs.add_output(
            sub,
            "-o",
            "--output",
            output=_outputs.trajectories,
            required=True,
            metavar="FILE",
            help="CSV, Parquet, NetCDF or Zarr, by its suffix",
        )
        sub.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Simulate and write."""
    theta = {name: getattr(args, name) for name in PARAMETERS[args.model]}
    numbers = {**theta, "tau": args.tau, "particles": args.particles, "steps": args.steps}
    for name, value in numbers.items():
        if not 0 < value < float("inf"):
            msg = f"--{name} must be a positive number, got {value}"
            raise DriftbayesError(msg)
    if not 1 <= args.dim <= 3:
        msg = f"--dim must be 1, 2 or 3, got {args.dim}"
        raise DriftbayesError(msg)
    _options.check_seed(args.seed)
    from driftbayes.cli._jax import prepare_jax

    prepare_jax()
    import jax
    import numpy as np

    from driftbayes.io import write_trajectories
    from driftbayes.models import MODELS
    from driftbayes.trajectories import Trajectories

    positions = MODELS[args.model](**theta).simulate(
        jax.random.key(args.seed),
        n_particles=args.particles,
        n_steps=args.steps,
        n_dim=args.dim,
        tau=args.tau,
    )
    provenance = {"simulated": args.model, **numbers, "dim": args.dim, "seed": args.seed}
    trajectories = Trajectories.from_arrays(
        np.asarray(positions), dt=args.tau, provenance=provenance
    )
    write_trajectories(trajectories, args.output)
    _console.note(f"wrote {args.output}: {trajectories!r}")
    return 0
