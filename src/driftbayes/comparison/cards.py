"""What there is to see of a comparison and of a scan."""

__all__ = ["comparison_card", "comparison_line", "scan_card", "scan_line"]

from typing import TYPE_CHECKING

import numpy as np

from driftbayes.inference.cards import (
    PARAMETER_COLUMNS,
    PARAMETER_SIDES,
    parameter_rows,
)
from driftbayes.representation import Card, Table, amount, plus_minus

if TYPE_CHECKING:
    from driftbayes.comparison.bayes import Comparison
    from driftbayes.comparison.scan import Scan

# Of more sampling times than this, so many evenly spaced ones are shown.
_MOST_TAUS = 12


def comparison_line(one: "Comparison") -> str:
    """The verdict."""
    return one.verdict


def comparison_card(one: "Comparison") -> Card:
    """The verdict, the evidences and the posteriors."""
    data = (
        f"{one.n_particles:,} particles, up to {one.n_steps:,} steps, {one.n_dim}D, "
        f"{one.n_displacements:,} displacements"
    )
    factors, errors = one.log_bayes_factors, one.log_bayes_factor_errs
    facts = [
        ("tau", amount(one.tau, one.time_unit, 6)),
        ("data", data),
        ("method", one.method),
        ("fingerprint", one.data_fingerprint),
    ]
    if len(one.evidences) <= 3:
        facts += [(f"ln K({p})", plus_minus(k, errors[p])) for p, k in factors.items()]
    models = [
        (
            name,
            plus_minus(e.log_evidence, e.log_evidence_err),
            f"{e.log_occam_factor:.3f}",
            f"{e.information_gain:.3f}",
            e.status.value,
            f"{one.probabilities[name]:.4g}",
        )
        for name, e in one.evidences.items()
    ]
    parameters = []
    for name, e in one.evidences.items():
        parameters += parameter_rows(e, f"{name}.")
    columns = ("model", "ln Z", "ln Occam", "information", "status", "probability")
    shares = tuple(one.probabilities[name] for name in one.evidences)
    return Card(
        "Comparison",
        one.verdict,
        (*facts,),
        tables=(
            Table(columns, (*models,), "lrrrlr", shares),
            Table(PARAMETER_COLUMNS, (*parameters,), PARAMETER_SIDES),
        ),
        doubts=tuple(f"{name}: {text}" for name, e in one.evidences.items() for text in e.warnings),
    )


def scan_line(one: "Scan") -> str:
    """How many tau, from where to where, for which models."""
    taus = one.taus
    if len(taus) == 0:
        return "no sampling times"
    return f"{len(taus)} values of tau from {taus[0]:g} to {taus[-1]:g}, {', '.join(one.models)}"


def scan_card(one: "Scan") -> Card:
    """The verdict along tau, and over which range parameters are consistent."""
    if not one.comparisons:
        return Card("Scan", scan_line(one))
    first = one.comparisons[0]
    facts = [("method", first.method)]
    if one.skipped:
        values = "value" if len(one.skipped) == 1 else "values"
        facts.append(("left out", f"{len(one.skipped)} {values} of tau"))
    if "data_fingerprint" in one.attributes:
        facts.append(("fingerprint", str(one.attributes["data_fingerprint"])))
    n = len(one.comparisons)
    shown = np.unique(np.linspace(0, n - 1, min(n, _MOST_TAUS)).round().astype(int))
    rows, shares = [], []
    for i in shown:
        comparison = one.comparisons[i]
        best = comparison.best
        doubts = [name for name, e in comparison.evidences.items() if e.warnings]
        means = ", ".join(
            f"{name} = {mean:.4g} ± {comparison.evidences[best].posterior_sd[name]:.1g}"
            for name, mean in comparison.evidences[best].posterior_mean.items()
        )
        rows.append(
            (
                f"{comparison.tau:.4g}",
                f"{comparison.n_displacements:,}",
                best,
                means,
                f"see warnings: {', '.join(doubts)}" if doubts else "",
                f"{comparison.probabilities[best]:.4g}",
            )
        )
        shares.append(comparison.probabilities[best])
    unit = f" ({first.time_unit})" if first.time_unit else ""
    columns = (f"tau{unit}", "data", "best model", "its parameters", "doubts", "probability")
    return Card(
        "Scan",
        scan_line(one),
        (*facts,),
        tuple(one.sentences.values()),
        (Table(columns, (*rows,), "rrlllr", (*shares,)),),
    )
