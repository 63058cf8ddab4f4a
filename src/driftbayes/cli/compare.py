"""Which model explains the displacements at one sampling time tau, and how sure we are."""

__all__ = ["add_parser", "run"]

import argparse
import math
from typing import TYPE_CHECKING

from driftbayes.cli import _console, _options, _reading, _streaming
from driftbayes.errors import DriftbayesError

if TYPE_CHECKING:
    from driftbayes.comparison import Comparison


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser."""
    parser = subparsers.add_parser(
        "compare",
        help=__doc__,
        description=__doc__,
        allow_abbrev=False,
        examples=(
            "driftbayes compare tracks.csv --tau 0.5",
            "driftbayes compare tracks.csv --tau 0.5 --u-rms 1.4 --timescale 1 --json",
            "driftbayes compare drifters.nc --tau all --models langevin,langevin+noise",
            "driftbayes compare large.parquet --tau 2 --workers 8",
        ),
    )
    _reading.add_reading(parser)
    parser.add_argument(
        "--tau",
        required=True,
        help="sampling time, a multiple of the recording interval; 'all' for irregular times",
    )
    _options.add_data(parser)
    _options.add_inference(parser)
    parser.add_argument(
        "--sensitivity",
        action="store_true",
        help="show ln K for prior scales divided and multiplied by 4 (always, for default priors)",
    )
    _options.add_json(parser)
    _streaming.add_streaming(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Read, compare, print."""
    from driftbayes.cli._jax import prepare_jax

    tau = _parse_tau(args.tau)
    how = {**_options.evidence(args), "sensitivity": args.sensitivity or None}
    if _streaming.is_asked_for(args):
        data, trajectories = _streaming.summed(args, None if tau == "all" else float(tau))
    else:
        trajectories = _reading.read(args)
    prepare_jax()
    from driftbayes.workflow.analyses import compare, compare_displacements

    with _console.timed(f"evidence of {args.models}"):
        if _streaming.is_asked_for(args):
            result = compare_displacements(data, _options.setup(args, trajectories), **how)
        else:
            models = _options.hypotheses(args)
            result = compare(trajectories, tau, cut=_options.cut(args), **models, **how)
    if args.json:
        quality = {k: v for k, v in trajectories.provenance.items() if k == "quality"}
        _console.print_json({**result.to_json(), **quality})
    else:
        print_comparison(result)
    return 0


def print_comparison(result: "Comparison") -> None:
    """The comparison as tables and a sentence, on stdout."""
    unit = f" {result.time_unit}" if result.time_unit else ""
    rows = []
    for name, e in result.evidences.items():
        rows.append(
            [
                name,
                f"{e.log_evidence:.4f}{_error_bar(e.log_evidence_err)}",
                f"{e.log_likelihood_at_map:.3f}",
                f"{e.log_occam_factor:.3f}",
                f"{e.information_gain:.3f}",
                f"{result.probabilities[name]:.4g}",
                e.status.value,
            ]
        )
    title = (
        f"tau = {result.tau:g}{unit}: {result.n_particles} particles, up to {result.n_steps} "
        f"steps, {result.n_dim}D, {result.n_displacements} displacements ({result.method})"
    )
    columns = ["model", "ln Z", "ln L at MAP", "ln Occam", "information", "probability", "status"]
    _console.print_table(title, columns, rows)
    parameters = []
    for name, e in result.evidences.items():
        for parameter, found in e.parameters.items():
            low, high = found.interval
            parameters.append(
                [
                    f"{name}.{parameter}",
                    found.unit,
                    f"{found.mode:.5g}",
                    f"{found.mean:.5g} ± {found.sd:.2g}",
                    f"{low:.4g} … {high:.4g}",
                    # Six digits; the JSON has all.
                    e.hypothesis.priors[parameter].describe(6),
                ]
            )
    columns = ["parameter", "unit", "MAP", "posterior mean ± sd", "95 %", "prior"]
    _console.print_table("Var(Δx_i) = 2κτ per axis", columns, parameters, left=2)
    for name, e in result.evidences.items():
        if e.derived:
            text = ", ".join(f"{key} = {value:.5g}" for key, value in e.derived.items())
            print(f"{name}, at the posterior mode: {text}")
    for pair, log_k in _chosen_pairs(result).items():
        print(f"ln K({pair}) = {log_k:.4f}{_error_bar(result.log_bayes_factor_errs[pair])}")
    if result.sensitivity and result.log_bayes_factors:
        pairs = list(result.log_bayes_factors)
        lines = [
            [
                f"{', '.join(row['scaled'])} × {row['factor']:g}",
                *(f"{row['log_bayes_factors'][pair]:.3f}" for pair in pairs),
            ]
            for row in result.sensitivity
        ]
        names = ["scale of the prior of", *(f"ln K({pair})" for pair in pairs)]
        _console.print_table("If the priors had other scales", names, lines)
    for e in result.evidences.values():
        for warning in e.warnings:
            print(f"warning: {e.name}: {warning}")
    print(f"verdict: {result.verdict}")


def _chosen_pairs(result: "Comparison") -> dict[str, float]:
    """All pairs of up to three models; of more, those with the best."""
    pairs = result.log_bayes_factors
    if len(result.evidences) <= 3:
        return pairs
    return {pair: value for pair, value in pairs.items() if result.best in pair.split(":")}


def _error_bar(error: float) -> str:
    return "" if math.isnan(error) else f" ± {error:.0e}"


def _parse_tau(text: str) -> "float | str":
    if text == "all":
        return text
    try:
        return float(text)
    except ValueError:
        msg = f"--tau must be a number or 'all', got {text!r}"
        raise DriftbayesError(msg) from None
