"""What there is to see of a check of the fit."""

__all__ = ["fit_check_card", "fit_check_line"]

from typing import TYPE_CHECKING

from driftbayes.representation import Card, Table, amount

if TYPE_CHECKING:
    from driftbayes.checks.check import FitCheck


def fit_check_line(one: "FitCheck") -> str:
    """The verdict."""
    return one.verdict


def fit_check_card(one: "FitCheck") -> Card:
    """The verdict, and a p-value for each quantity and model."""
    about, models = one.comparison, list(one.models.values())
    rows = [
        (q.words.removeprefix("the "), *(m.p_cell(q.name) for m in models)) for q in one.quantities
    ]
    rows.append(("all of these", *(m.overall_cell for m in models)))
    others = (f"{name}: {m.verdict}" for name, m in one.models.items() if name != about.best)
    facts = (
        ("tau", amount(about.tau, about.time_unit, 6)),
        ("data", f"{about.n_particles:,} particles, {about.n_displacements:,} displacements"),
        ("fingerprint", about.data_fingerprint),
    )
    warnings = (f"{n}: {text}" for n, e in about.evidences.items() for text in e.warnings)
    table = Table(("adjusted p-value of", *one.models), (*rows,), "l" + "r" * len(models))
    return Card("FitCheck", one.verdict, facts, tuple(others), (table,), tuple(warnings))
