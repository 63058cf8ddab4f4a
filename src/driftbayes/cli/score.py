"""Score predictions of models, or ensembles of a simulator."""

__all__ = ["COMMANDS"]

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from driftbayes.cli import _console, _jax, _options
from driftbayes.cli._parser import Command, Parser
from driftbayes.errors import DriftbayesError

if TYPE_CHECKING:
    from driftbayes.prediction import TrajectoryScores

# Reading options that apply to both observations and ensembles.
_SHARED = ("units", "coordinates", "frame", "length_unit", "time_unit", "missing", "date_order")
# Options of models, which do not apply to ensembles; the seed does.
_MODEL_OPTIONS = (
    *("--tau", "--held-out-taus", "--folds", "--learned", *_options.DATA),
    *(option for option in _options.INFERENCE if option != "--seed"),
)


def _add_score(parser: Parser) -> None:
    _options.add_reading(parser, nargs="*")
    _options.add_tau(parser, required=False)
    parser.add_options("""
--ensemble [NAME=]FILE<list>  score these simulated trajectories against observed ones: members
    written by a simulator or by predict, or a table id,member,time,x,y; may be repeated
--observed FILE<path>  with --ensemble: the observed trajectories
--leads T[,T...]  with --ensemble: lead times to score, for example 1d,3d (default: all)
--errors {drifters,starts}  with --ensemble: errors by bootstrap over drifters (default), or over
    start times, for drifters that move together
--held-out-taus T[,T...]  also score displacements over these times of held-out trajectories: log
    density, CRPS, energy score
--folds N<int=5>  number of folds for --held-out-taus and --learned
--learned  also score transition densities learned from the data: neural networks and trees of
    cells, given the position and the previous displacement; needs driftbayes[learned]
""")
    _options.add_figure(parser, "with --ensemble: write a figure of the scores by lead time")
    _options.add_data(parser)
    _options.add_inference(parser)
    _options.add_json(parser)


def _score(args: argparse.Namespace) -> int:
    if args.ensemble:
        return _score_ensembles(args)
    for option in ("observed", "leads", "errors", "figure"):
        if getattr(args, option) is not None:
            msg = f"--{option} is for simulated trajectories; name them with --ensemble FILE"
            raise DriftbayesError(msg)
    if args.file is None or args.tau is None:
        missing = "a file of trajectories" if args.file is None else "--tau"
        msg = f"score needs {missing}; or --ensemble FILE --observed FILE to score a simulator"
        raise DriftbayesError(msg)
    tau = _options.parse_tau(args.tau)
    wanted = args.held_out_taus
    times = () if wanted is None else _options.parse_times("--held-out-taus", wanted)
    if args.folds < 2:
        raise DriftbayesError(f"--folds must be 2 or more, got {args.folds}")
    if wanted is None:
        because = "prior probabilities of models weigh the average of --held-out-taus"
        _options.refuse(args, "--model-prior", because=because)
        if not args.learned:
            _options.refuse(args, "--folds", because="--folds is for --held-out-taus and --learned")
    _options.check_seed(args.seed)
    tracks = _options.read(args)
    _jax.prepare_jax()
    from driftbayes.workflow import score

    with _console.progress_bar() as progress:
        given = {**_options.analysis(args), "progress": progress, "learned": args.learned}
        result = score(tracks, tau, times=times, n_folds=args.folds, **given)
    if args.json:
        _console.print_json(result.to_json())
        return 0
    _print_whole(result.prequential, result.leave_one_out, result.time_unit)
    if result.held_out:
        _print_singles(result.held_out, result.time_unit)
    if result.learned is not None:
        _console.print_result(result.learned, as_json=False)
    for text in result.warnings:
        _console.say(f"warning: {text}")
    _console.say(result.remark)
    return 0


def _score_ensembles(args: argparse.Namespace) -> int:
    """Score members of ensembles against observed trajectories."""
    if args.observed is None or args.file is not None:
        msg = "give the observed trajectories: driftbayes score --ensemble FILE --observed FILE"
        raise DriftbayesError(msg)
    because = "--ensemble scores ensemble members, not models"
    hint = " (--leads chooses lead times)"
    _options.refuse(args, *_MODEL_OPTIONS, because=because, hint=hint)
    _options.check_seed(args.seed)
    named = {}
    for text in args.ensemble:
        name, equals, file = text.partition("=")
        path = Path(file) if equals and not Path(text).exists() else Path(text)
        named[name if path == Path(file) and equals else path.stem] = path
    if len(named) < len(args.ensemble):
        raise DriftbayesError("two ensembles have the same name; name them: --ensemble NAME=FILE")
    args.file = Path(args.observed)
    tracks = _options.read(args)
    from driftbayes.workflow._verification import score_ensembles

    how = {name: value for name, value in _options.reading_options(args).items() if name in _SHARED}
    how["errors"] = args.errors or "drifters"
    result = score_ensembles(tracks, named, leads=args.leads, seed=args.seed, **how)
    if args.figure is not None:
        from driftbayes.plots._panels import plot_panels
        from driftbayes.verification._describe import score_panels

        _console.save_figure(plot_panels(score_panels(result)), args.figure)
    _console.print_result(result, as_json=args.json)
    return 0


def _print_whole(step: "TrajectoryScores", left: "TrajectoryScores", time_unit: str) -> None:
    """Print log densities of whole trajectories, and differences between models."""
    from driftbayes._representation import with_error
    from driftbayes.data._units import readable

    n = len(left.counts)
    rows = []
    for name in left.values:
        mean, error = left.mean(name)
        rows.append(
            [
                name,
                f"{step.total(name):.4f}",
                with_error(n * mean, n * error),
                with_error(mean, error),
            ]
        )
    models = list(left.values)
    for i, first in enumerate(models):
        for second in models[i + 1 :]:
            mean, error = left.difference(second, first)
            gap = step.total(second) - step.total(first)
            pair = f"{second} − {first}"
            rows.append(
                [pair, f"{gap:.4f}", with_error(n * mean, n * error), with_error(mean, error)]
            )
    at = readable(left.tau, time_unit)
    title = f"Log density of {n} trajectories at tau = {at}, in nats; larger is better"
    columns = ["model", "sequential (ln Z)", "leave-one-out ± se", "per trajectory"]
    _console.print_table(title, columns, rows)


def _print_singles(many: "Sequence[TrajectoryScores]", time_unit: str) -> None:
    """Print scores of displacements, each with its difference from the model average."""
    from driftbayes._representation import number, with_error, with_unit
    from driftbayes.data._units import readable_unit

    per_time, unit = readable_unit([scores.tau for scores in many], time_unit)
    rows = []
    for scores in many:
        last = list(scores.values)[-1]
        for name in scores.values:
            mean, (gap, error) = scores.mean(name)[0], scores.difference(name, last)
            # A model of probability one differs from the average only by rounding.
            alike = abs(gap) <= 1e-12 * abs(mean)
            versus = "0" if alike else with_error(gap, error)
            best = "larger" if scores.larger_is_better else "smaller"
            rows.append(
                [
                    *(number(scores.tau * per_time, 5), scores.rule, name),
                    *(with_error(*scores.mean(name)), "" if name == last else versus, best),
                ]
            )
    columns = [
        *(with_unit("time", unit), "score", "model", "mean ± se"),
        *("minus average ± se", "better"),
    ]
    title = f"Displacements of {len(many[0].counts)} held-out trajectories"
    _console.print_table(title, columns, rows, left=3)


COMMANDS = {
    "score": Command(
        _add_score,
        _score,
        (
            "driftbayes score tracks.csv --tau 0.5",
            "driftbayes score tracks.csv --tau 0.5 --held-out-taus 1,2 --folds 10",
            "driftbayes score tracks.csv --tau 0.5 --learned",
            "driftbayes score --ensemble parcels.zarr --observed drifters.csv",
        ),
    ),
}
