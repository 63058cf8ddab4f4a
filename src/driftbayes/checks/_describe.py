"""Describe a goodness-of-fit check: its card, its table and a panel for each quantity."""

__all__ = ["Deviations", "check_table", "describe_check", "deviations_of", "fit_panels"]

from dataclasses import dataclass

import numpy as np

from driftbayes._representation import Card, Curve, Panel, Scale, Table, counted, describe
from driftbayes._typing import FloatArray
from driftbayes.checks._check import LEVEL, FitCheck, ModelCheck
from driftbayes.data._units import readable
from driftbayes.errors import DriftbayesError, did_you_mean

# Title of each quantity, and label of its vertical axis.
_TITLES = {
    "fit": ("best-fitting parameters", "pull of the data, in sd"),
    "mean": ("mean displacement", "deviation, in sd"),
    "msd": ("mean square displacement", "over median replica"),
    "autocovariance": ("autocovariance of steps", "over the variance"),
    "kurtosis": ("kurtosis", "3 for a Gaussian"),
    "distribution": ("steps beyond a size", "over median replica"),
    "particles": ("spread between particles", "relative mean square"),
    "together": ("correlation of particles", "mean over pairs"),
    "axes": ("innovations: isotropy", "deviation, in sd"),
    "innovation_shape": ("innovations: shape", "deviation, in sd"),
    "innovation_whiteness": ("innovations: correlation", ""),
    "innovation_particles": ("innovations: particles", "spread, 1 by chance"),
}
# Values of different kinds, shown in units of the half width of their band.
_IN_SD = ("mean", "axes", "innovation_shape")
# Values that are not a curve.
_SEPARATE = (*_IN_SD, "fit", "together", "innovation_particles")
# Values over several decades, shown relative to the median of the replicas.
_RELATIVE = ("msd", "distribution")


def check_table(check: FitCheck) -> Table:
    """Tabulate a p-value for each quantity and model."""
    models = list(check.models.values())
    rows = [
        (q.words.removeprefix("the "), *(m.p_cell(q.name) for m in models))
        for q in check.quantities
    ]
    rows.append(("all quantities", *(m.overall_cell for m in models)))
    title = f"Adjusted p-values from {check.n_replicas} replicas (< {LEVEL}: contradicted)"
    return Table(("quantity", *check.models), (*rows,), "l" + "r" * len(models), title=title)


@describe.register
def describe_check(check: FitCheck) -> Card:
    """Describe the verdict, and a p-value for each quantity and model."""
    about = check.comparison
    facts = (
        ("tau", readable(about.tau, about.time_unit)),
        (
            "data",
            f"{counted(about.n_particles, 'particle')}, "
            f"{counted(about.n_displacements, 'displacement')}",
        ),
        ("fingerprint", about.data_fingerprint),
    )
    others = (f"{name}: {m.verdict}" for name, m in check.models.items() if name != about.best)
    tables = (check_table(check),)
    return Card("Goodness of fit", check.verdict, facts, tuple(others), tables, check.warnings)


@dataclass(frozen=True, eq=False)
class Deviations:
    """Data and replicas in one quantity, scaled for a figure.

    Args:
        title: Name of the quantity.
        y_label: Label of the vertical axis.
        x_label: Label of the horizontal axis, or the names of separate values.
        x: Positions on the horizontal axis.
        observed: Values of the data.
        band: Low, median and high of 95 % of the replicas.
        fitted: The same at equal fit.
        is_curve: Whether the values form a curve.
        reference: Expected value under the model, if there is one.
        x_scale: Scale of the horizontal axis of a curve, logarithmic for lags.
    """

    title: str
    y_label: str
    x_label: str
    x: FloatArray
    observed: FloatArray
    band: FloatArray
    fitted: FloatArray
    is_curve: bool
    reference: float | None
    x_scale: Scale = "linear"


def deviations_of(check: ModelCheck, name: str) -> Deviations:
    """Return one quantity of data and replicas of a model.

    Args:
        check: Check of one model.
        name: Name of the quantity.
    """
    known = {quantity.name: quantity for quantity in check.quantities}
    if name not in known:
        near = did_you_mean(name, known)
        msg = f"there is no quantity {name!r} in this check; there are {', '.join(known)}{near}"
        raise DriftbayesError(msg)
    found = check.deviations[name]
    arrays = found.observed, np.asarray(found.band), np.asarray(found.fitted_band)
    centre, unit = np.asarray(0.0), np.asarray(1.0)
    if name in _RELATIVE:
        unit = np.where(arrays[1][1] == 0, 1.0, arrays[1][1])
    elif name == "autocovariance":
        unit = check.deviations["msd"].band[1][0]
    elif name in _IN_SD:
        centre = arrays[2][1]
        half = 0.5 * (arrays[2][2] - arrays[2][0]) / 1.96
        unit = np.maximum(half, np.finfo(float).tiny)
    observed, band, fitted = ((values - centre) / unit for values in arrays)
    is_zero = name in ("autocovariance", "innovation_whiteness", "fit", "together", *_IN_SD)
    title, y_label = _TITLES[name]
    return Deviations(
        title,
        y_label,
        known[name].about,
        known[name].at,
        observed,
        band,
        fitted,
        is_curve=name not in _SEPARATE,
        reference=0.0 if is_zero else 1.0 if name in _RELATIVE else None,
        x_scale="log" if known[name].about.startswith("lag") else "linear",
    )


def fit_panels(check: FitCheck) -> list[Panel]:
    """Describe the data and replicas of the best model, one panel for each curve."""
    best = check.models[check.comparison.best]
    panels = []
    for quantity in best.quantities:
        found = deviations_of(best, quantity.name)
        if not found.is_curve:
            continue
        nothing = np.full(len(found.x), np.nan)
        p_value = best.p_text(quantity.name)
        panels.append(
            Panel(
                f"fit_{quantity.name}",
                f"{found.title[0].upper()}{found.title[1:]} ({p_value})",
                found.x,
                found.x_label,
                found.y_label,
                [
                    Curve("95 % of replicas", best.model, nothing, found.band[0], found.band[2]),
                    Curve("at equal fit", best.model, nothing, found.fitted[0], found.fitted[2]),
                    Curve("data", "data", found.observed),
                ],
                reference=() if found.reference is None else (found.reference,),
                description=f"{quantity.words}: data as points among {best.n_replicas} replicas "
                f"of {best.model}, {p_value}",
                x_scale=found.x_scale,
                at_tau=check.comparison.tau,
            )
        )
    return panels
