"""Predict the dispersion of particles, score predictions, and map diffusivities."""

__all__ = ["COMMANDS"]

import argparse
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from driftbayes.cli import _console, _jax, _options
from driftbayes.cli._parser import Command, Output, Parser, figure, netcdf
from driftbayes.errors import DriftbayesError

if TYPE_CHECKING:
    from driftbayes.prediction import Forecast, TrajectoryScores


def _add_predict(parser: Parser) -> None:
    _options.add_reading(parser)
    _options.add_tau(parser)
    parser.add_options("""
--horizon T[,T...]<!>  forecast times, in the time unit of the file
--members N<int=100>  ensemble members per particle, for -o
--draws N<int=1000>  number of posterior draws
""")
    parser.add_output(
        "-o",
        "--output",
        output=Output("trajectories"),
        metavar="FILE",
        help="write an ensemble of future trajectories from the last observed positions, named "
        "particle/member: CSV, Parquet, NetCDF or Zarr",
    )
    _options.add_data(parser)
    _options.add_inference(parser)
    _options.add_json(parser)


def _predict(args: argparse.Namespace) -> int:
    tau = _options.parse_tau(args.tau)
    horizons = _options.parse_times("--horizon", args.horizon)
    for option, number in (("--members", args.members), ("--draws", args.draws)):
        if number < 1:
            msg = f"{option} must be 1 or more, got {number}"
            raise DriftbayesError(msg)
    _options.check_seed(args.seed)
    tracks = _options.read(args)
    _jax.prepare_jax()
    from driftbayes.io import write_trajectories
    from driftbayes.workflow import predict

    result = predict(tracks, tau, horizons, n_draws=args.draws, **_options.analysis(args))
    if args.output is not None:
        ensemble = result.particles(args.members)
        written = ensemble.trajectories(
            predicted_from=str(args.file),
            tau=args.tau,
            seed=args.seed,
            models=",".join(ensemble.models),
            data_fingerprint=tracks.fingerprint,
        )
        write_trajectories(written, args.output)
        _console.note(f"wrote {args.output}: {written!r}")
    if args.json:
        _console.print_json(result.to_json())
        return 0
    _print_prediction(result)
    for text in result.warnings:
        _console.say(f"warning: {text}")
    return 0


def _print_prediction(made: "Forecast") -> None:
    """Print the predicted dispersion as a table."""
    result, tau = made.prediction, made.data.tau
    length, time = made.data.length_unit, made.data.time_unit
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


def _add_score(parser: Parser) -> None:
    _options.add_reading(parser)
    _options.add_tau(parser)
    parser.add_options("""
--held-out-taus T[,T...]  also score displacements over these times of held-out trajectories: log
    density, CRPS, energy score
--folds N<int=5>  number of folds for --held-out-taus
""")
    _options.add_data(parser)
    _options.add_inference(parser)
    _options.add_json(parser)


def _score(args: argparse.Namespace) -> int:
    tau = _options.parse_tau(args.tau)
    wanted = args.held_out_taus
    times = [] if wanted is None else _options.parse_times("--held-out-taus", wanted)
    if args.folds < 2:
        msg = f"--folds must be 2 or more, got {args.folds}"
        raise DriftbayesError(msg)
    _options.check_seed(args.seed)
    tracks = _options.read(args)
    _jax.prepare_jax()
    from driftbayes.workflow import score

    with _console.progress_bar() as progress:
        given = {**_options.analysis(args), "progress": progress}
        result = score(tracks, tau, times=times, n_folds=args.folds, **given)
    if args.json:
        _console.print_json(result.to_json())
        return 0
    _print_whole(result.prequential, result.leave_one_out, result.time_unit)
    if result.held_out:
        _print_singles(result.held_out, result.time_unit)
    for text in result.warnings:
        _console.say(f"warning: {text}")
    _console.say(result.remark)
    return 0


def _print_whole(step: "TrajectoryScores", left: "TrajectoryScores", time_unit: str) -> None:
    """Print log densities of whole trajectories, and differences between models."""
    n = len(left.counts)
    rows = []
    for name in left.values:
        mean, error = left.mean(name)
        rows.append([name, f"{step.total(name):.4f}", _pm(n * mean, n * error), _pm(mean, error)])
    models = list(left.values)
    for i, first in enumerate(models):
        for second in models[i + 1 :]:
            mean, error = left.difference(second, first)
            gap = step.total(second) - step.total(first)
            pair = f"{second} − {first}"
            rows.append([pair, f"{gap:.4f}", _pm(n * mean, n * error), _pm(mean, error)])
    at = f"{left.tau:g} {time_unit}".rstrip()
    title = f"Log density of {n} trajectories at tau = {at}, in nats; larger is better"
    columns = ["model", "sequential (ln Z)", "leave-one-out ± se", "per trajectory"]
    _console.print_table(title, columns, rows)


def _print_singles(many: "Sequence[TrajectoryScores]", time_unit: str) -> None:
    """Print scores of displacements, each with its difference from the model average."""
    rows = []
    for scores in many:
        last = list(scores.values)[-1]
        for name in scores.values:
            mean, (gap, error) = scores.mean(name)[0], scores.difference(name, last)
            # A model of probability one differs from the average by rounding alone.
            alike = abs(gap) <= 1e-12 * abs(mean)
            versus = "" if name == last else _pm(0.0 if alike else gap, 0.0 if alike else error)
            best = "larger" if scores.larger_is_better else "smaller"
            rows.append(
                [f"{scores.tau:g}", scores.rule, name, _pm(*scores.mean(name)), versus, best]
            )
    columns = [
        *(f"time ({time_unit})" if time_unit else "time", "score", "model", "mean ± se"),
        *("minus average ± se", "better"),
    ]
    title = f"Displacements of {len(many[0].counts)} held-out trajectories"
    _console.print_table(title, columns, rows, left=3)


def _pm(value: float, error: float) -> str:
    return f"{value:.5g}" if math.isnan(error) or error == 0 else f"{value:.5g} ± {error:.2g}"


def _add_map(parser: Parser) -> None:
    _options.add_reading(parser)
    parser.add_options("""
--cell SIDE<!>  cell size: 5deg for longitude and latitude, 50km or a number for a plane
--tau T[,T...]<!>  sampling times
--n-tau N<int=10>  steps per window
--seasons  map DJF, MAM, JJA and SON separately
--min-windows N<int=20>  minimum number of windows in a cell
""")
    _options.add_inference(parser)
    parser.set_defaults(models="brownian+mean,langevin+mean")
    parser.add_output(
        "-o",
        "--output",
        output=netcdf,
        required=True,
        metavar="FILE.nc",
        help="write the result as NetCDF",
    )
    parser.add_output(
        "--figure",
        output=figure,
        metavar="FILE.png",
        help="write a figure of the first sampling time: PNG, PDF or SVG",
    )


def _map(args: argparse.Namespace) -> int:
    import numpy as np

    taus = _options.parse_taus(args.tau)
    tracks = _options.read(args)
    _jax.prepare_jax()
    from driftbayes import workflow
    from driftbayes.io import write_dataset

    given = _options.analysis(args)
    how = {name: given[name] for name in ("models", "priors", "scales", "method", "seed")}
    how |= {"n_tau": args.n_tau, "seasons": args.seasons, "min_windows": args.min_windows}
    with _console.progress_bar() as progress:
        result = workflow.map(tracks, args.cell, taus, progress=progress, **how)
    write_dataset(result, args.output, kind="map")
    _console.note(f"wrote {args.output}")
    names = [str(name) for name in result.data_vars]
    if args.figure is not None:
        from matplotlib.figure import Figure

        from driftbayes.plots.map import plot_map
        from driftbayes.plots.style import journal_style

        shown = [name for name in names if name.endswith(("_kappa", "_k"))]
        shown += [name for name in names if name.startswith("log_k")]
        with journal_style():
            drawing = Figure(figsize=(3.6 * len(shown), 3.0), layout="constrained")
            axes = drawing.subplots(1, len(shown), squeeze=False)[0]
            for ax, name in zip(axes, shown, strict=True):
                plot_map(result, name, ax)
            _console.save_figure(drawing, args.figure)
    n_cells = int((result["n_windows"] >= args.min_windows).sum())
    _console.say(
        f"{n_cells} of {result['n_windows'].size} cells have {args.min_windows} or more windows"
    )
    for name in names:
        values = result[name].values
        finite = values[values == values]
        unit = result[name].attrs.get("units", "")
        if name.startswith("n_") or not len(finite):
            continue
        low, middle, high = np.quantile(finite, [0.0, 0.5, 1.0])
        ends = "" if unit in ("", "1") else f" {unit}"
        print(f"{name:36s} median {middle:.4g}, from {low:.4g} to {high:.4g}{ends}")
    return 0


COMMANDS = {
    "predict": Command(
        _add_predict,
        _predict,
        (
            "driftbayes predict tracks.csv --tau 0.5 --horizon 5,10",
            "driftbayes predict tracks.csv --tau 0.5 --horizon 5 --members 50 -o futures.parquet",
        ),
    ),
    "score": Command(
        _add_score,
        _score,
        (
            "driftbayes score tracks.csv --tau 0.5",
            "driftbayes score tracks.csv --tau 0.5 --held-out-taus 1,2 --folds 10",
        ),
    ),
    "map": Command(
        _add_map,
        _map,
        (
            "driftbayes map drifters.nc --cell 5deg --tau 86400 -o map.nc --figure map.png",
            "driftbayes map tracks.csv --cell 50 --tau 1,2 --min-windows 50 -o map.nc",
        ),
    ),
}
