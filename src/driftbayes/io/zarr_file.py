"""The only place that calls the Zarr library, so that its errors are dressed in one place."""

__all__ = ["describe", "is_foreign_store", "is_own_store", "open_store", "save"]

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from driftbayes.errors import DriftbayesError
from driftbayes.io import schema
from driftbayes.io.described import Description, described
from driftbayes.io.limits import is_plausible
from driftbayes.io.packages import require
from driftbayes.io.paths import reason
from driftbayes.storage.atomic import PathLike, atomic_folder

if TYPE_CHECKING:
    import xarray as xr

_METADATA = ("zarr.json", ".zgroup", ".zmetadata")


def is_foreign_store(folder: Path) -> bool:
    """Whether a directory is a Zarr store that is not one of ours."""
    if not any((folder / name).is_file() for name in _METADATA):
        return False
    try:
        described = json.loads((folder / _METADATA[0]).read_text(encoding="utf-8"))
        return schema.SCHEMA_ATTRIBUTE not in described.get("attributes", {})
    except (OSError, ValueError, AttributeError):
        return True


@contextmanager
def open_store(folder: Path) -> "Iterator[xr.Dataset]":
    """A Zarr store of format 2 or 3, nothing read yet, with times left as numbers.

    Args:
        folder: The store.
    """
    require("Zarr stores", "zarr", "xarray")
    import xarray as xr

    logging.getLogger("asyncio").addFilter(_is_not_of_zarr)
    # Anything at all can come out of a damaged store, and all of it is the store's fault.
    try:
        # xarray reads the coordinates of dimensions at once, however long they claim to be.
        _check_sizes(folder)
        with xr.open_zarr(
            folder, decode_times=False, decode_timedelta=False, chunks=None, consolidated=False
        ) as dataset:
            yield dataset
    except DriftbayesError:
        raise
    except Exception as error:
        msg = (
            f"{folder.name!r} cannot be read as a Zarr store ({reason(error)}); "
            "it may be damaged or incomplete"
        )
        raise DriftbayesError(msg) from error


def _check_sizes(folder: Path) -> None:
    import zarr

    stored = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    for name, array in zarr.open_group(folder, mode="r", use_consolidated=False).arrays():
        if not is_plausible(int(array.nbytes), stored, compressed=True):
            msg = (
                f"{folder.name!r}: array {name[:40]!r} is declared to have {array.nbytes:,} bytes, "
                f"but only {stored:,} are stored; the store is damaged or was never filled"
            )
            raise DriftbayesError(msg)


def _is_not_of_zarr(record: logging.LogRecord) -> bool:
    # Of the tasks that fail on a damaged store it awaits the first; the rest would be printed.
    message = record.getMessage()
    return not ("never retrieved" in message and "zarr" in message)


def save(dataset: "xr.Dataset", path: PathLike) -> None:
    """Write a Zarr store, whole or not at all; one that we wrote earlier is replaced.

    Args:
        dataset: What to write.
        path: The store.
    """
    require("Zarr stores", "zarr", "xarray")
    with atomic_folder(path, may_replace=is_own_store) as temporary:
        # Format 2: every program reads it, and texts are a settled matter there.
        encoding = {str(name): {"_FillValue": None} for name in dataset.variables}
        dataset.to_zarr(temporary, zarr_format=2, consolidated=True, encoding=encoding)


def is_own_store(folder: Path) -> bool:
    """Whether a directory is a Zarr store that `save` wrote."""
    try:
        attributes = json.loads((folder / ".zattrs").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(attributes, dict) and schema.SCHEMA_ATTRIBUTE in attributes


def describe(folder: Path) -> Description:
    """Names, dimensions and attributes of a store."""
    with open_store(folder) as dataset:
        return described(dataset)
