"""The one schema all files are read into: names, and how a file's own names map to them."""

__all__ = [
    "CONVENTIONS",
    "COORDINATES",
    "COUNT",
    "FEATURE_TYPE",
    "ID",
    "KIND_ATTRIBUTE",
    "LONLAT",
    "OBS_DIM",
    "POSITION_SD",
    "PROVENANCE_ATTRIBUTE",
    "SCHEMA_ATTRIBUTE",
    "SCHEMA_VERSION",
    "TIME",
    "TIME_UNIT_ATTRIBUTE",
    "TRAJECTORY_DIM",
    "VERSION_ATTRIBUTE",
    "check_schema_version",
    "coordinates_in",
    "extras_in",
    "file_names",
    "flag_column",
    "flags_in",
]

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from driftbayes.data.labelled import (
    COORDINATES,
    COUNT,
    FLAG,
    ID,
    LONLAT,
    OBS_DIM,
    POSITION_SD,
    TIME,
    TIME_UNIT_ATTRIBUTE,
    TRAJECTORY_DIM,
)
from driftbayes.errors import DriftbayesError
from driftbayes.suggest import did_you_mean, nearest

SCHEMA_VERSION = 1

_REQUIRED = (ID, TIME, "x")
_NAMES = (ID, TIME, *COORDINATES, POSITION_SD)

CONVENTIONS, FEATURE_TYPE = "CF-1.11", "trajectory"
SCHEMA_ATTRIBUTE = "driftbayes_schema"
VERSION_ATTRIBUTE = "driftbayes_version"
KIND_ATTRIBUTE = "driftbayes_kind"
PROVENANCE_ATTRIBUTE = "provenance"

# What other programs call these, used only to suggest a mapping, never to guess one.
_ALIASES = {
    ID: ("particle", "particle_id", "track_id", "trajectory", "traj", "track", "traj_id", "label"),
    TIME: ("t", "frame", "date", "datetime", "timestamp", "position_t"),
    "x": ("lon", "longitude", "position_x", "x0"),
    "y": ("lat", "latitude", "position_y", "x1"),
    "z": ("depth", "position_z", "x2"),
    POSITION_SD: ("sigma", "error", "ep", "position_error"),
}
_MAX_NAMES_SHOWN = 8


def file_names(
    present: Sequence[str],
    columns: Mapping[str, str | None] | None,
    *,
    source: str,
    noun: str = "column",
) -> dict[str, str]:
    """Which of a file's columns holds each canonical one."""
    wanted = {canonical: name for canonical, name in (columns or {}).items() if name}
    left_out = set(columns or {}) - set(wanted)
    _check_mapping(wanted, left_out)
    # A column the user gave a role to does not also play the role of its own name.
    free = [name for name in present if name not in wanted.values()]
    found = {}
    for canonical in _NAMES:
        if canonical in left_out:
            continue
        name = wanted.get(canonical, canonical)
        if name in (present if canonical in wanted else free):
            found[canonical] = name
        elif canonical in wanted or canonical in _REQUIRED:
            raise DriftbayesError(_missing(canonical, name, free, source, noun))
    for name in found.values():
        if list(present).count(name) > 1:
            msg = f"{source!r} has more than one {noun} {name!r}; rename one of them"
            raise DriftbayesError(msg)
    if "z" in found and "y" not in found:
        msg = (
            f"{source!r} has a {noun} {found['z']!r} but no {noun} 'y'; for a plane of x and z "
            f"pass columns={{'y': {found['z']!r}}} (--columns y={found['z']}), to leave it out "
            "columns={'z': None} (--columns z=)"
        )
        raise DriftbayesError(msg)
    return found


def extras_in(
    present: Sequence[str], found: Mapping[str, str], columns: Mapping[str, str | None] | None
) -> dict[str, str]:
    """Which of a file's columns hold longitude and latitude beside x and y, and flags."""
    taken, counts = set(found.values()), Counter(present)
    free = {name for name in present if name not in taken and counts[name] == 1}
    extras = {name: name for name in present if name in free and name.startswith(FLAG)}
    # `--columns lon=` leaves them out.
    if "y" in found and set(LONLAT) <= free and not set(LONLAT) & set(columns or {}):
        extras |= {axis: axis for axis in LONLAT}
    return extras


def flags_in(columns: Iterable[str]) -> dict[str, str]:
    """The names of flags, and the columns that hold them."""
    return {name.removeprefix(FLAG): name for name in columns if name.startswith(FLAG)}


def flag_column(name: str) -> str:
    """The column that holds a flag."""
    if not re.fullmatch(r"\w+", name):
        msg = f"a flag must be named with letters and digits only to be written, got {name!r}"
        raise DriftbayesError(msg)
    return f"{FLAG}{name}"


def coordinates_in(found: Collection[str]) -> list[str]:
    """The canonical coordinates among the names found, in order."""
    return [axis for axis in COORDINATES if axis in found]


def check_schema_version(version: object, source: str) -> None:
    """Refuse a file that a newer driftbayes wrote, rather than misread it."""
    if isinstance(version, str) or not str(version)[:40].isdigit():
        msg = (
            f"{source!r} has a schema version {version!r:.40} that is not a whole number; "
            "write it anew"
        )
        raise DriftbayesError(msg)
    if int(str(version)) > SCHEMA_VERSION:
        msg = (
            f"{source!r} has schema version {str(version)[:40]}, this driftbayes knows "
            f"{SCHEMA_VERSION}; upgrade driftbayes"
        )
        raise DriftbayesError(msg)


def _check_mapping(wanted: Mapping[str, str], left_out: Collection[str]) -> None:
    for canonical in (*wanted, *sorted(left_out)):
        if canonical not in (_NAMES if canonical in wanted else (*_NAMES, *LONLAT)):
            name = wanted.get(canonical)
            near = did_you_mean(canonical, _NAMES)
            if name in _NAMES:
                near = f"; did you mean {{{name!r}: {canonical!r}}}?"
            msg = (
                f"columns has the key {canonical!r}, expected one of {', '.join(_NAMES)} mapped to "
                f"a name in the file{near}"
            )
            raise DriftbayesError(msg)
    for canonical in _REQUIRED:
        if canonical in left_out:
            msg = f"columns leaves out {canonical!r}, which every file needs; name its column"
            raise DriftbayesError(msg)
    names = list(wanted.values())
    for name in names:
        if names.count(name) > 1:
            msg = f"columns uses {name!r} twice; each needs a column of its own"
            raise DriftbayesError(msg)


def _missing(canonical: str, name: str, free: Sequence[str], source: str, noun: str) -> str:
    wanted_as = "" if name == canonical else f" (wanted as {canonical!r})"
    others = [other for other in free if other not in _NAMES]
    if not others:
        listed = ", ".join(map(repr, free)) or f"no other {noun}"
        return f"{source!r} has no {noun} {name!r}{wanted_as}; it has only {listed}: add the {noun}"
    shown = ", ".join(repr(other[:40]) for other in others[:_MAX_NAMES_SHOWN])
    more = f" and {len(others) - _MAX_NAMES_SHOWN} more" if len(others) > _MAX_NAMES_SHOWN else ""
    start = f"{source!r} has no {noun} {name!r}{wanted_as}; it has {shown}{more}: "
    likely = [other for other in others if _may_be(other.lower(), canonical)]
    if not likely and wanted_as:
        likely = [near for near in [nearest(name, others)] if near is not None]
    if not likely:
        return f"{start}say which with columns={{{canonical!r}: ...}} (--columns {canonical}=...)"
    hint = likely[0][:40]
    return f"{start}pass columns={{{canonical!r}: {hint!r}, ...}} (--columns {canonical}={hint})"


def _may_be(name: str, canonical: str) -> bool:
    # x_um and time_s are a name and its unit.
    return name in (canonical, *_ALIASES[canonical]) or name.startswith(f"{canonical}_")
