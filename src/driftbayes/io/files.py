"""Which files a list, a pattern such as tracks/*.csv or a folder stands for."""

import glob
import os
from pathlib import Path
from typing import Any

from driftbayes.errors import DriftbayesError
from driftbayes.io.zarr_store import is_foreign_store
from driftbayes.storage.zarr import is_group

# Name of the store in the directory of a turbulence run.
OF_A_RUN = "trajectories.zarr"
# Suffixes of tables and arrays of trajectories, as folders hold them.
_SUFFIXES = (
    *(".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".dat", ".parquet", ".pq", ".nc", ".nc4"),
    *(".mat", ".npz", ".npy", ".xml", ".rds", ".rda", ".rdata"),
)
_NOT_DATA = ("readme", "license", "licence", "copying", "changelog", "requirements")


def is_store(path: Path) -> bool:
    """Whether a directory is a Zarr store, or that of a turbulence run."""
    return path.is_dir() and (is_foreign_store(path) or is_group(path) or is_group(path / OF_A_RUN))


def files_of(source: Any) -> list[Path] | None:
    """The files that a list, a pattern or a folder stands for; None if it is one file or store."""
    if isinstance(source, list | tuple):
        return [Path(file) for file in source]
    path = Path(source)
    if path.is_dir():
        return None if is_store(path) else _in_folder(path)
    if path.exists() or not glob.has_magic(os.fspath(path)):
        return None
    found = sorted(map(Path, glob.glob(os.fspath(path), recursive=True)))
    if not found:
        raise DriftbayesError(f"no file matches {os.fspath(path)!r}; check the pattern")
    return [file for file in found if file.is_file() or is_store(file)]


def _in_folder(folder: Path) -> list[Path]:
    """The data files of a folder, which must be of one sort."""
    sorts: dict[str, list[Path]] = {}
    for file in sorted(folder.iterdir()):
        name = file.name.lower()
        suffix = next((s for s in sorted(_SUFFIXES, key=len, reverse=True) if name.endswith(s)), "")
        hidden = name.startswith((".", "_", *_NOT_DATA))
        if suffix and file.is_file() and not hidden:
            sorts.setdefault(suffix, []).append(file)
    if len(sorts) > 1:
        shown = ", ".join(f"{len(files)} {suffix}" for suffix, files in sorts.items())
        some = next(iter(sorts))
        raise DriftbayesError(
            f"folder {folder.name!r} has files of several sorts ({shown}); name one of them, as in "
            f"{os.fspath(folder / f'*{some}')!r}"
        )
    if not sorts:
        raise DriftbayesError(
            f"{folder.name!r} is a directory, expected a file, a folder of trajectory files, or "
            "the directory of a turbulence run with particles"
        )
    return next(iter(sorts.values()))
