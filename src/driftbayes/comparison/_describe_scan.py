"""Describe scans: cards, tables, panels, sentences, and commands that repeat them."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes._representation import (
    Card,
    Curve,
    Panel,
    Table,
    describe,
    number,
    repeat_command,
    summarise,
    with_error,
    with_unit,
)
from driftbayes._typing import FloatArray
from driftbayes.comparison._bayes import Comparison
from driftbayes.comparison._dataset import with_details
from driftbayes.comparison._scan import Scan, is_consistent
from driftbayes.data._sampling import evenly_spaced
from driftbayes.data._units import readable, readable_time, readable_times, readable_unit
from driftbayes.errors import expect
from driftbayes.inference._describe import model_table, parameter_table
from driftbayes.inference._evidence import QUANTILES, Evidence
from driftbayes.models._base import Parameter

if TYPE_CHECKING:
    import xarray as xr

# Maximum number of sampling times in a card, evenly spaced.
_MAX_TAUS = 12
# With more models, a table shows only parameters and pairs of the best model.
_MAX_MODELS = 3
# Parameters that are diffusivities share a panel.
_DIFFUSIVITIES = ("kappa", "k")
# Part of the meaning of a parameter that is not in a title: all but which component it is of.
_REMARK = re.compile(r",(?! of ).*")

# Explains the panels of parameters.
PARAMETER_NOTE = (
    "Posterior median and central 68 %; heavier where a parameter does not depend on τ."
)


def as_scan(scan: "Scan | xr.Dataset") -> Scan:
    """Convert a dataset to a scan; return a scan unchanged."""
    if not isinstance(scan, Scan) and not hasattr(scan, "data_vars"):
        expect(scan, Scan, "scan", "a Scan, as tracks.scan() or driftbayes.open_scan returns it")
    return scan if isinstance(scan, Scan) else Scan.from_dataset(with_details(scan))


@summarise.register
def _(scan: Scan) -> str:
    if not scan.comparisons:
        return "no sampling times"
    unit = scan.comparisons[0].time_unit
    low, high = readable(scan.taus[0], unit), readable(scan.taus[-1], unit)
    several = f"{len(scan.taus)} values of tau from {low} to {high}"
    return f"{several if len(scan.taus) > 1 else f'tau = {low}'}, {', '.join(scan.models)}"


@describe.register
def describe_scan(scan: Scan, max_taus: int | None = _MAX_TAUS) -> Card:
    """Describe the verdict along tau, and the range over which parameters are consistent.

    Args:
        scan: The scan.
        max_taus: Maximum number of sampling times in the table; None for all.
    """
    if not scan.comparisons:
        return Card("Scan", summarise(scan))
    facts = [("method", scan.comparisons[0].method)]
    if scan.skipped:
        values = "value" if len(scan.skipped) == 1 else "values"
        facts.append(("skipped", f"{len(scan.skipped)} {values} of tau"))
    if "data_fingerprint" in scan.attributes:
        facts.append(("fingerprint", str(scan.attributes["data_fingerprint"])))
    n = len(scan.comparisons)
    table = _scan_table(scan, evenly_spaced(n, max_taus or n).tolist())
    notes = (*most_probable(scan), *scan.sentences.values())
    return Card("Scan", summarise(scan), (*facts,), notes, (table,), (*left_out(scan),))


def _scan_table(scan: Scan, places: Iterable[int]) -> Table:
    few = len(scan.models) <= _MAX_MODELS
    names = [(m, p) for m in scan.models for p in scan.consistency[m]]
    reference = scan.models[0]
    pairs = list(scan.comparisons[0].log_bayes_factors)
    pairs = pairs if few else [f"{model}:{reference}" for model in scan.models[1:]]
    inside = {(m, p): is_consistent(scan, m, p) for m, p in names}
    first = scan.comparisons[0]
    has_units = bool(first.length_unit and first.time_unit)
    units = {(m, p): first.evidences[m].parameters[p].unit if has_units else "" for m, p in names}
    rows, shares = [], []
    factor, unit = readable_unit(scan.taus, scan.comparisons[0].time_unit)
    for i in places:
        comparison = scan.comparisons[i]
        cells = {
            (m, p): with_error(found.mean, found.sd) + (" ·" if inside[m, p][i] else "")
            for m, e in comparison.evidences.items()
            for p, found in e.parameters.items()
        }
        best = comparison.best
        of_best = ", ".join(
            f"{p} = {cell} {'' if units[m, p] == '1' else units[m, p]}".rstrip()
            for (m, p), cell in cells.items()
            if m == best
        )
        rows.append(
            (
                number(comparison.tau * factor, 5),
                f"{comparison.n_displacements:,}",
                *((cells[name] for name in names) if few else ()),
                *(f"{comparison.log_bayes_factors[pair]:.2f}" for pair in pairs),
                *(() if few else (of_best,)),
                f"{comparison.probabilities[best]:.3f} {best}",
                ", ".join(e.name for e in comparison.evidences.values() if e.warnings),
            )
        )
        shares.append(comparison.probabilities[best])
    columns = [
        with_unit("tau", unit),
        "data",
        *(with_unit(f"{m}.{p}", units[m, p]) for m, p in names if few),
        *(f"ln K({pair})" for pair in pairs),
        *(() if few else ("parameters of the most probable",)),
        "most probable",
        "warnings",
    ]
    sides = "r" * (len(columns) - (2 if few else 3)) + "l" * (2 if few else 3)
    if not any(row[-1] for row in rows):
        columns, rows, sides = columns[:-1], [row[:-1] for row in rows], sides[:-1]
    title = "Posterior mean ± sd (· in the consistent range)"
    return Table((*columns,), (*rows,), sides, (*shares,), title)


def scan_tables(scan: Scan, place: int) -> tuple[Table, Table]:
    """Tabulate models and parameters at one sampling time of a scan."""
    comparison = scan.comparisons[place]
    evidences = list(comparison.evidences.values())
    parameters = parameter_table(evidences)
    if uses_all_fixes(scan):
        return model_table(evidences, comparison.probabilities), parameters
    inside = [is_consistent(scan, e.name, name)[place] for e in evidences for name in e.parameters]
    rows = tuple(
        (*row, "yes" if is_inside else "no")
        for row, is_inside in zip(parameters.rows, inside, strict=True)
    )
    columns = (*parameters.columns, "consistent in τ")
    models = model_table(evidences, comparison.probabilities)
    return models, Table(columns, rows, parameters.sides + "l")


# Sentences


def left_out(scan: Scan) -> list[str]:
    """Return the omitted sampling times of a scan, one sentence for each reason."""
    reasons: dict[str, list[str]] = {}
    for tau, text in scan.skipped.items():
        reason = text.replace(f"tau = {tau:g}", "tau").replace(f" {tau:g} ", " tau ")
        reasons.setdefault(reason, []).append(number(tau, 6))
    unit = f" {scan.comparisons[0].time_unit}".rstrip()
    return [f"left out tau = {', '.join(taus)}{unit}: {why}" for why, taus in reasons.items()]


def most_probable(scan: Scan) -> list[str]:
    """State the most probable model at each range of sampling times, with all caveats."""
    best = [comparison.best for comparison in scan.comparisons]
    if len(scan.models) == 1:
        alone = f"Only {best[0]} was fitted; there is no other model to compare it with"
        return [f"{alone}{_doubts(scan, scan.comparisons)}."]
    sentences = []
    starts = [i for i in range(len(best)) if i == 0 or best[i] != best[i - 1]]
    for first, end in zip(starts, [*starts[1:], len(best)], strict=True):
        part = scan.comparisons[first:end]
        low, high = (readable_time(c.tau, c.time_unit) for c in (part[0], part[-1]))
        where = "for all positions" if uses_all_fixes(scan) else f"at a sampling time of {low}"
        if end > first + 1:
            where = f"at sampling times from {low} to {high}"
        name = _named(best[first])
        if all(len(c.without_evidence) == len(scan.models) for c in part):
            reasons = "; ".join(_without_evidence(part))
            sentences.append(f"No verdict {where}, no model has an evidence; {reasons}.")
            continue
        if any(c.without_evidence for c in part):
            name = f"Among the models with an evidence, {best[first]}"
        elif any(c.misfit for c in part):
            name = f"Among the models compared, {best[first]}"
        rest = _certainty([c.probabilities[c.best] for c in part]) + _doubts(scan, part)
        sentences.append(f"{name} is the most probable model {where}: {rest}.")
    return sentences


def _doubts(scan: Scan, comparisons: Sequence[Comparison]) -> str:
    """Write the caveats of verdicts as clauses, each for the sampling time with most effect."""
    at_tau = "" if uses_all_fixes(scan) else " at τ = {}"
    found = {c: at_tau.format(readable_time(c.tau, c.time_unit)) for c in comparisons}
    text = "".join(f"{c.misfit}{at}" for c, at in found.items() if c.misfit)
    together = [c for c in found if c.dependence is not None and c.overstated]
    if together:
        worst = max(together, key=lambda c: float((c.dependence or {})["inflation"]))
        text += f"; {_placed(worst.overstated, found[worst])}"
    both = [c for c in found if c.both_ways]
    if both:
        worst = max(both, key=lambda c: max(w["independent"] for w in c.shared_motion.values()))
        text += f"; {_placed(worst.both_ways, found[worst])}"
    # A caveat that applies at all sampling times names none.
    common = set.intersection(*(set(c.doubts) for c in found))
    every = {
        doubt.partition(" ")[0]: _placed(doubt, "" if doubt in common else at)
        for c, at in found.items()
        for doubt in c.doubts
    }
    return "; ".join([text, *_without_evidence(comparisons), *every.values()])


def _placed(clause: str, at: str) -> str:
    return f"{at.strip()}, {clause}" if at else clause


def _without_evidence(comparisons: Sequence[Comparison]) -> list[str]:
    """List models without an evidence, the reasons, and the number of sampling times."""
    counts = Counter(item for c in comparisons for item in c.without_evidence.items())
    n = len(comparisons)
    where = "" if n == 1 else f" at {{}} of {n} sampling times"
    return [f"{name}: {why}{where.format(count)}" for (name, why), count in counts.items()]


def scan_verdict(scan: Scan) -> list[str]:
    """Return the result in words: models, sampling times and probabilities."""
    best = [comparison.best for comparison in scan.comparisons]
    sentences = most_probable(scan)
    if uses_all_fixes(scan):
        first = scan.comparisons[0]
        mean = readable_time(first.tau, first.time_unit)
        sentences.append(
            f"Every position was used at its own interval, {mean} on average; irregular times "
            "cannot be scanned over τ."
        )
        return sentences
    for name in dict.fromkeys(best):
        text = scan.sentences[name]
        start = _named(name) if text.startswith(name) else text[0].upper()
        sentences.append(f"{start}{text.removeprefix(name if text.startswith(name) else text[0])}.")
    doubtful = {
        name: sum(e.status.value != "ok" and np.isfinite(e.log_evidence) for e in found)
        for name, found in ((name, scan.evidences(name)) for name in scan.models)
    }
    parts = [f"{name} at {n} of {len(best)} sampling times" for name, n in doubtful.items() if n]
    if parts:
        sentences.append(f"The evidence is uncertain for {', '.join(parts)}: see the tables.")
    sentences += [f"{text[0].upper()}{text[1:]}." for text in left_out(scan)]
    return sentences


def _named(model: str) -> str:
    """Format the name of a model for the beginning of a sentence."""
    return model[0].upper() + model[1:].replace("_", "-")


def _certainty(chances: list[float]) -> str:
    low, high = min(chances), max(chances)
    if low > 0.99:
        return "its probability among these models is above 0.99"
    ends = dict.fromkeys(number(chance, 2) for chance in (low, high))
    if high < 0.75:
        return f"its probability is only {' to '.join(ends)}, which is not decisive"
    return f"its probability among these models is {' to '.join(ends)}"


def uses_all_fixes(scan: Scan) -> bool:
    """Return whether a scan is a single comparison of every fix at its own interval."""
    return stored(scan, "options").get("tau") == "all"


def stored(scan: Scan, name: str) -> dict[str, Any]:
    """Decode a JSON attribute of a scan, such as its provenance or options."""
    found = json.loads(str(scan.attributes.get(name) or "{}"))
    return found if isinstance(found, dict) else {}


def shared_motion_command(scan: Scan, source: str | None = None) -> str:
    """Return the command that scans models of shared motion; empty if not needed.

    Args:
        scan: The scan.
        source: Input file; by default that in the scan's provenance.
    """
    models = scan.missing_models
    return scan_command(scan, source, models=models) if models else ""


def scan_command(
    scan: Scan,
    source: str | None = None,
    output: str | None = None,
    models: Sequence[str] | None = None,
) -> str:
    """Return the command that repeats a scan.

    Args:
        scan: The scan.
        source: Input file; by default that in the scan's provenance.
        output: Output file, if any.
        models: Models in place of those of the scan.
    """
    options, origin = stored(scan, "options"), stored(scan, "provenance")
    first = scan.comparisons[0]
    method = next(iter(first.evidences.values())).method
    is_named = method in ("laplace", "laplace_is", "bridge", "smc", "nested")
    coords = options.get("coords", "natural")
    n_tau, chances = options.get("n_tau"), options.get("prior_probabilities")
    # For other models, the priors of the parameters shared with models of the scan.
    bases = {name.rpartition("+")[0] for name in models or ()} or set(scan.models)
    priors = {n: t for m, e in first.evidences.items() if m in bases for n, t in e.priors.items()}
    is_all = uses_all_fixes(scan)
    taus = ",".join(f"{tau:.10g}" for tau in scan.taus)
    return repeat_command(
        "compare" if is_all else "scan",
        source or str(origin.get("source") or "FILE"),
        {
            **({"tau": "all"} if is_all else {"taus": taus}),
            **{name: value or "" for name, value in origin.get("reading", {}).items()},
            "models": ",".join(models or scan.models),
            "prior": [f"{name}={text}" for name, text in priors.items()],
            "method": method if is_named else None,
            "coords": coords if method == "laplace" and coords != "natural" else None,
            "n_tau": n_tau,
            "windows": None if n_tau is None else options.get("windows"),
            "gaps": options["gaps"] if options.get("gaps", "split") != "split" else None,
            "seed": options.get("seed") or None,
            "model_prior": ",".join(f"{p:g}" for p in chances)
            if chances and models is None
            else None,
        },
        output,
    )


# Panels


def scan_panels(scan: Scan) -> list[Panel]:
    """Describe parameters, Bayes factors, probabilities and Occam factors against tau."""
    names = scan.models
    taus, unit = readable_times(scan.taus, scan.comparisons[0].time_unit)
    groups: dict[str, list[tuple[str, str]]] = {}
    for model in names:
        for name in scan.consistency[model]:
            groups.setdefault("k" if name in _DIFFUSIVITIES else name, []).append((model, name))
    label = with_unit("sampling time τ", unit)
    panels = [_parameter_panel(scan, group, taus, label) for group in groups.values()]
    if len(names) > 1:
        logs = {name: _along(scan.evidences(name), "log_evidence") for name in names}
        factors = [
            Curve(f"{name} over {names[0]}", name, logs[name] - logs[names[0]])
            for name in names[1:]
        ]
        panels.append(
            Panel(
                *("bayes_factors", f"Bayes factors against {names[0]}", taus, label, "ln K"),
                factors,
                ("symlog", "linear"),
                (0.0,),
                f"Natural logarithm of the Bayes factor of each model against {names[0]}",
            )
        )
        chances = [
            Curve(name, name, np.array([c.probabilities[name] for c in scan.comparisons]))
            for name in names
        ]
        panels.append(
            Panel(
                *("probabilities", "Probabilities of the models", taus, label, "probability"),
                chances,
                ("linear",),
                (0.0, 1.0),
                "Posterior probability of each model among those compared",
            )
        )
    occam = [Curve(m, m, _along(scan.evidences(m), "log_occam_factor")) for m in names]
    panels.append(
        Panel(
            *("occam_factors", "Occam factors", taus, label, "ln Occam factor"),
            occam,
            ("linear",),
            (0.0,),
            "Natural logarithm of the Occam factor: evidence over likelihood at the posterior mode",
        )
    )
    return panels


def _parameter_panel(
    scan: Scan, group: list[tuple[str, str]], taus: FloatArray, x_label: str
) -> Panel:
    curves, symbols, signed = [], {}, False
    for model, name in group:
        records = scan.evidences(model)
        quantiles = np.array([e.posterior_quantiles[name] for e in records])
        low, median, high = (quantiles[:, QUANTILES.index(q)] for q in (0.16, 0.5, 0.84))
        strong = is_consistent(scan, model, name)
        curves.append(Curve(f"{model}.{name}", model, median, low, high, strong))
        about = records[0].hypothesis.model.parameters[name]
        symbols[about.symbol] = records[0].parameters[name].unit
        # No logarithmic axis for a parameter that may be negative.
        signed |= records[0].hypothesis.priors[name].is_signed
    model, name = group[0]
    about = scan.evidences(model)[0].hypothesis.model.parameters[name]
    is_diffusivity = name in _DIFFUSIVITIES
    labels = ", ".join(curve.label for curve in curves)
    return Panel(
        f"parameter_{name}",
        "Diffusivity" if is_diffusivity else panel_title(about),
        taus,
        x_label,
        with_unit(", ".join(symbols), next(iter(symbols.values()))),
        curves,
        ("linear",) if signed else ("log", "linear"),
        (),
        f"Posterior median and central 68 % of {labels} against the sampling time; heavier where "
        "the parameter does not depend on it",
    )


def panel_title(about: Parameter) -> str:
    """Return the meaning of a parameter as a title, without remarks."""
    return _REMARK.sub("", about.meaning).capitalize()


def _along(records: list[Evidence], field: str) -> FloatArray:
    return np.array([getattr(record, field) for record in records])
