"""Predict the dispersion of particles under each model and their average."""

__all__ = ["add_arguments", "run"]

import argparse
from typing import TYPE_CHECKING

from driftbayes.cli import _console, _jax, _options, _outputs, _reading
from driftbayes.errors import DriftbayesError

if TYPE_CHECKING:
    from driftbayes.data.trajectories import Trajectories
    from driftbayes.prediction.predict import Prediction


EXAMPLES = (
    "driftbayes predict tracks.csv --tau 0.5 --horizon 5,10",
    "driftbayes predict tracks.csv --tau 0.5 --horizon 5 --members 50 -o futures.parquet",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    _reading.add_reading(parser)
    _options.add_tau(parser)
    parser.add_argument(
        "--horizon",
        required=True,
        metavar="T[,T...]",
        help="forecast times, in the time unit of the file",
    )
    parser.add_argument(
        "--members",
        type=int,
        default=100,
        metavar="N",
        help="ensemble members per particle, for -o (default: 100)",
    )
    parser.add_argument(
        "--draws",
        type=int,
        default=1000,
        metavar="N",
        help="number of posterior draws (default: 1000)",
    )
    _outputs.add_output(
        parser,
        "-o",
        "--output",
        output=_outputs.trajectories,
        metavar="FILE",
        help="write an ensemble of future trajectories from the last observed positions, named "
        "particle/member: CSV, Parquet, NetCDF or Zarr",
    )
    _options.add_data(parser)
    _options.add_inference(parser)
    _options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Read, fit, predict, write and print."""
    tau = _options.parse_tau(args.tau)
    horizons = parse_times("--horizon", args.horizon)
    for option, number in (("--members", args.members), ("--draws", args.draws)):
        if number < 1:
            msg = f"{option} must be 1 or more, got {number}"
            raise DriftbayesError(msg)
    _options.check_seed(args.seed)
    prior_probabilities = _options.model_prior(args)
    trajectories = _reading.read(args)
    _jax.prepare_jax()
    from driftbayes.comparison.bayes import model_probabilities
    from driftbayes.data.sampling import displacements
    from driftbayes.inference import posterior_draws
    from driftbayes.io import write_trajectories
    from driftbayes.prediction.forecast import predict_particles
    from driftbayes.prediction.predict import predict

    data = displacements(trajectories, tau, n_tau=args.n_tau, windows=args.windows, gaps=args.gaps)
    setup = _options.setup(args, trajectories)
    _options.print_priors(setup)
    draws = [
        posterior_draws(
            hypothesis,
            data,
            n_draws=args.draws,
            seed=args.seed,
            method=args.method,
            coords=args.coords,
        )
        for hypothesis in setup.hypotheses
    ]
    weights = model_probabilities([d.evidence for d in draws], prior_probabilities).tolist()
    result = predict(draws, horizons, probabilities=weights, n_dim=data.n_dim)
    warnings = [f"{d.evidence.name}: {text}" for d in draws for text in d.evidence.warnings]
    if args.output is not None:
        forecast = predict_particles(
            draws,
            trajectories,
            horizons,
            tau=tau,
            n_members=args.members,
            probabilities=weights,
            seed=args.seed,
        )
        written = forecast.trajectories(
            predicted_from=str(args.file),
            tau=args.tau,
            seed=args.seed,
            models=",".join(forecast.models),
            data_fingerprint=trajectories.fingerprint,
        )
        write_trajectories(written, args.output)
        _console.note(f"wrote {args.output}: {written!r}")
    if args.json:
        about = {
            "tau": data.tau,
            "length_unit": data.length_unit,
            "time_unit": data.time_unit,
            "data_fingerprint": data.fingerprint,
            "priors_from_data": setup.from_data,
            "n_draws": args.draws,
            "seed": args.seed,
            "warnings": warnings,
        }
        _console.print_json({**about, **result.to_json()})
    else:
        _print_prediction(result, trajectories, data.tau)
        for text in warnings:
            print(f"warning: {text}")
    return 0


def _print_prediction(result: "Prediction", trajectories: "Trajectories", tau: float) -> None:
    """Print the predicted dispersion as a table."""
    length, time = trajectories.length_unit, trajectories.time_unit
    rows = []
    for i, horizon in enumerate(result.horizons):
        for name, spread in result.spreads.items():
            sd, k = spread.sd_quantiles[i], spread.diffusivity_quantiles[i]
            rows.append(
                [
                    f"{horizon:g}",
                    name,
                    f"{result.probabilities[name]:.4g}" if name in result.probabilities else "",
                    f"{spread.sd[i]:.4g}",
                    f"{sd[0]:.4g} … {sd[-1]:.4g}",
                    f"{spread.distance_quantiles[i][2]:.4g}",
                    f"{spread.distance_quantiles[i][-1]:.4g}",
                    f"{spread.diffusivity[i]:.4g}",
                    f"{k[0]:.4g} … {k[-1]:.4g}",
                ]
            )
    at, unit = f"{tau:g} {time}".rstrip(), f", {length}" if length else ""
    title = (
        f"Predicted displacement after time T ({result.n_dim}D{unit}), fit at tau = {at}; "
        "Var(Δx_i) = 2κT per axis"
    )
    columns = [
        *(f"T ({time})" if time else "T", "model", "probability", "sd per axis", "95 % interval"),
        *("median |ΔX|", "97.5 % |ΔX|", "κ = Var/2T", "95 % interval"),
    ]
    _console.print_table(title, columns, rows, left=2, keys=2)


def parse_times(option: str, text: str) -> list[float]:
    """Parse positive times, separated by commas; return them sorted."""
    try:
        times = sorted({float(part) for part in text.split(",")})
    except ValueError:
        times = []
    if not times or not all(0 < time < float("inf") for time in times):
        msg = f"{option} must be positive times separated by commas, got {text!r}"
        raise DriftbayesError(msg)
    return times
