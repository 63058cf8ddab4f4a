"""Compare models at one sampling time."""

__all__ = ["COMMANDS"]

import argparse
import math
from typing import TYPE_CHECKING

from driftbayes.cli import _console, _jax, _options
from driftbayes.cli._parser import Command, Parser

if TYPE_CHECKING:
    from driftbayes.comparison import Comparison


def _add_arguments(parser: Parser) -> None:
    _options.add_reading(parser)
    _options.add_tau(parser)
    _options.add_data(parser)
    _options.add_inference(parser)
    text = "show ln K for prior scales times 1/4 and 4 (always shown for default priors)"
    parser.add_options(f"--sensitivity  {text}")
    _options.add_json(parser)
    _options.add_streaming(parser)


def _run(args: argparse.Namespace) -> int:
    tau = _options.parse_tau(args.tau)
    with _console.progress_bar() as progress:
        tracks = _options.read_large(args, progress)
        _jax.prepare_jax()
        from driftbayes.workflow import compare

        with _console.timed(f"evidence of {args.models}"):
            result = compare(
                tracks, tau, sensitivity=args.sensitivity or None, **_options.analysis(args)
            )
    _options.note_blocks(args, tracks)
    if args.json:
        quality = {k: v for k, v in tracks.provenance.items() if k == "quality"}
        _console.print_json({**result.to_json(), **quality})
    else:
        _print(result)
    return 0


def _print(result: "Comparison") -> None:
    """Print the comparison as tables and a sentence."""
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
        f"steps, {result.n_displacements} displacements in {result.n_dim}D ({result.method})"
    )
    columns = ["model", "ln Z", "ln L(MAP)", "ln Occam", "D_KL", "P(model)", "status"]
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
    columns = ["parameter", "unit", "MAP", "mean ± sd", "95 % interval", "prior"]
    _console.print_table("Posterior; Var(Δx_i) = 2κτ per axis", columns, parameters, left=2)
    for name, e in result.evidences.items():
        if e.derived:
            text = ", ".join(f"{key} = {value:.5g}" for key, value in e.derived.items())
            _console.say(f"{name}, at the posterior mode: {text}")
    for pair, log_k in _chosen_pairs(result).items():
        _console.say(f"ln K({pair}) = {log_k:.4f}{_error_bar(result.log_bayes_factor_errs[pair])}")
    if result.sensitivity and result.log_bayes_factors:
        pairs = list(result.log_bayes_factors)
        lines = [
            [
                f"{', '.join(row['scaled'])} × {row['factor']:g}",
                *(f"{row['log_bayes_factors'][pair]:.3f}" for pair in pairs),
            ]
            for row in result.sensitivity
        ]
        names = ["prior scale", *(f"ln K({pair})" for pair in pairs)]
        _console.print_table("Sensitivity to the priors", names, lines)
    for e in result.evidences.values():
        for warning in e.warnings:
            _console.say(f"warning: {e.name}: {warning}")
    _console.say(f"verdict: {result.verdict}")


def _chosen_pairs(result: "Comparison") -> dict[str, float]:
    """Return all pairs of up to three models; of more, those with the best."""
    pairs = result.log_bayes_factors
    if len(result.evidences) <= 3:
        return pairs
    return {pair: value for pair, value in pairs.items() if result.best in pair.split(":")}


def _error_bar(error: float) -> str:
    return "" if math.isnan(error) else f" ± {error:.0e}"


COMMANDS = {
    "compare": Command(
        _add_arguments,
        _run,
        (
            "driftbayes compare tracks.csv --tau 0.5",
            "driftbayes compare tracks.csv --tau 0.5 --u-rms 1.4 --timescale 1 --json",
            "driftbayes compare drifters.nc --tau all --models langevin,langevin+noise",
            "driftbayes compare large.parquet --tau 2 --workers 8",
        ),
    )
}
