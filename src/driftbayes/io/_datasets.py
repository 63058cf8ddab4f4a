"""Read variables of a dataset, NetCDF or Zarr, as numbers ordered by trajectory."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes._typing import FloatArray, IntArray, StrArray
from driftbayes.data._trajectories import Trajectories
from driftbayes.data._units import time_factor
from driftbayes.errors import DriftbayesError, did_you_mean
from driftbayes.io._ids import BadCellError, id_array
from driftbayes.io._layouts import Layout, from_grid, from_ragged
from driftbayes.io._limits import Budget
from driftbayes.io._reading import Contents, describe_dataset

if TYPE_CHECKING:
    import xarray as xr

# Modules whose `opened` opens a file and describes it.
_CONTAINERS = {"netcdf": "netcdf_file", "zarr": "zarr_store"}
# Longer than any unit, and short enough for regular expressions.
_MAX_UNIT = 200
_DATE = re.compile(
    r"(\d{1,4})-(\d{1,2})-(\d{1,2})"
    r"(?:[T ]\s*(\d{1,2}):(\d{1,2})(?::(\d{1,2})(\.\d*)?)?)?"
    r"\s*(?:Z|UTC|GMT|([+-]\d{1,2}):?(\d{2})?)?",
    re.ASCII | re.IGNORECASE,
)
# The default fill value of NetCDF for floats, also used in files that declare none.
_DEFAULT_FILL = 9.9e36
_DEFAULT_FILLS = {"i2": -32767, "i4": -(2**31) + 1, "i8": -(2**63) + 2, "u8": 2**64 - 2}


def contents_in(dataset: "xr.Dataset") -> Contents:
    """Describe a dataset in memory, with dates and packed numbers encoded as in a file."""
    import xarray as xr

    variables, attributes = xr.conventions.cf_encoder(dataset.variables, dataset.attrs)
    raw = xr.Dataset(dict(variables), attrs=attributes)
    described = describe_dataset(raw)
    return Contents(Path("dataset"), "netcdf", dataset=lambda: nullcontext(raw.copy()), **described)


def contents_of_file(path: Path, container: str, stack: ExitStack | None = None) -> Contents:
    """Describe a NetCDF file or a Zarr store.

    Args:
        path: The file or store.
        container: "netcdf" or "zarr".
        stack: Keeps the dataset open until it is read or the stack ends.
    """
    module = import_module(f"driftbayes.io._{_CONTAINERS[container]}")
    with ExitStack() as opened:
        contents = Contents(path, container, **opened.enter_context(module.opened(path)))
        if stack is None:
            return replace(contents, dataset=None)
        file = stack.enter_context(opened.pop_all())
        return replace(contents, dataset=partial(_dataset_of, contents, file))


@contextmanager
def _dataset_of(contents: Contents, file: ExitStack) -> "Iterator[xr.Dataset]":
    """Open the dataset of an open file, and close both at the end."""
    assert contents.dataset is not None
    with file.pop_all(), contents.dataset() as dataset:
        yield dataset


@contextmanager
def open_dataset(
    contents: Contents, missing: Sequence[float] | None = None
) -> "Iterator[xr.Dataset]":
    """Open the dataset or its part lazily, without decoding numbers."""
    with ExitStack() as stack:
        opener = contents.dataset
        if opener is None:
            opener = contents_of_file(contents.path, contents.container, stack).dataset
        assert opener is not None
        dataset = stack.enter_context(opener())
        dataset.encoding["missing"] = missing
        dataset.encoding["budget"] = Budget(f"{contents.source!r}")
        if contents.part is not None:
            part = dataset.isel({dim: slice(*ends) for dim, ends in contents.part.items()})
            # The first slice is along trajectories: without ids they are identified by number.
            first = next(iter(contents.part.values()))[0]
            part.encoding = {**dataset.encoding, "first_trajectory": first}
            dataset = part
        yield dataset


def verify(dataset: "xr.Dataset", name: str) -> None:
    """Refuse a damaged variable; call this before reading it."""
    if name in dataset.encoding.get("damaged", {}):
        raise DriftbayesError(dataset.encoding["damaged"][name])
    check = dataset.encoding.get("check_chunks")
    if check is not None and name in dataset.variables:
        check(name)


def _variable(dataset: "xr.Dataset", name: str, source: str) -> "xr.DataArray":
    verify(dataset, name)
    if name not in dataset.variables:
        shown = ", ".join(repr(str(other)) for other in list(dataset.variables)[:8])
        near = did_you_mean(name, map(str, dataset.variables))
        msg = f"{source!r} has no variable {name!r}; it has {shown}: select one with --columns"
        raise DriftbayesError(f"{msg}{near}")
    return dataset[name]


def numbers(
    dataset: "xr.Dataset",
    name: str,
    source: str,
    *,
    are_counts: bool = False,
    is_ours: bool = False,
) -> FloatArray:
    """Read a variable as floats, unpacked, with missing values as NaN.

    Missing values are those that are not finite, equal to a declared fill value (`_FillValue`,
    `missing_value`) or equal to a default fill value of NetCDF beyond any position or time; in a
    file of driftbayes, only NaN and declared fill values. The user may give further ones, which do
    not apply to counts.
    """
    variable = _variable(dataset, name, source)
    if variable.dtype.kind not in "iufb":
        msg = f"{source!r}: variable {name!r} holds {variable.dtype}, expected numbers"
        raise DriftbayesError(msg)
    budget = dataset.encoding.get("budget")
    if budget is not None:
        # The stored values, the numbers and the trajectories.
        budget.claim(int(variable.size) * (variable.dtype.itemsize + 3 * 8))
    missing = () if are_counts else dataset.encoding.get("missing")
    raw, attributes = variable.to_numpy(), variable.attrs
    if raw.dtype.kind == "i" and str(attributes.get("_Unsigned", "")).lower() == "true":
        raw = raw.view(raw.dtype.str.replace("i", "u"))
    values = np.array(raw, dtype=np.float64)
    is_missing = np.isnan(values) if is_ours else _find_default_fills(raw, values)
    for key in ("_FillValue", "missing_value"):
        for fill in _attribute_numbers(attributes.get(key)):
            is_missing |= _equals(raw, fill)
    zarr_fill = variable.encoding.get("zarr_fill")
    if not (missing is not None or is_ours or "_FillValue" in attributes or zarr_fill is None):
        count = np.count_nonzero(_equals(raw, zarr_fill) & ~is_missing)
        if count:
            raise DriftbayesError(
                f"{source!r}: variable {name[:40]!r} holds {zarr_fill:g} {count:,} times, the fill "
                "value of its Zarr array, and declares no _FillValue; pass --missing "
                f"{zarr_fill:g} if these are missing, --missing none if they are data"
            )
    scale, offset = (
        next(iter(_attribute_numbers(attributes.get(key))), default)
        for key, default in (("scale_factor", 1.0), ("add_offset", 0.0))
    )
    if (scale, offset) != (1.0, 0.0):
        with np.errstate(over="ignore", invalid="ignore"):
            values = values * scale + offset
    for number in missing or ():
        is_missing |= _equals(raw, number) | (values == number)
    # NaN has many bit patterns, which fingerprints distinguish.
    values[is_missing | np.isnan(values)] = np.nan
    return values


def _find_default_fills(raw: np.ndarray, values: FloatArray) -> np.ndarray:
    """Find values that are not finite, or larger than any position or time."""
    is_fill = ~np.isfinite(values) | (np.abs(values) > _DEFAULT_FILL)
    if raw.dtype.kind not in "iu":
        return is_fill
    if raw.dtype.itemsize >= 4:
        # Integers have no NaN: their largest and smallest values are used instead. Data may span
        # the whole range of 8 or 16 bits.
        limits = np.iinfo(raw.dtype)
        is_fill |= (raw == limits.max) | (raw == limits.min) & (limits.min < 0)
    fill = _DEFAULT_FILLS.get(f"{raw.dtype.kind}{raw.dtype.itemsize}")
    return is_fill if fill is None else is_fill | (raw == fill)


def _equals(raw: np.ndarray, number: float) -> np.ndarray:
    """Compare an array with a number rounded to the precision of the array."""
    if raw.dtype.kind == "f":
        with np.errstate(over="ignore"):
            return np.asarray(raw == raw.dtype.type(number))
    return np.asarray(raw == number)


def _attribute_numbers(value: object) -> list[float]:
    """Return the numbers in an attribute; empty if it is not numeric."""
    if value is None:
        return []
    try:
        return [float(number) for number in np.ravel(np.asarray(value, dtype=np.float64))[:16]]
    except (TypeError, ValueError, OverflowError):
        return []


def identifiers(
    dataset: "xr.Dataset", name: str, source: str, *, is_ours: bool = False
) -> StrArray:
    """Read a variable of ids, text or whole numbers; strip spaces unless the file is ours."""
    ids = np.atleast_1d(_variable(dataset, name, source).to_numpy())
    if ids.dtype.kind == "f" and ((ids == np.round(ids)) & (np.abs(ids) < 2**53)).all():
        # Other programs convert integers with missing values to floats.
        ids = ids.astype(np.int64)
    values = [
        i.decode(errors="replace") if isinstance(i, bytes) else i for i in ids.ravel().tolist()
    ]
    is_text = ids.dtype.kind in "SUTO" and all(isinstance(value, str) for value in values)
    if ids.ndim != 1 or not (is_text or ids.dtype.kind in "iu"):
        raise DriftbayesError(
            f"{source!r}: variable {name!r} holds {ids.dtype} in {ids.ndim} dimensions, expected "
            "one id per trajectory, text or whole numbers"
        )
    try:
        result = id_array(values)
    except BadCellError as error:
        raise DriftbayesError(f"{source!r}: variable {name!r} {error.what}") from error
    return np.char.strip(result) if result.dtype.kind == "U" and not is_ours else result


def parse_time_unit(units: object, source: str) -> tuple[float, str]:
    """Return the factor to seconds of a unit such as `hours since 1970-01-01` or `hours`."""
    try:
        return time_factor(_unit_and_date(units)[0])
    except DriftbayesError as error:
        raise DriftbayesError(
            f"{source!r}: times are in {str(units)[:80]!r}; expected a unit like "
            "'seconds since ...'"
        ) from error


def _unit_and_date(units: object) -> tuple[str, str]:
    """Split a CF time unit into the unit and the reference date, which may be empty."""
    words = str(units)[:_MAX_UNIT].split()
    index = next((i for i, word in enumerate(words) if word.lower() == "since"), len(words))
    return " ".join(words[:index]), " ".join(words[index + 1 :])


def time_origin(attributes: Mapping[str, Any]) -> str | None:
    """Return the reference date of a time variable, if it exists in the standard calendar."""
    epoch = _epoch(_unit_and_date(attributes.get("units", ""))[1])
    calendar = str(attributes.get("calendar", "standard")).lower()
    if epoch is None or calendar not in ("standard", "gregorian", "proleptic_gregorian"):
        return None
    try:
        return datetime.fromtimestamp(epoch, UTC).replace(tzinfo=None).isoformat()
    except (ValueError, OverflowError):
        # A time zone can move the first hours of year 1 out of range.
        return None


def _epoch(date: str) -> float | None:
    """Return the seconds from 1970 to a date; None if the date is invalid."""
    match = _DATE.fullmatch(date.strip())
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        # Year 0, or 30 February in a 360-day calendar.
        return None
    zone = 3600.0 * int(match[8] or 0)
    zone += (-60.0 if (match[8] or "").startswith("-") else 60.0) * int(match[9] or 0)
    return moment.timestamp() + float(f"0{match[7] or ''}") - zone


@dataclass(frozen=True)
class Observed:
    """Observations in a dataset."""

    dataset: "xr.Dataset"  # some or all trajectories
    contents: Contents  # description of the file
    layout: Layout  # layout of the trajectories
    times: FloatArray  # in seconds, or in the unit given by the user
    time_unit: str  # unit of the times
    ids: Sequence[Any]  # ids of the trajectories
    row_sizes: IntArray | None  # number of observations of each trajectory; None for a padded grid
    # Order that sorts the rows by trajectory and time; None if they are sorted.
    order: IntArray | slice | None

    def values(self, name: str) -> FloatArray:
        """Read a variable as numbers, in the order of the trajectories."""
        layout, source = self.layout, self.contents.source
        values, dims = numbers(self.dataset, name, source), self.dataset[name].dims
        expected = (layout.instance, layout.sample) if layout.kind == "grid" else (layout.sample,)
        if layout.kind == "grid" and dims == expected[::-1]:
            values, dims = values.T, expected
        if dims != expected:
            raise DriftbayesError(
                f"{source!r}: variable {name!r} has dimensions ({', '.join(map(str, dims))}), "
                f"expected ({', '.join(map(str, expected))})"
            )
        return values if self.order is None else values[..., self.order]

    def trajectories(self, coordinates: Sequence[FloatArray], **attributes: Any) -> Trajectories:
        """Make trajectories from coordinates; attributes as for `from_grid`."""
        if self.row_sizes is None:
            return from_grid(coordinates, self.times, self.ids, self.contents, **attributes)
        return from_ragged(
            coordinates, self.times, self.row_sizes, self.ids, self.contents, **attributes
        )


def observed(
    dataset: "xr.Dataset", contents: Contents, layout: Layout, time_unit: str | None = None
) -> Observed:
    """Read times, ids and counts of a dataset in the order of its trajectories."""
    times, unit = _read_times(dataset, layout.time, contents, time_unit)
    row_sizes: IntArray | None = None
    order: IntArray | slice | None = None
    ids: Sequence[Any]
    if layout.kind == "grid":
        if times.ndim == 2 and dataset[layout.time].dims[0] == layout.sample:
            times = times.T
        if times.ndim == 1 and len(times) > 1 and np.all(np.diff(times) < 0):
            # A run backward in time has the same increments.
            order = slice(None, None, -1)
            times = times[order]
        ids = _ids(dataset, contents, layout, dataset.sizes[layout.instance])
    elif layout.kind == "contiguous":
        row_sizes = _counts(dataset, str(layout.counter), contents.source)
        ids = _ids(dataset, contents, layout, len(row_sizes))
    elif layout.kind == "single":
        row_sizes = np.array([len(times)])
        ids = _ids(dataset, contents, layout, 1)
    else:
        index, ids = _index(dataset, contents, layout)
        order = np.lexsort((times, index))[np.count_nonzero(index < 0) :]
        row_sizes = np.bincount(index[order], minlength=len(ids))
        times = times[order]
    return Observed(dataset, contents, layout, times, unit, ids, row_sizes, order)


def _read_times(
    dataset: "xr.Dataset", name: str, contents: Contents, time_unit: str | None
) -> tuple[FloatArray, str]:
    """Read times in seconds, since 1970 if the file has a reference date, and their unit.

    They are not converted if the user gives their unit.
    """
    values = numbers(dataset, name, contents.source)
    if time_unit is not None:
        return values, time_unit
    units = contents.variable_attributes.get(name, {}).get("units")
    if units is None or str(units).strip() in ("", "1", "-"):
        return values, ""
    factor, unit = parse_time_unit(units, contents.source)
    # Without a valid reference date, time differences are still correct.
    return values * factor + (_epoch(_unit_and_date(units)[1]) or 0.0), unit


def _ids(dataset: "xr.Dataset", contents: Contents, layout: Layout, count: int) -> Sequence[Any]:
    """Return the ids of the trajectories, by default their numbers in the file."""
    if layout.ids is None:
        first = int(dataset.encoding.get("first_trajectory", 0))
        return range(first, first + count)
    ids: list[Any] = identifiers(dataset, layout.ids, contents.source).tolist()
    if len(ids) != count:
        raise DriftbayesError(
            f"{contents.source!r}: variable {layout.ids!r} has {len(ids)} ids for {count} "
            "trajectories; the file is damaged"
        )
    return ids


def _counts(dataset: "xr.Dataset", name: str, source: str) -> IntArray:
    counts = numbers(dataset, name, source, are_counts=True)
    # No file has 2**40 observations.
    if counts.ndim != 1 or not ((counts >= 0) & (counts < 2**40) & (counts % 1 == 0)).all():
        raise DriftbayesError(
            f"{source!r}: variable {name!r} must hold the number of observations of each "
            "trajectory, whole numbers from 0 up; the file is damaged or this is another variable"
        )
    return counts.astype(np.int64)


def _index(
    dataset: "xr.Dataset", contents: Contents, layout: Layout
) -> tuple[IntArray, Sequence[Any]]:
    """Return the trajectory number of each observation, or -1, and the ids."""
    source, name = contents.source, str(layout.counter)
    if layout.kind == "long":
        unique, codes = np.unique(identifiers(dataset, name, source), return_inverse=True)
        return codes.astype(np.int64), unique.tolist()
    given = numbers(dataset, name, source, are_counts=True)
    if not (np.isnan(given) | (given % 1 == 0) & (np.abs(given) < 2**53)).all():
        msg = f"{source!r}: variable {name!r} must hold numbers of trajectories, from 0 up"
        raise DriftbayesError(msg)
    index: IntArray = np.where(given >= 0, given, -1).astype(np.int64)
    count = dataset.sizes.get(layout.instance)
    if layout.ids is None and count is None:
        unique, codes = np.unique(index, return_inverse=True)
        n_unassigned = int((unique < 0).any())
        return codes.astype(np.int64) - n_unassigned, unique[n_unassigned:].tolist()
    ids = _ids(dataset, contents, layout, int(count if count is not None else 0))
    if index.max(initial=-1) >= len(ids):
        raise DriftbayesError(
            f"{source!r}: variable {name!r} has the number {index.max()}, but there are only "
            f"{len(ids)} trajectories, counted from 0; the file is damaged"
        )
    return index, ids
