"""The paper's experiments, with its figures and numbers."""

__all__ = ["add_parser", "run"]

import argparse
from pathlib import Path

from driftbayes.cli import _console, _options


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser."""
    parser = subparsers.add_parser("reproduce", help=__doc__, description=__doc__)
    experiments = parser.add_subparsers(dest="experiment", metavar="EXPERIMENT", required=True)
    langevin = experiments.add_parser(
        "langevin", help="section 4: Langevin data in three dimensions, figures 1 and 2"
    )
    langevin.add_argument("-o", "--output", type=Path, required=True, metavar="DIR")
    langevin.add_argument("--seed", type=int, default=0, help="of the data (default: 0)")
    _options.add_json(langevin)
    langevin.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the experiment, write its files, print its summary."""
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
