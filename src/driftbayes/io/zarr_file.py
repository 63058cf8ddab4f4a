"""The only place that calls the Zarr library, so that its errors are dressed in one place."""

__all__ = ["describe", "is_foreign_store", "is_own_store", "open_store", "save"]

import base64
import json
import logging
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from driftbayes.io import schema, zarr_check
from driftbayes.io.paths import reading_as, require
from driftbayes.storage.atomic import PathLike, atomic_folder

if TYPE_CHECKING:
    import xarray as xr

_METADATA = ("zarr.json", ".zgroup", ".zmetadata")


def is_foreign_store(folder: Path) -> bool:
    """Whether a directory is a Zarr store that is not one of ours."""
    if not any((folder / name).is_file() for name in _METADATA):
        return False
    return schema.SCHEMA_ATTRIBUTE not in zarr_check.root_attributes(folder)


@contextmanager
def open_store(folder: Path) -> "Iterator[xr.Dataset]":
    """A Zarr store of format 2 or 3, nothing read yet, every number as it is stored.

    `_FillValue` is among the attributes of a variable only where the store declares it so. The
    `fill_value` that every array of format 2 has is what chunks hold that were never written, and
    is 0 unless somebody chose another: `encoding["zarr_fill"]` has one that was chosen.
    """
    require("Zarr stores", "zarr", "xarray")
    import xarray as xr

    arrays = zarr_check.check_store(folder)
    logging.getLogger("asyncio").addFilter(_is_not_of_zarr)
    with (
        reading_as(folder, "a Zarr store", "it may be damaged or incomplete"),
        xr.open_dataset(
            # The type of the argument is not that of the backend.
            str(folder),
            engine="zarr",
            decode_times=False,
            decode_timedelta=False,
            mask_and_scale=False,
            use_zarr_fill_value_as_mask=True,
            chunks=None,
            consolidated=False,
            # Else the coordinates of dimensions are read at once, needed or not.
            create_default_indexes=False,
        ) as dataset,
    ):
        for name, variable in dataset.variables.items():
            _declare_fill(variable, arrays.get(str(name)))
        yield dataset


def _declare_fill(variable: "xr.Variable", array: zarr_check.ArrayInfo | None) -> None:
    """Take back what xarray makes of an array's fill value, and keep what the store declares."""
    variable.attrs.pop("_FillValue", None)
    if array is None:
        return
    declared = array.attributes.get("_FillValue")
    if isinstance(declared, str) and variable.dtype.kind == "f":
        # xarray writes floats of format 3 as their bytes, and "NaN" is how others do.
        declared = _float(declared)
    if declared is not None:
        variable.attrs["_FillValue"] = declared
    fill = array.described.get("fill_value")
    chosen = isinstance(fill, int | float) and not isinstance(fill, bool) and fill not in (0, None)
    if array.format == 2 and declared is None and chosen:
        variable.encoding["zarr_fill"] = fill


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return float(struct.unpack("<d", base64.b64decode(text, validate=True))[0])
    except (ValueError, struct.error):
        return None


def _is_not_of_zarr(record: logging.LogRecord) -> bool:
    # Of the tasks that fail on a damaged store it awaits the first; the rest would be printed.
    message = record.getMessage()
    return not ("never retrieved" in message and "zarr" in message)


def save(dataset: "xr.Dataset", path: PathLike) -> None:
    """Write a Zarr store, whole or not at all; one that we wrote earlier is replaced."""
    require("Zarr stores", "zarr", "xarray")
    with atomic_folder(path, may_replace=is_own_store) as temporary:
        # Format 2: every program reads it, and texts are a settled matter there.
        encoding = {str(name): {"_FillValue": None} for name in dataset.variables}
        dataset.to_zarr(temporary, zarr_format=2, consolidated=True, encoding=encoding)


def is_own_store(folder: Path) -> bool:
    """Whether a directory is a Zarr store that `save` wrote."""
    try:
        attributes = json.loads((folder / ".zattrs").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(attributes, dict) and schema.SCHEMA_ATTRIBUTE in attributes


def describe(folder: Path) -> dict[str, Any]:
    """Names, dimensions and attributes of a store, as fields of `Contents`."""
    with open_store(folder) as dataset:
        variables = {str(name): variable for name, variable in dataset.variables.items()}
        return {
            "names": tuple(variables),
            "dims": {name: tuple(map(str, v.dims)) for name, v in variables.items()},
            "attributes": dict(dataset.attrs),
            "variable_attributes": {name: dict(v.attrs) for name, v in variables.items()},
        }
