"""Results as NetCDF: scans over tau, diagnostics, anything that is an xarray Dataset."""

__all__ = ["read_dataset", "read_scan", "write_dataset", "write_scan"]

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes._version import __version__
from driftbayes.errors import DriftbayesError
from driftbayes.io import nc_file, schema
from driftbayes.io.scan_check import check_scan
from driftbayes.storage.atomic import PathLike

if TYPE_CHECKING:
    import xarray as xr


def write_dataset(dataset: "xr.Dataset", path: PathLike, *, kind: str) -> None:
    """Write a dataset as NetCDF, marked with what it is and who wrote it."""
    _check_suffix(path)
    _check_attributes("the dataset", dataset.attrs)
    for name, variable in dataset.variables.items():
        _check_attributes(f"variable {str(name)!r}", variable.attrs)
    marks = {
        schema.KIND_ATTRIBUTE: kind,
        schema.VERSION_ATTRIBUTE: __version__,
        schema.SCHEMA_ATTRIBUTE: schema.SCHEMA_VERSION,
    }
    nc_file.save(dataset.assign_attrs(marks), path)


def read_dataset(path: PathLike, *, kind: str) -> "xr.Dataset":
    """Read what `write_dataset` wrote."""
    _check_suffix(path)
    dataset = nc_file.load(path)
    source = Path(path).name
    is_kind = dataset.attrs.get(schema.KIND_ATTRIBUTE)
    if is_kind is None:
        what = "trajectories" if schema.COUNT in dataset.variables else "not a result of driftbayes"
    else:
        what = f"a driftbayes {is_kind}"
    if is_kind != kind:
        msg = f"{source!r} is {what}, expected a driftbayes {kind}; check the file name"
        raise DriftbayesError(msg)
    schema.check_schema_version(dataset.attrs.get(schema.SCHEMA_ATTRIBUTE), source)
    return dataset


def write_scan(dataset: "xr.Dataset", path: PathLike) -> None:
    """Write a scan over tau as NetCDF."""
    write_dataset(dataset, path, kind="scan")


def read_scan(path: PathLike) -> "xr.Dataset":
    """Read a scan over tau."""
    scan = read_dataset(path, kind="scan")
    check_scan(scan, Path(path).name)
    return scan


def _check_suffix(path: PathLike) -> None:
    if Path(path).suffix.lower() != ".nc":
        msg = f"results are NetCDF files: expected a name ending in .nc, got {Path(path).name!r}"
        raise DriftbayesError(msg)


def _check_attributes(owner: str, attributes: Mapping[Any, Any]) -> None:
    for name, value in attributes.items():
        allowed = isinstance(value, str | int | float | np.integer | np.floating)
        if not allowed or isinstance(value, bool):
            msg = (
                f"attribute {str(name)!r} of {owner} is a {type(value).__name__}, expected text or "
                "a number; encode it as JSON, and a truth value as 0 or 1"
            )
            raise DriftbayesError(msg)
