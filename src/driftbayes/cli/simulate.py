"""Simulate trajectories of a model exactly."""

import argparse

from driftbayes.cli import _console, _jax, _options
from driftbayes.cli._parser import Command, Output, Parser
from driftbayes.errors import DriftbayesError

# Repeated here so that --help need not import the models; a test compares them.
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
# Meaning of each parameter, shorter than in `driftbayes models`.
_MEANINGS = {
    "kappa": "diffusivity, in length²/time",
    "gamma": "inverse decorrelation time of the velocity, in 1/time",
    "k": "long-time diffusivity, in length²/time",
    "hurst": "Hurst exponent, below 1",
    "reference": "reference time at which the diffusivity is kappa",
    "well": "rate of relaxation to the centre of the well, in 1/time",
    "accel": "inverse decorrelation time of the acceleration, in 1/time",
    "smoothness": "smoothness of the velocity spectrum",
    "omega": "rate of rotation of the velocity, in radians/time",
    "ratio": "slow rate over fast rate, below 1",
    "share": "share of k carried by the slow velocity, below 1",
}
_EXAMPLES = (
    "langevin --gamma 1 --k 1 --particles 100 --steps 50 --tau 0.1 -o tracks.csv",
    "brownian --kappa 0.5 --particles 20 --steps 200 --tau 1 --dim 3 --seed 7 -o tracks.nc",
    "model 'langevin+noise' --set gamma=1 --set k=1 --set sigma=0.05 --particles 20 --steps 100 "
    "--tau 0.2 -o noisy.csv",
)


def _examples(of: str = "") -> tuple[str, ...]:
    return tuple(f"driftbayes simulate {line}" for line in _EXAMPLES if line.startswith(of))


def _add_arguments(parser: Parser) -> None:
    models = parser.add_subparsers(dest="model", metavar="MODEL", required=True)
    for model, parameters in PARAMETERS.items():
        text = f"parameters {', '.join(parameters)}"
        sub = models.add_parser(model, help=text, examples=_examples(f"{model} "))
        for name in parameters:
            sub.add_argument(f"--{name}", type=float, required=True, help=_MEANINGS[name])
        _add_common(sub)
    text = "any model with options, or a sum of models, see `driftbayes models`"
    sub = models.add_parser("model", help=text, examples=_examples("model "))
    sub.add_argument("name", metavar="NAME", help="name of the model, for example 'langevin+noise'")
    sub.add_options("--set PARAMETER=VALUE<list>  value of a parameter; give every parameter")
    _add_common(sub)


def _add_common(sub: Parser) -> None:
    sub.add_options("""
--particles PARTICLES<int!>  number of particles
--steps STEPS<int!>  number of steps per particle
--tau TAU<float!>  sampling time, in the unit of time of the parameters
--dim DIM<int=2>  number of dimensions, 1 to 3
--seed SEED<int=0>  random seed
""")
    text = "output file: .csv, .csv.gz, .parquet, .nc or .zarr"
    sub.add_output(f"-o --output FILE<!>  {text}", Output("trajectories"))


def _run(args: argparse.Namespace) -> int:
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
            raise DriftbayesError(f"--{option} must be a positive number, got {value}")
    if not 1 <= args.dim <= 3:
        raise DriftbayesError(f"--dim must be 1, 2 or 3, got {args.dim}")
    _options.check_seed(args.seed)
    _jax.prepare_jax()
    from driftbayes.io import write_trajectories
    from driftbayes.workflow import simulate

    counts = {"n_particles": args.particles, "n_steps": args.steps, "n_dim": args.dim}
    with _console.stage("simulation"):
        tracks = simulate(name, theta, tau=args.tau, seed=args.seed, **counts)
    write_trajectories(tracks, args.output)
    _console.note(_console.written(args.output, tracks))
    return 0


def _values(texts: list[str]) -> dict[str, float]:
    """Parse values of parameters, for example gamma=0.5."""
    values: dict[str, float] = {}
    for text in texts:
        name, _, number = text.partition("=")
        if name in values:
            raise DriftbayesError(f"--set {name} was given twice; give it once")
        try:
            values[name] = float(number)
        except ValueError as error:
            msg = f"--set must be PARAMETER=VALUE, got {text!r}; for example gamma=0.5"
            raise DriftbayesError(msg) from error
    return values


COMMANDS = {"simulate": Command(_add_arguments, _run, _examples())}
