"""Describe fits of fields, and convert them to datasets."""

__all__ = ["describe_field", "describe_flight", "field_dataset", "flight_dataset"]

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes._version import __version__
from driftbayes.data.units import readable
from driftbayes.fields.averages import AveragedFit
from driftbayes.fields.fit import FieldFit
from driftbayes.fields.flight_fit import FlightFit
from driftbayes.fields.problem import best_member
from driftbayes.fields.transition import TransitionSteps
from driftbayes.models import Parameter
from driftbayes.representation import (
    Card,
    Table,
    describe,
    number,
    summarise,
    to_dataset,
    with_error,
    with_unit,
)
from driftbayes.typing import FloatArray

if TYPE_CHECKING:
    import xarray as xr

# Points along the longer side of a dataset, by dimension.
_N_POINTS = {1: 200, 2: 60}
# Number of posterior draws stored in a file, over which presence is averaged, and points per block.
_N_DRAWS, _BLOCK = 32, 500


@summarise.register
def _(result: AveragedFit) -> str:
    log_k = result.log_bayes_factor_inhomogeneous
    probability = number(1 - result.probabilities["homogeneous"], 3)
    verdict = "evidence" if log_k > 0 else "no evidence"
    tau = readable(result.tau, result.units[1])
    return (
        f"{verdict} that dispersion varies in space at tau = {tau}: ln K = {number(log_k)}, "
        f"probability {probability}"
    )


@describe.register
def describe_field(result: FieldFit) -> Card:
    """Describe the evidence, the range of the fields and the smoothness."""
    facts = _facts(result)
    facts.insert(-1, ("method", f"Laplace's approximation, {_density(result)}"))
    error = f"{number(result.density_error, 2)} nats by the density of steps"
    facts.insert(-1, ("error of ln L", error))
    rough = f"{number(result.roughness, 2)} (95 % of the steps have less)"
    facts.insert(-1, ("|∇κ|√(τ/κ)", rough))
    if result.n_near_walls:
        facts.insert(-1, ("left out", f"{result.n_near_walls:,} steps that begin near a wall"))
    heads = ("sd of ln κ", _flow_head(result))
    units = (1.0, result.priors.flow)
    d = result.splines.n_dim
    fields = [("kappa", "kappa", 2), *((f"flow_{axis}", "flow", 1) for axis in "xy"[:d])]
    tables = [_evidence_table(result, heads, units), _range_table(result, fields)]
    return Card("FieldFit", summarise(result), tuple(facts), (), tuple(tables), result.warnings)


@describe.register
def describe_flight(result: FlightFit) -> Card:
    """Describe the evidence, the range of the fields and the smoothness."""
    facts = _facts(result)
    facts.insert(-1, ("method", "Laplace's approximation, filter along each run"))
    rough = f"{number(result.roughness, 2)} (95 % of the steps have less)"
    facts.insert(-1, ("change over a step", rough))
    heads = ("sd of ln σ", "sd of ln T", _flow_head(result))
    units = (1.0, 1.0, result.priors.flow)
    fields = [("sigma", "sigma", 1), ("memory_time", "memory_time", 0), ("k", "k", 2)]
    fields += [(f"flow_{axis}", "flow", 1) for axis in "xy"[: result.splines.n_dim]]
    tables = [_evidence_table(result, heads, units), _range_table(result, fields)]
    return Card("FlightFit", summarise(result), tuple(facts), (), tuple(tables), result.warnings)


def _facts(result: AveragedFit) -> list[tuple[str, str]]:
    length, time = result.units
    sides = " × ".join(readable(s, length, 4) for s in result.splines.high - result.splines.low)
    intervals = " × ".join(str(n) for n in result.splines.n_intervals)
    facts = [
        ("tau", readable(result.tau, time)),
        ("steps", f"{result.n_steps:,}, {result.splines.n_dim}D"),
        ("region", f"{sides}; {intervals} spline intervals"),
        ("fingerprint", result.fingerprint),
    ]
    if result.ground is not None:
        centre = f"{result.ground.lon:.4f}° E, {result.ground.lat:.4f}° N"
        facts.insert(3, ("origin of x, y", centre))
    return facts


def _density(result: FieldFit) -> str:
    if not isinstance(result._problem, TransitionSteps):
        return "local Gaussian steps"
    cells = " × ".join(str(n) for n in result._problem.grid.shape)
    return f"Fokker–Planck density of steps on {cells} cells"


def _evidence_table(result: AveragedFit, names: tuple[str, ...], units: tuple[float, ...]) -> Table:
    rows = []
    for name, log_evidence in result.log_evidences.items():
        best = best_member([member for member in result.members if member.name == name])
        log_k = result.log_bayes_factors.get(name)
        sizes = [
            number(size * unit, 3) if size else "-"
            for size, unit in zip(best.amplitudes, units, strict=True)
        ]
        scale = readable(best.length, result.units[0], 3) if np.isfinite(best.length) else "-"
        rows.append(
            (
                *(name, f"{log_evidence:.4f}"),
                "" if log_k is None else number(log_k),
                *(number(result.probabilities[name]), *sizes, scale),
            )
        )
    heads = ("model", "ln Z", "ln K", "P(model)", *names, "length")
    title = "ln K is over the homogeneous model; sd and length of the most probable prior"
    return Table(heads, tuple(rows), "l" + "r" * (len(heads) - 1), title=title)


def _flow_head(result: AveragedFit) -> str:
    return with_unit("sd of u", Parameter("u", "u", 1, -1).unit(*result.units))


def _range_table(result: AveragedFit, fields: list[tuple[str, str, int]]) -> Table:
    """Tabulate lowest, median and highest values; a field is a name, key of `at`, length power."""
    fields_at_places = result.at(result.places)
    rows = []
    for name, key, power in fields:
        column = "xy".find(name[-1]) if key == "flow" else None
        mean, sd = (fields_at_places[key + suffix] for suffix in ("", "_sd"))
        if column is not None:
            mean, sd = mean[:, column], sd[:, column]
        order = np.argsort(mean)
        indices = [order[0], order[len(order) // 2], order[-1]]
        unit = _unit(result, power, 1 if key == "memory_time" else -1)
        rows.append((name, unit, *(with_error(mean[i], sd[i]) for i in indices)))
    title = "Fields where there are steps, averaged over all models: posterior mean ± sd"
    return Table(
        ("field", "unit", "lowest", "median", "highest"), tuple(rows), "llrrr", title=title
    )


def _unit(result: AveragedFit, power: int, time: int = -1) -> str:
    return Parameter("", "", power, time).unit(*result.units)


@to_dataset.register(FieldFit)
def field_dataset(result: FieldFit) -> "xr.Dataset":
    """Fields on a regular grid by the CF conventions, with errors and the number of steps."""
    names = [
        ("kappa", "kappa", _unit(result, 2), "diffusivity"),
        ("log_kappa", "log_kappa", "1", "natural logarithm of the diffusivity"),
    ]
    names += _flow_names(result)
    law = "dX = (u + grad kappa) dt + sqrt(2 kappa) dW (Ito)"
    return _gridded(result, names, law)


@to_dataset.register(FlightFit)
def flight_dataset(result: FlightFit) -> "xr.Dataset":
    """Fields on a regular grid by the CF conventions, with errors and the number of steps."""
    names = [
        ("sigma", "sigma", _unit(result, 1), "standard deviation of the velocity"),
        ("memory_time", "memory_time", _unit(result, 0, 1), "memory time of the velocity"),
        ("k", "k", _unit(result, 2), "diffusivity at long times"),
    ]
    names += _flow_names(result)
    law = "dX = (u + sigma w) dt, dw = (-w/T + grad sigma) dt + sqrt(2/T) dW"
    return _gridded(result, names, law)


def _flow_names(result: AveragedFit) -> list[tuple[str, str, str, str]]:
    return [
        (f"flow_{axis}", "flow", _unit(result, 1), f"mean flow along {axis}")
        for axis in "xy"[: result.splines.n_dim]
    ]


def _drawn(
    result: AveragedFit,
    points: FloatArray,
    names: list[tuple[str, str, str, str]],
    laid: Callable[[FloatArray], FloatArray],
) -> dict[str, Any]:
    """Draw diffusivity and flow from the posterior, in single precision."""
    # The same seed draws the same fields at all points, so points can be processed in blocks.
    parts = [result.draw(points[i : i + _BLOCK], _N_DRAWS) for i in range(0, len(points), _BLOCK)]
    drawn = {key: np.concatenate([part[key] for part in parts], axis=1) for key in parts[0]}
    out = {}
    for name, key, unit, text in names:
        if key in ("kappa", "k", "flow"):
            values = drawn[key]
            if key == "flow":
                values = values[..., "xy".find(name[-1])]
            fields = np.array([laid(field) for field in values], dtype=np.float32)
            attributes = {"units": unit} if unit else {}
            attributes |= {"long_name": f"draws of the {text} from its posterior"}
            out[f"{name}_draw"] = ("draw", "y", "x"), fields, attributes
    return out


def _gridded(result: AveragedFit, names: list[tuple[str, str, str, str]], law: str) -> "xr.Dataset":
    """Evaluate fields on a grid; each is a name, key of `at`, unit and long name."""
    import xarray as xr

    splines, (length, _) = result.splines, result.units
    d = splines.n_dim
    side = splines.high - splines.low
    counts = np.maximum(2, np.round(_N_POINTS[d] * side / side.max())).astype(int)
    ends = zip(splines.low, splines.high, counts, strict=True)
    edges = [np.linspace(low, high, n + 1) for low, high, n in ends]
    axes = [0.5 * (e[1:] + e[:-1]) for e in edges]
    points = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=-1)
    fields = result.at(points)
    dims = ("y", "x")[2 - d :]
    steps = np.histogramdd(result.places, bins=edges, weights=result.place_counts)[0]

    def on_grid(values: FloatArray) -> FloatArray:
        return values.reshape(tuple(counts)).T

    variables: dict[str, Any] = {
        "n_steps": (dims, steps.T, {"long_name": "number of steps that begin here"})
    }
    for name, key, unit, text in names:
        mean, sd = (fields[key + suffix] for suffix in ("", "_sd"))
        if key == "flow":
            mean, sd = mean[:, "xy".find(name[-1])], sd[:, "xy".find(name[-1])]
        attributes = {"units": unit} if unit else {}
        variables[name] = (
            dims,
            on_grid(mean),
            attributes | {"long_name": f"posterior mean of the {text}"},
        )
        error = attributes | {"long_name": f"posterior standard deviation of the {text}"}
        variables[f"{name}_sd"] = dims, on_grid(sd), error
    if d == 2:
        variables |= _drawn(result, points, names, on_grid)
    coordinates = {
        name: (name, axis, {"axis": name.upper()} | ({"units": length} if length else {}))
        for name, axis in zip("xy", axes, strict=False)
    }
    centre = (
        {}
        if result.ground is None
        else {
            "origin_longitude": result.ground.lon,
            "origin_latitude": result.ground.lat,
            "frame": result.ground.frame,
        }
    )
    return xr.Dataset(variables, coordinates).assign_attrs(
        Conventions="CF-1.11",
        driftbayes_version=__version__,
        convention=law,
        length_unit=result.units[0],
        time_unit=result.units[1],
        result=json.dumps(result.to_json()),
        **centre,
    )
