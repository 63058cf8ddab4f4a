"""Guess which column of a table is what, from the names and units in its header."""

import re
from collections.abc import Mapping, Sequence

from driftbayes.data.schema import Meaning, file_names
from driftbayes.data.units import is_degrees, length_factor, time_factor
from driftbayes.errors import ColumnsError, DriftbayesError

# Names in small letters and without separators. Of each role the first group that has a column is
# used; two columns of one group are not told apart, and the user is asked.
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
# What looks like the column of a coordinate, for a question rather than an answer.
_LIKE = {
    "id": re.compile(r"id$|^id|name|label|track|traj|particle|drifter|buoy|animal|tag"),
    "time": re.compile(r"time|date|frame|^t\d*$|sec|hour|day|stamp"),
    "x": re.compile(r"^x|x$|lon|east"),
    "y": re.compile(r"^y|y$|lat(?!e)|north|^x1$"),
}
_UNKNOWN = "COLUMN"


def guess(
    present: Sequence[str], told: Mapping[str, str | None] | None = None, *, source: str
) -> Meaning:
    """Guess the columns that the user did not name.

    Args:
        present: Names of the columns.
        told: The user's names of some roles; None or empty text leaves a role out.
        source: The file, for messages.

    Raises:
        ColumnsError: Columns of time or position cannot be told, or a second coordinate would be
            lost; the message asks for all of them at once.
    """
    told = dict(told or {})
    if not set(told) <= {*_NAMES, "z"}:
        # Which says what is wrong with a name.
        file_names(present, told, source=source)
    found = _Finder(present, told)
    columns: dict[str, str | None] = dict(told)
    for role in ("id", "time", "sd", "drogued"):
        found.look_for(role, columns)
    _place(found, columns)
    _split_time(found, columns)
    missing = [role for role in ("time",) if not columns.get(role) and not columns.get("date")]
    if not (columns.get("lon") and columns.get("lat")):
        missing += [role for role in ("x",) if not columns.get(role)]
        lost = "y" not in told and not columns.get("y")
        like = [n for n in found.free(columns) if _LIKE["y"].search(_squeezed(n))]
        if (lost and (like or "x" in missing)) or found.unclear.get("y"):
            missing.append("y")
    if found.unclear.get("id") and "id" not in columns:
        missing.insert(0, "id")
    for role in ("time", "x"):
        if role in missing and role in told:
            msg = f"columns leaves out {role!r}, which every file needs; name its column"
            raise DriftbayesError(msg)
    left_over = len(found.free(columns)) > len(missing)
    if missing and left_over and "id" not in (*columns, *missing):
        # What is left over may be it.
        missing.insert(0, "id")
    if missing:
        _ask(found, columns, missing, source)
    units = {
        role: unit for role, name in columns.items() if name and (unit := found.unit(role, name))
    }
    _check_units(units, columns, source)
    guessed = frozenset(
        role
        for role, name in columns.items()
        if name and role not in told and (name != role or role == "date")
    )
    return Meaning(columns, guessed, units)


class _Finder:
    """Columns by the base of their names, without the units in them."""

    def __init__(self, present: Sequence[str], told: Mapping[str, str | None]) -> None:
        self.present, self.told = list(present), told
        self.unclear: dict[str, list[str]] = {}

    def free(self, columns: Mapping[str, str | None]) -> list[str]:
        taken = set(columns.values())
        return [name for name in self.present if name not in taken]

    def look_for(self, role: str, columns: dict[str, str | None]) -> None:
        """Add the column of a role, if it can be told."""
        if role in self.told:
            return
        free = self.free(columns)
        if role in free:
            # The name itself, as always.
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


def _place(found: _Finder, columns: dict[str, str | None]) -> None:
    """Add the columns of positions: x, y, z, or longitude and latitude."""
    told = found.told
    if told.get("lon") or told.get("lat"):
        columns |= {"lon": told.get("lon") or "lon", "lat": told.get("lat") or "lat"}
        return
    plane: dict[str, str | None] = dict(columns)
    for axis in "xyz":
        found.look_for(axis, plane)
    x = plane.get("x")
    earth = dict(columns)
    if not {"x", "y"} & set(told) and x != "x" and not (x and found.unit("x", x)):
        # Degrees are exact on the earth; coordinates of unknown unit are not.
        for axis in ("lon", "lat"):
            found.look_for(axis, earth)
    if earth.get("lon") and earth.get("lat"):
        for axis in "xyz":
            found.unclear.pop(axis, None)
        columns |= {axis: earth[axis] for axis in ("lon", "lat")}
        return
    for axis in ("lon", "lat"):
        found.unclear.pop(axis, None)
    columns |= {axis: plane[axis] for axis in "xyz" if axis in plane}
    if "z" not in told and not columns.get("y"):
        # An unknown y is asked for before z is looked at.
        columns.pop("z", None)


def _split_time(found: _Finder, columns: dict[str, str | None]) -> None:
    """A date and a time of day in two columns: `date` and `clock` in place of `time`."""
    time = columns.get("time")
    if "time" in found.told:
        first, plus, second = str(time or "").partition("+")
        if plus and time not in found.present and {first, second} <= set(found.present):
            columns |= {"date": first, "clock": second}
            del columns["time"]
        return
    dates = [n for n in found.free(columns) if _squeezed(n) == "date"]
    if time is not None and _squeezed(time) == "date":
        dates = [time]
    others = {"clock", "timeofday", "hourofday", "hour", "hours", "time"}
    pool = [*found.free(columns), *([time] if time and time not in dates else [])]
    clocks = [n for n in pool if _parts(n, "hour")[0] in others]
    if len(dates) == 1 and len(clocks) == 1:
        columns |= {"date": dates[0], "clock": clocks[0]}
        columns.pop("time", None)
        found.unclear.pop("time", None)


def _squeezed(name: str) -> str:
    return _SEPARATORS.sub("", name.casefold())


def _parts(name: str, role: str) -> tuple[str, str]:
    """The base of a name, as `_NAMES` has it, and the unit that follows it; empty if none does."""
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
    """The printed name of a unit of a role; empty if it is none."""
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
    # An error without a unit is taken to be in that of the positions.
    if not lengths.get("sd", "x"):
        del lengths["sd"]
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{columns[role]!r} in {unit or '?'}" for role, unit in lengths.items())
        raise DriftbayesError(
            f"{source!r} has coordinates in different units: {shown}; convert them to one unit"
        )


def _ask(
    found: _Finder, columns: Mapping[str, str | None], missing: Sequence[str], source: str
) -> None:
    """Ask for all columns that cannot be told, with a mapping to complete."""
    free = found.free(columns)
    proposed: dict[str, str] = {}
    for role in ("id", "time", "x", "y"):
        name = columns.get(role)
        if name:
            if role in found.told or name != role:
                proposed[role] = name
            continue
        if role == "time" and columns.get("date"):
            proposed[role] = f"{columns['date']}+{columns['clock']}"
            continue
        if role in columns or (role not in missing and role != "id"):
            continue
        likely = [n for n in found.unclear.get(role, free) if n not in proposed.values()]
        if role not in found.unclear:
            likely = [n for n in likely if _LIKE[role].search(_squeezed(n))]
        if likely or role in missing:
            proposed[role] = likely[0] if likely else _UNKNOWN
    shown = ", ".join(repr(name[:40]) for name in found.present[:8])
    more = f" and {len(found.present) - 8} more" if len(found.present) > 8 else ""
    roles = missing[0] if len(missing) == 1 else f"{', '.join(missing[:-1])} and {missing[-1]}"
    noun = "column is" if len(missing) == 1 else "columns are"
    several = "; ".join(
        f"{role} may be {' or '.join(repr(name[:40]) for name in names[:2])}"
        for role, names in found.unclear.items()
    )
    advice = "y= reads x alone; " if missing == ["y"] else ""
    raise ColumnsError(
        f"{source!r}: which {noun} {roles}? It has {shown}{more}"
        + (f" ({several})" if several else ""),
        proposed,
        advice,
    )
