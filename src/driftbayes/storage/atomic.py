"""Writing a file whole or not at all."""

__all__ = ["PathLike", "atomic_path"]

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

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
        if error.errno not in _REFUSALS:
            raise
        msg = (
            f"cannot write {os.fspath(path)!r}: {os.strerror(error.errno or 0).lower()}; "
            "free some space or choose another place"
        )
        raise DriftbayesError(msg) from error
    finally:
        temporary.unlink(missing_ok=True)


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
