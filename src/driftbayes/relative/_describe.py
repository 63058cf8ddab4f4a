"""Describe comparisons of laws of relative dispersion."""

from dataclasses import replace
from typing import Any

import numpy as np

from driftbayes._representation import (
    Card,
    Curve,
    Panel,
    Table,
    describe,
    estimate_cell,
    number,
    summarise,
    with_error,
    with_unit,
)
from driftbayes._typing import FloatArray
from driftbayes.comparison._describe_scan import describe_scan, scan_panels, scan_verdict
from driftbayes.data._units import readable, readable_times
from driftbayes.inference._describe import model_table, parameter_table
from driftbayes.models import Parameter
from driftbayes.relative._analysis import PairComparison, PairScan
from driftbayes.relative._separations import Separations
from driftbayes.relative._statistics import NAMES

_TITLES = {
    "dispersion": ("⟨r²⟩", 2, 0),
    "structure": ("⟨|δu|²⟩", 2, -2),
    "longitudinal": ("⟨δu∥²⟩", 2, -2),
    "diffusivity": ("½ d⟨r²⟩/dt", 2, -1),
    "fsle": ("FSLE", 0, -1),
}
_WORDS = {
    "dispersion": "Relative dispersion",
    "structure": "Structure function",
    "longitudinal": "Longitudinal structure function",
    "diffusivity": "Relative diffusivity",
    "fsle": "Finite-size Lyapunov exponent",
}
# Exponents of Rayleigh's, Richardson's and Lundgren's laws.
_EXPONENTS = (0.0, 4 / 3, 2.0)
_EXPONENT = "Exponent ξ (lines: the named laws)"


@summarise.register
def _(result: PairComparison) -> str:
    return result.verdict


@describe.register
def describe_pairs(result: PairComparison) -> Card:
    """Describe the verdict, the evidences, the posteriors and the model-free statistics."""
    data, comparison = result.data, result.comparison
    evidences = list(comparison.evidences.values())
    facts = [
        ("tau", readable(data.tau, data.time_unit)),
        *_pair_facts(result),
        ("method", comparison.method),
        ("fingerprint", data.fingerprint),
    ]
    for name, coefficients in result.coefficients.items():
        (xi, xi_sd), (kappa, kappa_sd) = coefficients["xi"], coefficients["kappa"]
        exponent = with_error(xi, xi_sd) if xi_sd else number(xi, 4)
        size = with_error(kappa, kappa_sd)
        length, time = data.length_unit, data.time_unit
        unit = f" {length}^(2-ξ)/{time}" if length and time else ""
        facts.append((f"K(r) of {name}", f"κ r^ξ, ξ = {exponent}, κ = {size}{unit}"))
    posterior = parameter_table(evidences, "Posterior; K is at the reference separation")
    tables = (
        model_table(evidences, comparison.probabilities),
        posterior,
        statistics_table(result),
    )
    warnings = tuple(f"{e.name}: {text}" for e in evidences for text in e.warnings)
    return Card("Relative dispersion", result.verdict, (*facts,), (), tables, warnings)


def _pair_facts(result: PairComparison) -> list[tuple[str, str]]:
    """Describe the pairs."""
    data, length = result.data, result.data.length_unit
    within = "" if result.within is None else f", begun within {readable(result.within, length, 4)}"
    steps = "1 step" if data.n_displacements == 1 else f"{data.n_displacements:,} steps"
    return [
        ("pairs", f"{data.n_pairs:,}{within}; {steps}, {data.n_dim}D"),
        ("reference separation", readable(data.reference, length, 4)),
    ]


@summarise.register
def _(result: PairScan) -> str:
    return f"{result.results[0].data.n_pairs:,} pairs, {summarise(result.scan)}"


@describe.register
def describe_pair_scan(result: PairScan) -> Card:
    """Describe the verdict against tau, the consistent parameters, and the statistics."""
    first = result.results[0]
    card = describe_scan(result.scan, max_taus=None)
    tau = readable(first.data.tau, first.data.time_unit)
    statistics = statistics_table(first)
    shown = replace(statistics, title=f"{statistics.title} (tau = {tau})")
    return replace(
        card,
        kind="Relative dispersion",
        headline=summarise(result),
        facts=(*_pair_facts(first), *card.facts),
        tables=(*card.tables, shown),
    )


def statistics_table(result: PairComparison) -> Table:
    """Tabulate model-free statistics by separation class."""
    statistics, data = result.statistics, result.data
    heads = [f"r ({data.length_unit})" if data.length_unit else "r", "steps"]
    heads += [with_unit(_TITLES[name][0], _unit(name, data)) for name in NAMES]
    rows = []
    for i, centre in enumerate(statistics.centres):
        cells = [estimate_cell(statistics.values[n][i], statistics.errors[n][i]) for n in NAMES]
        rows.append((number(centre, 3), f"{int(statistics.n_steps[i]):,}", *cells))
    title = "Without a model: structure functions, relative diffusivity, Lyapunov exponent"
    return Table(tuple(heads), tuple(rows), "r" * len(heads), title=title)


def _unit(name: str, data: Separations) -> str:
    """Return the unit of a statistic."""
    title, length, time = _TITLES[name]
    return Parameter(title, title, length, time).unit(data.length_unit, data.time_unit)


def pair_panels(result: PairComparison) -> list[Panel]:
    """Describe relative dispersion against time, and the statistics against separation.

    Each panel has bootstrap errors and the prediction of the fitted law.
    """
    statistics, data, model = result.statistics, result.data, result.fitted
    times, unit = readable_times(statistics.times[1:], data.time_unit)
    since = with_unit("time since the pair began", unit)
    separation = with_unit("separation", data.length_unit)
    dispersion = (statistics.dispersion, statistics.dispersion_err, model.dispersion)
    y, error, fitted = (values[1:] for values in dispersion)
    panels = [_panel(result, "dispersion", (since, times), (y, error, fitted))]
    for name in NAMES:
        values = (statistics.values[name], statistics.errors[name], model.values[name])
        panels.append(_panel(result, name, (separation, statistics.centres), values))
    return [panel for panel in panels if panel.values.size]


def _panel(
    result: PairComparison,
    name: str,
    axis: tuple[str, FloatArray],
    values: tuple[FloatArray, FloatArray, FloatArray],
) -> Panel:
    """Describe one statistic with its errors, and the prediction of the fitted law."""
    (label, x), (y, error, model) = axis, values
    law, symbol = result.fitted_law, _TITLES[name][0]
    title = f"{_WORDS[name]} {symbol}"
    y = np.where(y > 0, y, np.nan)
    # A negative lower bound is replaced by a tenth of the value, for a logarithmic axis.
    low = y - 1.96 * error
    low = np.where(low <= 0, 0.1 * y, low)
    curves = [Curve("data", "data", y, low, y + 1.96 * error, kind="points")]
    if np.isfinite(model).any():
        fit = np.where(model > 0, model, np.nan)
        curves.append(Curve(f"{law}, fitted", law, fit, kind="dashed"))
    return Panel(
        *(f"pairs_{name}", title, x, label, with_unit(symbol, _unit(name, result.data)), curves),
        ("log", "linear"),
        description=f"{title} of the pairs with 95 % bootstrap errors, and of pairs that separate "
        f"by the fitted law ({law})",
        at_tau=result.data.tau,
    )


def pair_scan_panels(result: PairScan) -> list[Panel]:
    """Describe evidences and posteriors against tau, and the statistics at the shortest tau."""
    scan, first = result.scan, result.results[0]
    taus, unit = readable_times(scan.taus, first.data.time_unit)
    label = with_unit("sampling time τ", unit)
    panels = []
    if len(scan.models) > 1:
        logs = np.array([[e.log_evidence for e in scan.evidences(m)] for m in scan.models])
        behind = logs - logs.max(axis=0)
        curves = [Curve(m, m, y) for m, y in zip(scan.models, behind, strict=True)]
        title = "Evidence of each law, relative to the best"
        panels.append(
            Panel(
                *("pairs_evidence", title, taus, label, "ln Z − ln Z of the best", curves),
                ("symlog", "linear"),
                (0.0,),
                title,
                at_tau=first.data.tau,
            )
        )
    along = {panel.name: panel for panel in scan_panels(scan)}
    reference = readable(first.data.reference, first.data.length_unit, 3)
    changes: dict[str, dict[str, Any]] = {
        "parameter_xi": {"title": _EXPONENT, "scales": ("linear",), "reference": _EXPONENTS},
        "parameter_K": {"title": f"Relative diffusivity at {reference}"},
    }
    for name, change in changes.items():
        if name in along:
            panel = replace(along[name], name=f"pairs_{name}", at_tau=first.data.tau)
            panels.append(replace(panel, **change))
    return [*panels, *pair_panels(first)]


def pair_sentences(result: PairScan) -> list[str]:
    """Return the result in words: which law, at which sampling times, with which exponent."""
    sentences = scan_verdict(result.scan)
    exponent = result.scan.consistency.get("power", {}).get("xi")
    if exponent is not None:
        unit = result.results[0].data.time_unit
        low, high = readable(exponent.tau_min, unit), readable(exponent.tau_max, unit)
        sentences.append(
            f"With a free exponent, ξ = {with_error(exponent.value, exponent.sd)} for sampling "
            f"times from {low} to {high}."
        )
    return sentences
