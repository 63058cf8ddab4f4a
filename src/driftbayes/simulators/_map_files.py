"""Read the posterior mean diffusivity and flow of a map or a field."""

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes._typing import FloatArray
from driftbayes.data import _schema as schema
from driftbayes.data._units import length_factor, readable_time
from driftbayes.data.tangent import Ground
from driftbayes.errors import DriftbayesError, did_you_mean
from driftbayes.models import MODELS, model_named
from driftbayes.simulators._gridded import GriddedDispersion, check_latitudes
from driftbayes.simulators._long_time import dispersing_models, observation_notes
from driftbayes.simulators._recommend import unit_factor

if TYPE_CHECKING:
    import xarray as xr

# Maximum relative difference of cell sizes.
_RTOL = 1e-6
_LONG_TIME_NOTE = "only the long-time diffusivity is used, not the velocity memory"


def gridded(
    dataset: "xr.Dataset",
    *,
    model: str | None = None,
    with_flow: bool = True,
    to: tuple[str, str] = ("m", "s"),
    given: tuple[str | None, str | None] = (None, None),
) -> GriddedDispersion:
    """Read the posterior mean of a map or a field.

    Args:
        dataset: Output of `driftbayes map -o` or `driftbayes field -o`.
        model: The model of a map; None for the one with the largest evidence.
        with_flow: Whether to include the mean flow.
        to: Units of length and time of the result; empty keeps those of the file.
        given: Units of length and time of the file, if it has none.

    Raises:
        DriftbayesError: The dataset is not a valid map or field, or has no units.
    """
    from scipy.ndimage import distance_transform_edt

    kind = str(dataset.attrs.get(schema.KIND_ATTRIBUTE, "map"))
    noun = f"the {kind}"
    is_lonlat = "x" in dataset and dataset["x"].attrs.get("standard_name") == "longitude"
    length, time = (
        unit_factor(dataset.attrs, what, own, noun) / unit_factor({}, what, wanted)
        if wanted
        else 1.0
        for what, own, wanted in zip(("length", "time"), given, to, strict=True)
    )
    unit = to[0] or str(dataset.attrs.get("length_unit", ""))
    per_metre = length_factor("m", unit)[0] if unit else 1.0
    if kind == "field":
        diffusivity = "kappa" if "kappa" in dataset or "k" not in dataset else "k"
        chosen, names = "", [diffusivity, diffusivity, "flow_x", "flow_y"]
        if model is not None:
            raise DriftbayesError("a field has only one model; omit --model")
    else:
        chosen, names = _choose_model(dataset, model)
    edges = [_edges(dataset, axis, noun) * (1.0 if is_lonlat else length) for axis in "xy"]
    if is_lonlat:
        check_latitudes(edges[1], noun)
        if edges[0][-1] - edges[0][0] > 360 * (1 + _RTOL):
            msg = f"{noun} is wider than once around the earth; make it from fewer data"
            raise DriftbayesError(msg)
    flows = [name for name in names[2:] if name in dataset]
    values = np.array([_read(dataset, name, noun) for name in (*names[:2], *flows)])
    has_data = np.isfinite(values).all(axis=0)
    if not has_data.any() or (values[:2, has_data] <= 0).any():
        raise _damaged(f"{noun} has no positive diffusivity")
    # Fill cells without data with the value of the nearest cell.
    places = distance_transform_edt(~has_data, return_distances=False, return_indices=True)
    filled = values[:, places[0], places[1]]
    has_flow = with_flow and len(values) == 4
    sides = None
    if has_flow and chosen:
        sides = _read(dataset, f"{chosen.replace('+', '_')}_cell_side", noun) * length
    stored = _json(dataset, "result")
    tau = float(stored.get("tau", np.nan)) if kind == "field" else float(dataset["tau"].values[0])
    time_unit = to[1] or str(dataset.attrs.get("time_unit", ""))
    title = noun if kind == "field" else f"the map of {chosen}"
    notes = [f"estimated at a sampling time of {readable_time(tau * time, time_unit)}"]
    if not has_data.all():
        notes.append(
            f"{np.mean(~has_data):.0%} of the cells hold no data and have the values of the "
            "nearest cell with data"
        )
    if names[0] == "k":
        notes.append(_LONG_TIME_NOTE)
    if chosen:
        notes += _map_notes(dataset, chosen, values, has_data, has_flow=has_flow)
    return GriddedDispersion(
        edges=(edges[0], edges[1]),
        diffusivity=filled[:2] * length**2 / time,
        flow=filled[2:] * length / time if has_flow else None,
        cell_side=sides,
        has_data=has_data,
        is_lonlat=is_lonlat,
        ground=_ground(dataset, per_metre),
        per_metre=per_metre,
        title=title,
        notes=tuple(notes),
        origin={
            "kind": kind,
            "driftbayes_version": str(dataset.attrs.get("driftbayes_version", "")),
            "data_fingerprint": str(
                dataset.attrs.get("data_fingerprint", stored.get("data_fingerprint", "unknown"))
            ),
        },
    )


def drawn_fields(dataset: "xr.Dataset") -> list["xr.Dataset"]:
    """Return a field with each draw from its posterior in place of the mean; none for a map.

    Args:
        dataset: Output of `driftbayes map -o` or `driftbayes field -o`.

    Raises:
        DriftbayesError: The file is damaged.
    """
    names = [name for name in ("kappa", "k", "flow_x", "flow_y") if f"{name}_draw" in dataset]
    if dataset.attrs.get(schema.KIND_ATTRIBUTE) != "field" or not names:
        return []
    for name in names:
        if dataset[f"{name}_draw"].dims != ("draw", "y", "x"):
            raise _damaged(f"the dimensions of {name}_draw must be draw, y, x")
    return [
        dataset.assign({n: dataset[f"{n}_draw"].isel(draw=i, drop=True) for n in names})
        for i in range(dataset.sizes.get("draw", 0))
    ]


def _damaged(text: str) -> DriftbayesError:
    return DriftbayesError(f"{text}; the file is damaged, create it again")


def _json(dataset: "xr.Dataset", name: str) -> dict[str, Any]:
    """Return an attribute that holds a JSON object."""
    try:
        content = json.loads(str(dataset.attrs.get(name, "{}")))
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise _damaged(f"the attribute {name!r} is not a JSON object")
    return content


def _choose_model(dataset: "xr.Dataset", model: str | None) -> tuple[str, list[str]]:
    """Choose the model of a map, and return it with the names of its variables."""
    if "season" in dataset.dims or "evidences" not in dataset.attrs:
        msg = "this map has a fixed grid (--cell); make a map without --cell, by evidence"
        raise DriftbayesError(msg)
    models = _json(dataset, "evidences").get("models", {})
    if model is not None and model not in models:
        near = did_you_mean(model, models)
        raise DriftbayesError(f"the map has no model {model!r}; it has {', '.join(models)}{near}")
    known = {
        name: float(record.get("log_evidence", -np.inf))
        for name, record in models.items()
        if model_named(name, MODELS).diffusivity
    }
    if not known or (model is not None and model not in known):
        raise DriftbayesError(
            f"{model or 'the map'} has no long-time diffusivity to export; map a model that "
            f"disperses ({dispersing_models()})"
        )
    chosen = model or max(known, key=lambda name: known[name])
    plain = chosen.replace("+", "_")
    names = [f"{plain}_{model_named(chosen, MODELS).diffusivity}"] * 2
    if f"{plain}_K_11" in dataset:
        names = [f"{plain}_K_11", f"{plain}_K_22"]
    return chosen, [*names, f"{plain}_flow_1", f"{plain}_flow_2"]


def _map_notes(
    dataset: "xr.Dataset", model: str, values: FloatArray, has_data: np.ndarray, *, has_flow: bool
) -> list[str]:
    notes = []
    probability = dataset.attrs.get("probability_homogeneous")
    if probability is not None and float(probability) > 0.5:
        notes.append(
            f"the data favour constant parameters (probability {float(probability):.2g}); the "
            "variations of this map may be noise"
        )
    template = model_named(model, MODELS)
    if template.core.name != "brownian":
        notes.append(_LONG_TIME_NOTE)
    if has_flow:
        notes.append(
            "the mean of the well-mixed drift over a cell was subtracted from the mean flow of the "
            "map"
        )
    cross = f"{model.replace('+', '_')}_K_12"
    if cross in dataset:
        size = np.abs(_read(dataset, cross, "the map")[has_data])
        size /= np.sqrt(values[0, has_data] * values[1, has_data])
        notes.append(f"K_12, up to {float(size.max()):.0%} of the diffusivity, is not exported")
    others = observation_notes(template)
    return notes + [note for note in others if not note.startswith("the mean flow")]


def _edges(dataset: "xr.Dataset", axis: str, noun: str) -> FloatArray:
    """Compute the edges of equal cells from their centres."""
    if axis not in dataset:
        raise DriftbayesError(f"{noun} has no axis {axis!r}; two dimensions are needed")
    centres = np.asarray(dataset[axis].values, dtype=np.float64)
    steps = np.diff(centres)
    if f"{axis}_bounds" in dataset and len(centres) == 1:
        return np.asarray(dataset[f"{axis}_bounds"].values[0], dtype=np.float64)
    is_regular = len(steps) and steps.min() > 0 and np.ptp(steps) <= _RTOL * steps[0]
    if not is_regular:
        raise _damaged(f"the cells of {noun} along {axis} are not equal and increasing")
    half = 0.5 * (centres[-1] - centres[0]) / len(steps)
    return np.linspace(centres[0] - half, centres[-1] + half, len(centres) + 1)


def _read(dataset: "xr.Dataset", name: str, noun: str) -> FloatArray:
    """Return a variable on the cells, (y, x), at the first sampling time."""
    if name not in dataset:
        raise _damaged(f"{noun} has no variable {name!r}")
    variable = dataset[name]
    if "tau" in variable.dims:
        variable = variable.isel(tau=0)
    if variable.dims != ("y", "x") or variable.dtype.kind not in "fiu":
        dims = ", ".join(map(str, variable.dims))
        raise _damaged(f"{name!r} of {noun} has the dimensions {dims}, expected y, x")
    return np.asarray(variable.values, dtype=np.float64)


def _ground(dataset: "xr.Dataset", per_metre: float) -> Ground | None:
    """Return the position on the earth of a field, or of a map around a pole."""
    stored, frame = dataset.attrs, "local"
    names = ("origin_longitude", "origin_latitude")
    if "plane" in dataset:
        stored, frame = dataset["plane"].attrs, "transported"
        names = ("longitude_of_projection_origin", "latitude_of_projection_origin")
    if not all(name in stored for name in names):
        return None
    lon, lat = (float(stored[name]) for name in names)
    given = str(dataset.attrs.get("frame", frame))
    return Ground(lon, lat, "transported" if given != "local" else "local", per_metre=per_metre)
