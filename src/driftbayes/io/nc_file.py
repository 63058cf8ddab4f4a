"""The only place that calls the NetCDF library, so that its errors are dressed in one place."""

__all__ = ["Select", "describe", "load", "open_file", "save"]

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from driftbayes.errors import DriftbayesError
from driftbayes.io import hdf5
from driftbayes.io.limits import MAX_NAMES, Budget
from driftbayes.io.paths import existing_file, reading_as, require
from driftbayes.storage import PathLike
from driftbayes.storage.atomic import write_netcdf

if TYPE_CHECKING:
    import h5py  # type: ignore[import-untyped, unused-ignore]
    import xarray as xr

# Without h5py, h5netcdf imports and then fails on the first file.
_NEEDED = ("h5py", "h5netcdf", "xarray")

# From the attributes of a file, and of each variable by its name, to the names of the variables to
# read, each with whether its fill values become NaN and its packed numbers the ones they stand for.
Select: TypeAlias = Callable[
    [Mapping[str, Any], Mapping[str, Mapping[str, Any]]],
    Mapping[str, bool],
]


def load(path: PathLike, select: Select | None = None) -> "xr.Dataset":
    """A NetCDF file, or some of its variables, in memory, with times left as numbers."""
    with _opened(path, select) as dataset:
        return dataset.load()


@contextmanager
def open_file(path: PathLike) -> "Iterator[xr.Dataset]":
    """A NetCDF file, nothing read yet, with times left as numbers.

    Variables that cannot be what they claim are not in it; `dataset.encoding["damaged"]` has what
    is wrong with each.
    """
    with _opened(path, None, lazily=True) as dataset:
        yield dataset


def describe(path: PathLike) -> dict[str, Any]:
    """Names, dimensions and attributes of a file, as fields of `Contents`, without its numbers."""
    with _raw(path) as (_, _, netcdf):
        variables = netcdf.variables
        return {
            "names": tuple(variables),
            "dims": {name: tuple(map(str, v.dimensions)) for name, v in variables.items()},
            "attributes": dict(netcdf.attrs),
            "variable_attributes": {name: dict(v.attrs) for name, v in variables.items()},
        }


def save(dataset: "xr.Dataset", path: PathLike) -> None:
    """Write a NetCDF file, whole or not at all."""
    require("NetCDF files", *_NEEDED)
    write_netcdf(dataset, Path(path))


@contextmanager
def _raw(path: PathLike) -> "Iterator[tuple[Path, h5py.File, Any]]":
    """A checked file, as HDF5 and as NetCDF; its errors become one sentence."""
    file = existing_file(path)
    require("NetCDF files", *_NEEDED)
    import h5netcdf
    import h5py

    with file.open("rb") as stream:
        if stream.read(3) == b"CDF":
            msg = (
                f"{file.name!r} is in the old NetCDF-3 format, expected NetCDF-4; convert it with "
                "nccopy -k nc4"
            )
            raise DriftbayesError(msg)
    # We hold the file, not xarray: one that fails halfway is then closed here and now, not by a
    # destructor that can only complain.
    with reading_as(file, "NetCDF"), h5py.File(file, "r") as raw:
        hdf5.check_heaps(raw, file)
        # Where this cannot be read, h5netcdf leaves half an object whose destructor fails.
        raw.attrs.get("_nc3_strict")
        hdf5.check_links(raw, file)
        with h5netcdf.File(raw, "r", decode_vlen_strings=True) as netcdf:
            yield file, raw, netcdf


@contextmanager
def _opened(
    path: PathLike, select: Select | None, *, lazily: bool = False
) -> "Iterator[xr.Dataset]":
    import xarray as xr
    from xarray.backends import H5NetCDFStore

    with _raw(path) as (file, raw, netcdf):
        variables = netcdf.variables
        wanted = dict.fromkeys(variables, True)
        if select is not None:
            wanted = dict(select(netcdf.attrs, {n: v.attrs for n, v in variables.items()}))
        if len(variables) > MAX_NAMES:
            msg = f"{file.name!r} has {len(variables):,} variables; expected at most {MAX_NAMES:,}"
            raise DriftbayesError(msg)
        damaged = {}
        budget = Budget(f"{file.name!r}")
        for name in list(wanted):
            try:
                stored = _stored(raw, name)
                hdf5.check_size(stored, variables[name].shape, name, file)
                if not lazily:
                    hdf5.check_chunks(stored, name, file)
                    # As stored and, where numbers are unpacked, as floats.
                    n_values = math.prod(map(int, variables[name].shape))
                    budget.claim(n_values * (stored.dtype.itemsize + 8))
            except DriftbayesError as error:
                if not lazily:
                    raise
                # It may not be needed; whoever asks for it is told.
                damaged[name] = str(error)
                del wanted[name]
        with xr.open_dataset(
            H5NetCDFStore(netcdf),
            mask_and_scale=wanted,
            decode_times=False,
            decode_timedelta=False,
            drop_variables=set(variables) - set(wanted),
            # Else the coordinates of dimensions are read at once, needed or not.
            create_default_indexes=not lazily,
        ) as dataset:
            dataset.encoding["damaged"] = damaged
            if lazily:
                dataset.encoding["check_chunks"] = lambda name: hdf5.check_chunks(
                    _stored(raw, name), name, file
                )
            yield dataset


def _stored(raw: "h5py.File", name: str) -> "h5py.Dataset":
    # NetCDF renames a variable that is called like a dimension without being its coordinate.
    renamed = f"_nc4_non_coord_{name}"
    return raw[renamed if renamed in raw else name]
