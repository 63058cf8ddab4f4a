"""Identify the columns of a table from the names and units in its header."""

import re
from collections.abc import Mapping, Sequence

from driftbayes.data._schema import Meaning, file_names
from driftbayes.data._units import is_degrees, length_factor, time_factor
from driftbayes.errors import ColumnsError, DriftbayesError

# Names in lower case without separators. The first group with a match determines the column of a
# role; if two columns match one group, the user is asked.
_NAMES: dict[str, tuple[tuple[str, ...], ...]] = {
    "id": (
        ("individuallocalidentifier", "individual", "individualid", "animal", "animalid"),
        (
            *("trackid", "track", "trackno", "tracknr", "tracknumber", "trackindex", "trajectory"),
            *("trajectoryid", "trajectoryindex", "traj", "trajid", "trajidx", "trajno"),
            *("particle", "particleid", "particleno", "particlenumber", "drifter", "drifterid"),
            *("drifternumber", "buoy", "buoyid", "float", "floatid", "platform", "platformid"),
            *("platformcode", "platformnumber", "wmo", "wmoid", "wmonumber", "imei", "deviceid"),
        ),
        ("taglocalidentifier", "tag", "tagid", "collar", "collarid"),
        ("id", "ids", "objectid", "cellid"),
    ),
    "time": (
        (
            *("time", "t", "positiont", "timestamp", "datetime", "dateandtime", "elapsedtime"),
            *("timeutc", "utctime", "datetimeutc", "utc", "gmt", "timegmt", "gmttime", "fixtime"),
            *("obstime", "gpstime", "acquisitiontime"),
        ),
        ("date",),
        (
            *("frame", "frames", "frameno", "framenr", "framenumber", "frameindex", "frameid"),
            *("timestep", "timepoint", "imagenumber"),
        ),
    ),
    "sd": (("sd", "positionsd"),),
    "drogued": (("drogued", "droguestatus", "drogue", "drogueon", "hasdrogue", "isdrogued"),),
    "hour": (("hour", "hours", "clock", "timeofday", "hourofday", "time"),),
}
for _axis in "xyz":
    _NAMES[_axis] = (
        tuple(
            part.replace("?", _axis)
            for part in (
                *("?", "position?", "pos?", "?pos", "?position", "?coord", "?coordinate"),
                *("coord?", "centroid?", "?centroid", "?center", "?centre", "?loc", "loc?"),
            )
        ),
    )
_NAMES["x"] += (("easting", "utmeasting", "utmx"),)
_NAMES["y"] += (("northing", "utmnorthing", "utmy"),)
_NAMES["lon"] = (
    ("lon", "long", "longitude", "locationlong", "locationlongitude", "lng", "gpslongitude"),
    ("gpslon", "decimallongitude", "londd", "longdd", "longitudedd"),
)
_NAMES["lat"] = (
    ("lat", "latitude", "locationlat", "locationlatitude", "gpslatitude"),
    ("gpslat", "decimallatitude", "latdd", "latitudedd"),
)
_FRAMES = ("frame", "frames", "fr")
_PIXELS = ("px", "pixel", "pixels", "pix")
_IN_BRACKETS = re.compile(r"(.*?)\s*[\[(]\s*([^\[\]()]{0,40}?)\s*[\])]\s*")
_SEPARATORS = re.compile(r"[\s_.\-/:]+")
# Patterns of likely columns: suggested to the user, never chosen.
_LIKE = {
    "id": re.compile(r"id$|^id|name|label|track|traj|particle|drifter|buoy|animal|tag"),
    "time": re.compile(r"time|date|frame|^t\d*$|sec|hour|day|stamp"),
    "x": re.compile(r"^x|x$|lon|east"),
    "y": re.compile(r"^y|y$|lat(?!e)|north|^x1$"),
}
_UNKNOWN = "COLUMN"


def guess(
    present: Sequence[str], named: Mapping[str, str | None] | None = None, *, source: str
) -> Meaning:
    """Identify the columns that the user did not name.

    Args:
        present: Names of the columns.
        named: Columns that the user named, by role; None or empty text omits a role.
        source: The file, for messages.

    Raises:
        ColumnsError: Columns of time or position are ambiguous, or a second coordinate would be
            lost; the message asks for all of them at once.
    """
    named = dict(named or {})
    if not set(named) <= {*_NAMES, "z"}:
        # Raises an error that names the unknown role.
        file_names(present, named, source=source)
    finder = _Finder(present, named)
    columns: dict[str, str | None] = dict(named)
    for role in ("id", "time", "sd", "drogued"):
        finder.look_for(role, columns)
    _place(finder, columns)
    _split_time(finder, columns)
    missing = [role for role in ("time",) if not columns.get(role) and not columns.get("date")]
    if not (columns.get("lon") and columns.get("lat")):
        missing += [role for role in ("x",) if not columns.get(role)]
        lost = "y" not in named and not columns.get("y")
        like = [n for n in finder.free(columns) if _LIKE["y"].search(_squeezed(n))]
        if (lost and (like or "x" in missing)) or finder.unclear.get("y"):
            missing.append("y")
    if finder.unclear.get("id") and "id" not in columns:
        missing.insert(0, "id")
    for role in ("time", "x"):
        if role in missing and role in named:
            msg = f"columns leaves out {role!r}, which every file needs; name its column"
            raise DriftbayesError(msg)
    left_over = len(finder.free(columns)) > len(missing)
    if missing and left_over and "id" not in (*columns, *missing):
        # One of the remaining columns may be the id.
        missing.insert(0, "id")
    if missing:
        _ask(finder, columns, missing, source)
    units = {
        role: unit for role, name in columns.items() if name and (unit := finder.unit(role, name))
    }
    _check_units(units, columns, source)
    guessed = frozenset(
        role
        for role, name in columns.items()
        if name and role not in named and (name != role or role == "date")
    )
    return Meaning(columns, guessed, units)


def names_in_index(levels: Sequence[str | None], present: Sequence[str]) -> list[str]:
    """Return the levels of an index that hold ids or times, if no column does.

    Args:
        levels: Names of the levels; None for a level without a name.
        present: Names of the columns.

    Example:
        >>> names_in_index(["buoy", "time"], ["x", "y", "time"])
        ['buoy']
    """
    found = []
    for role in ("id", "time"):
        names = {name for group in _NAMES[role] for name in group}
        if not any(_squeezed(name) in names for name in present):
            found += [name for name in levels if name is not None and _squeezed(name) in names]
    return found


class _Finder:
    """Search for columns by name, ignoring the units in their names."""

    def __init__(self, present: Sequence[str], named: Mapping[str, str | None]) -> None:
        self.present, self.named = list(present), named
        self.unclear: dict[str, list[str]] = {}

    def free(self, columns: Mapping[str, str | None]) -> list[str]:
        taken = set(columns.values())
        return [name for name in self.present if name not in taken]

    def look_for(self, role: str, columns: dict[str, str | None]) -> None:
        """Add the column of a role if exactly one matches."""
        if role in self.named:
            return
        free = self.free(columns)
        if role in free:
            columns[role] = role
            return
        for group in _NAMES[role]:
            hits = [name for name in free if _parts(name, role)[0] in group]
            if len(hits) == 1:
                columns[role] = hits[0]
                return
            if hits:
                self.unclear[role] = hits
                return

    def unit(self, role: str, name: str) -> str:
        return _parts(name, role)[1]


def _place(finder: _Finder, columns: dict[str, str | None]) -> None:
    """Add the columns of positions: x, y, z, or longitude and latitude."""
    named = finder.named
    if named.get("lon") or named.get("lat"):
        columns |= {"lon": named.get("lon") or "lon", "lat": named.get("lat") or "lat"}
        return
    plane: dict[str, str | None] = dict(columns)
    for axis in "xyz":
        finder.look_for(axis, plane)
    x = plane.get("x")
    earth = dict(columns)
    if not {"x", "y"} & set(named) and x != "x" and not (x and finder.unit("x", x)):
        # Degrees are exact on the earth; coordinates of unknown unit are not.
        for axis in ("lon", "lat"):
            finder.look_for(axis, earth)
    if earth.get("lon") and earth.get("lat"):
        for axis in "xyz":
            finder.unclear.pop(axis, None)
        columns |= {axis: earth[axis] for axis in ("lon", "lat")}
        return
    for axis in ("lon", "lat"):
        finder.unclear.pop(axis, None)
    columns |= {axis: plane[axis] for axis in "xyz" if axis in plane}
    if "z" not in named and not columns.get("y"):
        # Without a y, ask for it first.
        columns.pop("z", None)


def _split_time(finder: _Finder, columns: dict[str, str | None]) -> None:
    """Replace `time` by `date` and `clock` if date and time of day have separate columns."""
    time = columns.get("time")
    if "time" in finder.named:
        first, plus, second = str(time or "").partition("+")
        if plus and time not in finder.present and {first, second} <= set(finder.present):
            columns |= {"date": first, "clock": second}
            del columns["time"]
        return
    dates = [n for n in finder.free(columns) if _squeezed(n) == "date"]
    if time is not None and _squeezed(time) == "date":
        dates = [time]
    others = {"clock", "timeofday", "hourofday", "hour", "hours", "time"}
    pool = [*finder.free(columns), *([time] if time and time not in dates else [])]
    clocks = [n for n in pool if _parts(n, "hour")[0] in others]
    if len(dates) == 1 and len(clocks) == 1:
        columns |= {"date": dates[0], "clock": clocks[0]}
        columns.pop("time", None)
        finder.unclear.pop("time", None)


def _squeezed(name: str) -> str:
    return _SEPARATORS.sub("", name.casefold())


def _parts(name: str, role: str) -> tuple[str, str]:
    """Split a column name into its base, as in `_NAMES`, and its unit (empty if none)."""
    match = _IN_BRACKETS.fullmatch(name)
    known = {word for group in _NAMES.get(role, ()) for word in group}
    if match:
        return _squeezed(match[1]), _unit(match[2], role)
    base = _squeezed(name)
    if base in known:
        return base, "frame" if role == "time" and base.startswith("frame") else ""
    parts = [part for part in _SEPARATORS.split(name) if part]
    if len(parts) > 1:
        unit = _unit(parts[-1], role)
        if unit:
            return _squeezed("".join(parts[:-1])), unit
    return base, ""


def _unit(text: str, role: str) -> str:
    """Return the printed name of a role's unit; empty if it is not one."""
    low = text.casefold()
    if role in ("time", "hour"):
        if low in _FRAMES:
            return "frame"
        convert = time_factor
    elif role in ("lon", "lat"):
        return "degrees" if is_degrees(text) else ""
    elif role in ("x", "y", "z", "sd"):
        if low in _PIXELS:
            return "px"
        convert = length_factor
    else:
        return ""
    try:
        return convert(text, text)[1]
    except DriftbayesError:
        return ""


def _check_units(units: Mapping[str, str], columns: Mapping[str, str | None], source: str) -> None:
    lengths = {role: units.get(role, "") for role in ("x", "y", "z", "sd") if columns.get(role)}
    # A measurement error without a unit is in the unit of the positions.
    if not lengths.get("sd", "x"):
        del lengths["sd"]
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{columns[role]!r} in {unit or '?'}" for role, unit in lengths.items())
        raise DriftbayesError(
            f"{source!r} has coordinates in different units: {shown}; convert them to one unit"
        )


def _ask(
    finder: _Finder, columns: Mapping[str, str | None], missing: Sequence[str], source: str
) -> None:
    """Ask for all ambiguous columns, with a mapping to complete."""
    free = finder.free(columns)
    proposed: dict[str, str] = {}
    for role in ("id", "time", "x", "y"):
        name = columns.get(role)
        if name:
            if role in finder.named or name != role:
                proposed[role] = name
            continue
        if role == "time" and columns.get("date"):
            proposed[role] = f"{columns['date']}+{columns['clock']}"
            continue
        if role in columns or (role not in missing and role != "id"):
            continue
        likely = [n for n in finder.unclear.get(role, free) if n not in proposed.values()]
        if role not in finder.unclear:
            likely = [n for n in likely if _LIKE[role].search(_squeezed(n))]
        if likely or role in missing:
            proposed[role] = likely[0] if likely else _UNKNOWN
    shown = ", ".join(repr(name[:40]) for name in finder.present[:8])
    more = f" and {len(finder.present) - 8} more" if len(finder.present) > 8 else ""
    roles = missing[0] if len(missing) == 1 else f"{', '.join(missing[:-1])} and {missing[-1]}"
    noun = "column is" if len(missing) == 1 else "columns are"
    several = "; ".join(
        f"{role} may be {' or '.join(repr(name[:40]) for name in names[:2])}"
        for role, names in finder.unclear.items()
    )
    advice = "y= reads x alone; " if missing == ["y"] else ""
    raise ColumnsError(
        f"{source!r}: which {noun} {roles}? It has {shown}{more}"
        + (f" ({several})" if several else ""),
        proposed,
        advice,
    )
