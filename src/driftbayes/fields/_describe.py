"""Describe fits of fields, and convert them to datasets."""

import json
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from driftbayes._representation import (
    Card,
    Table,
    describe,
    number,
    summarise,
    to_dataset,
    with_error,
    with_unit,
)
from driftbayes._typing import FloatArray
from driftbayes._version import __version__
from driftbayes.data._units import readable
from driftbayes.fields._averages import AveragedFit
from driftbayes.fields._fit import FieldFit
from driftbayes.fields._flight_fit import FlightFit
from driftbayes.fields._problem import best_member
from driftbayes.fields._transition import TransitionSteps
from driftbayes.models import Parameter

if TYPE_CHECKING:
    import xarray as xr

# Points along the longer side of a dataset, by dimension.
_N_POINTS = {1: 200, 2: 60}
# Number of posterior draws stored in a file, over which presence is averaged, and points per block.
_N_DRAWS, _BLOCK = 32, 500
# Name, unit and long name of a field.
_Field: TypeAlias = tuple[str, str, str]


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
    facts = [
        ("method", f"Laplace's approximation, {_density(result)}"),
        ("error of ln L", f"{number(result.density_error, 2)} nats by the density of steps"),
        ("|∇κ|√(τ/κ)", _roughness(result)),
    ]
    if result.n_near_walls:
        facts.append(("excluded", f"{result.n_near_walls:,} steps that begin near a wall"))
    heads, units = ("sd of ln κ",), (1.0, result.priors.flow)
    return _card(result, facts, heads, units, {"kappa": _unit(result, 2)})


@describe.register
def describe_flight(result: FlightFit) -> Card:
    """Describe the evidence, the range of the fields and the smoothness."""
    facts = [
        ("method", "Laplace's approximation, filter along each run"),
        ("change over a step", _roughness(result)),
    ]
    heads, units = ("sd of ln σ", "sd of ln T"), (1.0, 1.0, result.priors.flow)
    fields = {name: unit for name, unit, _ in _flight_fields(result)}
    return _card(result, facts, heads, units, fields)


def _card(
    result: AveragedFit,
    own_facts: list[tuple[str, str]],
    heads: tuple[str, ...],
    units: tuple[float, ...],
    fields: dict[str, str],
) -> Card:
    """Describe a fit, given further facts, its amplitudes, and units of fields by name."""
    length, time = result.units
    sides = " × ".join(readable(s, length, 4) for s in result.splines.high - result.splines.low)
    intervals = " × ".join(str(n) for n in result.splines.n_intervals)
    facts = [
        ("tau", readable(result.tau, time)),
        ("steps", f"{result.n_steps:,}, {result.splines.n_dim}D"),
        ("region", f"{sides}; {intervals} spline intervals"),
    ]
    if result.ground is not None:
        centre = f"{result.ground.lon:.4f}° E, {result.ground.lat:.4f}° N"
        facts.append(("origin of x, y", centre))
    facts += [*own_facts, ("fingerprint", result.fingerprint)]
    heads = (*heads, with_unit("sd of u", _unit(result, 1)))
    fields = fields | {name: unit for name, unit, _ in _flow_fields(result)}
    tables = (_evidence_table(result, heads, units), _range_table(result, fields))
    return Card("Fields", summarise(result), tuple(facts), (), tables, result.warnings)


def _roughness(result: AveragedFit) -> str:
    """Format the roughness of the fields."""
    return f"{number(result.roughness, 2)} (95 % of the steps have less)"


def _density(result: FieldFit) -> str:
    """Name the density of the steps."""
    if not isinstance(result._problem, TransitionSteps):
        return "local Gaussian steps"
    cells = " × ".join(str(n) for n in result._problem.grid.shape)
    return f"Fokker–Planck density of steps on {cells} cells"


def _evidence_table(result: AveragedFit, names: tuple[str, ...], units: tuple[float, ...]) -> Table:
    """Tabulate evidences, probabilities, and the most probable amplitudes and length."""
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


def _range_table(result: AveragedFit, units: dict[str, str]) -> Table:
    """Tabulate lowest, median and highest values of fields, given their units by name."""
    fields = _by_component(result.at(result.places))
    rows = []
    for name, unit in units.items():
        mean, sd = fields[name], fields[f"{name}_sd"]
        order = np.argsort(mean)
        indices = [order[0], order[len(order) // 2], order[-1]]
        rows.append((name, unit, *(with_error(mean[i], sd[i]) for i in indices)))
    title = "Fields where there are steps, averaged over all models: posterior mean ± sd"
    heads = ("field", "unit", "lowest", "median", "highest")
    return Table(heads, tuple(rows), "llrrr", title=title)


def _by_component(fields: dict[str, FloatArray]) -> dict[str, FloatArray]:
    """Replace "flow" and its error by their components, for example "flow_x"."""
    out = {name: values for name, values in fields.items() if not name.startswith("flow")}
    for suffix in ("", "_sd"):
        flow = np.moveaxis(fields.get(f"flow{suffix}", np.zeros((1, 0))), -1, 0)
        out |= {f"flow_{axis}{suffix}": part for axis, part in zip("xy", flow, strict=False)}
    return out


def _unit(result: AveragedFit, power: int, time: int = -1) -> str:
    """Return a unit from powers of length and time."""
    return Parameter("", "", power, time).unit(*result.units)


@to_dataset.register(FieldFit)
def field_dataset(result: FieldFit) -> "xr.Dataset":
    """Return fields on a regular grid (CF conventions), with errors and the number of steps."""
    fields = [
        ("kappa", _unit(result, 2), "diffusivity"),
        ("log_kappa", "1", "natural logarithm of the diffusivity"),
    ]
    return _gridded(result, fields, "dX = (u + grad kappa) dt + sqrt(2 kappa) dW (Ito)")


@to_dataset.register(FlightFit)
def flight_dataset(result: FlightFit) -> "xr.Dataset":
    """Return fields on a regular grid (CF conventions), with errors and the number of steps."""
    law = "dX = (u + sigma w) dt, dw = (-w/T + grad sigma) dt + sqrt(2/T) dW"
    return _gridded(result, _flight_fields(result), law)


def _flight_fields(result: AveragedFit) -> list[_Field]:
    """List the fields of random flight."""
    return [
        ("sigma", _unit(result, 1), "standard deviation of the velocity"),
        ("memory_time", _unit(result, 0, 1), "memory time of the velocity"),
        ("k", _unit(result, 2), "diffusivity at long times"),
    ]


def _flow_fields(result: AveragedFit) -> list[_Field]:
    """List the components of the flow."""
    return [
        (f"flow_{axis}", _unit(result, 1), f"mean flow along {axis}")
        for axis in "xy"[: result.splines.n_dim]
    ]


def _drawn(result: AveragedFit, points: FloatArray) -> dict[str, FloatArray]:
    """Draw diffusivity and flow from the posterior."""
    # The same seed draws the same fields at all points, so points can be processed in blocks.
    parts = [result.draw(points[i : i + _BLOCK], _N_DRAWS) for i in range(0, len(points), _BLOCK)]
    drawn = {key: np.concatenate([part[key] for part in parts], axis=1) for key in parts[0]}
    drawn_names = ("kappa", "k", "flow")
    return _by_component({key: values for key, values in drawn.items() if key in drawn_names})


def _gridded(result: AveragedFit, fields: list[_Field], law: str) -> "xr.Dataset":
    """Evaluate fields and the flow on a grid."""
    import xarray as xr

    splines, (length, _) = result.splines, result.units
    d = splines.n_dim
    side = splines.high - splines.low
    counts = np.maximum(2, np.round(_N_POINTS[d] * side / side.max())).astype(int)
    ends = zip(splines.low, splines.high, counts, strict=True)
    edges = [np.linspace(low, high, n + 1) for low, high, n in ends]
    axes = [0.5 * (e[1:] + e[:-1]) for e in edges]
    points = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=-1)
    fitted = _by_component(result.at(points))
    drawn = _drawn(result, points) if d == 2 else {}
    dims = ("y", "x")[2 - d :]
    steps = np.histogramdd(result.places, bins=edges, weights=result.place_counts)[0]

    def on_grid(values: FloatArray) -> FloatArray:
        return values.reshape(tuple(counts)).T

    variables: dict[str, Any] = {
        "n_steps": (dims, steps.T, {"long_name": "number of steps that begin here"})
    }
    draws: dict[str, Any] = {}
    for name, unit, text in fields + _flow_fields(result):
        units = {"units": unit} if unit else {}
        for suffix, kind in (("", "mean"), ("_sd", "standard deviation")):
            attributes = units | {"long_name": f"posterior {kind} of the {text}"}
            variables[name + suffix] = dims, on_grid(fitted[name + suffix]), attributes
        if name in drawn:
            # In single precision.
            values = np.array([on_grid(field) for field in drawn[name]], dtype=np.float32)
            attributes = units | {"long_name": f"draws of the {text} from its posterior"}
            draws[f"{name}_draw"] = ("draw", *dims), values, attributes
    coordinates = {
        name: (name, axis, {"axis": name.upper()} | ({"units": length} if length else {}))
        for name, axis in zip("xy", axes, strict=False)
    }
    centre: dict[str, Any] = {}
    if (ground := result.ground) is not None:
        centre = {"origin_longitude": ground.lon, "origin_latitude": ground.lat}
        centre["frame"] = ground.frame
    return xr.Dataset(variables | draws, coordinates).assign_attrs(
        Conventions="CF-1.11",
        driftbayes_version=__version__,
        convention=law,
        length_unit=result.units[0],
        time_unit=result.units[1],
        result=json.dumps(result.to_json()),
        **centre,
    )
