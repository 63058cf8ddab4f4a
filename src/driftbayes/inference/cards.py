"""What there is to see of an evidence and of a hypothesis."""

__all__ = [
    "PARAMETER_COLUMNS",
    "PARAMETER_SIDES",
    "evidence_card",
    "evidence_line",
    "hypothesis_card",
    "hypothesis_line",
    "parameter_rows",
]

from typing import TYPE_CHECKING

import numpy as np

from driftbayes.errors import Status
from driftbayes.representation import Card, Table, plus_minus

if TYPE_CHECKING:
    from driftbayes.inference.evidence import Evidence
    from driftbayes.inference.hypothesis import Hypothesis

PARAMETER_COLUMNS = ("parameter", "unit", "mode", "mean ± sd", "95 %", "prior")
PARAMETER_SIDES = "llrrrl"


def parameter_rows(one: "Evidence", prefix: str = "") -> list[tuple[str, ...]]:
    """One row for each parameter, under `PARAMETER_COLUMNS`.

    Args:
        one: The evidence.
        prefix: Text before their names.
    """
    return [
        (
            f"{prefix}{name}",
            found.unit,
            f"{found.mode:.5g}",
            f"{found.mean:.5g} ± {found.sd:.2g}",
            f"{found.interval[0]:.4g} … {found.interval[1]:.4g}",
            found.prior,
        )
        for name, found in one.parameters.items()
    ]


def evidence_line(one: "Evidence") -> str:
    """The model, its evidence and its parameters."""
    error = "" if np.isnan(one.log_evidence_err) else f" ± {one.log_evidence_err:.1g}"
    parameters = ", ".join(
        f"{name} = {found.mean:.4g} ± {found.sd:.2g}" for name, found in one.parameters.items()
    )
    return (
        f"{one.name} ({one.method}), ln Z = {one.log_evidence:.4f}{error}, "
        f"{parameters}, {one.status.value}"
    )


def evidence_card(one: "Evidence") -> Card:
    """The evidence, what it is made of, and the posterior."""
    status = one.status.value
    if one.status is not Status.OK:
        status += f": {one.status.advice}"
    facts = [
        ("ln Z", plus_minus(one.log_evidence, one.log_evidence_err)),
        ("ln L at the mode", f"{one.log_likelihood_at_map:.3f}"),
        ("ln Occam factor", f"{one.log_occam_factor:.3f}"),
        ("information gain", f"{one.information_gain:.3f} nats"),
        ("status", status),
        *((name, f"{value:.5g}") for name, value in one.derived.items()),
        *([] if one.seed is None else [("seed", str(one.seed))]),
        ("data", one.data_fingerprint),
    ]
    rows = parameter_rows(one)
    return Card(
        "Evidence",
        f"{one.name} at tau = {one.tau:g} ({one.method})",
        (*facts,),
        tables=(Table(PARAMETER_COLUMNS, (*rows,), PARAMETER_SIDES),),
        doubts=one.warnings,
    )


def hypothesis_line(one: "Hypothesis") -> str:
    """The model and the priors of its parameters."""
    return ", ".join([one.name, *(f"{name} ~ {text}" for name, text in one.describe().items())])


def hypothesis_card(one: "Hypothesis") -> Card:
    """The model, and for each parameter what it is and what is believed of it."""
    parameters = one.model.parameters
    rows = [
        (name, parameters[name].symbol, parameters[name].unit(), text, parameters[name].meaning)
        for name, text in one.describe().items()
    ]
    table = Table(("parameter", "", "unit", "prior", "meaning"), (*rows,), "lllll")
    return Card("Hypothesis", f"{one.name}, {one.model.summary}", tables=(table,))
