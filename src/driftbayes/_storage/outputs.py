"""Protect the inputs of a command, and existing files, from being overwritten.

A command announces its input and output files before it computes anything, and invalid outputs are
refused then. While the command runs, `permission` is asked for every file written, so that files
that were not announced, or were created in the meantime, are not replaced. Outside a command, in
Python, nothing is announced and files are replaced as usual.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import TypeAlias

from driftbayes._storage.leftovers import sweep
from driftbayes.errors import DriftbayesError

PathLike: TypeAlias = str | os.PathLike[str]

# Files that mark a directory as a Zarr store, in which other files must not be written.
_STORE_FILES = ("zarr.json", ".zgroup", ".zarray", ".zattrs", ".zmetadata")


class Outputs:
    """Input and output files of a command.

    Every `add_` method checks its file at once and raises `DriftbayesError` if it may not be
    written.

    Args:
        reads: Files and directories that the command reads; they need not exist.
        overwrite: Whether existing files may be replaced; inputs are never replaced.
    """

    def __init__(self, *, reads: Iterable[PathLike] = (), overwrite: bool = False) -> None:
        self.overwrite = overwrite
        self._reads = {_resolved(path): os.fspath(path) for path in reads}
        self._files: dict[Path, str] = {}
        self._folders: list[Path] = []

    def add_file(self, path: PathLike, *, is_ours: Callable[[Path], bool] | None = None) -> None:
        """Announce a file; with `is_ours`, refuse one that driftbayes did not write."""
        target, name = self._checked(path, check_target)
        if target.exists() and is_ours is not None and not is_ours(target):
            raise DriftbayesError(
                f"{name!r} was not written by driftbayes and is not replaced; move it or choose "
                "another name for the output"
            )
        self._files[target] = name

    def add_store(self, path: PathLike, *, is_ours: Callable[[Path], bool]) -> None:
        """Announce a directory that is written as a whole, such as a Zarr store."""
        target, name = self._checked(path, partial(check_store_target, is_ours=is_ours))
        self._files[target] = name

    def _checked(self, path: PathLike, check: Callable[[Path, str], None]) -> tuple[Path, str]:
        """Return the resolved path and its name; refuse a file that may not be written."""
        target, name = _resolved(path), os.fspath(path)
        self._check_reads(target, name)
        check(target, name)
        _check_store(target, name)
        sweep(target.parent)
        if target in self._files:
            raise DriftbayesError(f"two outputs have the name {name!r}; choose different names")
        if target.exists() and not self.overwrite:
            msg = f"{name!r} already exists; pass --overwrite to replace it, or choose another name"
            raise DriftbayesError(msg)
        return target, name

    def add_folder(
        self,
        path: PathLike,
        *,
        check: Callable[[Path], None] | None = None,
        continues: bool = False,
    ) -> None:
        """Announce a directory in which the command writes files while it runs."""
        target = _resolved(path)
        _check_folder_target(target, os.fspath(path))
        if not continues:
            self._check_reads(target, os.fspath(path))
            _check_store(target, os.fspath(path))
        if check is not None:
            check(target)
        if target.is_dir():
            sweep(target)
        self._folders.append(target)

    @contextmanager
    def enforced(self) -> Iterator[None]:
        """Allow the block to write announced and new files only."""
        token = _announced.set(self)
        try:
            yield
        finally:
            _announced.reset(token)

    def may_replace(self, target: Path, name: str) -> bool:
        """Whether a file or store may be replaced."""
        if any(target.is_relative_to(folder) for folder in self._folders):
            return True
        if target in self._files:
            self._check_reads(target, name)
            if self.overwrite:
                return True
        if os.path.lexists(target):
            msg = f"{name!r} was created by another process after the start; it was not replaced"
            raise DriftbayesError(msg)
        return False

    def _check_reads(self, target: Path, name: str) -> None:
        for source, source_name in self._reads.items():
            if target == source or _is_same(target, source):
                same = "" if name == source_name else f", the same file as {source_name!r},"
                raise DriftbayesError(
                    f"{name!r}{same} is an input of this command and is not replaced; choose "
                    "another name for the output"
                )
            if source.is_relative_to(target):
                raise DriftbayesError(
                    f"the output {name!r} contains {source_name!r}, which this command reads; "
                    "choose another place"
                )
            if target.is_relative_to(source) and os.path.lexists(target):
                raise DriftbayesError(
                    f"{name!r} is part of {source_name!r}, an input of this command, and is not "
                    "replaced; choose another name for the output"
                )


_announced: ContextVar[Outputs | None] = ContextVar("driftbayes_outputs", default=None)


def permission(target: Path, name: str) -> bool:
    """Whether a file may be replaced, as announced; True if nothing was announced."""
    outputs = _announced.get()
    return outputs is None or outputs.may_replace(target, name)


def check_target(target: Path, name: str, *, is_store: bool = False) -> None:
    """Refuse a file that cannot be written."""
    is_folder = target.is_dir()
    if is_folder and not is_store:
        msg = f"{name!r} is a directory, expected a file; add a file name"
    elif not is_folder and os.path.lexists(target) and not target.is_file():
        # For root, a rename to /dev/null would replace the device by a file.
        msg = f"{name!r} is not a regular file and cannot be replaced; choose another name"
    elif not target.parent.is_dir():
        msg = f"cannot write {name!r}: its directory does not exist; create it first"
    elif not os.access(target.parent, os.W_OK | os.X_OK):
        msg = f"cannot write {name!r}: its directory is not writable; choose another place"
    else:
        return
    raise DriftbayesError(msg)


def check_store_target(target: Path, name: str, is_ours: Callable[[Path], bool]) -> None:
    """Refuse a target that cannot be replaced by a store."""
    if target.is_dir() and not is_ours(target):
        msg = f"{name!r} is a directory that driftbayes did not write; choose another name"
        raise DriftbayesError(msg)
    if target.is_file():
        msg = f"{name!r} is a file, expected a new name for a directory; choose another"
        raise DriftbayesError(msg)
    check_target(target, name, is_store=True)


def _check_folder_target(target: Path, name: str) -> None:
    """Refuse a directory that cannot be created or written to."""
    existing = next(folder for folder in (target, *target.parents) if os.path.lexists(folder))
    if not existing.is_dir():
        what = "is a file" if existing == target else f"is below the file {existing.name!r}"
        msg = f"{name!r} {what}, expected a directory; choose another name"
    elif not os.access(existing, os.W_OK | os.X_OK):
        msg = f"cannot write {name!r}: its directory is not writable; choose another place"
    else:
        return
    raise DriftbayesError(msg)


def _check_store(target: Path, name: str) -> None:
    """Refuse a path inside a Zarr store, where a file would become part of the data."""
    for folder in target.parents:
        if any((folder / file).is_file() for file in _STORE_FILES):
            msg = f"{name!r} is inside the Zarr store {folder.name!r}; choose a place outside it"
            raise DriftbayesError(msg)


def _resolved(path: PathLike) -> Path:
    return Path(os.path.realpath(path))


def _is_same(first: Path, second: Path) -> bool:
    """Whether two paths are the same file, as hard links are."""
    try:
        return os.path.samefile(first, second)
    except OSError:
        return False
