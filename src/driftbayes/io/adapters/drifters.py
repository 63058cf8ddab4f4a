"""Drifters: the Global Drifter Program, the GLAD and LASER experiments, and those of OpenDrift.

Errors of the GDP are 95 % intervals in degrees of longitude and of latitude; a position has one
standard deviation here, the root of the mean of the squares of its two axes in metres.
"""

__all__ = ["GDP", "GLAD", "OPENDRIFT"]

import re
from functools import partial

import numpy as np

from driftbayes.data.units import is_length, length_factor
from driftbayes.io.adapters.cf import Extras, assemble
from driftbayes.io.contents import Contents
from driftbayes.io.layouts import has_layout
from driftbayes.io.observed import Observed
from driftbayes.io.reading import Format
from driftbayes.typing import FloatArray

# A 95 % interval of a normal error is that many standard deviations.
_INTERVAL = 1.96
# Metres in a degree of latitude, and of longitude at the equator.
_DEGREE = 111318.845
# What stands for a missing number: either a very large one, or this.
_FILL, _LARGE = -1e-34, 1e30
_SMOOTHED = (
    "positions are smoothed and interpolated by the provider: at sampling times near the interval "
    "of the product the evidence rewards smoother models, whatever the drifters did"
)


def _of_gdp(seen: Observed, x: FloatArray, y: FloatArray) -> Extras:
    names = seen.contents
    notes, flags, sd = [_SMOOTHED], {}, None
    if names.has("err_lon", "err_lat"):
        east = _clean(seen.values("err_lon")) * np.cos(np.radians(y))
        north = _clean(seen.values("err_lat"))
        sd = np.sqrt((east**2 + north**2) / 2) * _DEGREE / _INTERVAL
        notes.append(
            "err_lon and err_lat are 95 % intervals in degrees: the error of a position is their "
            "root mean square over the two axes, in metres, divided by 1.96; errors of neighbours "
            "in time are not independent, as the models have it"
        )
    if names.has("drogue_status"):
        status = _clean(seen.values("drogue_status"))
        flags["drogued"] = np.where((status == 0) | (status == 1), status, np.nan)
    if names.has("gap"):
        flags["gap"] = _clean(seen.values("gap"))
        notes.append("the flag gap is the time in seconds between the fixes before and after")
    hidden = ~(np.isfinite(_clean(x)) & np.isfinite(_clean(y)))
    return Extras(notes, sd, flags, hidden)


def _clean(values: FloatArray) -> FloatArray:
    missing = (np.abs(values) > _LARGE) | np.isclose(values, _FILL, rtol=1e-3, atol=0)
    return np.where(missing, np.nan, values)


def _of_glad(seen: Observed, x: FloatArray, y: FloatArray) -> Extras:
    unit = str(seen.contents.variable_attributes.get("position_error", {}).get("units", "m"))
    factor = length_factor(unit.strip(), "m")[0] if is_length(unit.strip()) else 1.0
    sd = _clean(seen.values("position_error")) * factor
    hidden = ~(np.isfinite(_clean(x)) & np.isfinite(_clean(y)))
    notes = ["position_error is taken as one standard deviation in metres"]
    described = " ".join(
        [seen.contents.path.name, *map(str, seen.contents.attributes.values())]
    ).lower()
    # The product of 15 minutes is low-pass filtered; that of 5 is not.
    steps = np.diff(seen.times[np.isfinite(seen.times)])
    coarse = steps.size > 0 and np.median(steps[steps > 0], keepdims=False) >= 840
    if coarse or re.search(r"qc2|low.?pass", described):
        notes.append(_SMOOTHED)
    return Extras(notes, sd, {}, hidden)


def _active(seen: Observed, x: FloatArray, y: FloatArray) -> Extras:
    """Only what moved freely: an element that has stranded is where the coast put it."""
    if not seen.contents.has("status"):
        return Extras()
    status = seen.values("status")
    there = np.isfinite(x) & np.isfinite(y)
    hidden = there & np.isfinite(status) & (status != 0)
    if not hidden.any() or not (there & ~hidden).any():
        return Extras()
    note = (
        f"{np.count_nonzero(hidden):,} positions at which an element was no longer active "
        "(status) are left out"
    )
    return Extras([note], hidden=hidden)


def _is_dataset(contents: Contents) -> bool:
    return contents.container in ("netcdf", "zarr") and has_layout(contents)


GDP = Format(
    "gdp",
    "drifters of the Global Drifter Program, hourly or 6-hourly, NetCDF or Zarr",
    lambda contents: (
        (contents.has("err_lon", "err_lat") or contents.has("drogue_status", "ve", "vn"))
        and _is_dataset(contents)
    ),
    convert=partial(assemble, name="gdp", extras=_of_gdp),
)
GLAD = Format(
    "glad",
    "drifters of the GLAD and LASER experiments, NetCDF or Zarr",
    lambda contents: contents.has("position_error") and _is_dataset(contents),
    convert=partial(assemble, name="glad", extras=_of_glad),
)
OPENDRIFT = Format(
    "opendrift",
    "output of OpenDrift, NetCDF",
    lambda contents: (
        any(key.startswith("opendrift_") for key in contents.attributes) and _is_dataset(contents)
    ),
    convert=partial(assemble, name="opendrift", extras=_active),
)
