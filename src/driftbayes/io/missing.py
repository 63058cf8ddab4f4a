"""Which numbers of a file stand for a missing value: what the file declares or the user says."""

__all__ = ["present", "without"]

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from driftbayes.errors import DriftbayesError
from driftbayes.typing import FloatArray

if TYPE_CHECKING:
    import xarray as xr

# NetCDF's own fill value for floats: files that declare none are padded with it all the same.
_DEFAULT_FILL = 9.9e36
_DEFAULT_FILLS = {"i2": -32767, "i4": -(2**31) + 1, "i8": -(2**63) + 2, "u8": 2**64 - 2}


def present(
    variable: "xr.DataArray",
    source: str,
    missing: Sequence[float] | None = None,
    *,
    is_ours: bool = False,
) -> FloatArray:
    """The numbers of a variable, unpacked, with what stands for a missing value as NaN.

    Missing is what is no number, what the file declares to stand for it (`_FillValue`,
    `missing_value`), and what NetCDF puts where nothing was written, if no position or time can be
    so large. Any other number is data, unless the user says otherwise.
    """
    raw = variable.to_numpy()
    attributes = variable.attrs
    if raw.dtype.kind == "i" and str(attributes.get("_Unsigned", "")).lower() == "true":
        raw = raw.view(raw.dtype.str.replace("i", "u"))
    values = np.array(raw, dtype=np.float64)
    gone = np.isnan(values) if is_ours else _impossible(raw, values)
    for key in ("_FillValue", "missing_value"):
        for fill in _plain_numbers(attributes.get(key)):
            gone |= _equals(raw, fill)
    if missing is None and not is_ours:
        _refuse_unsure(variable, raw, gone, source)
    scale, offset = (
        next(iter(_plain_numbers(attributes.get(key))), usual)
        for key, usual in (("scale_factor", 1.0), ("add_offset", 0.0))
    )
    if (scale, offset) != (1.0, 0.0):
        with np.errstate(over="ignore", invalid="ignore"):
            values = values * scale + offset
    for number in missing or ():
        gone |= _equals(raw, number) | (values == number)
    # NaN has many bit patterns, and a fingerprint would tell them apart.
    values[gone | np.isnan(values)] = np.nan
    return values


def _impossible(raw: np.ndarray, values: FloatArray) -> np.ndarray:
    """What is no number, or larger than any position or time."""
    gone = ~np.isfinite(values) | (np.abs(values) > _DEFAULT_FILL)
    if raw.dtype.kind not in "iu":
        return gone
    if raw.dtype.itemsize >= 4:
        # Whole numbers have no NaN: the largest and the smallest stand for it, where they are far
        # off. Those of 8 or 16 bits are used up to their ends.
        limits = np.iinfo(raw.dtype)
        gone |= (raw == limits.max) | (raw == limits.min) & (limits.min < 0)
    fill = _DEFAULT_FILLS.get(f"{raw.dtype.kind}{raw.dtype.itemsize}")
    if fill is not None:
        gone |= raw == fill
    return gone


def _refuse_unsure(
    variable: "xr.DataArray", raw: np.ndarray, gone: np.ndarray, source: str
) -> None:
    """Refuse numbers that may be data as well as padding, as nothing declares which."""
    if "_FillValue" in variable.attrs:
        return
    fill = variable.encoding.get("zarr_fill")
    count = 0 if fill is None else np.count_nonzero(_equals(raw, fill) & ~gone)
    if count:
        msg = (
            f"{source!r}: variable {str(variable.name)[:40]!r} holds {fill:g} {count:,} times, "
            "the fill value of its Zarr array, and declares no _FillValue; pass --missing "
            f"{fill:g} if these are missing, --missing none if they are data"
        )
        raise DriftbayesError(msg)


def without(axes: Sequence[FloatArray], missing: Sequence[float] | None) -> list[FloatArray]:
    """Coordinates with NaN on all axes where one of them is what the user calls missing."""
    if not missing or len({axis.shape for axis in axes}) != 1:
        return list(axes)
    gone = np.any([np.isin(axis, list(missing)) for axis in axes], axis=0)
    return [np.where(gone, np.nan, axis) for axis in axes]


def _equals(raw: np.ndarray, number: float) -> np.ndarray:
    """Where an array has a number, which is rounded as those of the array are."""
    if raw.dtype.kind == "f":
        with np.errstate(over="ignore"):
            return np.asarray(raw == raw.dtype.type(number))
    return np.asarray(raw == number)


def _plain_numbers(value: object) -> list[float]:
    """The numbers of an attribute: one, several, or none if it is something else."""
    if value is None:
        return []
    try:
        return [float(number) for number in np.ravel(np.asarray(value, dtype=np.float64))[:16]]
    except (TypeError, ValueError, OverflowError):
        return []
