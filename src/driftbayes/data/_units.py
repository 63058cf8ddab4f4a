"""Units of length and time: conversion of input, and readable units in output.

Lengths, times, speeds and parameters are given as numbers in the units of the data, or as text with
a unit ("6h", "50 km", "0.2m/s"), which is converted.
"""

import re
from collections.abc import Iterable
from contextlib import suppress
from math import isfinite
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from driftbayes._magnitudes import as_plain, checked
from driftbayes._representation import number
from driftbayes._typing import FloatArray
from driftbayes.errors import DriftbayesError, did_you_mean, shown

# Spellings of each unit; the first is printed.
_LENGTHS = {
    ("nm", "nanometer", "nanometre", "nanometers", "nanometres"): 1e-9,
    ("µm", "um", "μm", "micron", "microns", "micrometer", "micrometre"): 1e-6,
    ("mm", "millimeter", "millimetre", "millimeters", "millimetres"): 1e-3,
    ("cm", "centimeter", "centimetre", "centimeters", "centimetres"): 1e-2,
    ("m", "meter", "metre", "meters", "metres"): 1.0,
    ("km", "kilometer", "kilometre", "kilometers", "kilometres"): 1e3,
}
_TIMES = {
    ("ns", "nanosecond", "nanoseconds"): 1e-9,
    ("µs", "us", "μs", "microsecond", "microseconds"): 1e-6,
    ("ms", "msec", "millisecond", "milliseconds"): 1e-3,
    ("s", "sec", "secs", "second", "seconds"): 1.0,
    ("min", "mins", "minute", "minutes"): 60.0,
    ("h", "hr", "hrs", "hour", "hours"): 3600.0,
    ("d", "day", "days"): 86400.0,
}
# CF allows six spellings each of degrees_east and degrees_north; files contain more.
_DEGREES = re.compile(
    r"(deg|degs|degree|degrees|°)[ _]?(e|east|n|north|true)?(,[ +]*[a-z]+)?", re.I
)
_QUANTITY = re.compile(r"\s*([-+0-9.eE]+)\s*(1?\s*/.*?|[^\W\d].*?|°)\s*")
# One factor of a compound unit: "m", "m2", "m^2", "m²".
_FACTOR = re.compile(r"([^\W\d²³^]+)\s*(?:\^|\*\*)?\s*([1-9²³]?)")
_POWERS = {"": 1, "²": 2, "³": 3}
# Options that convert units other than those of length and time.
UNIT_ADVICE = {"px": "pixel_size (--pixel-size)", "frame": "frame_interval (--frame-interval)"}
_MAX_TIMES = 10_000
# Numbers in this range are shown in the unit of the data; others may get another unit.
_EASY = (0.1, 1000.0)

Units: TypeAlias = tuple[str, str]


class Dimension(NamedTuple):
    """Physical dimension of a quantity.

    Args:
        name: Name for messages.
        length: Power of length.
        time: Power of time.
        example: Example for messages.
    """

    name: str
    length: int
    time: int
    example: str


LENGTH = Dimension("length", 1, 0, "50km")
TIME = Dimension("time", 0, 1, "6h")
SPEED = Dimension("speed", 1, -1, "3m/s")
DIFFUSIVITY = Dimension("diffusivity", 2, -1, "10m2/s")


def unit_of(what: Dimension, units: Units) -> str:
    """Return the unit of a speed or diffusivity, for example m²/s; empty if one is unknown."""
    length, time = units
    return f"{length}{'²' if what.length == 2 else ''}/{time}" if length and time else ""


def positive_in_units(value: Any, what: Dimension, units: Units | None, name: str) -> float:
    """Return a positive, finite quantity in the units of the data; see `in_units`."""
    size = in_units(value, what, units, name)
    if not (isfinite(size) and size > 0):
        raise DriftbayesError(f"{name} must be a positive number, got {value}")
    return size


def in_units(value: Any, what: Dimension, units: Units | None, name: str) -> float:
    """Return a quantity in the units of the data.

    Args:
        value: Number in the units of the data, or text: a number with or without a unit.
        what: Length, time, speed or another dimension.
        units: Units of length and time of the data, empty if unknown; None only checks the text.
        name: Name of the option or parameter, for messages.

    Raises:
        DriftbayesError: The value is not such a quantity, or its unit cannot be converted.

    Example:
        >>> in_units("6h", TIME, ("m", "s"), "tau"), in_units(6, TIME, ("m", "s"), "tau")
        (21600.0, 6.0)
    """
    wanted = f"{name} must be a number or a {what.name} with its unit, for example {what.example}"
    if isinstance(value, str):
        size, unit = _split(value)
        if size is None:
            raise DriftbayesError(f"{wanted}, got {value[:80]!r}")
        size = checked(size, name) if isfinite(size) else size
        return converted(size, unit, what, units, name)
    value = as_plain(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DriftbayesError(f"{wanted}, got {shown(value)}")
    return float(value)


def converted(value: float, unit: str, what: Dimension, units: Units | None, name: str) -> float:
    """Return a number with a unit in the units of the data; see `in_units`."""
    if not unit:
        return value
    tables = {"length": _LENGTHS, "time": _TIMES}
    powers, factor = dict.fromkeys(tables, 0), 1.0
    for text, power in _factors(unit, name):
        kind = next((kind for kind, table in tables.items() if _names(text, table)), None)
        if kind is None:
            wanted = [kind for kind in tables if getattr(what, kind)]
            every = {names: size for kind in wanted for names, size in tables[kind].items()}
            raise DriftbayesError(f"{name}: {_unknown(text, every, ' or '.join(wanted))}")
        powers[kind] += power
        factor *= tables[kind][_find(text, tables[kind], kind)] ** power
    if powers != {"length": what.length, "time": what.time}:
        msg = f"{name} must be a {what.name}, for example {what.example}, got the unit {unit!r}"
        raise DriftbayesError(msg)
    for (kind, power), own in zip(powers.items(), units or ("m", "s"), strict=True):
        if power:
            factor /= tables[kind][_known(own, kind, name)] ** power
    value *= factor
    return checked(value, name)


def cell_side(cell: Any, units: Units | None, *, in_degrees: bool) -> float:
    """Return the side of a cell, in degrees or in the unit of positions.

    Args:
        cell: A number, or text with its unit: "5deg" or "50km".
        units: Units of the data.
        in_degrees: Whether cells are boxes of longitude and latitude.
    """
    unit = _split(cell)[1] if isinstance(cell, str) else ""
    if is_degrees(unit):
        if not in_degrees:
            msg = f"cell = {cell!r} is an angle, but positions are on a plane; give a length"
            raise DriftbayesError(msg)
        return parse_quantity(cell, "cell")[0]
    side = in_units(cell, LENGTH, units, "cell")
    if in_degrees and unit:
        raise DriftbayesError(
            f"cell = {cell!r} is a length, but positions are in degrees; give an angle, for "
            "example 5deg"
        )
    return side


def times_in(values: Any, units: Units | None, name: str) -> list[float]:
    """Return times in the unit of the data.

    Args:
        values: A time, several, or text: `1h,6h,1d`, `low:high:count` (evenly spaced) or
            `low:high:countlog` (in their logarithm).
        units: Units of length and time of the data; None only checks the text.
        name: Name of the option or parameter, for messages.

    Example:
        >>> times_in("1h,1d", ("m", "s"), "taus"), times_in("1:100:3log", ("", ""), "taus")
        ([3600.0, 86400.0], [1.0, 10.0, 100.0])
    """
    if isinstance(values, str):
        if ":" in values:
            return _times_between(values, units, name)
        values = values.split(",")
    elif isinstance(as_plain(values), int | float | bytes) or not isinstance(values, Iterable):
        values = [values]
    return [in_units(value, TIME, units, name) for value in values]


def _times_between(text: str, units: Units | None, name: str) -> list[float]:
    ends, shape = text.split(":"), "a,b,c or low:high:count or low:high:countlog"
    is_log = ends[-1].endswith("log")
    count = ends[-1].removesuffix("log")
    if len(ends) != 3 or not count.isdecimal() or None in {_split(end)[0] for end in ends[:2]}:
        raise DriftbayesError(f"{name} must be {shape}, got {text[:80]!r}")
    low, high = (in_units(end, TIME, units, name) for end in ends[:2])
    # A number and a time with a unit cannot be compared before the unit of the data is known.
    is_mixed = units is None and bool(_split(ends[0])[1]) != bool(_split(ends[1])[1])
    is_ordered = low <= high or is_mixed
    if not (low > 0 and is_ordered and isfinite(high)) or not 1 <= int(count) <= _MAX_TIMES:
        raise DriftbayesError(
            f"{name} needs 0 < low <= high and a count from 1 to {_MAX_TIMES:,}, got {text[:80]!r}"
        )
    low, high = checked(low, name), checked(high, name)
    space = np.geomspace if is_log else np.linspace
    return [float(time) for time in space(low, high, int(count))]


def length_factor(unit: str, to: str = "m") -> tuple[float, str]:
    """Return the factor that converts lengths to another unit, and its name."""
    return _factor(unit, to, _LENGTHS, "length")


def time_factor(unit: str, to: str = "s") -> tuple[float, str]:
    """Return the factor that converts times to another unit, and its name."""
    return _factor(unit, to, _TIMES, "time")


def is_degrees(unit: str) -> bool:
    """Return whether a unit is that of longitudes and latitudes."""
    return _DEGREES.fullmatch(unit.strip()) is not None


def is_length(unit: str) -> bool:
    """Return whether a unit is a known unit of length."""
    return _names(unit, _LENGTHS) is not None


def is_time(unit: str) -> bool:
    """Return whether a unit is a known unit of time."""
    return _names(unit, _TIMES) is not None


def parse_quantity(text: str, option: str) -> tuple[float, str]:
    """Parse a positive number and its unit, as in `0.16um`."""
    value, unit = _split(text)
    if value is None or not unit or not 0 < value < float("inf"):
        raise DriftbayesError(
            f"{option} must be a positive number and its unit, for example 0.16um, "
            f"got {text[:80]!r}"
        )
    return checked(value, option), unit


def readable(value: float, unit: str, digits: int = 5) -> str:
    """Format a time or length in the unit that suits its size.

    Args:
        value: Number in the unit of the data.
        unit: That unit; empty if unknown.
        digits: Significant digits.

    Example:
        >>> readable(86400.0, "s"), readable(5400.0, "s"), readable(40.0, "s"), readable(2e4, "m")
        ('1 d', '1.5 h', '40 s', '20 km')
    """
    factor, name = readable_unit([value], unit, digits)
    return f"{number(value * factor, digits)} {name}".rstrip()


def readable_times(values: ArrayLike, unit: str) -> tuple[FloatArray, str]:
    """Convert times that share an axis from seconds to the unit that suits their size.

    The unit is that of `readable_time` for the geometric mean of their range.

    Example:
        >>> readable_times([3600.0, 36000.0], "s")
        (array([ 1., 10.]), 'h')
    """
    times = np.asarray(values, dtype=np.float64)
    known = times[np.isfinite(times) & (times > 0)]
    if unit != "s" or not len(known):
        return times, unit
    middle = float(np.sqrt(known.min() * known.max()))
    name = readable_time(middle, unit).split()[-1]
    return times / time_factor(name, "s")[0], name


def readable_time(value: float, unit: str) -> str:
    """Format a time to four digits in the unit that suits its size."""
    return readable(value, unit, 4)


def readable_unit(
    values: Iterable[float] | FloatArray, unit: str, digits: int = 5
) -> tuple[float, str]:
    """Find the unit in which times or lengths are short; return its factor and name.

    That is the unit of the data if all numbers lie between 0.1 and 1000; otherwise the unit with
    the fewest digits in which no number is below 1.

    Args:
        values: Numbers in the unit of the data.
        unit: That unit; empty if unknown.
        digits: Significant digits shown.
    """
    sizes = [abs(float(value)) for value in values]
    sizes = [size for size in sizes if size > 0 and isfinite(size)]
    table = _LENGTHS if is_length(unit) else _TIMES
    known = _names(unit, table)
    if not known or not sizes or (_EASY[0] <= min(sizes) and max(sizes) < _EASY[1]):
        return 1.0, unit
    own = table[known]
    choices = [(1.0, unit)]
    for names, size in table.items():
        if names[0] not in ("cm", unit) and min(sizes) * own / size >= 1:
            choices.append((own / size, names[0]))
    # The largest of equally short units, which comes last.
    return min(
        reversed(choices),
        key=lambda choice: sum(_length(number(size * choice[0], digits)) for size in sizes),
    )


def _length(text: str) -> int:
    # Powers of ten are short but hard to read.
    return 20 if "e" in text else len(text.replace(".", ""))


def _split(text: str) -> tuple[float | None, str]:
    """Return number and unit of a text; None if it does not begin with a number."""
    # Limits the time of the match.
    text = text[:200]
    match = _QUANTITY.fullmatch(text)
    for size, unit in ((text, ""), *([match.groups()] if match else [])):
        with suppress(ValueError):
            return float(size), unit
    return None, ""


def _factors(unit: str, name: str) -> Iterable[tuple[str, int]]:
    """Yield the units and powers in a compound unit."""
    above, *below = (part.strip() for part in unit.split("/"))
    signed = [(text, 1) for text in [above] if text not in ("", "1")]
    for text, sign in [*signed, *((text, -1) for text in below)]:
        match = _FACTOR.fullmatch(text)
        if match is None:
            raise DriftbayesError(f"{name}: {unit!r} is not a known unit; write it as in m2/s")
        yield match[1], sign * (_POWERS.get(match[2]) or int(match[2]))


def _known(unit: str, kind: str, name: str) -> tuple[str, ...]:
    """Return the spellings of the unit of the data."""
    if not unit:
        raise DriftbayesError(
            f"{name} has a unit, but the data have no unit of {kind}: pass --{kind}-unit "
            f"({kind}_unit=), or give {name} as a plain number in the units of the data"
        )
    if unit in UNIT_ADVICE:
        raise DriftbayesError(
            f"{name} has a unit, but the data are in {unit!r}: pass {UNIT_ADVICE[unit]}, or give "
            f"{name} as a plain number in this unit"
        )
    return _find(unit, _LENGTHS if kind == "length" else _TIMES, kind)


def _factor(
    unit: str, to: str, table: dict[tuple[str, ...], float], what: str
) -> tuple[float, str]:
    old, new = _find(unit, table, what), _find(to, table, what)
    return table[old] / table[new], new[0]


def _names(unit: str, table: dict[tuple[str, ...], float]) -> tuple[str, ...] | None:
    """Return all spellings of a unit; None if it is not in the table."""
    # The printed names are case-sensitive: Mm is not mm.
    found = (names for names in table if unit in names or unit.lower() in names[1:])
    return next(found, None)


def _find(unit: str, table: dict[tuple[str, ...], float], what: str) -> tuple[str, ...]:
    names = _names(unit, table)
    if names is None:
        raise DriftbayesError(_unknown(unit, table, what))
    return names


def _unknown(unit: str, table: dict[tuple[str, ...], float], what: str) -> str:
    known = ", ".join(names[0] for names in table)
    near = did_you_mean(unit, (name for names in table for name in names))
    return f"{unit!r} is not a known unit of {what}; use one of {known}{near}"
