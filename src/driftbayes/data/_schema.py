"""Schema of tables and datasets: canonical column names, and the mapping from other names."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes._typing import FloatArray
from driftbayes.errors import DriftbayesError, did_you_mean, expect, nearest

if TYPE_CHECKING:
    import pandas as pd

ID, TIME = "id", "time"
COORDINATES = ("x", "y", "z")
POSITION_SD = "sd"
LONLAT = ("lon", "lat")
FLAG = "flag_"
TRAJECTORY_DIM, OBS_DIM = "traj", "obs"
COUNT = "rowsize"
# Not `units`: xarray would turn "hours" into timedeltas and "days since ..." into dates.
TIME_UNIT_ATTRIBUTE = "time_unit"
# Dates become seconds since this date, which is kept as `time_origin` in the provenance.
TIME_ORIGIN = "1970-01-01T00:00:00"

SCHEMA_VERSION = 1
CONVENTIONS, FEATURE_TYPE = "CF-1.11", "trajectory"
SCHEMA_ATTRIBUTE = "driftbayes_schema"
VERSION_ATTRIBUTE = "driftbayes_version"
KIND_ATTRIBUTE = "driftbayes_kind"
PROVENANCE_ATTRIBUTE = "provenance"
# Key of our metadata in Parquet files.
METADATA_KEY = "driftbayes"

_REQUIRED = (ID, TIME, "x")
_NAMES = (ID, TIME, *COORDINATES, POSITION_SD)
# Names in other programs, used only to suggest a mapping.
_ALIASES = {
    ID: ("particle", "particle_id", "track_id", "trajectory", "traj", "track", "traj_id", "label"),
    TIME: ("t", "frame", "date", "datetime", "timestamp", "position_t"),
    "x": ("lon", "longitude", "position_x", "x0"),
    "y": ("lat", "latitude", "position_y", "x1"),
    "z": ("depth", "position_z", "x2"),
    POSITION_SD: ("sigma", "error", "ep", "position_error"),
}
_MAX_NAMES_SHOWN = 8


@dataclass(frozen=True)
class Meaning:
    """Roles and units of the columns of a table."""

    # Column of each role: id, time, x, y, z, sd, or lon and lat; also date and clock in place of
    # time, and drogued. None if a role is omitted.
    columns: Mapping[str, str | None]
    guessed: frozenset[str] = frozenset()  # roles that the user did not name
    units: Mapping[str, str] = field(default_factory=dict)  # by role, if the header has one

    @property
    def length(self) -> str:
        """Unit of positions; empty if the header has none."""
        return self.units.get("x", "")

    @property
    def time(self) -> str:
        """Unit of times; empty if the header has none."""
        return self.units.get("time", "")

    @property
    def text(self) -> str:
        """List of the guessed columns for a note; empty if there are none."""
        shown = []
        for role, name in self.columns.items():
            if role not in self.guessed or not name or role == "clock":
                continue
            if role == "date":
                shown.append(f"{TIME} = {name[:40]} + {str(self.columns['clock'])[:40]}")
                continue
            unit = self.units.get(role)
            # A name with the unit in brackets needs no second one.
            ends = f" ({unit})" if unit and not name.endswith((")", "]")) else ""
            shown.append(f"{role} = {name[:40]}{ends}")
        return ", ".join(shown)


def file_names(
    present: Sequence[str],
    columns: Mapping[str, str | None] | None,
    *,
    source: str,
    noun: str = "column",
    required: Collection[str] = _REQUIRED,
) -> dict[str, str]:
    """Find the column of each canonical name present; `columns` are the user's names.

    A name mapped to None, or to empty text as by `--columns z=`, is omitted.
    """
    wanted = {canonical: name for canonical, name in (columns or {}).items() if name}
    left_out = set(columns or {}) - set(wanted)
    _check_mapping(wanted, left_out, required)
    # A column that the user gave a role is not also used for the role of its name.
    free = [name for name in present if name not in wanted.values()]
    found = {}
    for canonical in _NAMES:
        if canonical in left_out:
            continue
        name = wanted.get(canonical, canonical)
        if name in (present if canonical in wanted else free):
            found[canonical] = name
        elif canonical in wanted or canonical in required:
            raise DriftbayesError(_missing(canonical, name, free, source, noun))
    for name in found.values():
        if list(present).count(name) > 1:
            msg = f"{source!r} has more than one {noun} {name!r}; rename one of them"
            raise DriftbayesError(msg)
    if "z" in found and "y" not in found:
        raise DriftbayesError(
            f"{source!r} has a {noun} {found['z']!r} but no {noun} 'y'; for a plane of x and z "
            f"pass columns={{'y': {found['z']!r}}} (--columns y={found['z']}), to leave it out "
            "columns={'z': None} (--columns z=)"
        )
    return found


def extras_in(
    present: Sequence[str], found: Mapping[str, str], columns: Mapping[str, str | None] | None
) -> dict[str, str]:
    """Find the columns of longitude and latitude beside x and y, and of flags."""
    taken, counts = set(found.values()), Counter(present)
    free = {name for name in present if name not in taken and counts[name] == 1}
    extras = {name: name for name in present if name in free and name.startswith(FLAG)}
    # `--columns lon=` omits them.
    if "y" in found and set(LONLAT) <= free and not set(LONLAT) & set(columns or {}):
        extras |= {axis: axis for axis in LONLAT}
    return extras


def fields_of(values: Mapping[str, FloatArray]) -> dict[str, Any]:
    """Return arguments of `Trajectories` from canonical columns, without id and time."""
    lonlat = [values[axis] for axis in LONLAT if axis in values]
    return {
        "positions": np.column_stack([values[axis] for axis in COORDINATES if axis in values]),
        "position_sd": values.get(POSITION_SD),
        "lonlat": np.column_stack(lonlat) if len(lonlat) == 2 else None,
        "flags": {n.removeprefix(FLAG): v for n, v in values.items() if n.startswith(FLAG)},
    }


def from_frame(
    frame: "pd.DataFrame", columns: Mapping[str, str | None] | None = None
) -> dict[str, Any]:
    """Return arguments of `Trajectories` from a table; see `Trajectories.from_dataframe`."""
    import pandas as pd

    expect(frame, pd.DataFrame, "frame", "a pandas DataFrame")
    wanted = "names by role, for example {'id': 'track'}"
    expect(columns, Mapping | None, "columns", wanted)
    present, named = [str(name) for name in frame.columns], dict(columns or {})
    beside = {axis: str(named.pop(axis)) for axis in LONLAT if named.get(axis)}
    for axis, name in beside.items():
        if name not in present:
            raise DriftbayesError(_missing(axis, name, present, "the table", "column"))
    found = file_names(present, named, source="the table")
    found |= extras_in(present, found, columns) | beside
    if frame[found[ID]].isna().any():
        raise DriftbayesError(f"column {found[ID]!r} is empty in some rows; every row needs an id")
    codes, names = pd.factorize(frame[found[ID]])
    # Stable: rows keep their order within a trajectory, so that decreasing times are reported.
    order = np.argsort(codes, kind="stable")
    times, are_dates = _times(frame[found[TIME]], found[TIME])
    values = {
        name: _numbers(frame[column], column)[order]
        for name, column in found.items()
        if name not in (ID, TIME)
    }
    attributes = frame.attrs
    provenance = dict(attributes.get("provenance", {})) or {"source": "a DataFrame"}
    return {
        **fields_of(values),
        "times": times[order],
        "row_sizes": np.bincount(codes),
        "ids": np.asarray(names.tolist()),
        "length_unit": attributes.get("length_unit", ""),
        "time_unit": "s" if are_dates else attributes.get("time_unit", ""),
        "provenance": {**provenance, **({"time_origin": TIME_ORIGIN} if are_dates else {})},
    }


def _times(column: "pd.Series[Any]", name: str) -> tuple[FloatArray, bool]:
    """Return times as numbers, and whether they were dates or durations (then in seconds)."""
    import pandas as pd

    if isinstance(column.dtype, pd.DatetimeTZDtype):
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    values = column.to_numpy()
    if values.dtype.kind == "M":
        values = values - np.datetime64(TIME_ORIGIN)
    if values.dtype.kind == "m":
        return np.asarray(values / np.timedelta64(1, "s"), dtype=np.float64), True
    return _numbers(column, name), False


def _numbers(column: "pd.Series[Any]", name: str) -> FloatArray:
    try:
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError) as error:
        msg = f"column {name!r} holds {column.dtype}, expected numbers; use pandas.to_numeric"
        raise DriftbayesError(msg) from error


def _check_mapping(
    wanted: Mapping[str, str], left_out: Collection[str], required: Collection[str]
) -> None:
    for canonical in (*wanted, *sorted(left_out)):
        if canonical not in (_NAMES if canonical in wanted else (*_NAMES, *LONLAT)):
            name = wanted.get(canonical)
            near = did_you_mean(canonical, _NAMES)
            if name in _NAMES:
                near = f"; did you mean {{{name!r}: {canonical!r}}}?"
            raise DriftbayesError(
                f"columns has the key {canonical!r}, expected one of {', '.join(_NAMES)} mapped to "
                f"a name in the file{near}"
            )
    for canonical in required:
        if canonical in left_out:
            msg = f"columns leaves out {canonical!r}, which every file needs; name its column"
            raise DriftbayesError(msg)
    name, count = next(iter(Counter(wanted.values()).most_common(1)), ("", 0))
    if count > 1:
        raise DriftbayesError(f"columns uses {name!r} twice; name a different column for each")


def _missing(canonical: str, name: str, free: Iterable[str], source: str, noun: str) -> str:
    wanted_as = "" if name == canonical else f" (wanted as {canonical!r})"
    others = [other for other in free if other not in _NAMES]
    if not others:
        listed = ", ".join(map(repr, free)) or f"no other {noun}"
        return f"{source!r} has no {noun} {name!r}{wanted_as}; it has only {listed}: add the {noun}"
    shown = ", ".join(repr(other[:40]) for other in others[:_MAX_NAMES_SHOWN])
    more = f" and {len(others) - _MAX_NAMES_SHOWN} more" if len(others) > _MAX_NAMES_SHOWN else ""
    start = f"{source!r} has no {noun} {name!r}{wanted_as}; it has {shown}{more}: "
    known = (canonical, *_ALIASES.get(canonical, ()))
    # Names such as x_um and time_s include a unit.
    with_unit = f"{canonical}_"
    likely = [o for o in others if o.lower() in known or o.lower().startswith(with_unit)]
    if not likely and wanted_as:
        likely = [near for near in [nearest(name, others)] if near is not None]
    if not likely:
        return f"{start}say which with columns={{{canonical!r}: ...}} (--columns {canonical}=...)"
    hint = likely[0][:40]
    return f"{start}pass columns={{{canonical!r}: {hint!r}, ...}} (--columns {canonical}={hint})"
