"""What there is to see of an evidence and of a hypothesis."""

__all__ = [
    "PARAMETER_COLUMNS",
    "PARAMETER_SIDES",
    "evidence_card",
    "evidence_line",
    "hypothesis_card",
    "hypothesis_line",
    "parameter_rows",
    "parameter_units",
]

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from driftbayes.errors import DriftbayesError, Status
from driftbayes.models import MODELS, model_named
from driftbayes.representation import Card, Table, plus_minus

if TYPE_CHECKING:
    from driftbayes.inference.evidence import Evidence
    from driftbayes.inference.hypothesis import Hypothesis

PARAMETER_COLUMNS = ("parameter", "unit", "mode", "mean ± sd", "95 %", "prior")
PARAMETER_SIDES = "llrrrl"


def parameter_units(
    model: str, n_dim: int = 2, length_unit: str = "", time_unit: str = ""
) -> dict[str, str]:
    """The unit of each parameter of a model; none of a model that is not in the register.

    Args:
        model: Its name, with options.
        n_dim: Number of spatial dimensions.
        length_unit: Name of the unit of length.
        time_unit: Name of the unit of time.
    """
    try:
        parameters = model_named(model, MODELS, n_dim).parameters
    except DriftbayesError:
        return {}
    return {name: about.unit(length_unit, time_unit) for name, about in parameters.items()}


def parameter_rows(
    one: "Evidence", units: Mapping[str, str], prefix: str = ""
) -> list[tuple[str, ...]]:
    """One row for each parameter, under `PARAMETER_COLUMNS`.

    Args:
        one: The evidence.
        units: Of its parameters.
        prefix: To stand before their names.
    """
    rows: list[tuple[str, ...]] = []
    for name in one.map:
        quantiles = np.asarray(one.posterior_quantiles[name])
        rows.append(
            (
                f"{prefix}{name}",
                units.get(name, ""),
                f"{one.map[name]:.5g}",
                f"{one.posterior_mean[name]:.5g} ± {one.posterior_sd[name]:.2g}",
                f"{quantiles[0]:.4g} … {quantiles[-1]:.4g}",
                one.priors.get(name, ""),
            )
        )
    return rows


def evidence_line(one: "Evidence") -> str:
    """The model, its evidence and its parameters."""
    error = "" if np.isnan(one.log_evidence_err) else f" ± {one.log_evidence_err:.1g}"
    parameters = ", ".join(
        f"{name} = {one.posterior_mean[name]:.4g} ± {one.posterior_sd[name]:.2g}"
        for name in one.map
    )
    return (
        f"{one.hypothesis} ({one.method}), ln Z = {one.log_evidence:.4f}{error}, "
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
    rows = parameter_rows(one, parameter_units(one.hypothesis))
    return Card(
        "Evidence",
        f"{one.hypothesis} at tau = {one.tau:g} ({one.method})",
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
