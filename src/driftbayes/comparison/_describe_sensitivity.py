"""Describe the sensitivity of ln K to the priors."""

from collections.abc import Iterable

from driftbayes._representation import (
    Card,
    Curve,
    Panel,
    Table,
    describe,
    number,
    summarise,
)
from driftbayes.comparison._sensitivity import PriorSensitivity
from driftbayes.data._units import readable, readable_time


@summarise.register
def _(result: PriorSensitivity) -> str:
    return " ".join(result.sentences)


@describe.register
def _(result: PriorSensitivity) -> Card:
    pairs = list(result.log_bayes_factors)
    tables = tuple(
        Table(
            ("factor", *(f"ln K({pair})" for pair in pairs)),
            tuple(
                (number(factor), *(f"{result.log_bayes_factors[pair][i, j]:.4f}" for pair in pairs))
                for j, factor in enumerate(result.factors)
            ),
            "r" * (1 + len(pairs)),
            title=f"Prior scales of {', '.join(group)}",
        )
        for i, group in enumerate(result.groups)
    )
    at = readable(result.tau, result.time_unit)
    headline = f"ln K for scaled priors at tau = {at}"
    return Card("Sensitivity to the priors", headline, (), tuple(result.sentences), tables)


def sensitivity_table(results: Iterable[PriorSensitivity], time_unit: str) -> Table:
    """Tabulate the range of ln K of every pair under scaled priors, at several sampling times."""
    rows = tuple(
        (
            readable_time(found.tau, time_unit),
            f"ln K({pair})",
            number(values[0, len(found.factors) // 2]),
            f"{number(values.min())} … {number(values.max())}",
            "changes" if found.verdict_changes(pair) else "unchanged",
        )
        for found in results
        for pair, values in found.log_bayes_factors.items()
    )
    return Table(("τ", "Bayes factor", "priors as given", "range", "sign"), rows, "llrrl")


def sensitivity_panel(found: PriorSensitivity, name: str, time_unit: str) -> Panel:
    """Describe the change of ln K against the first model with the scale of all priors.

    Args:
        found: Result of `prior_sensitivity`.
        name: Name of the panel.
        time_unit: Unit of the sampling time.
    """
    reference = next(iter(found.log_bayes_factors)).partition(":")[2]
    curves = []
    for pair, values in found.log_bayes_factors.items():
        model, _, other = pair.partition(":")
        if other == reference:
            change = values[0] - values[0, len(found.factors) // 2]
            curves.append(Curve(f"{model} over {reference}", model, change))
    tau = readable_time(found.tau, time_unit)
    return Panel(
        name,
        f"Change of ln K at τ = {tau}",
        found.factors,
        "factor on the scales of all priors",
        "change of ln K",
        curves,
        reference=(0.0,),
        description=f"Change of ln K of each model against {reference} at τ = {tau}, with the "
        "scales of all priors multiplied by one factor",
        at_tau=found.tau,
    )
