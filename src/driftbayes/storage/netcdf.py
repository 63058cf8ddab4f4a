"""A data set as NetCDF, whole or not at all, also where there is no HDF5."""

__all__ = ["write_netcdf"]

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from driftbayes.storage.atomic import atomic_path

if TYPE_CHECKING:
    import xarray as xr


def write_netcdf(dataset: "xr.Dataset", path: Path, *, compress: bool = False) -> None:
    """Write NetCDF 4, or NetCDF 3 where h5netcdf is missing, as on some GPU machines.

    Args:
        dataset: What to write.
        path: The file.
        compress: Whether to compress numbers, where the format can.
    """
    engine: Literal["h5netcdf", "scipy"] = "h5netcdf" if find_spec("h5netcdf") else "scipy"
    encoding: dict[str, dict[str, Any]] = {}
    for key, variable in dataset.variables.items():
        encoding[str(key)] = {"_FillValue": None}
        if compress and engine == "h5netcdf" and variable.dtype.kind in "if":
            encoding[str(key)] |= {"zlib": True, "complevel": 9, "shuffle": True}
    # By way of the memory: a file on a full disk is then given up, not half-written.
    with atomic_path(path) as temporary:
        temporary.write_bytes(dataset.to_netcdf(engine=engine, encoding=encoding))
