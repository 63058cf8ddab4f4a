"""Reproduce the experiments, figures and numbers of the paper."""

import argparse
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from driftbayes.cli import _console, _jax, _options
from driftbayes.cli._parser import Command, Output, Parser
from driftbayes.errors import DriftbayesError


class _Study(NamedTuple):
    """A study: its summary, and its options by parameter of the function that runs it.

    An option is a line as in `Parser.add_options`.
    """

    summary: str
    options: Mapping[str, str]
    module: str = ""


_SEED = {"seed": "--seed SEED<int=0>  random seed"}
_STUDIES = {
    "langevin": _Study(
        "Section 4: Langevin data in three dimensions, figures 1 and 2.", options=_SEED
    ),
    "turbulence": _Study(
        "Section 5: particles in two-dimensional turbulence, figures 3 to 9, from the packaged "
        "results of four realisations.",
        {
            "simulate_again": "--simulate  repeat all simulations (1024² points, 16.6 million "
            "steps): half an hour on an H200, months on a laptop; an interrupted run resumes"
        },
    ),
    "ladder": _Study(
        "Compare all models on the paper's turbulence: minutes on two cores.",
        {"models": "--models NAME,...<=all>  models to compare, including langevin"},
        module="turbulence.ladder",
    ),
    "discrepancies": _Study(
        "Recompute the errors found in section 5: a minute on two cores.", options=_SEED
    ),
    "calibration": _Study(
        "Test the calibration of model probabilities and posteriors on data from the priors.",
        {
            "n_per_model": "--data-sets DATA_SETS<int=20000>  data sets per model",
            "method": f"--method {{{','.join(_options.METHODS)}}}<=auto>  method for the evidence; "
            "sampling takes seconds per data set",
            **_SEED,
        },
    ),
    "recovery": _Study(
        "Test whether the true model is recovered: every model on data of every model.",
        {
            "n_seeds": "--data-sets DATA_SETS<int=3>  data sets per model (default: 3); may take "
            "an hour; an interrupted run resumes",
            **_SEED,
        },
    ),
    "goodness": _Study(
        "Test calibration and power of `check` on data of 17 true and 24 wrong models. An "
        "interrupted run resumes.",
        {
            "n_true": "--data-sets DATA_SETS<int=300>  data sets per true model",
            "n_wrong": "--wrong-data-sets WRONG_DATA_SETS<int=200>  data sets per wrong model",
            "n_replicas": "--replicas REPLICAS<int=200>  replicas per data set",
            "cases": "--cases NAME,...<=all>  cases to run",
            "n_workers": "--workers WORKERS<int=1>  number of single-threaded processes",
            **_SEED,
        },
    ),
}


def _add_arguments(parser: Parser) -> None:
    studies = parser.add_subparsers(dest="experiment", metavar="EXPERIMENT", required=True)
    for name, study in _STUDIES.items():
        added = studies.add_parser(name, help=study.summary, description=study.summary)
        text = "-o --output DIR<!>  output directory, created if missing"
        added.add_output(text, Output("folder", check=_check_folder))
        _options.add_json(added)
        for option in study.options.values():
            added.add_options(option)
        added.set_defaults(run=run)


def _check_folder(directory: Path, args: argparse.Namespace) -> None:
    from driftbayes.reproduce.study import check_folder

    check_folder(directory, args.experiment, overwrite=args.overwrite)


def run(args: argparse.Namespace) -> int:
    """Run a study, write its files, and print its claims and findings."""
    name, study = args.experiment, _STUDIES[args.experiment]
    if "seed" in args:
        _options.check_seed(args.seed)
    if "data_sets" in args and args.data_sets < 1:
        raise DriftbayesError(f"--data-sets must be 1 or more, got {args.data_sets}")
    options = {
        parameter: getattr(args, option.split()[0][2:].replace("-", "_"))
        for parameter, option in study.options.items()
    }
    if "models" in options:
        options["models"] = _options.model_names(args)
    _jax.prepare_jax()
    from driftbayes.reproduce.study import Runner, working_folder

    module = import_module(f"driftbayes.reproduce.{study.module or name}")
    with working_folder(args.output, name), _console.progress_bar() as progress:
        workers = options.pop("n_workers", 1)
        runner = Runner(args.output, progress, workers, _jax.prepare_jax)
        result = getattr(module, f"run_{name}")(**options, runner=runner)
        written = result.write(args.output)
    for path in written:
        _console.note(f"wrote {path}")
    if args.json:
        _console.print_json(result.to_json())
        return 0
    if claims := result.claims():
        rows = [[claim.claim, claim.paper, claim.ours, claim.agrees] for claim in claims]
        columns = [f"claim of section {result.section}", "paper", "result", "agrees"]
        _console.print_table(result.title, columns, rows, left=4)
    for sentence in result.sentences():
        _console.say(sentence)
    return 0


COMMANDS = {
    "reproduce": Command(
        _add_arguments,
        examples=(
            "driftbayes reproduce langevin -o langevin",
            "driftbayes reproduce turbulence -o turbulence",
        ),
    )
}
