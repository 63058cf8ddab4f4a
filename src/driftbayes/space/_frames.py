"""Convert a map to an xarray Dataset that follows the CF conventions."""

import json
from typing import Any

import numpy as np
import xarray as xr

from driftbayes._representation import to_dataset
from driftbayes._typing import FloatArray
from driftbayes._version import __version__
from driftbayes.comparison.regions import cell_axes
from driftbayes.space._cells import interleave
from driftbayes.space._leaves import Quantity
from driftbayes.space._tree import TreeMap

_DIMS = ("tau", "y", "x")


@to_dataset.register
def map_dataset(result: TreeMap) -> xr.Dataset:
    """Convert the averaged map of every model, on the finest grid of the tree."""
    depth = result.levels.depth
    length, time = result.units
    size = 2**depth
    variables: dict[str, Any] = {}
    row, column = (part.ravel() for part in np.indices((size, size)))
    codes = interleave(column, row, depth)
    steps, particles = result.visits(codes)
    for name, counts, long_name in (
        ("n_steps", steps, "steps that begin here"),
        ("n_particles", particles, "particles among them"),
    ):
        grid = counts.reshape(size, size).astype(np.int32)
        variables[name] = _DIMS, grid[None], {"long_name": long_name}
    for model, tree in result.models.items():
        plain = model.replace("+", "_")
        averaged = result.averaged(model)
        for quantity in tree.leaves.quantities:
            mean, sd, within = averaged[quantity.name]
            unit = quantity.unit(length, time)
            long_name = quantity_words(quantity, result)
            kind = "geometric mean" if quantity.is_log else "mean"
            for suffix, values, words, comment in (
                ("", mean, long_name, kind),
                ("_sd", sd, f"error of {long_name}", "standard deviation"),
                ("_within", within, f"variation of {long_name} within the cell", "mean"),
            ):
                variable = _variable(values, words, unit, f"{comment}, {model}")
                variables[f"{plain}_{quantity.name}{suffix}"] = variable
        (no_data,) = averaged["no_data"]
        variables[f"{plain}_no_data"] = _variable(
            no_data, "probability that the cell of this position holds no data", "1", model
        )
        variables[f"{plain}_cell_side"] = _variable(
            _cell_sides(result, model), "side of the cell", length, f"mean, {model}"
        )
    has_data = steps.reshape(size, size) > 0
    rows, columns = (np.flatnonzero(has_data.any(axis=axis)) for axis in (1, 0))
    dataset = xr.Dataset(variables).assign_coords(
        tau=("tau", [result.tau], {"long_name": "sampling time", "time_unit": time}),
        **cell_axes(result.box.edges(depth), length, is_lonlat=result.box.is_lonlat),
    )
    # Crop to the part of the square with data.
    dataset = dataset.isel(x=slice(columns[0], columns[-1] + 1), y=slice(rows[0], rows[-1] + 1))
    dataset = _with_plane(dataset, result)
    summary = result.to_json()
    priors = {
        name: model_summary.pop("priors") for name, model_summary in summary["models"].items()
    }
    return dataset.assign_attrs(
        Conventions="CF-1.11",
        driftbayes_version=__version__,
        convention="Var(dx_i) = 2 kappa tau per axis; ln is natural",
        length_unit=length,
        time_unit=time,
        irregular_times=int(result.attributes["longest"] is not None),
        log_bayes_factor_inhomogeneous=result.log_bayes_factor_inhomogeneous,
        probability_homogeneous=result.probability_homogeneous,
        data_fingerprint=result.attributes["data_fingerprint"],
        provenance=json.dumps(result.attributes["provenance"], default=str),
        priors=json.dumps(priors),
        evidences=json.dumps({"models": summary["models"], "rivals": summary["rivals"]}),
        options=json.dumps(
            {"depth": depth, "split": result.split, "n_tau": result.attributes["n_tau"]}
        ),
    )


def _variable(values: FloatArray, long_name: str, unit: str, comment: str) -> tuple[Any, ...]:
    """Return a variable on the grid, with its attributes."""
    attributes = {"long_name": long_name, "comment": f"posterior {comment}; all prunings averaged"}
    return _DIMS, values[None], attributes | ({"units": unit} if unit else {})


def quantity_words(quantity: Quantity, result: TreeMap) -> str:
    """Return the name of a quantity for figure axes and files."""
    if quantity.name.startswith("flow_"):
        axis = int(quantity.name[-1]) - 1
        if result.box.is_lonlat:
            return ("eastward", "northward")[axis] + " mean flow"
        return f"mean flow along {'xy'[axis]}"
    names = {"kappa": "diffusivity", "k": "diffusivity", "gamma": "rate gamma"}
    names |= {"memory_time": "memory time"}
    names |= {f"K_{i}": f"diffusivity tensor, {i}" for i in ("11", "12", "22")}
    return names.get(quantity.name, quantity.name)


def _cell_sides(result: TreeMap, model: str) -> FloatArray:
    """Return the posterior mean side of the cell around each grid point."""
    depth = result.levels.depth
    indices, size = result.cell_of(depth)
    leaf, split = result.models[model].prunings.leaf, result.models[model].prunings.split
    reached = np.ones(size * size)
    total = np.zeros(size * size)
    for d, index in enumerate(indices):
        side = result.attributes["side"] / 2**d
        has_data = index >= 0
        # A cell without data ends its branch.
        probability = np.where(has_data, leaf[d][index], reached)
        total += probability * side
        reached = np.where(has_data, reached * split[d][index], 0.0)
    return np.asarray(total.reshape(size, size))


def _with_plane(dataset: xr.Dataset, result: TreeMap) -> xr.Dataset:
    """Add the map projection of x and y where it is known: near a pole."""
    centre = result.attributes["centre"]
    if result.box.is_lonlat or centre is None:
        return dataset
    attributes = {
        "grid_mapping_name": "azimuthal_equidistant",
        "longitude_of_projection_origin": centre[0],
        "latitude_of_projection_origin": centre[1],
    }
    dataset["plane"] = xr.DataArray(np.int32(0), attrs=attributes)
    for name in dataset.data_vars:
        if name != "plane":
            dataset[name].attrs["grid_mapping"] = "plane"
    for axis in ("x", "y"):
        dataset[axis].attrs["standard_name"] = f"projection_{axis}_coordinate"
    return dataset
