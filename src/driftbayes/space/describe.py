"""Describe maps by evidence."""

__all__ = ["describe_map"]

import numpy as np

from driftbayes.data.units import readable, readable_unit
from driftbayes.models import Parameter
from driftbayes.representation import Card, Table, describe, number, summarise
from driftbayes.space.tree import TreeMap

# On the scale of Kass and Raftery.
_STRENGTHS = ((5.0, "very strong"), (3.0, "strong"), (1.0, "positive"))
_RIVALS = {
    "particles": "own parameters for each particle",
    "seasons": "own parameters for each season",
    "scatter": "own diffusivity for each particle",
}
# So many particles in a cell tell a place from its visitors.
_MANY = 30.0


@summarise.register
def _(result: TreeMap) -> str:
    log_k, chance = result.log_bayes_factor_inhomogeneous, result.probability_homogeneous
    if result.levels.depth == 0:
        return "there are too few steps to divide the region: parameters are taken as constant"
    strength = next((word for least, word in _STRENGTHS if abs(log_k) > least), "no clear")
    view = "for" if log_k > 0 else "against"
    return (
        f"{strength} evidence {view} parameters that vary in space: ln K = {number(log_k, 4)}, "
        f"probability that they are constant {_chance(chance)}"
    )


def _chance(value: float) -> str:
    return "below 1e-9" if value < 1e-9 else number(value, 3)


@describe.register
def describe_map(result: TreeMap) -> Card:
    """Describe the evidence for a map, what it may be confounded with, and the averaged map."""
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
        ("prior", f"a cell is divided with probability {number(result.split, 3)}"),
        ("", "parameters have the same priors in all cells, with the scales of all data"),
    ]
    every = (_evidences(result), _rivals(result), _values(result))
    tables = tuple(table for table in every if table.rows)
    warnings: tuple[str, ...] = ()
    shared = result.attributes["dependence"]
    if shared is not None:
        warnings = (
            f"{shared['sentence']}; what they share at one time looks like a property of the place "
            "where they were then, so that ln K is overstated",
        )
    return Card("Map", summarise(result), (*facts,), _sentences(result), tables, warnings)


def _evidences(result: TreeMap) -> Table:
    rows = []
    least = min(tree.log_evidence_homogeneous for tree in result.models.values())
    for name, tree in result.models.items():
        rows.append(
            (
                name,
                f"{tree.log_evidence_homogeneous - least:.2f}",
                f"{tree.log_evidence_inhomogeneous - least:.2f}",
                f"{tree.log_bayes_factor_inhomogeneous:.2f}",
                _chance(tree.probability_homogeneous),
                number(tree.expected_cells, 3),
            )
        )
    heads = ("model", "ln Z constant", "ln Z varying", "ln K", "P(constant)", "cells")
    title = f"Evidence for a map (ln Z less {least:.2f})"
    return Table(heads, tuple(rows), "lrrrrr", title=title)


def _rivals(result: TreeMap) -> Table:
    """What place may be confounded with, beside place itself."""
    least = min(tree.log_evidence_homogeneous for tree in result.models.values())
    rows = [
        (name, "own parameters for each place", f"{tree.log_evidence_inhomogeneous - least:.2f}")
        for name, tree in result.models.items()
    ]
    for kind, found in result.rivals.items():
        rows += [(name, _RIVALS[kind], f"{value - least:.2f}") for name, value in found.items()]
    rows = rows if result.rivals else []
    title = "Place, season and population"
    return Table(("model", "with", "ln Z"), tuple(rows), "llr", title=title)


def _values(result: TreeMap) -> Table:
    """The averaged map of the best model in a few numbers."""
    model = result.best
    averaged = result.averaged(model)
    rows = []
    for quantity in result.models[model].leaves.quantities:
        mean, sd, _ = averaged[quantity.name]
        there = np.isfinite(mean)
        unit = Parameter("", quantity.meaning, quantity.length_power, quantity.time_power).unit(
            *result.units
        )
        low, middle, high = np.quantile(mean[there], [0.0, 0.5, 1.0])
        values = np.array([low, middle, high, np.median(sd[there])])
        shown = "" if unit == "1" else unit
        if (quantity.length_power, quantity.time_power) == (0, 1):
            factor, shown = readable_unit(values[1:2], result.units[1], 3)
            values = values * factor
        rows.append((quantity.name, shown, *(number(float(v), 3) for v in values)))
    heads = ("quantity", "unit", "lowest", "median", "highest", "median error")
    return Table(heads, tuple(rows), "llrrrr", title=f"Averaged map, {model}")


def _sentences(result: TreeMap) -> tuple[str, ...]:
    said = [
        "Errors of the averaged map include the spread between all ways to divide the region.",
    ]
    if result.attributes["longest"] is not None:
        said.append(_long_steps(result))
    visitors = result.particles_per_cell
    few = "" if visitors >= _MANY else ", which is few"
    visits = f"The cell of a step is visited by {number(visitors, 3)} particles on average{few}"
    if result.n_particles[0][0] == 1:
        visits = "All steps are of one particle"
    said.append(
        f"{visits}: place, season and population are confounded where few particles visit a cell."
    )
    if result.attributes["without_scatter"]:
        said.append(
            "Diffusivities that differ between particles (+scatter) were not compared, since that "
            "takes long with so many steps; see `driftbayes compare`."
        )
    place = max(tree.log_evidence_inhomogeneous for tree in result.models.values())
    found = [(v, k) for k, own in result.rivals.items() for v in own.values()]
    value, kind = max(found, default=(-np.inf, ""))
    if result.log_bayes_factor_inhomogeneous < 0:
        said.append("The averaged map is nearly that of constant parameters.")
    elif found:
        said.append(
            f"The best rival of place, {_RIVALS[kind]}, has a ln Z that is "
            f"{number(abs(value - place), 4)} {'larger' if value > place else 'smaller'}"
            + (": do not read the map as a property of places." if value > place else ".")
        )
    return tuple(said)


def _long_steps(result: TreeMap) -> str:
    """What irregular times mean for a map."""
    length, time = result.units
    least, most, size = result.attributes["longest"]
    cell = result.attributes["side"] / 2**result.levels.depth
    text = (
        f"Steps took {readable(least, time, 3)} to {readable(most, time, 3)}; the longest step "
        f"went {readable(size, length, 3)}"
    )
    if size <= cell:
        return f"{text}, less than the side of the finest cell."
    return (
        f"{text}, more than the side of the finest cell ({readable(cell, length, 3)}): all of a "
        "step belongs to the cell in which it begins. Cut the tracks at long gaps (--qc gaps) if "
        "there are many."
    )
