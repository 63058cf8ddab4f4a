"""The dock: files in, files out, no statistics."""

__all__ = [
    "atomic_path",
    "read_dataset",
    "read_scan",
    "read_trajectories",
    "write_dataset",
    "write_scan",
    "write_trajectories",
]

from collections.abc import Mapping
from pathlib import Path

from driftbayes.errors import DriftbayesError
from driftbayes.io.netcdf import read_netcdf, write_netcdf
from driftbayes.io.scans import read_dataset, read_scan, write_dataset, write_scan
from driftbayes.io.tables import read_csv, read_parquet, write_csv, write_parquet
from driftbayes.io.zarr import read_zarr
from driftbayes.storage.atomic import PathLike, atomic_path
from driftbayes.trajectories import Trajectories

_FORMATS = {
    ".csv": (read_csv, write_csv),
    ".csv.gz": (read_csv, write_csv),
    ".parquet": (read_parquet, write_parquet),
    ".pq": (read_parquet, write_parquet),
    ".nc": (read_netcdf, write_netcdf),
}


def read_trajectories(
    path: PathLike,
    *,
    columns: Mapping[str, str | None] | None = None,
    length_unit: str | None = None,
    time_unit: str | None = None,
) -> Trajectories:
    """Read trajectories; the end of the file name says in which format.

    Args:
        path: The directory of a turbulence run, or a .csv, .csv.gz, .parquet, .pq or .nc file with
            `id`, `time`, `x` and, if there are any, `y`, `z` and `sd`, the standard deviation of
            the error of a position.
        columns: Names in the file of these columns, where they differ: `{"x": "lon"}`. None, or
            empty text as the command line has it (`--columns z=`), leaves out a column that is
            there but not wanted: `{"z": None}`.
        length_unit: Name of the unit of positions, if not that in the file; nothing is converted.
        time_unit: Name of the unit of times, likewise.
    """
    is_store = Path(path).is_dir()
    reader = read_zarr if is_store else _FORMATS[_suffix(path)][0]
    return reader(path, columns=columns, length_unit=length_unit, time_unit=time_unit)


def write_trajectories(trajectories: Trajectories, path: PathLike) -> None:
    """Write trajectories; the end of the file name says in which format.

    Args:
        trajectories: What to write.
        path: The file; it appears whole or not at all.
    """
    _, writer = _FORMATS[_suffix(path)]
    writer(trajectories, path)


def _suffix(path: PathLike) -> str:
    name = Path(path).name
    for suffix in _FORMATS:
        if name.lower().endswith(suffix):
            return suffix
    known = ", ".join(_FORMATS)
    msg = f"the name of {name!r} does not end in a known format; use one of {known}"
    raise DriftbayesError(msg)
