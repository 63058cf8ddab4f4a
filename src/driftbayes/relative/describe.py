"""Describe comparisons of laws of relative dispersion."""

__all__ = ["describe_pairs", "pair_panels", "statistics_table"]

import numpy as np

from driftbayes.data.units import readable
from driftbayes.inference.describe import model_table, parameter_table
from driftbayes.models import Parameter
from driftbayes.relative.analysis import PairComparison
from driftbayes.relative.separations import Separations
from driftbayes.relative.statistics import NAMES
from driftbayes.representation import (
    Card,
    Curve,
    Panel,
    Table,
    describe,
    number,
    summarise,
    with_error,
    with_unit,
)

_TITLES = {
    "structure": ("⟨|δu|²⟩", 2, -2),
    "longitudinal": ("⟨δu∥²⟩", 2, -2),
    "diffusivity": ("½ d⟨r²⟩/dt", 2, -1),
    "fsle": ("FSLE", 0, -1),
}


@summarise.register
def _(result: PairComparison) -> str:
    return result.verdict


@describe.register
def describe_pairs(result: PairComparison) -> Card:
    """Describe the verdict, the evidences, the posteriors and what needs no model."""
    data, comparison = result.data, result.comparison
    length = data.length_unit
    evidences = list(comparison.evidences.values())
    within = "" if result.within is None else f", begun within {readable(result.within, length, 4)}"
    facts = [
        ("tau", readable(data.tau, data.time_unit)),
        ("pairs", f"{data.n_pairs:,}{within}; {data.n_displacements:,} steps, {data.n_dim}D"),
        ("reference separation", readable(data.reference, length, 4)),
        ("method", comparison.method),
        ("fingerprint", data.fingerprint),
    ]
    for name, both in result.coefficients.items():
        (xi, xi_sd), (kappa, kappa_sd) = both["xi"], both["kappa"]
        exponent = with_error(xi, xi_sd) if xi_sd else number(xi, 4)
        size = with_error(kappa, kappa_sd)
        unit = f" {length}^(2-ξ)/{data.time_unit}" if length and data.time_unit else ""
        facts.append((f"K(r) of {name}", f"κ r^ξ, ξ = {exponent}, κ = {size}{unit}"))
    posterior = parameter_table(evidences, "Posterior; K is at the reference separation")
    tables = (
        model_table(evidences, comparison.probabilities),
        posterior,
        statistics_table(result),
    )
    warnings = tuple(f"{e.name}: {text}" for e in evidences for text in e.warnings)
    return Card("PairComparison", result.verdict, (*facts,), (), tables, warnings)


def statistics_table(result: PairComparison) -> Table:
    """Model-free statistics by classes of separation."""
    found, data = result.statistics, result.data
    heads = [f"r ({data.length_unit})" if data.length_unit else "r", "steps"]
    heads += [with_unit(_TITLES[name][0], _unit(name, data)) for name in NAMES]
    rows = []
    for i, centre in enumerate(found.centres):
        cells = [_cell(found.values[n][i], found.errors[n][i]) for n in NAMES]
        rows.append((number(centre, 3), f"{int(found.n_steps[i]):,}", *cells))
    title = "Without a model: structure functions, relative diffusivity, Lyapunov exponent"
    return Table(tuple(heads), tuple(rows), "r" * len(heads), title=title)


def _unit(name: str, data: Separations) -> str:
    title, length, time = _TITLES[name]
    return Parameter(title, title, length, time).unit(data.length_unit, data.time_unit)


def _cell(value: float, error: float) -> str:
    if not np.isfinite(value):
        return "-"
    return with_error(value, error) if np.isfinite(error) else number(value, 3)


def pair_panels(result: PairComparison) -> list[Panel]:
    """Structure functions, relative diffusivity and Lyapunov exponent against separation."""
    found, data = result.statistics, result.data
    panels = []
    for name in NAMES:
        title = _TITLES[name][0]
        y, error = found.values[name], found.errors[name]
        known = np.isfinite(error)
        y = np.where(known & (y > 0), y, np.nan)
        panels.append(
            Panel(
                name=name,
                title=title,
                x=found.centres,
                x_label=with_unit("separation", data.length_unit),
                y_label=with_unit(title, _unit(name, data)),
                curves=[Curve("data", "data", y, y - 1.96 * error, y + 1.96 * error)],
                scales=("log", "linear"),
                at_tau=data.tau,
            )
        )
    return panels
