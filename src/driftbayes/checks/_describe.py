"""Describe a goodness-of-fit check: its card, its table and a panel for each quantity."""

from dataclasses import replace

import numpy as np

from driftbayes._representation import Card, Curve, Panel, Table, counted, describe
from driftbayes.checks._check import LEVEL, FitCheck, ModelCheck
from driftbayes.data._units import readable
from driftbayes.errors import DriftbayesError, did_you_mean

# Title of each quantity, and label of its vertical axis.
_TITLES = {
    "fit": ("best-fitting parameters", "pull of the data, in sd"),
    "mean": ("mean displacement", "deviation, in sd"),
    "msd": ("mean square displacement", "over median replica"),
    "autocovariance": ("autocovariance", "over the variance"),
    "kurtosis": ("kurtosis", "3 for a Gaussian"),
    "distribution": ("distribution", "over median replica"),
    "particles": ("differences between particles", "relative mean square"),
    "together": ("independence of particles", "mean over pairs"),
    "axes": ("innovations: isotropy", "deviation, in sd"),
    "innovation_shape": ("innovations: shape", "deviation, in sd"),
    "innovation_whiteness": ("innovations: whiteness", "correlation"),
    "innovation_particles": ("innovations: spread", "1 by chance"),
}
# Values of different kinds, shown in units of the half width of their band.
_IN_SD = ("mean", "axes", "innovation_shape")
# Values that are not a curve.
SEPARATE = (*_IN_SD, "fit", "together", "innovation_particles")
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


def deviation_panel(check: ModelCheck, name: str) -> Panel:
    """Describe one quantity: 95 % of the replicas, 95 % of those at equal fit, and the data.

    Args:
        check: Check of one model.
        name: Name of the quantity.
    """
    known = {quantity.name: quantity for quantity in check.quantities}
    if name not in known:
        near = did_you_mean(name, known)
        msg = f"there is no quantity {name!r} in this check; there are {', '.join(known)}{near}"
        raise DriftbayesError(msg)
    quantity, found = known[name], check.deviations[name]
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
    nothing = np.full(len(quantity.at), np.nan)
    return Panel(
        *(f"fit_{name}", title, quantity.at, quantity.about, y_label),
        [
            Curve("95 % of replicas", check.model, nothing, band[0], band[2]),
            Curve("at equal fit", check.model, nothing, fitted[0], fitted[2]),
            Curve("data", "data", observed),
        ],
        reference=(0.0,) if is_zero else (1.0,) if name in _RELATIVE else (),
        description=f"{quantity.words}: data as points among {check.n_replicas} replicas of "
        f"{check.model}, {check.p_text(name)}",
        x_scale="log" if quantity.about.startswith("lag") else "linear",
    )


def fit_panels(check: FitCheck) -> list[Panel]:
    """Describe the data and replicas of the best model, one panel for each curve."""
    best, tau = check.models[check.comparison.best], check.comparison.tau
    panels = []
    for name in (quantity.name for quantity in best.quantities):
        if name not in SEPARATE:
            panel = deviation_panel(best, name)
            title = f"{panel.title[0].upper()}{panel.title[1:]} ({best.p_text(name)})"
            panels.append(replace(panel, title=title, at_tau=tau))
    return panels
