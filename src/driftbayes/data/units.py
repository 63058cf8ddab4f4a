"""Units of length and time: their names in files, and what they are in metres and seconds."""

__all__ = [
    "is_degrees",
    "is_length",
    "length_factor",
    "parse_quantity",
    "readable_time",
    "readable_times",
    "time_factor",
]

import re

import numpy as np
from numpy.typing import ArrayLike

from driftbayes.errors import DriftbayesError, did_you_mean
from driftbayes.magnitudes import checked
from driftbayes.typing import FloatArray

# Each with the spellings that files and people use; the first is the one that is printed.
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
# CF allows six spellings each of degrees_east and degrees_north, and people write the rest.
_DEGREES = re.compile(
    r"(deg|degs|degree|degrees|°)[ _]?(e|east|n|north|true)?(,[ +]*[a-z]+)?", re.I
)
_QUANTITY = re.compile(r"\s*([-+0-9.eE]+)\s*([^\s\d.+-].*?)\s*")


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
    return any(unit in names or unit.lower() in names[1:] for names in _LENGTHS)


def parse_quantity(text: str, option: str) -> tuple[float, str]:
    """Parse a positive number and its unit, as in `0.16um`."""
    # Longer ones would only keep the pattern busy.
    match = _QUANTITY.fullmatch(text[:200])
    try:
        value = float(match[1]) if match else 0.0
    except ValueError:
        value = 0.0
    if match is None or not 0 < value < float("inf"):
        raise DriftbayesError(
            f"{option} must be a positive number and its unit, for example 0.16um, "
            f"got {text[:80]!r}"
        )
    return checked(value, option), match[2]


def readable_times(values: ArrayLike, unit: str) -> tuple[FloatArray, str]:
    """Convert times that share an axis to hours or days if they have many seconds.

    The unit is that of `readable_time` for the middle of their range.

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
    """Format a time, in hours or days if it has many seconds."""
    if unit == "s":
        for size, name in ((86400.0, "d"), (3600.0, "h")):
            if value >= 2 * size:
                return f"{value / size:.4g} {name}"
    return f"{value:.4g} {unit}".rstrip()


def _factor(
    unit: str, to: str, table: dict[tuple[str, ...], float], what: str
) -> tuple[float, str]:
    old, new = _find(unit, table, what), _find(to, table, what)
    return table[old] / table[new], new[0]


def _find(unit: str, table: dict[tuple[str, ...], float], what: str) -> tuple[str, ...]:
    for names in table:
        # Case is kept for the short ones: Mm is not mm.
        if unit in names or unit.lower() in names[1:]:
            return names
    known = ", ".join(names[0] for names in table)
    near = did_you_mean(unit, (name for names in table for name in names))
    raise DriftbayesError(f"{unit!r} is not a known unit of {what}; use one of {known}{near}")
