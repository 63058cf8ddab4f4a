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

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from driftbayes.aliases import lazy
from driftbayes.data.trajectories import Trajectories, check_tracks
from driftbayes.errors import DriftbayesError, expect
from driftbayes.io.formats import FORMATS, choose, contents_of, may_be_several, read_as
from driftbayes.io.reading import ReadOptions
from driftbayes.storage import PathLike, atomic_path

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from driftbayes.io.scans import read_dataset, read_scan, write_dataset, write_scan

_WRITERS = {
    **{".csv": "write_csv", ".csv.gz": "write_csv"},
    **{".parquet": "write_parquet", ".pq": "write_parquet"},
    **{".nc": "write_netcdf", ".zarr": "write_zarr"},
}


# Results need modules that reading a table does not.
__getattr__ = lazy(__name__, {"scans": "read_dataset read_scan write_dataset write_scan"})


def __dir__() -> list[str]:
    return sorted(__all__)


def read_trajectories(
    path: "PathLike | Sequence[PathLike] | pd.DataFrame | xr.Dataset", **options: Any
) -> Trajectories:
    """Read trajectories; the format is detected automatically.

    Args:
        path: A file of one of the known formats (`driftbayes formats`), a Zarr store, the directory
            of a turbulence run, or a plain table or NetCDF file with `id`, `time`, `x` and, if
            there are any, `y`, `z` and `sd`, the standard deviation of the error of a position; or
            several files of one format as one data set, as a list, a pattern such as
            "tracks/*.csv" or a folder; or an xarray Dataset or a pandas DataFrame with what such a
            file holds.
        **options: Fields of `driftbayes.io.reading.ReadOptions`: `format`, `columns`,
            `length_unit`, `time_unit`, `coordinates`, `frame`, `pixel_size`, `frame_interval`,
            `missing` and `date_order`.
    """
    told = ReadOptions(**options)
    if not any(hasattr(path, name) for name in ("data_vars", "columns", "__getitem__")):
        expect(path, str | Path, "path", "a file name, several, or an xarray Dataset or DataFrame")
    if isinstance(path, list | tuple) or may_be_several(path):
        from driftbayes.io.files import files_of
        from driftbayes.io.several import read_several

        files = files_of(path)
        if files is not None:
            named: Any = path if isinstance(path, list | tuple) else [path]
            together = " ".join(Path(file).name for file in named[:3]) + " ..." * (len(named) > 3)
            return read_several(files, told, together)
    contents = contents_of(path)
    return read_as(choose(contents, told.format), contents, told)


def write_trajectories(trajectories: Trajectories, path: PathLike) -> None:
    """Write trajectories in the format of the file name's suffix.

    Args:
        trajectories: What to write.
        path: The file; it appears whole or not at all.
    """
    from driftbayes.io import writing

    check_tracks(trajectories)
    getattr(writing, _WRITERS[written_suffix(path)])(trajectories, path)


def written_suffix(path: PathLike) -> str:
    """Return the suffix of a file name that selects the format to write.

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
