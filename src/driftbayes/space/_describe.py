"""Describe a map as a card of facts, tables and warnings."""

import numpy as np

from driftbayes._representation import Card, Table, describe, number, summarise
from driftbayes.data._units import readable, readable_unit
from driftbayes.space._tree import TreeMap

# Strength of evidence by |ln K|, after Kass and Raftery (1995).
_STRENGTHS = ((5.0, "very strong"), (3.0, "strong"), (1.0, "positive"))
_RIVALS = {
    "places": "separate parameters for each place",
    "particles": "separate parameters for each particle",
    "seasons": "separate parameters for each season",
    "scatter": "separate diffusivity for each particle",
}
# With fewer particles per cell, effects of position and of particles cannot be separated.
_MIN_VISITORS = 30.0


@summarise.register
def _(result: TreeMap) -> str:
    log_k, probability = result.log_bayes_factor_inhomogeneous, result.probability_homogeneous
    if result.levels.depth == 0:
        return "too few steps to divide the region: parameters are constant"
    strength = next((word for threshold, word in _STRENGTHS if abs(log_k) > threshold), "no clear")
    view = "for" if log_k > 0 else "against"
    return (
        f"{strength} evidence {view} parameters that vary in space: ln K = {number(log_k, 4)}, "
        f"probability that they are constant {_chance(probability)}"
    )


def _chance(value: float) -> str:
    """Format a probability that may be tiny."""
    return "below 1e-9" if value < 1e-9 else number(value, 3)


@describe.register
def describe_map(result: TreeMap) -> Card:
    """Describe the evidence for spatial variation, possible confounders, and the averaged map."""
    length, time = result.units
    side, depth = result.attributes["side"], result.levels.depth
    n_steps, n_particles = int(result.n_steps[0][0]), int(result.n_particles[0][0])
    mean = readable(result.tau, time)
    if result.attributes["longest"] is not None:
        mean = f"every position at its own interval, {mean} on average"
    facts = [
        ("tau", mean),
        ("data", f"{n_steps:,} steps of {n_particles:,} particle{'s' * (n_particles > 1)}"),
        ("region", f"a square of {readable(side, length, 3)}, divided up to {depth} times"),
        ("finest cell", readable(side / 2**depth, length, 3)),
        ("prior", f"probability {number(result.split, 3)} that a cell is divided"),
        ("", "parameters have the same priors in all cells, scaled by all data"),
    ]
    all_tables = (_evidences(result), _rivals(result), _values(result))
    tables = tuple(table for table in all_tables if table.rows)
    warnings: tuple[str, ...] = ()
    shared = result.attributes["dependence"]
    if shared is not None:
        warnings = (
            f"{shared['sentence']}; motion shared at one time is attributed to the place, so ln K "
            "is overstated",
        )
    return Card("Map", summarise(result), (*facts,), _sentences(result), tables, warnings)


def _evidences(result: TreeMap) -> Table:
    """Tabulate the evidence of every model with constant and with varying parameters."""
    lowest = _lowest(result)
    rows = [
        (
            name,
            f"{tree.log_evidence_homogeneous - lowest:.2f}",
            f"{tree.log_evidence_inhomogeneous - lowest:.2f}",
            f"{tree.log_bayes_factor_inhomogeneous:.2f}",
            _chance(tree.probability_homogeneous),
            number(tree.expected_cells, 3),
        )
        for name, tree in result.models.items()
    ]
    heads = ("model", "ln Z constant", "ln Z varying", "ln K", "P(constant)", "cells")
    title = f"Evidence for a map (ln Z minus {lowest:.2f})"
    return Table(heads, tuple(rows), "lrrrrr", title=title)


def _rivals(result: TreeMap) -> Table:
    """Tabulate ln Z of alternatives to spatial variation, if there are any."""
    lowest = _lowest(result)
    place = {name: tree.log_evidence_inhomogeneous for name, tree in result.models.items()}
    kinds = {"places": place, **result.rivals} if result.rivals else {}
    rows = [
        (name, _RIVALS[kind], f"{value - lowest:.2f}")
        for kind, log_evidences in kinds.items()
        for name, value in log_evidences.items()
    ]
    title = "Place, season and population"
    return Table(("model", "with", "ln Z"), tuple(rows), "llr", title=title)


def _lowest(result: TreeMap) -> float:
    """Return the lowest ln Z of constant parameters, to which tables refer."""
    return min(tree.log_evidence_homogeneous for tree in result.models.values())


def _values(result: TreeMap) -> Table:
    """Summarise the averaged map of the best model."""
    model = result.best
    averaged = result.averaged(model)
    rows = []
    for quantity in result.models[model].leaves.quantities:
        mean, sd, _ = averaged[quantity.name]
        has_data = np.isfinite(mean)
        unit = quantity.unit(*result.units)
        low, middle, high = np.quantile(mean[has_data], [0.0, 0.5, 1.0])
        values = np.array([low, middle, high, np.median(sd[has_data])])
        shown = "" if unit == "1" else unit
        if (quantity.length_power, quantity.time_power) == (0, 1):
            factor, shown = readable_unit(values[1:2], result.units[1], 3)
            values = values * factor
        rows.append((quantity.name, shown, *(number(float(v), 3) for v in values)))
    heads = ("quantity", "unit", "lowest", "median", "highest", "median error")
    return Table(heads, tuple(rows), "llrrrr", title=f"Averaged map, {model}")


def _sentences(result: TreeMap) -> tuple[str, ...]:
    """Explain what the map averages, and what else may explain the data."""
    sentences = [
        "Errors of the averaged map include the variance between all partitions of the region.",
    ]
    if result.attributes["longest"] is not None:
        sentences.append(_long_steps(result))
    visitors = result.particles_per_cell
    remark = "" if visitors >= _MIN_VISITORS else ", which is few"
    visits = f"The cell of a step is visited by {number(visitors, 3)} particles on average{remark}"
    if result.n_particles[0][0] == 1:
        visits = "All steps are from one particle"
    sentences.append(
        f"{visits}: place, season and population are confounded where few particles visit a cell."
    )
    if result.attributes["without_scatter"]:
        sentences.append(
            "Diffusivities that differ between particles (+scatter) were not compared, because of "
            "the number of steps; see `driftbayes compare`."
        )
    place = max(tree.log_evidence_inhomogeneous for tree in result.models.values())
    rival_evidences = [
        (v, k) for k, log_evidences in result.rivals.items() for v in log_evidences.values()
    ]
    value, kind = max(rival_evidences, default=(-np.inf, ""))
    if result.log_bayes_factor_inhomogeneous < 0:
        sentences.append("The averaged map is nearly that of constant parameters.")
    elif rival_evidences:
        sentences.append(
            f"The best alternative to variation in space, {_RIVALS[kind]}, has a ln Z that is "
            f"{number(abs(value - place), 4)} {'larger' if value > place else 'smaller'}"
            + (": do not interpret the map as variation in space." if value > place else ".")
        )
    return tuple(sentences)


def _long_steps(result: TreeMap) -> str:
    """Compare the longest step at irregular times with the finest cell."""
    length, time = result.units
    shortest, longest, size = result.attributes["longest"]
    cell = result.attributes["side"] / 2**result.levels.depth
    text = (
        f"Steps took {readable(shortest, time, 3)} to {readable(longest, time, 3)}; the longest "
        f"displacement is {readable(size, length, 3)}"
    )
    if size <= cell:
        return f"{text}, less than the side of the finest cell."
    return (
        f"{text}, more than the side of the finest cell ({readable(cell, length, 3)}): all of a "
        "step belongs to the cell in which it begins. Cut the tracks at long gaps (--qc gaps) if "
        "there are many."
    )
