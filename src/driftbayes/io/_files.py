"""Files given by a list, a pattern such as tracks/*.csv or a folder."""

import glob
import os
from pathlib import Path
from typing import Any

from driftbayes.errors import DriftbayesError

# Name of the store in the directory of a turbulence run.
RUN_STORE = "trajectories.zarr"
# Suffixes of the files that are read from a folder.
_SUFFIXES = (
    *(".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".dat", ".parquet", ".pq", ".nc", ".nc4"),
    *(".mat", ".npz", ".npy", ".xml", ".rds", ".rda", ".rdata"),
)
_NOT_DATA = ("readme", "license", "licence", "copying", "changelog", "requirements")


def is_store(path: Path) -> bool:
    """Whether a directory is a Zarr store or a turbulence run."""
    from driftbayes._storage.zarr import is_group
    from driftbayes.io._zarr_store import is_foreign_store

    runs = (path, path / RUN_STORE)
    return path.is_dir() and (is_foreign_store(path) or any(map(is_group, runs)))


def files_of(source: Any) -> list[Path] | None:
    """List the files given by a list, a pattern or a folder; None for a single source."""
    if isinstance(source, list | tuple):
        return [Path(file) for file in source]
    if not isinstance(source, str | os.PathLike):
        return None
    path = Path(source)
    if path.is_dir():
        return None if is_store(path) else _in_folder(path)
    if not glob.has_magic(os.fspath(path)) or path.exists():
        return None
    matches = sorted(map(Path, glob.glob(os.fspath(path), recursive=True)))
    if not matches:
        raise DriftbayesError(f"no file matches {os.fspath(path)!r}; check the pattern")
    return [file for file in matches if file.is_file() or is_store(file)]


def _in_folder(folder: Path) -> list[Path]:
    """List the data files in a folder, which must have one suffix."""
    by_suffix: dict[str, list[Path]] = {}
    for file in sorted(folder.iterdir()):
        name = file.name.lower()
        suffix = next((s for s in sorted(_SUFFIXES, key=len, reverse=True) if name.endswith(s)), "")
        hidden = name.startswith((".", "_", *_NOT_DATA))
        if suffix and file.is_file() and not hidden:
            by_suffix.setdefault(suffix, []).append(file)
    # The working directory has no name.
    title = folder.name or os.fspath(folder)
    if len(by_suffix) > 1:
        shown = ", ".join(f"{len(files)} {suffix}" for suffix, files in by_suffix.items())
        raise DriftbayesError(
            f"folder {title!r} has files of several types ({shown}); select one, as in "
            f"{os.fspath(folder / f'*{next(iter(by_suffix))}')!r}"
        )
    if not by_suffix:
        raise DriftbayesError(
            f"{title!r} is a directory, expected a file, a folder of trajectory files, "
            "or the directory of a turbulence run with particles"
        )
    return next(iter(by_suffix.values()))
