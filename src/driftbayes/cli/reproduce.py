"""The paper's experiments, with its figures and numbers."""

__all__ = ["add_parser", "run"]

import argparse
from pathlib import Path

from driftbayes.cli import _console, _options
from driftbayes.errors import DriftbayesError


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser."""
    parser = subparsers.add_parser(
        "reproduce", help=__doc__, description=__doc__, allow_abbrev=False
    )
    experiments = parser.add_subparsers(dest="experiment", metavar="EXPERIMENT", required=True)
    langevin = experiments.add_parser(
        "langevin", help="section 4: Langevin data in three dimensions, figures 1 and 2"
    )
    langevin.add_argument("-o", "--output", type=Path, required=True, metavar="DIR")
    langevin.add_argument("--seed", type=int, default=0, help="of the data (default: 0)")
    _options.add_json(langevin)
    langevin.set_defaults(run=run)
    calibration = experiments.add_parser(
        "calibration", help="are the model probabilities honest? a reliability curve"
    )
    calibration.add_argument("-o", "--output", type=Path, required=True, metavar="DIR")
    calibration.add_argument("--data-sets", type=int, default=20_000, help="per model")
    calibration.add_argument("--seed", type=int, default=0, help="of the data (default: 0)")
    _options.add_json(calibration)
    calibration.set_defaults(run=run_calibration)


def run_calibration(args: argparse.Namespace) -> int:
    """Run the calibration, write its files, print its summary."""
    from driftbayes.cli._jax import prepare_jax

    prepare_jax()
    from driftbayes.reproduce.calibration import run_calibration as calibrate
    from driftbayes.reproduce.calibration import write_calibration

    if args.data_sets < 1:
        msg = f"--data-sets must be 1 or more, got {args.data_sets}"
        raise DriftbayesError(msg)
    with _console.progress_bar() as progress:
        result = calibrate(args.data_sets, args.seed, progress=progress)
    for path in write_calibration(result, args.output):
        _console.note(f"wrote {path}")
    if args.json:
        _console.print_json(result.to_json())
        return 0
    mean, error = result.mean
    chi_square, n_bins = result.chi_square()
    print(f"mean probability of Langevin {mean:.4f} ± {error:.4f}, where 0.5 is right")
    print(f"reliability: chi-square {chi_square:.1f} in {n_bins} bins")
    return 0


def run(args: argparse.Namespace) -> int:
    """Run the experiment, write its files, print its summary."""
    _options.check_seed(args.seed)
    from driftbayes.cli._jax import prepare_jax

    prepare_jax()
    from driftbayes.reproduce.langevin import run_experiment, write_experiment

    result = run_experiment(seed=args.seed)
    written = write_experiment(result, args.output)
    for path in written:
        _console.note(f"wrote {path}")
    if args.json:
        _console.print_json(result.to_json())
        return 0
    rows = [[claim.claim, claim.paper, claim.ours, claim.agrees] for claim in result.claims()]
    columns = ["claim of section 4", "the paper says", "we find", "agrees"]
    _console.print_table("Langevin test case", columns, rows, left=4)
    for sentence in result.exact.sentences.values():
        print(sentence)
    return 0
