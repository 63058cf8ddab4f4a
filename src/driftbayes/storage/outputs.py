"""What a command may write: never what it reads, never over a file without leave.

A command announces what it reads and what it will write before it computes anything. All that can
be refused is refused then. While the command runs, every file that is written goes through
`permission`, so that what was not announced, or has appeared in the meantime, is not replaced.
Outside a command, in Python, nothing is announced and files are replaced as usual.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import TypeAlias

from driftbayes.errors import DriftbayesError
from driftbayes.storage.leftovers import sweep

PathLike: TypeAlias = str | os.PathLike[str]

# Any of these makes a directory a Zarr store, which is one thing and not a place for other files.
_STORE_FILES = ("zarr.json", ".zgroup", ".zarray", ".zattrs", ".zmetadata")


class Outputs:
    """The files that a command reads and those that it will write.

    Every `add_` method checks its file at once and raises `DriftbayesError` if it may not be
    written.

    Args:
        reads: Files and directories that the command reads; they need not exist.
        overwrite: Whether files that exist may be replaced; those that are read never are.
    """

    def __init__(self, *, reads: Iterable[PathLike] = (), overwrite: bool = False) -> None:
        self.overwrite = overwrite
        self._reads = {_resolved(path): os.fspath(path) for path in reads}
        self._files: dict[Path, str] = {}
        self._folders: list[Path] = []

    def add_file(self, path: PathLike, *, is_ours: Callable[[Path], bool] | None = None) -> None:
        """Announce a file; with `is_ours`, one that driftbayes did not write is kept."""
        target, name = self._checked(path, check_target)
        if target.exists() and is_ours is not None and not is_ours(target):
            raise DriftbayesError(
                f"{name!r} would be replaced, and driftbayes did not write it; move it away or "
                "choose another name for the output"
            )
        self._files[target] = name

    def add_store(self, path: PathLike, *, is_ours: Callable[[Path], bool]) -> None:
        """Announce a directory that is written as a whole, such as a Zarr store."""
        target, name = self._checked(path, partial(check_store_target, is_ours=is_ours))
        self._files[target] = name

    def _checked(self, path: PathLike, check: Callable[[Path, str], None]) -> tuple[Path, str]:
        """The file, its links resolved, and its name; refused if it may not be written."""
        target, name = _resolved(path), os.fspath(path)
        self._check_reads(target, name)
        check(target, name)
        _check_store(target, name)
        sweep(target.parent)
        if target in self._files:
            raise DriftbayesError(f"{name!r} is named for two outputs; give each a name of its own")
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
        """Announce a directory in which the command writes files as it goes on."""
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
        """Let the block write what was announced, and new files, and nothing else."""
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
            msg = f"{name!r} has appeared since the command was started, and was kept"
            raise DriftbayesError(msg)
        return False

    def _check_reads(self, target: Path, name: str) -> None:
        for source, source_name in self._reads.items():
            if target == source or _is_same(target, source):
                same = "" if name == source_name else f", the same file as {source_name!r},"
                raise DriftbayesError(
                    f"{name!r}{same} is read by this command and is never written over; choose "
                    "another name for the output"
                )
            if source.is_relative_to(target):
                raise DriftbayesError(
                    f"the output {name!r} contains {source_name!r}, which this command reads; "
                    "choose another place"
                )
            if target.is_relative_to(source) and os.path.lexists(target):
                raise DriftbayesError(
                    f"{name!r} is part of {source_name!r}, which this command reads, and is never "
                    "written over; choose another name for the output"
                )


_announced: ContextVar[Outputs | None] = ContextVar("driftbayes_outputs", default=None)


def permission(target: Path, name: str) -> bool:
    """Whether a file may be replaced, as announced; True where nothing was announced."""
    outputs = _announced.get()
    return outputs is None or outputs.may_replace(target, name)


def check_target(target: Path, name: str, *, is_store: bool = False) -> None:
    """Refuse a file that cannot be written, before anything is computed for it."""
    is_folder = target.is_dir()
    if is_folder and not is_store:
        msg = f"{name!r} is a directory, expected a file; add a file name"
    elif not is_folder and os.path.lexists(target) and not target.is_file():
        # Renaming onto /dev/null would, for root, replace the device by a file.
        msg = f"{name!r} is not an ordinary file and cannot be replaced; choose another name"
    elif not target.parent.is_dir():
        msg = f"cannot write {name!r}: its directory does not exist; create it first"
    elif not os.access(target.parent, os.W_OK | os.X_OK):
        msg = f"cannot write {name!r}: its directory is not writable; choose another place"
    else:
        return
    raise DriftbayesError(msg)


def check_store_target(target: Path, name: str, is_ours: Callable[[Path], bool]) -> None:
    """Refuse a directory that cannot be written as a whole."""
    if target.is_dir() and not is_ours(target):
        msg = f"{name!r} is a directory that driftbayes did not write; choose another name"
        raise DriftbayesError(msg)
    if target.is_file():
        msg = f"{name!r} is a file, expected a new name for a directory; choose another"
        raise DriftbayesError(msg)
    check_target(target, name, is_store=True)


def _check_folder_target(target: Path, name: str) -> None:
    """Refuse a directory that cannot be made or filled."""
    there = next(folder for folder in (target, *target.parents) if os.path.lexists(folder))
    if not there.is_dir():
        what = "is a file" if there == target else f"is below the file {there.name!r}"
        msg = f"{name!r} {what}, expected a directory; choose another name"
    elif not os.access(there, os.W_OK | os.X_OK):
        msg = f"cannot write {name!r}: its directory is not writable; choose another place"
    else:
        return
    raise DriftbayesError(msg)


def _check_store(target: Path, name: str) -> None:
    """Refuse a place inside a Zarr store, where a file would become part of somebody's data."""
    for folder in target.parents:
        if any((folder / file).is_file() for file in _STORE_FILES):
            msg = f"{name!r} is inside the Zarr store {folder.name!r}; choose a place outside it"
            raise DriftbayesError(msg)


def _resolved(path: PathLike) -> Path:
    return Path(os.path.realpath(path))


def _is_same(one: Path, other: Path) -> bool:
    """Whether two names stand for one file, as hard links do."""
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False
