"""Datasets of the layouts in use, NetCDF or Zarr, to trajectories."""

__all__ = [
    "from_grid",
    "from_ragged",
    "identifiers",
    "numbers",
    "open_dataset",
    "parse_time_unit",
    "seconds",
    "time_origin",
    "verify",
]

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes.data.trajectories import Trajectories
from driftbayes.data.units import time_factor
from driftbayes.errors import DriftbayesError
from driftbayes.io import cells, nc_file, provenance, zarr_file
from driftbayes.io.contents import Contents
from driftbayes.io.limits import Budget, check_memory
from driftbayes.io.missing import present
from driftbayes.io.paths import begin_with_name
from driftbayes.suggest import did_you_mean
from driftbayes.typing import FloatArray, IntArray, StrArray

if TYPE_CHECKING:
    import xarray as xr

# Longer than any unit, shorter than what would take a regular expression long.
_MAX_UNIT = 200
_DATE = re.compile(
    r"(\d{1,4})-(\d{1,2})-(\d{1,2})"
    r"(?:[T ]\s*(\d{1,2}):(\d{1,2})(?::(\d{1,2})(\.\d*)?)?)?"
    r"\s*(?:Z|UTC|GMT|([+-]\d{1,2}):?(\d{2})?)?",
    re.ASCII | re.IGNORECASE,
)


@contextmanager
def open_dataset(
    contents: Contents, missing: Sequence[float] | None = None
) -> "Iterator[xr.Dataset]":
    """The dataset, nothing read yet, with times left as numbers."""
    netcdf_file = contents.container == "netcdf"
    opener = nc_file.open_file if netcdf_file else zarr_file.open_store
    with opener(contents.path) as dataset:
        dataset.encoding["missing"] = missing
        dataset.encoding["budget"] = Budget(f"{contents.path.name!r}")
        yield dataset


def verify(dataset: "xr.Dataset", name: str) -> None:
    """Refuse a variable that is not what it claims; to be asked before it is read."""
    if name in dataset.encoding.get("damaged", {}):
        raise DriftbayesError(dataset.encoding["damaged"][name])
    check = dataset.encoding.get("check_chunks")
    if check is not None and name in dataset.variables:
        check(name)


def numbers(
    dataset: "xr.Dataset",
    name: str,
    source: str,
    *,
    are_counts: bool = False,
    is_ours: bool = False,
) -> FloatArray:
    """A variable as floats, with what stands for a missing value as NaN."""
    verify(dataset, name)
    if name not in dataset.variables:
        there = ", ".join(repr(str(other)) for other in list(dataset.variables)[:8])
        near = did_you_mean(name, map(str, dataset.variables))
        msg = f"{source!r} has no variable {name!r}; it has {there}{near}"
        raise DriftbayesError(msg)
    variable = dataset[name]
    if variable.dtype.kind not in "iufb":
        msg = f"{source!r}: variable {name!r} holds {variable.dtype}, expected numbers"
        raise DriftbayesError(msg)
    budget = dataset.encoding.get("budget")
    if budget is not None:
        # As stored, as numbers, and as the trajectories that are made of them.
        budget.claim(int(variable.size) * (variable.dtype.itemsize + 3 * 8))
    told = () if are_counts else dataset.encoding.get("missing")
    return present(variable, source, told, is_ours=is_ours)


def parse_time_unit(units: object, source: str) -> tuple[float, str]:
    """What to multiply times by to have seconds, from `hours since 1970-01-01` or `hours`."""
    try:
        return time_factor(_unit_and_date(units)[0])
    except DriftbayesError as error:
        msg = (
            f"{source!r}: times are in {str(units)[:80]!r}; expected a unit like "
            "'seconds since ...'"
        )
        raise DriftbayesError(msg) from error


def seconds(
    dataset: "xr.Dataset", name: str, contents: Contents, told: str | None = None
) -> tuple[FloatArray, str]:
    """Times in seconds, since 1970 if the file has a date to count from, and their unit."""
    source = contents.path.name
    values = numbers(dataset, name, source)
    units = contents.variable_attributes.get(name, {}).get("units")
    if told is not None:
        return values, told
    if units is None or str(units).strip() in ("", "1", "-"):
        return values, ""
    factor, unit = parse_time_unit(units, source)
    # Where the date cannot be read, differences still count.
    return values * factor + (_epoch(_unit_and_date(units)[1]) or 0.0), unit


def _unit_and_date(units: object) -> tuple[str, str]:
    """A unit of times, and the date that they count from if there is one."""
    words = str(units)[:_MAX_UNIT].split()
    place = next((i for i, word in enumerate(words) if word.lower() == "since"), len(words))
    return " ".join(words[:place]), " ".join(words[place + 1 :])


def time_origin(attributes: Mapping[str, Any]) -> str | None:
    """The date that the numbers of a variable of times count from, if a calendar has it."""
    epoch = _epoch(_unit_and_date(attributes.get("units", ""))[1])
    calendar = str(attributes.get("calendar", "standard")).lower()
    if epoch is None or calendar not in ("standard", "gregorian", "proleptic_gregorian"):
        return None
    try:
        return datetime.fromtimestamp(epoch, UTC).replace(tzinfo=None).isoformat()
    except (ValueError, OverflowError):
        # The first hours of the year 1, with a zone.
        return None


def _epoch(date: str) -> float | None:
    """Seconds from 1970 to a date; None if it cannot be read."""
    match = _DATE.fullmatch(date.strip())
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        # The year 0, or 30 February of a calendar of 360 days.
        return None
    zone = 3600.0 * int(match[8] or 0)
    zone += (-60.0 if (match[8] or "").startswith("-") else 60.0) * int(match[9] or 0)
    return moment.timestamp() + float(f"0{match[7] or ''}") - zone


def identifiers(
    dataset: "xr.Dataset", name: str, source: str, *, is_ours: bool = False
) -> StrArray:
    """A variable of ids as an array of text or whole numbers."""
    verify(dataset, name)
    if name not in dataset.variables:
        near = did_you_mean(name, map(str, dataset.variables))
        msg = f"{source!r} has no variable {name!r}; name another with --columns{near}"
        raise DriftbayesError(msg)
    ids = dataset[name].to_numpy()
    if ids.dtype.kind == "f" and ((ids == np.round(ids)) & (np.abs(ids) < 2**53)).all():
        # Where whole numbers were missing somewhere on the way, they were made floats.
        ids = ids.astype(np.int64)
    values = [
        i.decode(errors="replace") if isinstance(i, bytes) else i for i in ids.ravel().tolist()
    ]
    is_text = ids.dtype.kind in "SUTO" and all(isinstance(value, str) for value in values)
    if ids.ndim != 1 or not (is_text or ids.dtype.kind in "iu"):
        msg = (
            f"{source!r}: variable {name!r} holds {ids.dtype} in {ids.ndim} dimensions, expected "
            "one id per trajectory, text or whole numbers"
        )
        raise DriftbayesError(msg)
    try:
        found = cells.id_array(values)
    except cells.BadCellError as error:
        msg = f"{source!r}: variable {name!r} {error.what}"
        raise DriftbayesError(msg) from error
    return np.char.strip(found) if found.dtype.kind == "U" and not is_ours else found


def from_grid(
    coordinates: Sequence[FloatArray],
    times: FloatArray,
    ids: Sequence[Any] | np.ndarray,
    contents: Contents,
    **attributes: Any,
) -> Trajectories:
    """Trajectories from arrays (trajectory, observation), padded with NaN.

    Rows without a time, and those before the first and after the last position of a trajectory, are
    padding; a missing position between others is a missing fix. Trajectories without any position
    are left out.
    """
    source = contents.path.name
    shape = coordinates[0].shape
    if len(shape) != 2 or any(axis.shape != shape for axis in coordinates):
        shapes = ", ".join(str(axis.shape) for axis in coordinates)
        msg = f"{source!r}: positions have the shapes {shapes}, expected one (trajectory, time)"
        raise DriftbayesError(msg)
    if times.shape not in (shape, shape[1:]):
        msg = f"{source!r}: times have the shape {times.shape}, expected {shape} or {shape[1:]}"
        raise DriftbayesError(msg)
    times = np.broadcast_to(times, shape)
    there = np.all([np.isfinite(axis) for axis in coordinates], axis=0)
    # Between the first and the last position, both included.
    begun = np.logical_or.accumulate(there, axis=1)
    ended = np.logical_or.accumulate(there[:, ::-1], axis=1)[:, ::-1]
    rows = begun & ended & np.isfinite(times)
    return _trajectories(coordinates, times, rows, rows.sum(axis=1), ids, contents, **attributes)


def from_ragged(
    coordinates: Sequence[FloatArray],
    times: FloatArray,
    row_sizes: IntArray,
    ids: Sequence[Any],
    contents: Contents,
    **attributes: Any,
) -> Trajectories:
    """Trajectories from arrays of observations, trajectory after trajectory."""
    source = contents.path.name
    sizes = {len(times), *(len(axis) for axis in coordinates)}
    if len(sizes) > 1 or row_sizes.sum() != len(times) or (row_sizes < 0).any():
        msg = (
            f"{source!r}: the numbers of observations of its trajectories sum to "
            f"{row_sizes.sum():,}, expected that of its times and positions, "
            f"{', '.join(map(str, sorted(sizes)))}; the file is damaged"
        )
        raise DriftbayesError(msg)
    timed = np.isfinite(times)
    index = np.repeat(np.arange(len(row_sizes)), row_sizes)
    counts = np.bincount(index[timed], minlength=len(row_sizes))
    return _trajectories(coordinates, times, timed, counts, ids, contents, **attributes)


def _trajectories(
    coordinates: Sequence[FloatArray],
    times: FloatArray,
    rows: np.ndarray,
    counts: IntArray,
    ids: Sequence[Any] | np.ndarray,
    contents: Contents,
    *,
    sd: FloatArray | None = None,
    flags: Mapping[str, FloatArray] | None = None,
    **attributes: Any,
) -> Trajectories:
    """Trajectories from the rows that are observations, and the number of these in each."""
    there = np.all([np.isfinite(axis) for axis in coordinates], axis=0)
    if not (there & rows).any():
        msg = f"{contents.path.name!r} holds no position at all; every one is missing"
        raise DriftbayesError(msg)
    with begin_with_name(contents.path):
        return Trajectories(
            positions=np.column_stack([np.where(there, a, np.nan)[rows] for a in coordinates]),
            times=times[rows],
            row_sizes=counts[counts > 0],
            ids=_id_array(ids, counts),
            position_sd=None if sd is None else np.broadcast_to(sd, rows.shape)[rows],
            flags={name: values[rows] for name, values in (flags or {}).items()},
            **attributes,
        )


def _id_array(ids: Sequence[Any] | np.ndarray, counts: IntArray) -> StrArray:
    """The ids of those trajectories that have observations."""
    # As text too, of which every one takes the room of the longest.
    check_memory(300 * len(counts), f"{len(counts):,} trajectories")
    if isinstance(ids, range):
        ids = np.arange(ids.start, ids.stop, dtype=np.int64)
    if isinstance(ids, np.ndarray) and ids.dtype.kind == "i" and len(ids) == len(counts):
        return ids[counts > 0].astype(np.int64)
    try:
        return cells.id_array([i for i, count in zip(ids, counts, strict=True) if count])
    except cells.BadCellError as error:
        msg = f"the variable of ids {error.what}"
        raise DriftbayesError(msg) from error


def foreign_provenance(
    contents: Contents,
    name: str,
    notes: Sequence[str],
    columns: Mapping[str, str | None] | None,
    origin: str | None = None,
) -> dict[str, Any]:
    """Where trajectories of a foreign format come from, and what was assumed about them."""
    found = provenance.extended({}, contents.path, name, columns)
    if origin is not None:
        found["time_origin"] = origin
    return {**found, "notes": list(notes)} if notes else found
