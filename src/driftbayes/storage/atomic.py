"""Writing a file whole or not at all."""

__all__ = ["PathLike", "atomic_folder", "atomic_path"]

import errno
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn, TypeAlias

from driftbayes.errors import DriftbayesError

PathLike: TypeAlias = str | os.PathLike[str]

# What the machine, not our code, can refuse while a file is written.
_REFUSALS = {
    errno.EACCES,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EIO,
    errno.ENAMETOOLONG,
    errno.ENOSPC,
    errno.EPERM,
    errno.EROFS,
}


@contextmanager
def atomic_path(path: PathLike) -> Iterator[Path]:
    """A temporary path beside `path` that becomes `path` when the block ends without an error.

    Whoever looks at `path` sees the old file or the new one, never a part of it. If the block
    raises, `path` is as it was and the temporary file is gone.

    Args:
        path: The file to write; its directory must exist.
    """
    # Through a link to the file itself, or the rename would put a file in the link's place.
    target = Path(os.path.realpath(path))
    _check_target(target, os.fspath(path))
    temporary = target.with_name(f".{secrets.token_hex(8)}{target.suffix}")
    try:
        yield temporary
        _flush(temporary)
        if target.exists():
            temporary.chmod(target.stat().st_mode & 0o777)
        os.replace(temporary, target)
    except OSError as error:
        _refuse(error, os.fspath(path))
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: PathLike, *, may_replace: Callable[[Path], bool]) -> Iterator[Path]:
    """A temporary path beside `path` for a directory, which becomes `path` likewise.

    Args:
        path: The directory to write; the one it is in must exist.
        may_replace: Whether a directory that is there already may go.
    """
    target = Path(os.path.realpath(path))
    name = os.fspath(path)
    if target.is_dir() and not may_replace(target):
        msg = f"{name!r} is a directory that driftbayes did not write; choose another name"
        raise DriftbayesError(msg)
    if target.is_file():
        msg = f"{name!r} is a file, expected a new name for a directory; choose another"
        raise DriftbayesError(msg)
    # The checks of a file hold for a name beside it as well.
    _check_target(target.with_name(f".{secrets.token_hex(8)}"), name)
    temporary = target.with_name(f".{secrets.token_hex(8)}{target.suffix}")
    old = target.with_name(f".{secrets.token_hex(8)}.old")
    try:
        yield temporary
        for file in temporary.rglob("*"):
            if file.is_file():
                _flush(file)
        # No system call replaces a directory that is not empty: the old one steps aside.
        if target.exists():
            os.replace(target, old)
        try:
            os.replace(temporary, target)
        except OSError:
            if old.exists():
                os.replace(old, target)
            raise
    except OSError as error:
        _refuse(error, name)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        if target.exists():
            shutil.rmtree(old, ignore_errors=True)


def _refuse(error: OSError, name: str) -> NoReturn:
    if error.errno not in _REFUSALS:
        raise error
    msg = (
        f"cannot write {name!r}: {os.strerror(error.errno or 0).lower()}; "
        "free some space or choose another place"
    )
    raise DriftbayesError(msg) from error


def _check_target(target: Path, name: str) -> None:
    """Refuse what cannot be written, before anything is computed for it."""
    if target.is_dir():
        msg = f"{name!r} is a directory, expected a file; add a file name"
    elif target.exists() and not target.is_file():
        # Renaming onto /dev/null would, for root, replace the device by a file.
        msg = f"{name!r} is not an ordinary file and cannot be replaced; choose another name"
    elif not target.parent.is_dir():
        msg = f"cannot write {name!r}: its directory does not exist; create it first"
    elif not os.access(target.parent, os.W_OK | os.X_OK):
        msg = f"cannot write {name!r}: its directory is not writable; choose another place"
    else:
        return
    raise DriftbayesError(msg)


def _flush(path: Path) -> None:
    # Without this a power cut after the rename can leave the new name on an empty file.
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
