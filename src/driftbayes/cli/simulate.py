"""Exact trajectories from a model, to a file."""

__all__ = ["add_parser", "run"]

import argparse
from math import inf, isfinite
from typing import TYPE_CHECKING

from driftbayes.cli import _console, _options, _outputs
from driftbayes.errors import DriftbayesError

if TYPE_CHECKING:
    from driftbayes.models import AbstractModel

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
    "model 'langevin+noise' --set gamma=1 --set k=1 --set sigma=0.05 --particles 20 --steps 100 "
    "--tau 0.2 -o noisy.csv",
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
        _add_common(sub)
    own = [example for example in _EXAMPLES if example.startswith("model ")]
    sub = models.add_parser(
        "model",
        help="any model with options, or a sum: see `driftbayes models`",
        examples=(f"driftbayes simulate {example}" for example in own),
    )
    sub.add_argument("name", metavar="NAME", help="for example 'langevin+noise'")
    sub.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="PARAMETER=VALUE",
        help="value of a parameter; give one for each",
    )
    _add_common(sub)


def _add_common(sub: argparse.ArgumentParser) -> None:
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
    is_plain = args.model in PARAMETERS
    name = args.model if is_plain else args.name
    theta = (
        {name: getattr(args, name) for name in PARAMETERS[args.model]}
        if is_plain
        else _values(args.set)
    )
    numbers = {"tau": args.tau, "particles": args.particles, "steps": args.steps}
    for option, value in {**theta, **numbers}.items() if is_plain else numbers.items():
        if not 0 < value < float("inf"):
            msg = f"--{option} must be a positive number, got {value}"
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
    from driftbayes.models import MODELS, model_named
    from driftbayes.trajectories import Trajectories

    model = model_named(name, MODELS, args.dim)
    _check_values(model, theta)
    positions = model(**theta).simulate(
        jax.random.key(args.seed),
        n_particles=args.particles,
        n_steps=args.steps,
        n_dim=args.dim,
        tau=args.tau,
    )
    provenance = {"simulated": name, **theta, **numbers, "dim": args.dim, "seed": args.seed}
    trajectories = Trajectories.from_arrays(
        np.asarray(positions), dt=args.tau, provenance=provenance
    )
    write_trajectories(trajectories, args.output)
    _console.note(f"wrote {args.output}: {trajectories!r}")
    return 0


def _values(texts: list[str]) -> dict[str, float]:
    """Values of parameters from texts such as gamma=0.5."""
    found: dict[str, float] = {}
    for text in texts:
        name, _, number = text.partition("=")
        if name in found:
            msg = f"--set {name} is given twice; give it once"
            raise DriftbayesError(msg)
        try:
            found[name] = float(number)
        except ValueError as error:
            msg = f"--set must be PARAMETER=VALUE, for example gamma=0.5, got {text!r}"
            raise DriftbayesError(msg) from error
    return found


def _check_values(model: "type[AbstractModel]", theta: dict[str, float]) -> None:
    """Refuse parameters that are missing, unknown or outside their bounds."""
    known = model.parameters
    missing = [name for name in known if name not in theta]
    extra = [name for name in theta if name not in known]
    if missing or extra:
        wrong = (
            f"no value for {', '.join(missing)}" if missing else f"unknown are {', '.join(extra)}"
        )
        msg = f"{model.name} has parameters {', '.join(known)}; {wrong}: pass --set PARAMETER=VALUE"
        raise DriftbayesError(msg)
    for name, value in theta.items():
        # Components of a tensor may be negative; all else is positive.
        low = -inf if name[:1] == "h" and name[1:].isdigit() else 0.0
        if not (low < value < known[name].upper and isfinite(value)):
            bound = f" below {known[name].upper:g}" if isfinite(known[name].upper) else ""
            kind = "a finite" if low < 0 else "a positive, finite"
            msg = f"{name} must be {kind} number{bound}, got {value}"
            raise DriftbayesError(msg)
