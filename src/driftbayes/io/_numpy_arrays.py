"""Read NumPy .npz and .npy files: an array (particle, time, dim), or one array for each axis.

The size in a header is checked before memory is allocated, and nothing is unpickled.
"""

import io
import math
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa

from driftbayes._typing import FloatArray
from driftbayes.data._trajectories import Trajectories
from driftbayes.errors import DriftbayesError
from driftbayes.io._layouts import from_grid
from driftbayes.io._limits import check_memory, check_stored, stored_size
from driftbayes.io._reading import Contents, ReadOptions, prefix_errors, reading_as
from driftbayes.io._tables import Columns, TableSpec, assemble

# Name of the array in a .npy file.
_ARRAY_NAME = "array"
_MAGIC = b"\x93NUMPY"
_SUFFIX = ".npy"
_MAX_ARRAYS = 1000
_MAX_HEADER = 2**16
_MEMORY_PER_BYTE = 6
# Compression used by NumPy; other methods have higher compression ratios.
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_DEFAULTS = {"id": ("id", "ids"), "time": ("time", "t", "times"), "sd": ("sd",)}
_AXES = ("x", "y", "z")


def describe(path: Path) -> dict[str, Any]:
    """Return the names of the arrays, as a field of `Contents`; none in other zip files."""
    if _is_npy(path):
        return {"names": (_ARRAY_NAME,)}
    try:
        with reading_as(path, "NumPy arrays"), zipfile.ZipFile(path) as archive:
            members = archive.namelist()
    except DriftbayesError:
        # Spreadsheets and documents are zip files too.
        if path.suffix.lower() != ".npz":
            return {"names": ()}
        raise
    if len(members) > _MAX_ARRAYS:
        raise DriftbayesError(f"{path.name!r} has {len(members):,} members; expected a few arrays")
    arrays = (name.removesuffix(_SUFFIX) for name in members if name.endswith(_SUFFIX))
    return {"names": tuple(arrays)}


def _array(path: Path, name: str) -> np.ndarray:
    """Read one array of numbers or text."""
    n_bytes = stored_size(path)
    with reading_as(path, "NumPy arrays"):
        if _is_npy(path):
            with path.open("rb") as stream:
                return _read_array(stream, path, name, n_bytes, compressed=False)
        with zipfile.ZipFile(path) as archive:
            member = archive.getinfo(name + _SUFFIX)
            if member.compress_type not in _METHODS:
                msg = f"{path.name!r} has a compression not used by NumPy; write it with np.savez"
                raise DriftbayesError(msg)
            with archive.open(member) as stream:
                deflated = member.compress_type == zipfile.ZIP_DEFLATED
                return _read_array(stream, path, name, n_bytes, compressed=deflated)


def _read_array(
    stream: IO[bytes], path: Path, name: str, stored: int, *, compressed: bool
) -> np.ndarray:
    with warnings.catch_warnings():
        # Ignore the warning on headers written by Python 2.
        warnings.simplefilter("ignore")
        head = _head(stream, path, name)
        version = np.lib.format.read_magic(head)
        read_header: Any = (
            np.lib.format.read_array_header_1_0
            if version == (1, 0)
            else np.lib.format.read_array_header_2_0
        )
        shape, fortran, dtype = read_header(head)
    what = f"{path.name!r}: array {name[:40]!r}"
    if dtype.hasobject or dtype.kind not in "iufbSUmM":
        raise DriftbayesError(
            f"{what} holds {str(dtype)[:40]}, expected numbers; objects are not read, because "
            "unpickling can run code"
        )
    if dtype.itemsize == 0 or not all(isinstance(n, int) and 0 <= n < 2**62 for n in shape):
        raise DriftbayesError(f"{what} has an impossible shape; the file is damaged")
    declared = math.prod(shape) * dtype.itemsize
    check_stored(what, declared, stored, compressed=compressed)
    # The stored data, the floats, the axes, and the positions and times.
    check_memory(_MEMORY_PER_BYTE * declared, what)
    data = stream.read(declared)
    if len(data) < declared:
        raise DriftbayesError(f"{what} is truncated; write the file again")
    flat = np.frombuffer(data, dtype=dtype)
    return flat.reshape(shape[::-1]).T if fortran else flat.reshape(shape)


def _head(stream: IO[bytes], path: Path, name: str) -> io.BytesIO:
    """Read magic, version, length and header of an array; refuse a long header."""
    start = stream.read(len(_MAGIC) + 2)
    length = stream.read(2 if start[len(_MAGIC) :] == b"\x01\x00" else 4)
    size = int.from_bytes(length, "little")
    if size > _MAX_HEADER:
        msg = f"{path.name!r}: array {name[:40]!r} has a header of {size:,} bytes; it is damaged"
        raise DriftbayesError(msg)
    return io.BytesIO(start + length + stream.read(size))


def _is_npy(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(len(_MAGIC)) == _MAGIC


def _read(contents: Contents, options: ReadOptions) -> Trajectories:
    names = _names(contents, options.columns or {})
    arrays = {c: _numbers(contents, name) for c, name in names.items() if c != "id"}
    coordinates = _coordinates(contents, names, arrays)
    ids = _array(contents.path, names["id"]) if "id" in names else None
    if ids is not None and coordinates[0].ndim == 1:
        trajectories = _read_long(contents, options, ids, arrays, coordinates)
    else:
        trajectories = _read_grid(contents, options, ids, arrays, coordinates)
    degrees = options.coordinates == "degrees"
    return options.place(trajectories, degrees=True) if degrees else trajectories


def _names(contents: Contents, given: Mapping[str, str | None]) -> dict[str, str]:
    """Map canonical names to arrays."""
    for canonical, name in given.items():
        if canonical not in (*_DEFAULTS, *_AXES):
            raise DriftbayesError(
                f"--columns has {canonical!r}, expected id, time, x, y, z or sd; for longitude and "
                "latitude use x and y with --coordinates degrees"
            )
        if name and name not in contents.names:
            raise DriftbayesError(_missing(contents, name))
    defaults = {**{axis: (axis,) for axis in _AXES}, **_DEFAULTS}
    if contents.names == (_ARRAY_NAME,):
        defaults["x"] = (_ARRAY_NAME,)
    unused = set(contents.names) - set(given.values())
    names = {}
    for canonical, known in defaults.items():
        default = next((name for name in known if name in unused), None)
        name = given.get(canonical, default)
        if name:
            names[canonical] = name
    if "x" not in names:
        raise DriftbayesError(_missing(contents, "x"))
    if "z" in names and "y" not in names:
        msg = f"{contents.source!r} has z but no y; select arrays with --columns x=...,y=..."
        raise DriftbayesError(msg)
    return names


def _missing(contents: Contents, name: str) -> str:
    return (
        f"{contents.source!r} has no array {name[:40]!r}; it has {contents.shown or 'none'}: "
        "select arrays with --columns time=...,x=...,y=..."
    )


def _numbers(contents: Contents, name: str) -> FloatArray:
    values = _array(contents.path, name)
    if values.dtype.kind == "M":
        seconds = values.astype("datetime64[us]").astype(np.int64) / 1e6
        return np.where(np.isnat(values), np.nan, seconds)
    if values.dtype.kind not in "iuf":
        msg = f"{contents.source!r}: array {name!r} holds {values.dtype}, expected numbers"
        raise DriftbayesError(msg)
    return np.array(values, dtype=np.float64)


def _coordinates(
    contents: Contents, names: Mapping[str, str], arrays: Mapping[str, FloatArray]
) -> list[FloatArray]:
    """Return one array for each axis, all (particle, time) or all (row,)."""
    x = arrays["x"]
    if "y" not in names and x.ndim == 3:
        if not 1 <= x.shape[2] <= 3:
            raise DriftbayesError(
                f"{contents.source!r}: array {names['x']!r} has shape {x.shape}, expected "
                "(particle, time, dim) with 1 to 3 dimensions"
            )
        return list(np.moveaxis(x, 2, 0))
    axes = [arrays[axis] for axis in _AXES if axis in names]
    if x.ndim not in (1, 2) or any(axis.shape != x.shape for axis in axes):
        shapes = ", ".join(f"{names[a]} {arrays[a].shape}" for a in _AXES if a in names)
        raise DriftbayesError(
            f"{contents.source!r}: positions have shapes {shapes}; expected one array (particle, "
            "time, dim), or x, y, z of the same shape (particle, time) or (time,)"
        )
    return axes


def _read_long(
    contents: Contents,
    options: ReadOptions,
    ids: np.ndarray,
    arrays: Mapping[str, FloatArray],
    coordinates: list[FloatArray],
) -> Trajectories:
    """Read arrays with one row per observation."""
    shapes = {array.shape for name, array in arrays.items() if name in ("time", "sd")}
    if {ids.shape, *shapes} != {coordinates[0].shape}:
        raise DriftbayesError(
            f"{contents.source!r}: with one id per row all arrays must have the same length; "
            "leave out id"
        )
    if "time" not in arrays:
        raise DriftbayesError(_missing(contents, "time"))
    column = pa.array([str(i) for i in ids.tolist()] if ids.dtype.kind in "SU" else ids)
    columns = Columns([pa.chunked_array([column])], arrays["time"], coordinates, arrays.get("sd"))
    return assemble(contents, options, TableSpec("numpy", {}, "", ""), columns)


def _read_grid(
    contents: Contents,
    options: ReadOptions,
    ids: np.ndarray | None,
    arrays: Mapping[str, FloatArray],
    coordinates: list[FloatArray],
) -> Trajectories:
    """Read arrays (particle, time), or (time,) for one particle."""
    notes = []
    axes = [np.atleast_2d(axis) for axis in options.without_missing(coordinates)]
    shape = axes[0].shape
    times = arrays.get("time")
    unit = options.time_unit
    if options.length_unit is None and options.pixel_size is None:
        notes.append("the file gives no unit of length; set it with --length-unit")
    if times is None:
        times, unit = np.arange(shape[1], dtype=np.float64), unit or "frame"
        notes.insert(0, "there is no array of times: frame numbers are used")
    elif unit is None:
        notes.append("the file gives no unit of time; set it with --time-unit")
    if ids is None:
        ids = np.arange(shape[0])
    elif ids.shape != shape[:1] or ids.dtype.kind not in "iuU":
        msg = f"{contents.source!r}: expected {shape[0]} ids, got shape {ids.shape}"
        raise DriftbayesError(msg)
    sd = arrays.get("sd")
    if sd is not None and sd.ndim not in (0, 2) and sd.shape != shape:
        raise DriftbayesError(
            f"{contents.source!r}: errors have shape {sd.shape}, unlike the positions {shape}; "
            "exclude them with --columns sd="
        )
    with prefix_errors(contents.path):
        times = np.atleast_1d(times)
        trajectories = from_grid(
            axes,
            times if times.shape in (shape, shape[1:]) else times.squeeze(),
            ids if ids.dtype.kind == "i" else ids.tolist(),
            contents,
            sd=sd,
            length_unit=options.length_unit or "",
            time_unit=unit or "",
            provenance=contents.provenance("numpy", notes, options),
        )
        return options.scale(trajectories)


READERS = {"numpy": _read}
