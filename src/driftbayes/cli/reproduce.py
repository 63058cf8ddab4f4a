"""Reproduce the experiments, figures and numbers of the paper."""

__all__ = ["COMMANDS"]

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from driftbayes.cli import _console, _jax, _options
from driftbayes.cli._parser import Command, Output, Parser
from driftbayes.errors import DriftbayesError

if TYPE_CHECKING:
    from driftbayes.reproduce.claims import Claim


def _add_arguments(parser: Parser) -> None:
    experiments = parser.add_subparsers(dest="experiment", metavar="EXPERIMENT", required=True)
    for name, (function, summary, options) in _EXPERIMENTS.items():
        experiment = experiments.add_parser(name, help=summary, description=summary)
        experiment.add_output(
            "-o",
            "--output",
            output=Output("folder", check=_check_folder),
            required=True,
            metavar="DIR",
            help="output directory, created if missing",
        )
        experiment.add_options(f"--json  print the result as JSON on stdout\n{options}")
        experiment.set_defaults(run=function)


def _check_folder(directory: Path, args: argparse.Namespace) -> None:
    from driftbayes.reproduce.folder import check_folder

    check_folder(directory, args.experiment, overwrite=args.overwrite)


@contextmanager
def _experiment(args: argparse.Namespace) -> Iterator[Callable[[str, int, int], None]]:
    """Check the options, prepare JAX and the output directory, and show progress."""
    if "seed" in args:
        _options.check_seed(args.seed)
    if "data_sets" in args and args.data_sets < 1:
        msg = f"--data-sets must be 1 or more, got {args.data_sets}"
        raise DriftbayesError(msg)
    _jax.prepare_jax()
    from driftbayes.reproduce.folder import working_folder

    with working_folder(args.output, args.experiment), _console.progress_bar() as progress:
        yield progress


def _finish(args: argparse.Namespace, written: Iterable[Path], to_json: Callable[[], Any]) -> bool:
    """List the files, print JSON if asked for; return whether to print text."""
    for path in written:
        _console.note(f"wrote {path}")
    if args.json:
        _console.print_json(to_json())
    return not args.json


def _goodness(args: argparse.Namespace) -> int:
    """Check data of true and wrong models."""
    _jax.prepare_jax()
    from driftbayes.reproduce.goodness_cases import cases_named

    cases = cases_named(args.cases)
    with _experiment(args) as progress:
        from driftbayes.reproduce.goodness import goodness_table, run_goodness, write_goodness

        result = run_goodness(
            args.data_sets,
            args.wrong_data_sets,
            args.seed,
            n_replicas=args.replicas,
            cases=cases,
            n_workers=args.workers,
            directory=args.output / "checks",
            prepare=_jax.prepare_jax,
            progress=progress,
        )
        written = write_goodness(result, args.output)
    if _finish(args, written, result.to_json):
        print(goodness_table(result.to_json()))
    return 0


def _recovery(args: argparse.Namespace) -> int:
    """Compare every model on data of every model."""
    with _experiment(args) as progress:
        from driftbayes.reproduce.recovery import run_recovery, write_recovery

        result = run_recovery(
            args.data_sets, args.seed, directory=args.output / "evidence", progress=progress
        )
        written = write_recovery(result, args.output)
    if not _finish(args, written, result.to_json):
        return 0
    for one in result.results:
        print(
            f"{one.group.name}: {one.group.n_particles} particles, {one.group.n_steps} steps, "
            f"{one.n_seeds} data sets per model; mean probability of the true model:"
        )
        for i, name in enumerate(one.names):
            print(f"  {name:20s} {one.matrix[i, i]:.3f}")
        for truth, other, probability in one.confusions():
            print(f"  not distinguished: {truth} from {other}, pairwise {probability:.3f}")
        for (truth, candidate), count in one.doubts().items():
            print(f"  warnings: {candidate} on {count} of {one.n_seeds} data sets of {truth}")
    for interval, (inside, n, error) in result.coverage().items():
        print(f"coverage of the {interval}: {inside} of {n} = {inside / n:.3f} ± {error:.3f}")
    return 0


def _calibration(args: argparse.Namespace) -> int:
    """Test the calibration of probabilities and posteriors."""
    with _experiment(args) as progress:
        from driftbayes.reproduce.calibration import run_calibration, write_calibration

        result = run_calibration(args.data_sets, args.seed, method=args.method, progress=progress)
        written = write_calibration(result, args.output)
    if _finish(args, written, result.to_json):
        _console.say("\n".join(result.sentences()))
    return 0


def _langevin(args: argparse.Namespace) -> int:
    """Repeat section 4."""
    with _experiment(args):
        from driftbayes.reproduce.langevin import run_experiment, write_experiment

        result = run_experiment(seed=args.seed)
        written = write_experiment(result, args.output)
    if _finish(args, written, result.to_json):
        _print_claims("Langevin test case", 4, result.claims())
        _console.say("\n".join(result.exact.sentences.values()))
    return 0


def _turbulence(args: argparse.Namespace) -> int:
    """Load or simulate the experiment of section 5."""
    with _experiment(args) as progress:
        from driftbayes.reproduce.turbulence.analysis import analyse
        from driftbayes.reproduce.turbulence.claims import claims
        from driftbayes.reproduce.turbulence.record import to_json, write_experiment
        from driftbayes.reproduce.turbulence.results import load_results, write_results

        if args.simulate:
            from driftbayes.reproduce.turbulence.simulate import simulate

            summaries = simulate(
                args.output, progress=lambda name, done, total, _: progress(name, done, total)
            )
            results = write_results(summaries, args.output / "results")
        else:
            results = load_results()
        analysis = analyse(results)
        table = claims(analysis)
        written = write_experiment(analysis, table, args.output)
    if _finish(args, written, lambda: to_json(analysis, table)):
        _print_claims("Particles in two-dimensional turbulence", 5, table)
        for realisation in analysis.realisations:
            for sentence in realisation.exact.sentences.values():
                _console.say(f"seed {realisation.seed}: {sentence}")
    return 0


def _ladder(args: argparse.Namespace) -> int:
    """Compare all models on the packaged statistics of the turbulence experiment."""
    with _experiment(args) as progress:
        from driftbayes.reproduce.turbulence.ladder import run_ladder, write_ladder
        from driftbayes.reproduce.turbulence.results import load_results

        ladder = run_ladder(load_results(), _options.model_names(args), progress=progress)
        written = write_ladder(ladder, args.output)
    if _finish(args, written, ladder.to_json):
        _console.say("\n".join(ladder.sentences()))
    return 0


def _discrepancies(args: argparse.Namespace) -> int:
    """Recompute the errors of section 5."""
    with _experiment(args) as progress:
        from driftbayes.reproduce.discrepancies import run_discrepancies, write_discrepancies

        result = run_discrepancies(args.seed, progress=progress)
        written = write_discrepancies(result, args.output)
    if _finish(args, written, result.to_json):
        _console.say("\n".join(result.sentences()))
    return 0


def _print_claims(title: str, section: int, claims: "Sequence[Claim]") -> None:
    rows = [[claim.claim, claim.paper, claim.ours, claim.agrees] for claim in claims]
    columns = [f"claim of section {section}", "paper", "result", "agrees"]
    _console.print_table(title, columns, rows, left=4)


_SEED = "--seed SEED<int=0>  random seed"
_EXPERIMENTS: dict[str, tuple[Callable[[argparse.Namespace], int], str, str]] = {
    "langevin": (
        _langevin,
        "Section 4: Langevin data in three dimensions, figures 1 and 2.",
        _SEED,
    ),
    "turbulence": (
        _turbulence,
        "Section 5: particles in two-dimensional turbulence, figures 3 to 9, from the packaged "
        "results of four realisations.",
        "--simulate  repeat all simulations (1024² points, 16.6 million steps): half an hour on an "
        "H200, months on a laptop; an interrupted run resumes",
    ),
    "ladder": (
        _ladder,
        "Compare all models on the paper's turbulence: minutes on two cores.",
        "--models NAME,...<=all>  models to compare, including langevin",
    ),
    "discrepancies": (
        _discrepancies,
        "Recompute the errors found in section 5: a minute on two cores.",
        _SEED,
    ),
    "calibration": (
        _calibration,
        "Test the calibration of model probabilities and posteriors on data from the priors.",
        f"""--data-sets DATA_SETS<int=20000>  data sets per model
--method {{{",".join(_options.METHODS)}}}<=auto>  method for the evidence; sampling takes seconds
    per data set
{_SEED}""",
    ),
    "recovery": (
        _recovery,
        "Test whether the true model is recovered: every model on data of every model.",
        f"""--data-sets DATA_SETS<int=3>  data sets per model; may take an hour; an interrupted run
    resumes
{_SEED}""",
    ),
    "goodness": (
        _goodness,
        "Test calibration and power of `check` on data of 17 true and 24 wrong models. An "
        "interrupted run resumes.",
        f"""--data-sets DATA_SETS<int=300>  data sets per true model
--wrong-data-sets WRONG_DATA_SETS<int=200>  data sets per wrong model
--replicas REPLICAS<int=200>  replicas per data set
--cases NAME,...<=all>  cases to run
--workers WORKERS<int=1>  number of single-threaded processes
{_SEED}""",
    ),
}
COMMANDS = {
    "reproduce": Command(
        _add_arguments,
        examples=(
            "driftbayes reproduce langevin -o langevin",
            "driftbayes reproduce turbulence -o turbulence",
        ),
    )
}
