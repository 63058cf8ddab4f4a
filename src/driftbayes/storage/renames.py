"""Renames that replace nothing, or that exchange two names at once."""

__all__ = ["exchange", "rename_new"]

import ctypes
import errno
import os
from functools import cache
from pathlib import Path
from typing import Any

_AT_FDCWD = -100
_NO_REPLACE, _EXCHANGE = 1, 2
# How a system says that it, or its file system, does not know these renames; layered file systems
# say EXDEV of directories that lie in a lower layer.
_UNKNOWN = {errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EXDEV}


def rename_new(source: Path, target: Path) -> None:
    """Rename a file or directory to a name that is free.

    Args:
        source: What to rename.
        target: The new name.

    Raises:
        FileExistsError: If there is something of that name.
    """
    if _renameat2(source, target, _NO_REPLACE):
        return
    if not source.is_dir():
        # A second name for the file, which must be new; then the first one goes.
        try:
            os.link(source, target)
        except FileExistsError:
            raise
        except OSError:
            # No hard links here. A moment is left between the look and the rename.
            pass
        else:
            source.unlink()
            return
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    source.rename(target)


def exchange(one: Path, other: Path) -> bool:
    """Exchange the names of two files or directories; False where the system cannot.

    At every moment each name stands for one of the two.

    Args:
        one: A file or directory.
        other: Another, in the same file system.
    """
    return _renameat2(one, other, _EXCHANGE)


def _renameat2(source: Path, target: Path, flags: int) -> bool:
    """Whether the system knows this kind of rename; if so, it is done, or an OSError is raised."""
    function = _system_call()
    if function is None:
        return False
    ends = (os.fsencode(source), os.fsencode(target))
    if function(_AT_FDCWD, ends[0], _AT_FDCWD, ends[1], flags) == 0:
        return True
    number = ctypes.get_errno()
    if number in _UNKNOWN:
        return False
    raise OSError(number, os.strerror(number), str(source), None, str(target))


@cache
def _system_call() -> Any:
    """renameat2 of the C library; None where there is none, as outside Linux."""
    try:
        function = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):
        return None
    function.argtypes = (
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.c_uint,
    )
    function.restype = ctypes.c_int
    return function
