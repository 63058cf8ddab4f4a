"""The only place that calls the NetCDF library, so that its errors are dressed in one place."""

__all__ = ["Select", "describe", "load", "open_file", "save"]

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from driftbayes.errors import DriftbayesError
from driftbayes.io import hdf5
from driftbayes.io.described import Description
from driftbayes.io.limits import MAX_NAMES, Budget
from driftbayes.io.packages import require
from driftbayes.io.paths import existing_file, reason
from driftbayes.storage.atomic import PathLike, atomic_path

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
    """A NetCDF file, or some of its variables, in memory, with times left as numbers.

    Args:
        path: The file.
        select: Which variables to read; without it, all of them.
    """
    file = existing_file(path)
    require("NetCDF files", *_NEEDED)
    _refuse_netcdf3(file)
    # Anything at all can come out of a damaged file, and all of it is the file's fault.
    try:
        with _opened(file, select) as dataset:
            return dataset.load()
    except DriftbayesError:
        raise
    except Exception as error:
        raise DriftbayesError(_damaged(file, error)) from error


@contextmanager
def open_file(path: PathLike) -> "Iterator[xr.Dataset]":
    """A NetCDF file, nothing read yet, with times left as numbers.

    Variables that cannot be what they claim are not in it; `dataset.encoding["damaged"]` has what
    is wrong with each.

    Args:
        path: The file.
    """
    file = existing_file(path)
    require("NetCDF files", *_NEEDED)
    _refuse_netcdf3(file)
    try:
        with _opened(file, None, lazily=True) as dataset:
            yield dataset
    except DriftbayesError:
        raise
    except Exception as error:
        raise DriftbayesError(_damaged(file, error)) from error


def describe(path: PathLike) -> Description:
    """Names, dimensions and attributes of a file, without a look at its numbers."""
    file = existing_file(path)
    require("NetCDF files", *_NEEDED)
    _refuse_netcdf3(file)
    try:
        with _raw(file) as (_, netcdf):
            variables = netcdf.variables
            return Description(
                tuple(variables),
                {name: tuple(map(str, v.dimensions)) for name, v in variables.items()},
                dict(netcdf.attrs),
                {name: dict(v.attrs) for name, v in variables.items()},
            )
    except DriftbayesError:
        raise
    except Exception as error:
        raise DriftbayesError(_damaged(file, error)) from error


def save(dataset: "xr.Dataset", path: PathLike) -> None:
    """Write a NetCDF file, whole or not at all."""
    require("NetCDF files", *_NEEDED)
    with atomic_path(path) as temporary:
        # By way of the memory: HDF5 cannot give up a file on a full disk, and ends the process.
        buffer = BytesIO()
        _dump(dataset, buffer)
        temporary.write_bytes(buffer.getbuffer())


def _dump(dataset: "xr.Dataset", buffer: BytesIO) -> None:
    import h5netcdf
    from xarray.backends import H5NetCDFStore

    # xarray would add a fill value to every float, and give integers one on the way back.
    encoding = {str(name): {"_FillValue": None} for name in dataset.variables}
    with h5netcdf.File(buffer, "w") as netcdf:
        dataset.dump_to_store(H5NetCDFStore(netcdf), encoding=encoding)


@contextmanager
def _raw(file: Path) -> "Iterator[tuple[h5py.File, Any]]":
    import h5netcdf
    import h5py

    # We hold the file, not xarray: one that fails halfway is then closed here and now, not by a
    # destructor that can only complain.
    with h5py.File(file, "r") as raw:
        hdf5.check_heaps(raw, file)
        # Where this cannot be read, h5netcdf leaves half an object whose destructor fails.
        raw.attrs.get("_nc3_strict")
        hdf5.check_links(raw, file)
        with h5netcdf.File(raw, "r", decode_vlen_strings=True) as netcdf:
            yield raw, netcdf


@contextmanager
def _opened(file: Path, select: Select | None, *, lazily: bool = False) -> "Iterator[xr.Dataset]":
    import xarray as xr
    from xarray.backends import H5NetCDFStore

    with _raw(file) as (raw, netcdf):
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


def _damaged(file: Path, error: Exception) -> str:
    return (
        f"{file.name!r} cannot be read as NetCDF ({reason(error)}); "
        "it may be damaged, cut short or of another format"
    )


def _refuse_netcdf3(file: Path) -> None:
    with file.open("rb") as stream:
        if stream.read(3) == b"CDF":
            msg = (
                f"{file.name!r} is in the old NetCDF-3 format, expected NetCDF-4; convert it with "
                "nccopy -k nc4"
            )
            raise DriftbayesError(msg)
