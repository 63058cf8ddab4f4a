"""The paper's experiments, with its figures and numbers."""

__all__ = ["add_parser", "run"]

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from driftbayes.cli import _console, _options, _outputs
from driftbayes.errors import DriftbayesError

if TYPE_CHECKING:
    from driftbayes.reproduce.claims import Claim


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser."""
    parser = subparsers.add_parser(
        "reproduce",
        help=__doc__,
        description=__doc__,
        allow_abbrev=False,
        examples=(
            "driftbayes reproduce langevin -o langevin",
            "driftbayes reproduce turbulence -o turbulence",
        ),
    )
    experiments = parser.add_subparsers(dest="experiment", metavar="EXPERIMENT", required=True)
    langevin = experiments.add_parser(
        "langevin", help="section 4: Langevin data in three dimensions, figures 1 and 2"
    )
    _add_folder(langevin)
    langevin.add_argument("--seed", type=int, default=0, help="of the data (default: 0)")
    _options.add_json(langevin)
    langevin.set_defaults(run=run)
    turbulence = experiments.add_parser(
        "turbulence",
        help="section 5: particles in two-dimensional turbulence, figures 3 to 9",
        description="Section 5 of the paper from the results of four realisations that come with "
        "the package, or, with --simulate, from nothing.",
    )
    _add_folder(turbulence)
    turbulence.add_argument(
        "--simulate",
        action="store_true",
        help="run all simulations anew, 1024² and 16.6 million steps: half an hour on an H200, "
        "months on a laptop; may be stopped at any moment and called again to go on",
    )
    _options.add_json(turbulence)
    turbulence.set_defaults(run=run_turbulence)
    ladder = experiments.add_parser(
        "ladder",
        help="every model on the paper's turbulence, beyond the paper: some minutes on two cores",
    )
    _add_folder(ladder)
    ladder.add_argument(
        "--models", default="all", metavar="NAME,...", help="langevin among them (default: all)"
    )
    _options.add_json(ladder)
    ladder.set_defaults(run=run_ladder)
    discrepancies = experiments.add_parser(
        "discrepancies", help="what is wrong in section 5, recomputed: a minute on two cores"
    )
    _add_folder(discrepancies)
    discrepancies.add_argument("--seed", type=int, default=0, help="(default: 0)")
    _options.add_json(discrepancies)
    discrepancies.set_defaults(run=run_discrepancies)
    calibration = experiments.add_parser(
        "calibration",
        help="are model probabilities and posteriors honest? data from the priors, judged",
    )
    _add_folder(calibration)
    calibration.add_argument("--data-sets", type=int, default=20_000, help="per model")
    calibration.add_argument(
        "--method",
        choices=_options.METHODS,
        default="auto",
        help="of the evidence; a sampler may take a few seconds for each data set (default: auto)",
    )
    calibration.add_argument("--seed", type=int, default=0, help="(default: 0)")
    _options.add_json(calibration)
    calibration.set_defaults(run=run_calibration)
    recovery = experiments.add_parser(
        "recovery", help="is the model found that made the data? every model against every model"
    )
    _add_folder(recovery)
    recovery.add_argument(
        "--data-sets",
        type=int,
        default=3,
        help="of each model (default: 3); may take an hour, and goes on where it was stopped",
    )
    recovery.add_argument("--seed", type=int, default=0, help="of the data (default: 0)")
    _options.add_json(recovery)
    recovery.set_defaults(run=run_recovery)
    goodness = experiments.add_parser(
        "goodness",
        help="calibration and power of `check`: data of 17 true and 24 wrong models",
        description="Check many simulated data sets by the model that made them, and by wrong "
        "ones. Write the shares that are contradicted as JSON, Markdown and a figure. A stopped "
        "run resumes where it was.",
    )
    _add_folder(goodness)
    goodness.add_argument(
        "--data-sets", type=int, default=300, help="of each true model (default: 300)"
    )
    goodness.add_argument(
        "--wrong-data-sets", type=int, default=200, help="of each wrong model (default: 200)"
    )
    goodness.add_argument(
        "--replicas", type=int, default=200, help="of each data set (default: 200)"
    )
    goodness.add_argument(
        "--cases", default="all", metavar="NAME,...", help="only these cases (default: all)"
    )
    goodness.add_argument(
        "--workers", type=int, default=1, help="processes of one thread each (default: 1)"
    )
    goodness.add_argument("--seed", type=int, default=0, help="random seed (default: 0)")
    _options.add_json(goodness)
    goodness.set_defaults(run=run_goodness)


def run_goodness(args: argparse.Namespace) -> int:
    """Check data of true and wrong models, write the files, print the tables."""
    _options.check_seed(args.seed)
    from driftbayes.cli._jax import prepare_jax

    prepare_jax()
    from driftbayes.reproduce.folder import working_folder
    from driftbayes.reproduce.goodness import goodness_table, write_goodness
    from driftbayes.reproduce.goodness import run_goodness as check_all
    from driftbayes.reproduce.goodness_cases import cases_named

    cases = cases_named(args.cases)
    with working_folder(args.output, args.experiment):
        with _console.progress_bar() as progress:
            result = check_all(
                args.data_sets,
                args.wrong_data_sets,
                args.seed,
                n_replicas=args.replicas,
                cases=cases,
                n_workers=args.workers,
                directory=args.output / "checks",
                prepare=prepare_jax,
                progress=progress,
            )
        for path in write_goodness(result, args.output):
            _console.note(f"wrote {path}")
    if args.json:
        _console.print_json(result.to_json())
        return 0
    print(goodness_table(result.to_json()))
    return 0


def _add_folder(parser: argparse.ArgumentParser) -> None:
    _outputs.add_output(
        parser,
        "-o",
        "--output",
        output=_outputs.Output("folder", check=_check_folder),
        required=True,
        metavar="DIR",
        help="write to this directory, made if it is missing",
    )


def _check_folder(directory: Path, args: argparse.Namespace) -> None:
    from driftbayes.reproduce.folder import check_folder

    check_folder(directory, args.experiment, overwrite=args.overwrite)


def run_recovery(args: argparse.Namespace) -> int:
    """Judge every model's data by every model, write the files, print the summary."""
    _options.check_seed(args.seed)
    if args.data_sets < 1:
        msg = f"--data-sets must be 1 or more, got {args.data_sets}"
        raise DriftbayesError(msg)
    from driftbayes.cli._jax import prepare_jax

    prepare_jax()
    from driftbayes.reproduce.folder import working_folder
    from driftbayes.reproduce.recovery import run_recovery as recover
    from driftbayes.reproduce.recovery import write_recovery

    with working_folder(args.output, args.experiment):
        with _console.progress_bar() as progress:
            result = recover(
                args.data_sets, args.seed, directory=args.output / "evidence", progress=progress
            )
        for path in write_recovery(result, args.output):
            _console.note(f"wrote {path}")
    if args.json:
        _console.print_json(result.to_json())
        return 0
    for one in result.results:
        print(
            f"{one.group.name}: {one.group.n_particles} particles, {one.group.n_steps} steps, "
            f"{one.n_seeds} data sets of each model; mean probability of the truth:"
        )
        for i, name in enumerate(one.names):
            print(f"  {name:20s} {one.matrix[i, i]:.3f}")
        for truth, other, probability in one.confusions():
            print(f"  not told apart: {truth} from {other}, {probability:.3f} against it alone")
        for (truth, candidate), count in one.doubts().items():
            print(f"  with doubts: {candidate} on {count} of {one.n_seeds} data sets of {truth}")
    for interval, (inside, n, error) in result.coverage().items():
        print(f"true value within {interval}: {inside} of {n} = {inside / n:.3f} ± {error:.3f}")
    return 0


def run_calibration(args: argparse.Namespace) -> int:
    """Run the calibration, write its files, print its summary."""
    _options.check_seed(args.seed)
    from driftbayes.cli._jax import prepare_jax

    prepare_jax()
    from driftbayes.reproduce.calibration import run_calibration as calibrate
    from driftbayes.reproduce.calibration import write_calibration
    from driftbayes.reproduce.folder import working_folder

    if args.data_sets < 1:
        msg = f"--data-sets must be 1 or more, got {args.data_sets}"
        raise DriftbayesError(msg)
    with working_folder(args.output, args.experiment):
        with _console.progress_bar() as progress:
            result = calibrate(args.data_sets, args.seed, method=args.method, progress=progress)
        for path in write_calibration(result, args.output):
            _console.note(f"wrote {path}")
    if args.json:
        _console.print_json(result.to_json())
        return 0
    for sentence in result.sentences():
        print(sentence)
    return 0


def run(args: argparse.Namespace) -> int:
    """Run the experiment, write its files, print its summary."""
    _options.check_seed(args.seed)
    from driftbayes.cli._jax import prepare_jax

    prepare_jax()
    from driftbayes.reproduce.folder import working_folder
    from driftbayes.reproduce.langevin import run_experiment, write_experiment

    with working_folder(args.output, args.experiment):
        result = run_experiment(seed=args.seed)
        written = write_experiment(result, args.output)
        for path in written:
            _console.note(f"wrote {path}")
    if args.json:
        _console.print_json(result.to_json())
        return 0
    _print_claims("Langevin test case", 4, result.claims())
    for sentence in result.exact.sentences.values():
        print(sentence)
    return 0


def run_turbulence(args: argparse.Namespace) -> int:
    """Load or simulate the experiment, write its files, print the table of claims."""
    from driftbayes.cli._jax import prepare_jax

    prepare_jax()
    from driftbayes.reproduce.folder import working_folder
    from driftbayes.reproduce.turbulence.analysis import analyse
    from driftbayes.reproduce.turbulence.claims import claims
    from driftbayes.reproduce.turbulence.record import to_json, write_experiment
    from driftbayes.reproduce.turbulence.results import load_results, write_results

    with working_folder(args.output, args.experiment):
        if args.simulate:
            from driftbayes.reproduce.turbulence.simulate import simulate

            with _console.progress_bar() as progress:
                summaries = simulate(
                    args.output, progress=lambda name, done, total, _: progress(name, done, total)
                )
            results = write_results(summaries, args.output / "results")
        else:
            results = load_results()
        analysis = analyse(results)
        table = claims(analysis)
        for path in write_experiment(analysis, table, args.output):
            _console.note(f"wrote {path}")
    if args.json:
        _console.print_json(to_json(analysis, table))
        return 0
    _print_claims("Particles in two-dimensional turbulence", 5, table)
    for realisation in analysis.realisations:
        for sentence in realisation.exact.sentences.values():
            print(f"seed {realisation.seed}: {sentence}")
    return 0


def run_ladder(args: argparse.Namespace) -> int:
    """Rank all models on the packaged statistics of the turbulence experiment."""
    from driftbayes.cli._jax import prepare_jax

    prepare_jax()
    from driftbayes.reproduce.folder import working_folder
    from driftbayes.reproduce.turbulence.ladder import run_ladder as climb
    from driftbayes.reproduce.turbulence.ladder import write_ladder
    from driftbayes.reproduce.turbulence.results import load_results

    with working_folder(args.output, args.experiment):
        with _console.progress_bar() as progress:
            ladder = climb(load_results(), _options.model_names(args), progress=progress)
        for path in write_ladder(ladder, args.output):
            _console.note(f"wrote {path}")
    if args.json:
        _console.print_json(ladder.to_json())
        return 0
    for sentence in ladder.sentences():
        print(sentence)
    return 0


def run_discrepancies(args: argparse.Namespace) -> int:
    """Recompute what is wrong in section 5, write it, print a summary."""
    _options.check_seed(args.seed)
    from driftbayes.cli._jax import prepare_jax

    prepare_jax()
    from driftbayes.reproduce.discrepancies import run_discrepancies as recompute
    from driftbayes.reproduce.discrepancies import write_discrepancies
    from driftbayes.reproduce.folder import working_folder

    with working_folder(args.output, args.experiment):
        with _console.progress_bar() as progress:
            result = recompute(args.seed, progress=progress)
        for path in write_discrepancies(result, args.output):
            _console.note(f"wrote {path}")
    if args.json:
        _console.print_json(result.to_json())
        return 0
    for sentence in result.sentences():
        print(sentence)
    return 0


def _print_claims(title: str, section: int, claims: "Sequence[Claim]") -> None:
    rows = [[claim.claim, claim.paper, claim.ours, claim.agrees] for claim in claims]
    columns = [f"claim of section {section}", "the paper says", "we find", "agrees"]
    _console.print_table(title, columns, rows, left=4)
