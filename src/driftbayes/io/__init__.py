"""Read and write files of trajectories and of results."""

__all__ = [
    "FORMATS",
    "ReadOptions",
    "read_dataset",
    "read_scan",
    "read_trajectories",
    "write_dataset",
    "write_scan",
    "write_trajectories",
    "written_suffix",
]

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from driftbayes._aliases import lazy
from driftbayes._storage import PathLike
from driftbayes.data._trajectories import Trajectories, check_tracks
from driftbayes.errors import DriftbayesError, expect
from driftbayes.io._files import files_of
from driftbayes.io._formats import FORMATS, choose, contents_of, read_as
from driftbayes.io._reading import ReadOptions

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from driftbayes.io._scans import read_dataset, read_scan, write_dataset, write_scan

_WRITERS = {
    **{".csv": "write_csv", ".csv.gz": "write_csv"},
    **{".parquet": "write_parquet", ".pq": "write_parquet"},
    **{".nc": "write_netcdf", ".zarr": "write_zarr"},
}


# Results need modules that reading a table does not.
__getattr__ = lazy(__name__, {"_scans": "read_dataset read_scan write_dataset write_scan"})


def __dir__() -> list[str]:
    return sorted(__all__)


def read_trajectories(
    path: "PathLike | Sequence[PathLike] | pd.DataFrame | xr.Dataset", **options: Any
) -> Trajectories:
    """Read trajectories; the format is detected automatically.

    Args:
        path: A file in one of the known formats (`driftbayes formats`), a Zarr store, the directory
            of a turbulence run, or a plain table or NetCDF file with `id`, `time`, `x` and
            optionally `y`, `z` and `sd`, the standard deviation of the position error. Several
            files of one format are read as one data set: pass a list, a pattern such as
            "tracks/*.csv" or a folder. An xarray Dataset or a pandas DataFrame with the same
            contents also works.
        **options: Fields of `driftbayes.io.ReadOptions`: `format`, `columns`,
            `length_unit`, `time_unit`, `coordinates`, `frame`, `pixel_size`, `frame_interval`,
            `missing` and `date_order`.

    Example:
        >>> import driftbayes as db
        >>> tracks = db.simulate("brownian", {"kappa": 1.0}, tau=0.5, n_particles=10, n_steps=20)
        >>> db.write_trajectories(tracks, "tracks.nc")
        >>> db.read_trajectories("tracks.nc").n_trajectories
        10
    """
    parsed = ReadOptions(**options)
    if not any(hasattr(path, name) for name in ("data_vars", "columns", "__getitem__")):
        expect(path, str | Path, "path", "one or more file names, an xarray Dataset or a DataFrame")
    files = files_of(path)
    if files is not None:
        from driftbayes.io._several import read_several

        given: Any = path if isinstance(path, list | tuple) else [path]
        label = " ".join(Path(file).name for file in given[:3]) + " ..." * (len(given) > 3)
        found = read_several(files, parsed, label)
    else:
        with ExitStack() as stack:
            contents = contents_of(path, stack)
            found = read_as(choose(contents, parsed.format), contents, parsed)
    parsed.check_frame(found)
    return found


def write_trajectories(trajectories: Trajectories, path: PathLike) -> None:
    """Write trajectories in the format given by the suffix of the file name.

    Args:
        trajectories: The trajectories.
        path: The file; it is written atomically.

    Example:
        >>> import driftbayes as db
        >>> tracks = db.simulate("brownian", {"kappa": 1.0}, tau=0.5, n_particles=10, n_steps=20)
        >>> db.write_trajectories(tracks, "tracks.nc")
        >>> db.read("tracks.nc").fingerprint == tracks.fingerprint
        True
    """
    from driftbayes.io import _writing as writing

    check_tracks(trajectories)
    getattr(writing, _WRITERS[written_suffix(path)])(trajectories, path)


def written_suffix(path: PathLike) -> str:
    """Return the suffix of a file name that selects the format to write.

    Args:
        path: The file.

    Raises:
        DriftbayesError: If the suffix is unknown.
    """
    expect(path, str | Path, "path", "the name of a file")
    name = Path(path).name
    for suffix in _WRITERS:
        if name.lower().endswith(suffix):
            return suffix
    *others, last = _WRITERS
    expected = f"{', '.join(others)} or {last}"
    raise DriftbayesError(f"unknown format: expected a name ending in {expected}, got {name!r}")
