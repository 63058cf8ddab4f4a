"""Compare models over a range of sampling times."""

__all__ = ["COMMANDS"]

import argparse
from typing import TYPE_CHECKING

from driftbayes.cli import _console, _jax, _options
from driftbayes.cli._parser import Command, Parser, figure, netcdf

if TYPE_CHECKING:
    from driftbayes.comparison import Comparison, Scan

# Of more models, a table of all parameters and pairs is too wide to read.
_FEW_MODELS = 3


def _add_arguments(parser: Parser) -> None:
    _options.add_reading(parser)
    parser.add_options("""
--taus LOW:HIGH:COUNT[log]  sampling times, for example 0.01:100:100log or 1,2,5, rounded to
    multiples of the recording interval (default: twelve over the range of the data)
""")
    _options.add_data(parser)
    _options.add_inference(parser)
    parser.add_output(
        "-o", "--output", output=netcdf, metavar="FILE.nc", help="write the result as NetCDF"
    )
    parser.add_output(
        "--figure", output=figure, metavar="FILE.png", help="write a figure: PNG, PDF or SVG"
    )
    _options.add_json(parser)
    _options.add_streaming(parser)


def _run(args: argparse.Namespace) -> int:
    from driftbayes.io import write_scan

    taus = None if args.taus is None else _options.parse_taus(args.taus)
    with _console.progress_bar() as progress:
        tracks = _options.read_large(args, progress)
        _jax.prepare_jax()
        from driftbayes.workflow import scan

        with _console.timed(f"scan with {args.models}"):
            result = scan(tracks, taus, progress=progress, **_options.analysis(args))
    _options.note_blocks(args, tracks)
    n_found = len(result.comparisons) + len(result.skipped)
    if taus is not None and n_found < len(taus):
        _console.note(
            f"{len(taus)} sampling times rounded to {n_found} multiples of the recording interval "
            f"{tracks.recording_interval:g}"
        )
    if result.skipped:
        last = list(result.skipped.items())[-1]
        _console.note(f"skipped {len(result.skipped)} sampling times: {last[1]}")
    if args.output is not None:
        write_scan(result.to_dataset(), args.output)
        _console.note(f"wrote {args.output}")
    if args.figure is not None:
        _console.save_figure(result.plot(), args.figure)
    if args.json:
        _console.print_json(result.to_json())
    else:
        _print(result)
    return 0


def _print(result: "Scan") -> None:
    """Print the scan as tables and one sentence per model."""
    first = result.comparisons[0]
    unit = f" ({first.time_unit})" if first.time_unit else ""
    few = len(result.models) <= _FEW_MODELS
    columns, cells = (_all_parameters if few else _best_parameters)(result)
    rows = []
    for comparison, middle in zip(result.comparisons, cells, strict=True):
        best = comparison.best
        flagged = [e.name for e in comparison.evidences.values() if e.warnings]
        rows.append(
            [
                f"{comparison.tau:.4g}",
                f"{comparison.n_displacements}",
                *middle,
                f"{comparison.probabilities[best]:.3f} {best}",
                ", ".join(flagged),
            ]
        )
    columns = [f"tau{unit}", "data", *columns, "most probable", "warnings"]
    if not any(row[-1] for row in rows):
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    title = f"Posterior mean ± sd (· in the consistent range), evidence: {first.method}"
    _console.print_table(title, columns, rows, left=0)
    for sentence in result.sentences.values():
        _console.say(sentence)


def _all_parameters(result: "Scan") -> tuple[list[str], list[list[str]]]:
    """Return columns for all parameters and pairs of models."""
    names = [(model, name) for model in result.models for name in result.consistency[model]]
    pairs = list(result.comparisons[0].log_bayes_factors)
    rows = [
        [
            *(_value(result, comparison, model, name) for model, name in names),
            *(f"{comparison.log_bayes_factors[pair]:.2f}" for pair in pairs),
        ]
        for comparison in result.comparisons
    ]
    return [*(f"{m}.{n}" for m, n in names), *(f"ln K({pair})" for pair in pairs)], rows


def _best_parameters(result: "Scan") -> tuple[list[str], list[list[str]]]:
    """Return columns for ln K against the first model, and the parameters of the best."""
    reference = result.models[0]
    rows = []
    for comparison in result.comparisons:
        base = comparison.evidences[reference].log_evidence
        best = comparison.best
        parameters = ", ".join(
            f"{name} = {_value(result, comparison, best, name).rstrip()}"
            for name in result.consistency[best]
        )
        gains = [
            f"{comparison.evidences[model].log_evidence - base:.2f}" for model in result.models[1:]
        ]
        rows.append([*gains, parameters])
    columns = [f"ln K({model}:{reference})" for model in result.models[1:]]
    return [*columns, "parameters of the most probable"], rows


def _value(result: "Scan", comparison: "Comparison", model: str, name: str) -> str:
    e = comparison.evidences[model]
    found = result.consistency[model][name]
    inside = found is not None and found.tau_min <= comparison.tau <= found.tau_max
    mark = "·" if inside else " "
    return f"{e.posterior_mean[name]:.4g} ± {e.posterior_sd[name]:.1g} {mark}"


COMMANDS = {
    "scan": Command(
        _add_arguments,
        _run,
        (
            "driftbayes scan tracks.csv",
            "driftbayes scan tracks.csv --taus 0.1:20:20log -o scan.nc --figure scan.png",
            "driftbayes scan tracks.csv --taus 1,2,5 --models brownian,langevin,matern",
            "driftbayes scan large.parquet --taus 1:100:20log --workers 8 -o scan.nc",
        ),
    )
}
