"""Trajectories with labels: as a table of pandas or a dataset of xarray, and back from a table."""

__all__ = [
    "COORDINATES",
    "COUNT",
    "FLAG",
    "ID",
    "LONLAT",
    "OBS_DIM",
    "POSITION_SD",
    "TIME",
    "TIME_UNIT_ATTRIBUTE",
    "TRAJECTORY_DIM",
    "from_dataframe",
    "ragged_variables",
    "to_dataframe",
    "to_dataset",
]

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes._version import __version__
from driftbayes.errors import DriftbayesError
from driftbayes.suggest import did_you_mean
from driftbayes.typing import FloatArray

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from driftbayes.data.trajectories import Trajectories

# The names that files, tables and datasets have in common.
ID, TIME = "id", "time"
COORDINATES = ("x", "y", "z")
POSITION_SD = "sd"
LONLAT = ("lon", "lat")
FLAG = "flag_"
TRAJECTORY_DIM, OBS_DIM = "traj", "obs"
COUNT = "rowsize"
# Not `units`: xarray would turn "hours" into timedeltas and "days since ..." into dates.
TIME_UNIT_ATTRIBUTE = "time_unit"
_EPOCH = "1970-01-01T00:00:00"
_LONLAT_ATTRIBUTES = {
    "lon": {"units": "degrees_east", "standard_name": "longitude"},
    "lat": {"units": "degrees_north", "standard_name": "latitude"},
}


def to_dataframe(trajectories: "Trajectories") -> "pd.DataFrame":
    """One row per observation; units, provenance and fingerprint are in its `attrs`."""
    import pandas as pd

    ids = np.asarray(trajectories.ids)
    columns: dict[str, Any] = {ID: ids[trajectories.trajectory_index], TIME: trajectories.times}
    for name, (_, values, _) in _per_observation(trajectories).items():
        columns[name] = values
    frame = pd.DataFrame(columns)
    length, time = trajectories.length_unit, trajectories.time_unit
    lengths = [name for name in (*COORDINATES, POSITION_SD) if name in columns]
    degrees = [name for name in LONLAT if name in columns]
    frame.attrs = {
        "units": {TIME: time, **dict.fromkeys(lengths, length), **dict.fromkeys(degrees, "degree")},
        "length_unit": length,
        "time_unit": time,
        "provenance": dict(trajectories.provenance),
        "data_fingerprint": trajectories.fingerprint,
        "driftbayes_version": __version__,
    }
    return frame


def from_dataframe(
    frame: "pd.DataFrame",
    *,
    columns: Mapping[str, str] | None = None,
    length_unit: str | None = None,
    time_unit: str | None = None,
) -> "Trajectories":
    """Trajectories from a table with one row per observation."""
    import pandas as pd

    from driftbayes.data.trajectories import Trajectories

    found = _found(frame, columns or {})
    if frame[found[ID]].isna().any():
        msg = f"column {found[ID]!r} is empty in some rows; every row needs an id"
        raise DriftbayesError(msg)
    codes, names = pd.factorize(frame[found[ID]])
    # Stable: within a trajectory rows stay as they are, so that times which decrease are reported.
    order = np.argsort(codes, kind="stable")
    times, unit = _times(frame[found[TIME]], found[TIME])
    values = {
        name: _numbers(frame[column], column)[order]
        for name, column in found.items()
        if name not in (ID, TIME)
    }
    stored = dict(frame.attrs.get("provenance", {}))
    known_time = frame.attrs.get("time_unit", "") if time_unit is None else time_unit
    has_lonlat = set(LONLAT) <= set(values)
    return Trajectories(
        positions=np.column_stack([values[axis] for axis in COORDINATES if axis in values]),
        times=times[order],
        row_sizes=np.bincount(codes),
        ids=np.asarray(names.tolist()),
        position_sd=values.get(POSITION_SD),
        lonlat=np.column_stack([values[axis] for axis in LONLAT]) if has_lonlat else None,
        flags={n.removeprefix(FLAG): v for n, v in values.items() if n.startswith(FLAG)},
        length_unit=frame.attrs.get("length_unit", "") if length_unit is None else length_unit,
        time_unit=known_time if unit is None else unit,
        provenance={
            **(stored or {"source": "a DataFrame"}),
            **({} if unit is None else {"time_origin": _EPOCH}),
        },
    )


def to_dataset(trajectories: "Trajectories") -> "xr.Dataset":
    """All trajectories one after the other, the contiguous ragged layout of CF."""
    import xarray as xr

    variables, coords = ragged_variables(trajectories)
    return xr.Dataset(
        variables,
        coords=coords,
        attrs={
            "length_unit": trajectories.length_unit,
            "time_unit": trajectories.time_unit,
            "provenance": json.dumps(dict(trajectories.provenance), default=str),
            "data_fingerprint": trajectories.fingerprint,
            "driftbayes_version": __version__,
        },
    )


def ragged_variables(
    trajectories: "Trajectories",
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Variables and coordinates of a dataset in that layout, with their attributes."""
    time = {TIME_UNIT_ATTRIBUTE: trajectories.time_unit} if trajectories.time_unit else {}
    counts = {"long_name": "number of observations", "sample_dimension": OBS_DIM}
    variables = {
        COUNT: (TRAJECTORY_DIM, trajectories.row_sizes, counts),
        **_per_observation(trajectories),
    }
    coords = {
        ID: (TRAJECTORY_DIM, np.asarray(trajectories.ids), {"cf_role": "trajectory_id"}),
        TIME: (OBS_DIM, trajectories.times, {"axis": "T", **time}),
    }
    return variables, coords


def _per_observation(trajectories: "Trajectories") -> dict[str, Any]:
    """Dimension, values and attributes of all that each observation has, save id and time."""
    length = {"units": trajectories.length_unit} if trajectories.length_unit else {}
    found: dict[str, Any] = {}
    for axis, values in zip(COORDINATES, trajectories.positions.T, strict=False):
        found[axis] = (OBS_DIM, np.ascontiguousarray(values), {"axis": axis.upper(), **length})
    if trajectories.position_sd is not None:
        attributes = {"long_name": "standard deviation of the error of a position", **length}
        found[POSITION_SD] = (OBS_DIM, trajectories.position_sd, attributes)
    if trajectories.lonlat is not None:
        for axis, values in zip(LONLAT, trajectories.lonlat.T, strict=True):
            found[axis] = (OBS_DIM, np.ascontiguousarray(values), _LONLAT_ATTRIBUTES[axis])
    for name, values in trajectories.flags.items():
        attributes = {"long_name": f"{name}, as the source has it"}
        found[f"{FLAG}{name}"] = (OBS_DIM, values, attributes)
    return found


def _found(frame: "pd.DataFrame", columns: Mapping[str, str]) -> dict[str, str]:
    """The column that holds each canonical one."""
    known = (ID, TIME, *COORDINATES, POSITION_SD, *LONLAT)
    present = [str(name) for name in frame.columns]
    for canonical, name in columns.items():
        if canonical not in known:
            near = did_you_mean(canonical, known)
            msg = f"columns has the key {canonical!r}, expected one of {', '.join(known)}{near}"
            raise DriftbayesError(msg)
        if name not in present:
            near, shown = did_you_mean(name, present), ", ".join(map(repr, present[:8]))
            msg = (
                f"the table has no column {name!r} (wanted as {canonical!r}); it has {shown}{near}"
            )
            raise DriftbayesError(msg)
    free = {name for name in present if name not in columns.values()}
    found = {name: columns.get(name, name) for name in known if name in columns or name in free}
    for canonical in (ID, TIME, "x"):
        if canonical not in found:
            shown = ", ".join(map(repr, present[:8]))
            msg = f"the table has no column {canonical!r}; it has {shown}: pass columns={{...}}"
            raise DriftbayesError(msg)
    found |= {name: name for name in present if name in free and name.startswith(FLAG)}
    for name in found.values():
        if present.count(name) > 1:
            msg = f"the table has more than one column {name!r}; rename one of them"
            raise DriftbayesError(msg)
    return found


def _times(column: "pd.Series[Any]", name: str) -> tuple[FloatArray, str | None]:
    """Times as numbers, and their unit if they were dates or durations."""
    import pandas as pd

    if isinstance(column.dtype, pd.DatetimeTZDtype):
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    values = column.to_numpy()
    if values.dtype.kind == "M":
        values = values - np.datetime64(_EPOCH)
    if values.dtype.kind == "m":
        return np.asarray(values / np.timedelta64(1, "s"), dtype=np.float64), "s"
    return _numbers(column, name), None


def _numbers(column: "pd.Series[Any]", name: str) -> FloatArray:
    try:
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError) as error:
        msg = f"column {name!r} holds {column.dtype}, expected numbers; use pandas.to_numeric"
        raise DriftbayesError(msg) from error
