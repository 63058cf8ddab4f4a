"""Describe fits of fields, and give them as datasets."""

__all__ = ["describe_field", "field_dataset"]

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes._version import __version__
from driftbayes.data.units import readable
from driftbayes.fields.fit import FieldFit
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


@summarise.register
def _(result: FieldFit) -> str:
    log_k = result.log_bayes_factor_inhomogeneous
    chance = number(1 - result.probabilities["homogeneous"], 3)
    words = "evidence" if log_k > 0 else "no evidence"
    tau = readable(result.tau, result.units[1])
    return (
        f"{words} that dispersion varies in space at tau = {tau}: ln K = {number(log_k)}, "
        f"probability {chance}"
    )


@describe.register
def describe_field(result: FieldFit) -> Card:
    """Describe the evidence, the range of the fields and the smoothness."""
    length, time = result.units
    sides = " × ".join(readable(s, length, 4) for s in result.splines.high - result.splines.low)
    intervals = " × ".join(str(n) for n in result.splines.n_intervals)
    facts = [
        ("tau", readable(result.tau, time)),
        ("steps", f"{result.n_steps:,}, {result.splines.n_dim}D"),
        ("region", f"{sides}; {intervals} spline intervals"),
        ("method", "Laplace's approximation, local Gaussian steps"),
        ("|∇κ|√(τ/κ)", f"{number(result.roughness, 2)} (95 % of the steps have less)"),
        ("fingerprint", result.fingerprint),
    ]
    if result.ground is not None:
        centre = f"{result.ground.lon:.4f}° E, {result.ground.lat:.4f}° N"
        facts.insert(3, ("origin of x, y", centre))
    tables = [_evidence_table(result), _range_table(result)]
    return Card("FieldFit", summarise(result), tuple(facts), (), tuple(tables), result.warnings)


def _evidence_table(result: FieldFit) -> Table:
    rows = []
    for name, log_evidence in result.log_evidences.items():
        own = [member for member in result.members if member.name == name]
        best = max(own, key=lambda member: member.log_evidence)
        log_k = result.log_bayes_factors.get(name)
        amplitude = number(best.amplitude, 3) if best.amplitude else "-"
        flow = number(best.flow_amplitude * result.priors.flow, 3) if best.flow_amplitude else "-"
        scale = readable(best.length, result.units[0], 3) if np.isfinite(best.length) else "-"
        rows.append(
            (
                *(name, f"{log_evidence:.4f}"),
                "" if log_k is None else number(log_k),
                *(number(result.probabilities[name]), amplitude, flow, scale),
            )
        )
    heads = ("model", "ln Z", "ln K", "P(model)", "sd of ln κ", _flow_head(result), "length")
    title = "ln K is over the homogeneous model; sd and length of the most probable prior"
    return Table(heads, tuple(rows), "l" + "r" * 6, title=title)


def _flow_head(result: FieldFit) -> str:
    return with_unit("sd of u", Parameter("u", "u", 1, -1).unit(*result.units))


def _range_table(result: FieldFit) -> Table:
    x = result._problem.data.x
    found = result.at(x)
    rows = []
    names = [("kappa", found["kappa"], found["kappa_sd"], _unit(result, 2))]
    for i, axis in enumerate("xy"[: result.splines.n_dim]):
        both = found["flow"][:, i], found["flow_sd"][:, i]
        names.append((f"flow_{axis}", *both, _unit(result, 1)))
    for name, mean, sd, unit in names:
        order = np.argsort(mean)
        places = [order[0], order[len(order) // 2], order[-1]]
        rows.append((name, unit, *(with_error(mean[i], sd[i]) for i in places)))
    title = "Fields where there are steps, averaged over all models: posterior mean ± sd"
    return Table(
        ("field", "unit", "lowest", "median", "highest"), tuple(rows), "llrrr", title=title
    )


def _unit(result: FieldFit, power: int) -> str:
    return Parameter("", "", power, -1).unit(*result.units)


@to_dataset.register(FieldFit)
def field_dataset(result: FieldFit) -> "xr.Dataset":
    """Fields on a regular grid by the CF conventions, with errors and the number of steps."""
    import xarray as xr

    splines, (length, _) = result.splines, result.units
    d = splines.n_dim
    side = splines.high - splines.low
    counts = np.maximum(2, np.round(_N_POINTS[d] * side / side.max())).astype(int)
    ends = zip(splines.low, splines.high, counts, strict=True)
    edges = [np.linspace(low, high, n + 1) for low, high, n in ends]
    axes = [0.5 * (e[1:] + e[:-1]) for e in edges]
    points = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=-1)
    found = result.at(points)
    dims = ("y", "x")[2 - d :]
    data = result._problem.data
    steps = np.histogramdd(data.x, bins=edges, weights=data.n)[0]

    def laid(values: FloatArray) -> FloatArray:
        return values.reshape(tuple(counts)).T

    variables: dict[str, Any] = {
        "n_steps": (dims, steps.T, {"long_name": "number of steps that begin here"})
    }
    names = [("kappa", found["kappa"], found["kappa_sd"], _unit(result, 2), "diffusivity")]
    logs = found["log_kappa"], found["log_kappa_sd"]
    names.append(("log_kappa", *logs, "1", "natural logarithm of the diffusivity"))
    for i, axis in enumerate("xy"[:d]):
        own = found["flow"][:, i], found["flow_sd"][:, i]
        names.append((f"flow_{axis}", *own, _unit(result, 1), f"mean flow along {axis}"))
    for name, mean, sd, unit, text in names:
        about = {"units": unit} if unit else {}
        variables[name] = dims, laid(mean), about | {"long_name": f"posterior mean of the {text}"}
        error = about | {"long_name": f"posterior standard deviation of the {text}"}
        variables[f"{name}_sd"] = dims, laid(sd), error
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
        convention="dX = (u + grad kappa) dt + sqrt(2 kappa) dW (Ito)",
        length_unit=result.units[0],
        time_unit=result.units[1],
        result=json.dumps(result.to_json()),
        **centre,
    )
