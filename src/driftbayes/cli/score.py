"""Score predictions of each model for held-out trajectories."""

__all__ = ["add_arguments", "run"]

import argparse
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from driftbayes.cli import _console, _jax, _options, _reading
from driftbayes.cli.predict import parse_times
from driftbayes.errors import DriftbayesError

if TYPE_CHECKING:
    from driftbayes.prediction.scores import TrajectoryScores

_REMARK = "Scores measure the prediction of held-out trajectories; they are not probabilities."


EXAMPLES = (
    "driftbayes score tracks.csv --tau 0.5",
    "driftbayes score tracks.csv --tau 0.5 --held-out-taus 1,2 --folds 10",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    _reading.add_reading(parser)
    _options.add_tau(parser)
    parser.add_argument(
        "--held-out-taus",
        metavar="T[,T...]",
        help="also score displacements over these times of held-out trajectories: log density, "
        "CRPS, energy score",
    )
    parser.add_argument(
        "--folds",
        type=int,
        default=5,
        metavar="N",
        help="number of folds for --held-out-taus (default: 5)",
    )
    _options.add_data(parser)
    _options.add_inference(parser)
    _options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Read, score and print."""
    tau = _options.parse_tau(args.tau)
    wanted = args.held_out_taus
    times = [] if wanted is None else parse_times("--held-out-taus", wanted)
    if args.folds < 2:
        msg = f"--folds must be 2 or more, got {args.folds}"
        raise DriftbayesError(msg)
    _options.check_seed(args.seed)
    prior_probabilities = _options.model_prior(args)
    trajectories = _reading.read(args)
    _jax.prepare_jax()
    from driftbayes.data.sampling import displacements
    from driftbayes.prediction.scores import held_out, leave_one_out, prequential

    cut = {"n_tau": args.n_tau, "windows": args.windows, "gaps": args.gaps}
    data = displacements(trajectories, tau, **cut)
    setup = _options.setup(args, trajectories)
    _options.print_priors(setup)
    how = {"method": args.method, "coords": args.coords, "seed": args.seed}
    with _console.progress_bar() as progress:
        step = prequential(setup.hypotheses, data, **how, progress=progress)
        left = leave_one_out(setup.hypotheses, data, **how, progress=progress)
        singles = []
        if times:
            singles = held_out(
                trajectories,
                setup.hypotheses,
                tau,
                times,
                n_folds=args.folds,
                prior_probabilities=prior_probabilities,
                **cut,
                **how,
                progress=progress,
            )
    if args.json:
        about = {
            "tau": data.tau,
            "length_unit": data.length_unit,
            "time_unit": data.time_unit,
            "data_fingerprint": data.fingerprint,
            "priors_from_data": setup.from_data,
            "remark": _REMARK,
            "prequential": step.to_json(),
            "leave_one_out": left.to_json(),
            "held_out": [scores.to_json() for scores in singles],
        }
        _console.print_json(about)
        return 0
    _print_whole(step, left, data.time_unit)
    if singles:
        _print_singles(singles, data.time_unit)
    many = (step, left, *singles)
    for text in dict.fromkeys(text for scores in many for text in scores.warnings):
        print(f"warning: {text}")
    print(_REMARK)
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
