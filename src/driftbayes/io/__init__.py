"""Read and write files of trajectories and of results."""

__all__ = [
    "FORMATS",
    "atomic_path",
    "read_dataset",
    "read_scan",
    "read_trajectories",
    "write_dataset",
    "write_scan",
    "write_trajectories",
    "written_suffix",
]

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from driftbayes.data.sphere import Frame
from driftbayes.data.trajectories import Trajectories
from driftbayes.errors import DriftbayesError
from driftbayes.io.contents import contents_of
from driftbayes.io.formats import FORMATS, choose, read_as
from driftbayes.io.netcdf import write_netcdf, write_zarr
from driftbayes.io.reading import ReadOptions
from driftbayes.io.scans import read_dataset, read_scan, write_dataset, write_scan
from driftbayes.io.tables import write_csv, write_parquet
from driftbayes.storage.atomic import PathLike, atomic_path

_WRITERS = {
    ".csv": write_csv,
    ".csv.gz": write_csv,
    ".parquet": write_parquet,
    ".pq": write_parquet,
    ".nc": write_netcdf,
    ".zarr": write_zarr,
}


def read_trajectories(
    path: PathLike,
    *,
    format: str | None = None,
    columns: Mapping[str, str | None] | None = None,
    length_unit: str | None = None,
    time_unit: str | None = None,
    coordinates: Literal["degrees", "plane"] | None = None,
    frame: Frame = "auto",
    pixel_size: tuple[float, str] | None = None,
    frame_interval: tuple[float, str] | None = None,
    missing: Sequence[float] | None = None,
) -> Trajectories:
    """Read trajectories; the format is found from what is in the file.

    Args:
        path: A file of one of the known formats (`driftbayes formats`), a Zarr store, the directory
            of a turbulence run, or a plain table or NetCDF file with `id`, `time`, `x` and, if
            there are any, `y`, `z` and `sd`, the standard deviation of the error of a position.
        format: Name of the format, where it is not to be found from the content.
        columns: Names in the file of these columns, where they differ: `{"x": "lon"}`. None, or
            empty text as the command line has it (`--columns z=`), leaves out a column that is
            there but not wanted: `{"z": None}`.
        length_unit: Name of the unit of positions, if not that in the file; nothing is converted.
        time_unit: Name of the unit of times, likewise.
        coordinates: Whether positions are "degrees" of longitude and latitude, which are laid on a
            plane in metres, or on a "plane" already; by default, as the file has it.
        frame: Axes for longitudes and latitudes; see `driftbayes.data.sphere.on_plane`.
        pixel_size: Length of a pixel and its unit, for positions in pixels.
        frame_interval: Time between frames and its unit, for times in frames.
        missing: Numbers that stand for a missing position or time, as -999; an empty list says that
            every number is data. By default only NaN and what the file declares (`_FillValue`,
            `missing_value`).
    """
    options = ReadOptions(
        columns=columns,
        length_unit=length_unit,
        time_unit=time_unit,
        coordinates=coordinates,
        frame=frame,
        pixel_size=pixel_size,
        frame_interval=frame_interval,
        missing=None if missing is None else tuple(missing),
    )
    contents = contents_of(path)
    return read_as(choose(contents, format), contents, options)


def write_trajectories(trajectories: Trajectories, path: PathLike) -> None:
    """Write trajectories; the end of the file name says in which format.

    Args:
        trajectories: What to write.
        path: The file; it appears whole or not at all.
    """
    _WRITERS[written_suffix(path)](trajectories, path)


def written_suffix(path: PathLike) -> str:
    """The end of a file name that says in which format trajectories are written.

    Args:
        path: The file.

    Raises:
        DriftbayesError: If it is not the end of a known format.
    """
    name = Path(path).name
    for suffix in _WRITERS:
        if name.lower().endswith(suffix):
            return suffix
    known = ", ".join(_WRITERS)
    msg = f"the name of {name!r} does not end in a known format; use one of {known}"
    raise DriftbayesError(msg)
