"""NumPy's .npz and .npy: arrays (particle, time, dim), or one for each axis, named by --columns."""

__all__ = ["NUMPY"]

from collections.abc import Mapping

import numpy as np

from driftbayes.data.sphere import on_plane
from driftbayes.data.trajectories import Trajectories
from driftbayes.errors import DriftbayesError
from driftbayes.io import numpy_file
from driftbayes.io.contents import Contents
from driftbayes.io.datasets import foreign_provenance, from_grid
from driftbayes.io.foreign_tables import Native, assemble
from driftbayes.io.missing import without
from driftbayes.io.paths import begin_with_name, require
from driftbayes.io.reading import Format, ReadOptions
from driftbayes.typing import FloatArray

_DEFAULTS = {"id": ("id", "ids"), "time": ("time", "t", "times"), "sd": ("sd",)}
_AXES = ("x", "y", "z")


def _read(contents: Contents, options: ReadOptions) -> Trajectories:
    if contents.container != "npz":
        msg = f"{contents.path.name!r} is a {contents.container} file, expected .npz or .npy"
        raise DriftbayesError(msg)
    names = _names(contents, options.columns or {})
    arrays = {c: _numbers(contents, name) for c, name in names.items() if c != "id"}
    coordinates = _coordinates(contents, names, arrays)
    if "id" in names and coordinates[0].ndim == 1:
        found = _long(contents, options, names, arrays, coordinates)
    else:
        found = _grid(contents, options, names, arrays, coordinates)
    return on_plane(found, frame=options.frame) if options.coordinates == "degrees" else found


def _names(contents: Contents, told: Mapping[str, str | None]) -> dict[str, str]:
    """The array for each canonical name."""
    source = contents.path.name
    for canonical, name in told.items():
        if canonical not in (*_DEFAULTS, *_AXES):
            msg = (
                f"--columns has {canonical!r}, expected id, time, x, y, z or sd; for longitude and "
                "latitude name them x and y, with --coordinates degrees"
            )
            raise DriftbayesError(msg)
        if name and name not in contents.names:
            raise DriftbayesError(_missing(contents, name))
    defaults = {**{axis: (axis,) for axis in _AXES}, **_DEFAULTS}
    if contents.names == (numpy_file.ONLY,):
        defaults["x"] = (numpy_file.ONLY,)
    found = {}
    for canonical, usual in defaults.items():
        if canonical in told:
            name = told[canonical]
        else:
            name = next((n for n in usual if n in contents.names and n not in told.values()), None)
        if name:
            found[canonical] = name
    if "x" not in found:
        raise DriftbayesError(_missing(contents, "x"))
    if "z" in found and "y" not in found:
        msg = f"{source!r} has z but no y; name its arrays with --columns x=...,y=..."
        raise DriftbayesError(msg)
    return found


def _missing(contents: Contents, name: str) -> str:
    shown = ", ".join(repr(other[:40]) for other in contents.names[:8]) or "none"
    return (
        f"{contents.path.name!r} has no array {name[:40]!r}; it has {shown}: name them with "
        "--columns time=...,x=...,y=..."
    )


def _numbers(contents: Contents, name: str) -> FloatArray:
    values = numpy_file.array(contents.path, name)
    if values.dtype.kind == "M":
        seconds = values.astype("datetime64[us]").astype(np.int64) / 1e6
        return np.where(np.isnat(values), np.nan, seconds)
    if values.dtype.kind not in "iuf":
        msg = f"{contents.path.name!r}: array {name!r} holds {values.dtype}, expected numbers"
        raise DriftbayesError(msg)
    return np.array(values, dtype=np.float64)


def _coordinates(
    contents: Contents, names: Mapping[str, str], arrays: Mapping[str, FloatArray]
) -> list[FloatArray]:
    """One array for each axis, all (particle, time) or all (row,)."""
    x = arrays["x"]
    if "y" not in names and x.ndim == 3:
        if not 1 <= x.shape[2] <= 3:
            msg = (
                f"{contents.path.name!r}: array {names['x']!r} has the shape {x.shape}, expected "
                "(particle, time, dim) with 1 to 3 dimensions"
            )
            raise DriftbayesError(msg)
        return list(np.moveaxis(x, 2, 0))
    axes = [arrays[axis] for axis in _AXES if axis in names]
    if x.ndim not in (1, 2) or any(axis.shape != x.shape for axis in axes):
        shapes = ", ".join(f"{names[a]} {arrays[a].shape}" for a in _AXES if a in names)
        msg = (
            f"{contents.path.name!r}: positions have the shapes {shapes}; expected one (particle, "
            "time, dim), or x, y, z of one shape, (particle, time) or (time,)"
        )
        raise DriftbayesError(msg)
    return axes


def _long(
    contents: Contents,
    options: ReadOptions,
    names: Mapping[str, str],
    arrays: Mapping[str, FloatArray],
    coordinates: list[FloatArray],
) -> Trajectories:
    """One row for each observation."""
    require("tables", "pyarrow")
    import pyarrow as pa

    ids = numpy_file.array(contents.path, names["id"])
    n_rows = len(coordinates[0])
    for name in ("time", "sd"):
        if (name in arrays and arrays[name].shape != (n_rows,)) or ids.shape != (n_rows,):
            msg = (
                f"{contents.path.name!r}: with an id for each row all arrays need one length; "
                "leave out id"
            )
            raise DriftbayesError(msg)
    if "time" not in arrays:
        raise DriftbayesError(_missing(contents, "time"))
    column = pa.array([str(i) for i in ids.tolist()] if ids.dtype.kind in "SU" else ids)
    return assemble(
        contents,
        options,
        reader="numpy",
        ids=[pa.chunked_array([column])],
        times=arrays["time"],
        coordinates=coordinates,
        sd=arrays.get("sd"),
        native=Native("", ""),
    )


def _grid(
    contents: Contents,
    options: ReadOptions,
    names: Mapping[str, str],
    arrays: Mapping[str, FloatArray],
    coordinates: list[FloatArray],
) -> Trajectories:
    notes = []
    axes = [np.atleast_2d(axis) for axis in without(coordinates, options.missing)]
    times = arrays.get("time")
    if times is None:
        times = np.arange(axes[0].shape[1], dtype=np.float64)
        notes.append("there is no array of times: they are numbers of frames")
    if options.length_unit is None and options.pixel_size is None:
        notes.append("the file does not say its unit of length; --length-unit names it")
    if "time" in names and options.time_unit is None:
        notes.append("the file does not say its unit of time; --time-unit names it")
    unit = options.time_unit or ("frame" if "time" not in names else "")
    ids = np.arange(len(axes[0]))
    if "id" in names:
        stored = numpy_file.array(contents.path, names["id"])
        if stored.shape != ids.shape or stored.dtype.kind not in "iuU":
            msg = f"{contents.path.name!r}: expected {len(ids)} ids, got the shape {stored.shape}"
            raise DriftbayesError(msg)
        ids = stored
    sd = arrays.get("sd")
    if sd is not None and sd.ndim not in (0, axes[0].ndim) and sd.shape != axes[0].shape:
        msg = (
            f"{contents.path.name!r}: errors have the shape {sd.shape}, not that of positions; "
            "leave them out with --columns sd="
        )
        raise DriftbayesError(msg)
    with begin_with_name(contents.path):
        shaped = times if times.ndim else times[None]
        found = from_grid(
            axes,
            shaped if shaped.shape in (axes[0].shape, axes[0].shape[1:]) else shaped.squeeze(),
            ids if ids.dtype.kind == "i" else ids.tolist(),
            contents,
            sd=sd,
            length_unit=options.length_unit or "",
            time_unit=unit,
            provenance=foreign_provenance(contents, "numpy", notes, options.columns),
        )
        return options.scale(found)


NUMPY = Format(
    "numpy",
    "NumPy's .npz or .npy: x (particle, time, dim) or x, y, z (particle, time), and t; --columns",
    lambda contents: contents.container == "npz" and bool(contents.names),
    read=_read,
)
