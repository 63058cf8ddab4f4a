"""Dataset formats, NetCDF or Zarr: driftbayes, CF, drifters, Parcels, turbulence runs.

CF coordinates are found by standard name, then by axis, then by name; their units distinguish
degrees from lengths. Errors of the GDP are 95 % intervals in degrees of longitude and latitude;
they become one standard deviation per position, the root mean square over both axes in metres.
Parcels writes `units = "degrees_east"` for every mesh: only the attributes `parcels_mesh` (version
3) and `parcels_grid_mesh` (version 4) distinguish metres from degrees.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from driftbayes._storage.zarr import ZarrArray, is_group, open_array, read_attributes
from driftbayes._typing import FloatArray
from driftbayes.data import _schema as schema
from driftbayes.data._trajectories import Trajectories
from driftbayes.data._units import is_degrees, is_length, length_factor
from driftbayes.data.sphere import on_plane
from driftbayes.errors import DriftbayesError
from driftbayes.io import _datasets as datasets
from driftbayes.io import _reading as reading
from driftbayes.io._datasets import Observed
from driftbayes.io._files import RUN_STORE
from driftbayes.io._layouts import Layout, find_layout, from_grid
from driftbayes.io._limits import check_memory, check_stored, stored_size
from driftbayes.io._reading import Contents, ReadOptions
from driftbayes.io._zarr_store import check_store

if TYPE_CHECKING:
    import xarray as xr

# Commands that take a result of this kind.
_TAKERS = {
    "scan": "`driftbayes report`, `export` and `open_scan` of Python take",
    "map": "`driftbayes export` and `predict --space` take",
    "field": "`driftbayes export` and `predict --space` take",
}
# Units that mean no unit.
_NO_UNIT = ("", "1", "-", "none", "nondim")
# Half-width of a 95 % interval of a normal error, in standard deviations.
_INTERVAL = 1.96
# Metres in a degree of latitude, and of longitude at the equator.
_DEGREE = 111318.845
# Fill values in files of drifters: this one, and numbers of at least this magnitude.
_FILL, _MIN_FILL = -1e-34, 1e30
_SMOOTHED = (
    "positions are smoothed and interpolated by the provider: at sampling times near the interval "
    "of the product the evidence favours smoother models"
)
# A nautical mile is one minute of latitude: the sphere of Parcels 3.
_PARCELS_RADIUS = 1852 * 60 * 180 / np.pi


# The layout of driftbayes: CF contiguous ragged, with canonical names.


def _read_own(contents: Contents, options: ReadOptions) -> Trajectories:
    with datasets.open_dataset(contents, options.missing) as dataset:
        trajectories = from_dataset(dataset, contents.path, options, reader=contents.container)
    return options.place(trajectories, degrees=options.coordinates == "degrees")


def from_dataset(
    dataset: "xr.Dataset", path: Path, options: ReadOptions | None = None, *, reader: str = "netcdf"
) -> Trajectories:
    """Read trajectories from a dataset in the contiguous ragged layout."""
    options, source = options or ReadOptions(), path.name
    # In other files, extra variables and provenance may have another meaning.
    is_ours = schema.SCHEMA_ATTRIBUTE in dataset.attrs
    if is_ours:
        reading.check_schema_version(dataset.attrs[schema.SCHEMA_ATTRIBUTE], source)
    _check_kind(dataset.attrs.get(schema.KIND_ATTRIBUTE), source)
    count = _count_variable(dataset, source)
    damaged = dataset.encoding.get("damaged", {})
    variables = [str(name) for name in (*dataset.variables, *damaged) if name != count]
    names = schema.file_names(variables, options.columns, source=source, noun="variable")
    if is_ours:
        names |= schema.extras_in(variables, names, options.columns)
    values = {
        canonical: _flat_numbers(dataset, name, source, is_ours=is_ours)
        for canonical, name in names.items()
        if canonical != schema.ID
    }
    n_times = len(values[schema.TIME])
    if any(len(other) != n_times for other in values.values()):
        listed = ", ".join(f"{names[c]!r} {len(other)}" for c, other in values.items())
        msg = f"the variables in {source!r} have different lengths ({listed}); expected the same"
        raise DriftbayesError(msg)
    row_sizes = _flat_numbers(dataset, count, source, is_ours=is_ours, are_counts=True)
    whole = (row_sizes == np.round(row_sizes)) & (row_sizes > 0)
    if not whole.all() or row_sizes.sum() != n_times:
        raise DriftbayesError(
            f"{source!r}: variable {count!r} must hold whole numbers from 1 up that sum to the "
            f"number of observations {n_times}, got a sum of {row_sizes.sum():g}"
        )
    stored = dataset.attrs.get(schema.PROVENANCE_ATTRIBUTE) if is_ours else None
    earlier = {} if stored is None else reading.from_json(stored, source)
    length_unit, time = dataset[names["x"]].attrs.get("units", ""), dataset[names[schema.TIME]]
    # "seconds since 1970-01-01" in CF: the unit is seconds.
    unit = str(time.attrs.get("units", "")).partition(" since ")[0]
    time_unit = time.attrs.get(schema.TIME_UNIT_ATTRIBUTE, unit)
    ids = datasets.identifiers(dataset, names[schema.ID], source, is_ours=True)
    with reading.prefix_errors(path):
        return Trajectories(
            **schema.fields_of(values),
            times=values[schema.TIME],
            row_sizes=row_sizes.astype(np.int64),
            ids=ids,
            length_unit=str(length_unit) if options.length_unit is None else options.length_unit,
            time_unit=str(time_unit) if options.time_unit is None else options.time_unit,
            provenance=reading.extend_provenance(earlier, path, reader, options.columns),
        )


def _check_kind(kind: str | None, source: str) -> None:
    """Raise an error for a result, which says what takes it."""
    if kind is not None:
        takers = _TAKERS.get(kind)
        also = f"; {takers} it" if takers else ""
        raise DriftbayesError(
            f"{source!r} is a {kind} file of driftbayes, expected trajectories{also}"
        )


def _count_variable(dataset: "xr.Dataset", source: str) -> str:
    """Find the variable with the number of observations of each trajectory."""
    for name, variable in dataset.variables.items():
        if "sample_dimension" in variable.attrs:
            return str(name)
    # Many clouddrift files lack the attribute that CF requires.
    if schema.COUNT in dataset.variables or schema.COUNT in dataset.encoding.get("damaged", {}):
        return schema.COUNT
    shown = ", ".join(repr(str(n)[:40]) for n in list(dataset.variables)[:8]) or "no variables"
    raise DriftbayesError(
        f"{source!r} has no variable {schema.COUNT!r} and none with the attribute "
        f"sample_dimension; it has {shown}: expected the CF contiguous ragged layout"
    )


def _flat_numbers(
    dataset: "xr.Dataset", name: str, source: str, *, is_ours: bool, are_counts: bool = False
) -> FloatArray:
    variable = dataset.variables.get(name)
    if variable is not None and variable.ndim != 1:
        dims = ", ".join(map(str, variable.dims))
        raise DriftbayesError(
            f"{source!r}: variable {name!r} has dimensions ({dims}), expected one, with all "
            "trajectories one after the other"
        )
    return datasets.numbers(dataset, name, source, are_counts=are_counts, is_ours=is_ours)


# CF, and datasets of drifters, which are CF with further variables.


@dataclass(frozen=True)
class _Extras:
    """Information on observations besides positions and times."""

    notes: Sequence[str] = ()  # assumptions made
    # Standard deviation of each position error, in metres if positions are degrees.
    sd: FloatArray | None = None
    flags: Mapping[str, FloatArray] = field(default_factory=dict)  # flags of each observation
    excluded: np.ndarray | None = None  # mask of observations not to be used


# Reads the extras of observations with these two coordinates.
_ReadExtras: TypeAlias = Callable[[Observed, FloatArray, FloatArray], _Extras]


def _read_cf(
    contents: Contents,
    options: ReadOptions,
    *,
    reader: str,
    read_extras: _ReadExtras = lambda *_: _Extras(),
) -> Trajectories:
    with datasets.open_dataset(contents, options.missing) as dataset:
        layout = find_layout(contents, options)
        observed = datasets.observed(dataset, contents, layout, options.time_unit)
        degrees, unit, factor = _find_units(contents, layout, options)
        x, y = observed.values(layout.x), observed.values(layout.y) * factor
        extras = read_extras(observed, x, y)
        notes, sd = list(extras.notes), extras.sd
        if "sd" in options.names:
            sd = _read_sd(observed, options.names["sd"], "m" if degrees else unit)
        if extras.excluded is not None:
            x = np.where(extras.excluded, np.nan, x)
        if isinstance(observed.order, slice):
            notes.append("the file runs backward in time; its order was reversed")
        if sd is not None:
            sd, sd_notes = _complete_sd(sd, np.isfinite(x) & np.isfinite(y), observed.row_sizes)
            notes += sd_notes
        if degrees and dataset[layout.x].dtype == np.float32:
            step = np.spacing(np.float32(np.nanmax(np.abs(x), initial=0.0))) * 111e3
            notes.append(f"longitudes have 32 bits: rounded to {step:.1g} m at the equator")
        dated = datasets.time_origin(contents.variable_attributes.get(layout.time, {})) is not None
        origin = schema.TIME_ORIGIN if dated and options.time_unit is None else None
        trajectories = observed.trajectories(
            [x, y],
            sd=sd,
            flags=extras.flags,
            length_unit="" if degrees else unit,
            time_unit=observed.time_unit,
            provenance=contents.provenance(reader, notes, options, origin),
        )
    with reading.prefix_errors(contents.path):
        return options.place(trajectories, degrees=degrees)


def _complete_sd(
    sd: FloatArray, present: np.ndarray, row_sizes: np.ndarray | None
) -> tuple[FloatArray | None, list[str]]:
    """Replace unknown position errors by the median of their trajectory."""
    import pandas as pd

    known = np.isfinite(sd) & (sd >= 0) & present
    if not known.any():
        return None, ["all position errors are missing"]
    filled = present & ~known
    if not filled.any():
        return np.where(known, sd, np.nan), []
    rows = (
        np.arange(sd.shape[0])[:, None] + np.zeros(sd.shape, dtype=np.int64)
        if row_sizes is None
        else np.repeat(np.arange(len(row_sizes)), row_sizes)
    )
    by_trajectory = pd.Series(sd[known]).groupby(rows[known]).median()
    medians = by_trajectory.reindex(range(int(rows.max()) + 1), fill_value=0.0).to_numpy()
    n_zero = int(np.count_nonzero(medians[rows[filled]] == 0))
    notes = [
        f"{np.count_nonzero(filled):,} positions have no error; the median of their trajectory is "
        "used" + (f", or 0 if it has none ({n_zero:,})" if n_zero else "")
    ]
    return np.where(known, sd, np.where(present, medians[rows], np.nan)), notes


def _read_sd(observed: Observed, name: str, unit: str) -> FloatArray:
    own = observed.contents.attribute(name, "units")
    if is_degrees(own):
        msg = f"{observed.contents.source!r}: {name!r} is in degrees, expected a length"
        raise DriftbayesError(msg)
    factor = length_factor(own, unit)[0] if is_length(own) and is_length(unit) else 1.0
    return observed.values(name) * factor


def _find_units(
    contents: Contents, layout: Layout, options: ReadOptions
) -> tuple[bool, str, float]:
    """Return whether positions are degrees, their unit, and the factor from units of y to x."""
    own, other = contents.attribute(layout.x, "units"), contents.attribute(layout.y, "units")
    coordinates = options.coordinates
    if coordinates is None and (set(options.columns or {}) & {"lon", "lat"}):
        coordinates = "degrees"
    if coordinates is None and own.lower() in _NO_UNIT:
        standard = contents.attribute(layout.x, "standard_name")
        spherical = "lon" in layout.x.lower() or standard == "longitude"
        coordinates, own = "degrees" if spherical else "plane", ""
    if coordinates is None and not is_degrees(own) and not is_length(own):
        raise DriftbayesError(
            f"{contents.source!r}: {layout.x!r} is in {own[:40]!r}, expected degrees or a "
            "length; pass --coordinates degrees or --coordinates plane"
        )
    if coordinates == "degrees" or (coordinates is None and is_degrees(own)):
        return True, "", 1.0
    factor = 1.0
    if is_length(own) and is_length(other):
        factor = length_factor(other, own)[0]
        own = length_factor(own, own)[1]
    return False, options.length_unit or ("" if is_degrees(own) else own), factor


def _read_gdp_extras(observed: Observed, x: FloatArray, y: FloatArray) -> _Extras:
    contents = observed.contents
    notes, flags, sd = [_SMOOTHED], {}, None
    if contents.has("err_lon", "err_lat"):
        east = _clean(observed.values("err_lon")) * np.cos(np.radians(y))
        north = _clean(observed.values("err_lat"))
        sd = np.sqrt((east**2 + north**2) / 2) * _DEGREE / _INTERVAL
        notes.append(
            "err_lon and err_lat are 95 % intervals in degrees: the position error is their "
            "root mean square over the two axes, in metres, divided by 1.96; successive "
            "errors are correlated, but models assume that they are independent"
        )
    if contents.has("drogue_status"):
        status = _clean(observed.values("drogue_status"))
        flags["drogued"] = np.where((status == 0) | (status == 1), status, np.nan)
    if contents.has("gap"):
        flags["gap"] = _clean(observed.values("gap"))
        notes.append("the flag gap is the time in seconds between the positions before and after")
    return _Extras(notes, sd, flags, np.isnan(_clean(x)) | np.isnan(_clean(y)))


def _clean(values: FloatArray) -> FloatArray:
    missing = (np.abs(values) > _MIN_FILL) | np.isclose(values, _FILL, rtol=1e-3, atol=0)
    return np.where(missing, np.nan, values)


def _read_glad_extras(observed: Observed, x: FloatArray, y: FloatArray) -> _Extras:
    contents = observed.contents
    unit = contents.attribute("position_error", "units") or "m"
    factor = length_factor(unit, "m")[0] if is_length(unit) else 1.0
    notes = ["position_error is taken as one standard deviation in metres"]
    described = " ".join([contents.source, *map(str, contents.attributes.values())])
    # The 15-minute product is low-pass filtered; the 5-minute product is not.
    steps = np.diff(observed.times[np.isfinite(observed.times)])
    coarse = steps.size > 0 and np.median(steps[steps > 0], keepdims=False) >= 840
    if coarse or re.search(r"qc2|low.?pass", described.lower()):
        notes.append(_SMOOTHED)
    sd = _clean(observed.values("position_error")) * factor
    return _Extras(notes, sd, excluded=np.isnan(_clean(x)) | np.isnan(_clean(y)))


def _read_opendrift_extras(observed: Observed, x: FloatArray, y: FloatArray) -> _Extras:
    """Exclude elements that no longer move freely, such as stranded ones."""
    if not observed.contents.has("status"):
        return _Extras()
    status = observed.values("status")
    present = np.isfinite(x) & np.isfinite(y)
    inactive = present & np.isfinite(status) & (status != 0)
    if not inactive.any() or not (present & ~inactive).any():
        return _Extras()
    note = f"{np.count_nonzero(inactive):,} positions of inactive elements (status) are left out"
    return _Extras([note], excluded=inactive)


# Parcels.


def mesh_of(contents: Contents, options: ReadOptions) -> tuple[bool, float | None, str]:
    """Return whether positions of Parcels are degrees, the radius of the sphere, and a note."""
    if options.coordinates is not None:
        degrees = options.coordinates == "degrees"
        note = f"positions are {options.coordinates}, as specified"
        return degrees, _PARCELS_RADIUS if degrees else None, note
    stored = contents.attributes.get("parcels_mesh", contents.attributes.get("parcels_grid_mesh"))
    text = str(stored).lower()
    if stored is None or not ("flat" in text or "spherical" in text):
        raise DriftbayesError(
            f"{contents.source!r} does not declare a flat or spherical mesh (parcels_mesh: "
            f"{stored}), and Parcels writes degrees for both; pass --coordinates plane or "
            "--coordinates degrees"
        )
    if "flat" in text:
        return False, None, "flat mesh: positions are metres, although the file says degrees"
    match = re.search(r"radius=(\d+(?:\.\d*)?(?:e\+?\d\d?)?)", text)
    radius = float(match[1]) if match else _PARCELS_RADIUS
    return True, radius, f"spherical mesh: degrees on a sphere of radius {radius / 1000:.0f} km"


def _read_parcels(contents: Contents, options: ReadOptions) -> Trajectories:
    degrees, radius, note = mesh_of(contents, options)
    attributes = contents.variable_attributes.get("time", {})
    factor, unit = datasets.parse_time_unit(attributes.get("units", "seconds"), contents.source)
    origin = datasets.time_origin(attributes)
    with datasets.open_dataset(contents, options.missing) as dataset:
        trajectories = from_grid(
            [datasets.numbers(dataset, name, contents.source) for name in ("lon", "lat")],
            datasets.numbers(dataset, "time", contents.source) * factor,
            dataset["trajectory"].to_numpy().tolist(),
            contents,
            length_unit=options.length_unit or ("" if degrees else "m"),
            time_unit=options.time_unit or unit,
            provenance=contents.provenance("parcels", [note], options, origin),
        )
    return on_plane(trajectories, frame=options.frame, radius=radius) if degrees else trajectories


# Turbulence runs: Zarr stores of driftbayes, with all particles at the same times.


def _read_run(contents: Contents, options: ReadOptions) -> Trajectories:
    """Read the completed part of a run, which may still be going on or have been stopped."""
    path = contents.path
    store = next((s for s in (path, path / RUN_STORE) if is_group(s)), None)
    if store is None:
        raise DriftbayesError(
            f"{path.name!r} is a directory, expected a file, or the directory of a "
            "turbulence run with particles"
        )
    if options.columns:
        raise DriftbayesError(f"{store.name!r} has canonical names; leave out --columns")
    check_store(store, is_complete=False)
    attributes = read_attributes(store)
    reading.check_schema_version(attributes.get(schema.SCHEMA_ATTRIBUTE, 0), store.name)
    opened = {name: open_array(store, name) for name in ("time", "id", "x", "y")}
    n_stored = _check_shapes(opened, store)
    times, ids = opened["time"].read(), opened["id"].read()
    arrays = [opened["x"], opened["y"]]
    # Chunks that the run has not reached yet do not exist.
    starts = range(0, len(times), arrays[0].chunks[1])
    missing = (i for i in starts if not all(array.is_written((0, i)) for array in arrays))
    written = next(missing, len(times))
    if written < 2:
        msg = f"{str(path)!r} holds fewer than two records so far; resume the run first"
        raise DriftbayesError(msg)
    n_bytes = 16 * len(ids) * written
    check_stored(f"{store.name!r}", n_bytes, n_stored)
    # The two arrays, and the positions and times made from them.
    check_memory(3 * n_bytes, f"{store.name!r}")
    x, y = (array.read((len(ids), written)) for array in arrays)
    earlier = reading.from_json(attributes.get(schema.PROVENANCE_ATTRIBUTE, "{}"), store.name)
    if earlier.get("simulated") == "turbulence":
        # The domain is a square of side 2π, and positions are not wrapped.
        earlier = {"unwrapped": [2 * np.pi] * 2, **earlier}
    if written < len(times):
        earlier = {**earlier, "records": f"{written} of {len(times)}"}
    if not all(array.has_checksums for array in arrays):
        note = "the run is from an earlier version without checksums: damage is not detected"
        earlier = {**earlier, "notes": [*earlier.get("notes", []), note]}
    with reading.prefix_errors(store):
        return Trajectories(
            positions=np.stack([x.ravel(), y.ravel()], axis=-1),
            times=np.tile(times[:written], len(ids)),
            row_sizes=np.full(len(ids), written, dtype=np.int64),
            ids=ids.astype(np.int64),
            length_unit=options.length_unit or "",
            time_unit=options.time_unit or "",
            provenance=reading.extend_provenance(earlier, store, "zarr", None),
        )


def _check_shapes(arrays: Mapping[str, ZarrArray], store: Path) -> int:
    """Refuse arrays of inconsistent shapes; return the number of bytes stored."""
    stored = sum(stored_size(file) for file in store.rglob("*") if file.is_file())
    time, ids = arrays["time"], arrays["id"]
    grid = (*ids.shape, *time.shape)
    fits = len(time.shape) == len(ids.shape) == 1 and arrays["x"].shape == arrays["y"].shape == grid
    for array in arrays.values():
        fits &= len(array.chunks) == len(array.shape) and min(array.chunks, default=1) > 0
        fits &= min(array.shape, default=0) >= 0
    if not fits:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise DriftbayesError(
            f"{store.name!r} has arrays of shapes {shapes}; expected id (particle), time (record) "
            "and x, y (particle, record): the store is damaged"
        )
    for array in (time, ids):
        check_stored(f"{store.name!r}", 8 * array.shape[0], stored)
    return stored


READERS: dict[str, Callable[[Contents, ReadOptions], Trajectories]] = {
    "run": _read_run,
    "zarr": _read_own,
    "netcdf": _read_own,
    "parcels-zarr": _read_parcels,
    "cf": partial(_read_cf, reader="cf"),
    "clouddrift": partial(_read_cf, reader="clouddrift"),
    "gdp": partial(_read_cf, reader="gdp", read_extras=_read_gdp_extras),
    "glad": partial(_read_cf, reader="glad", read_extras=_read_glad_extras),
    "opendrift": partial(_read_cf, reader="opendrift", read_extras=_read_opendrift_extras),
}
