"""Write files and directories atomically."""

import ctypes
import errno
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from driftbayes._storage.leftovers import backup_folder, sweep, temporary_path
from driftbayes._storage.outputs import PathLike, check_store_target, check_target, permission
from driftbayes.errors import DriftbayesError

if TYPE_CHECKING:
    import xarray as xr

# Errors of the file system that are reported to the user.
_REPORTED = {
    *(errno.EACCES, errno.EBUSY, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENAMETOOLONG),
    *(errno.ENOSPC, errno.EPERM, errno.EROFS, errno.EXDEV),
}
# Arguments of renameat2, and the errors if it is not supported; layered file systems report EXDEV
# for directories in a lower layer.
_AT_FDCWD, _NO_REPLACE, _EXCHANGE = -100, 1, 2
_UNSUPPORTED = {errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EXDEV}
# Folders that this process has cleared of temporary files of ended processes.
_swept: set[Path] = set()


@contextmanager
def atomic_path(path: PathLike) -> Iterator[Path]:
    """Yield a temporary path that becomes `path` when the block ends without an error.

    A reader of `path` sees the old file or the new one, never a part of it. If the block raises,
    `path` is unchanged and the temporary file is removed.

    Args:
        path: The file to write; its directory must exist.
    """
    with atomic_paths([path]) as (temporary,):
        yield temporary


@contextmanager
def atomic_paths(paths: Sequence[PathLike]) -> Iterator[list[Path]]:
    """Yield temporary paths of several files that are renamed together.

    Nothing is renamed until all files are written; if one rename fails, the earlier ones are
    undone. Only a kill between two renames can leave a mixture of old and new files.
    """
    # Links are resolved: a rename would replace the link by a file.
    targets = [Path(os.path.realpath(path)) for path in paths]
    names = [os.fspath(path) for path in paths]
    for target, name in zip(targets, names, strict=True):
        check_target(target, name)
        permission(target, name)
        _sweep_once(target.parent)
    temporaries = [temporary_path(target) for target in targets]
    try:
        yield temporaries
        for temporary, target in zip(temporaries, targets, strict=True):
            _flush(temporary)
            if target.exists():
                temporary.chmod(target.stat().st_mode & 0o777)
        with ExitStack() as undo:
            for temporary, target, name in zip(temporaries, targets, names, strict=True):
                _rename(temporary, target, name, undo if len(targets) > 1 else None)
            undo.pop_all()
    except OSError as error:
        _refuse(error, names[0])
    finally:
        for temporary in temporaries:
            temporary.unlink(missing_ok=True)


def _rename(temporary: Path, target: Path, name: str, undo: ExitStack | None) -> None:
    """Rename a temporary file to its target, and register the reverse in `undo`."""
    existed = target.exists()
    if not permission(target, name):
        _rename_announced(temporary, target, name)
    elif existed and undo is not None and _exchange(temporary, target):
        # The temporary name now holds the old file.
        undo.callback(os.replace, temporary, target)
    else:
        os.replace(temporary, target)
    if undo is not None and not existed:
        undo.callback(target.unlink, missing_ok=True)


def _rename_announced(temporary: Path, target: Path, name: str) -> None:
    try:
        _rename_new(temporary, target)
    except FileExistsError as error:
        msg = f"{name!r} was created by another process after the start; it was not replaced"
        raise DriftbayesError(msg) from error


@contextmanager
def atomic_folder(path: PathLike, *, may_replace: Callable[[Path], bool]) -> Iterator[Path]:
    """Yield a temporary path for a directory, which becomes `path` when the block ends.

    If the system can exchange two names (Linux, on common file systems), `path` is always the old
    or the new directory. Otherwise the old directory is first moved to a hidden folder; if the
    process is killed at that moment, the next write to the same place moves it back.
    """
    target = Path(os.path.realpath(path))
    name = os.fspath(path)
    check_store_target(target, name, may_replace)
    permission(target, name)
    _sweep_once(target.parent)
    temporary = temporary_path(target)
    try:
        yield temporary
        for file in temporary.rglob("*"):
            if file.is_file():
                _flush(file)
        if not permission(target, name) or not target.exists():
            _rename_announced(temporary, target, name)
        elif not _exchange(temporary, target):
            _replace_folder(temporary, target)
    except OSError as error:
        _refuse(error, name)
    finally:
        # After an exchange this is the old directory.
        shutil.rmtree(temporary, ignore_errors=True)


def write_netcdf(dataset: "xr.Dataset", path: Path, *, compress: bool = False) -> None:
    """Write NetCDF 4, or NetCDF 3 if h5netcdf is missing, as on some GPU machines."""
    engine: Literal["h5netcdf", "scipy"] = "h5netcdf" if find_spec("h5netcdf") else "scipy"
    encoding: dict[str, dict[str, Any]] = {}
    for key, variable in dataset.variables.items():
        encoding[str(key)] = {"_FillValue": None}
        if compress and engine == "h5netcdf" and variable.dtype.kind in "if":
            encoding[str(key)] |= {"zlib": True, "complevel": 9, "shuffle": True}
    # Encoded in memory first, so that a full disk cannot leave a partial file.
    with atomic_path(path) as temporary:
        temporary.write_bytes(dataset.to_netcdf(engine=engine, encoding=encoding))


def _replace_folder(temporary: Path, target: Path) -> None:
    """Replace a directory in two renames, on systems without an exchange."""
    backup = backup_folder(target)
    backup.mkdir()
    old = backup / target.name
    try:
        target.rename(old)
        temporary.rename(target)
    except OSError:
        if old.exists():
            old.rename(target)
        with suppress(OSError):
            backup.rmdir()
        raise
    shutil.rmtree(backup, ignore_errors=True)


def _sweep_once(folder: Path) -> None:
    """Remove old temporary files from a folder, once per process, as stores have many files."""
    if folder not in _swept:
        _swept.add(folder)
        sweep(folder)


def _refuse(error: OSError, name: str) -> NoReturn:
    if error.errno not in _REPORTED:
        raise error
    raise DriftbayesError(
        f"cannot write {name!r}: {os.strerror(error.errno or 0).lower()}; "
        "free some space or choose another place"
    ) from error


def _flush(path: Path) -> None:
    # Otherwise a power failure after the rename could leave an empty file.
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _rename_new(source: Path, target: Path) -> None:
    """Rename a file or directory to an unused name."""
    if _renameat2(source, target, _NO_REPLACE):
        return
    if not source.is_dir():
        # A hard link fails if the target exists.
        try:
            os.link(source, target)
        except FileExistsError:
            raise
        except OSError:
            # Hard links are not supported: another process could create the target before the
            # rename below.
            pass
        else:
            source.unlink()
            return
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    source.rename(target)


def _exchange(first: Path, second: Path) -> bool:
    """Exchange the names of two files or directories atomically; False if not supported."""
    return _renameat2(first, second, _EXCHANGE)


def _renameat2(source: Path, target: Path, flags: int) -> bool:
    """Rename with flags; return False if the system does not support it."""
    function = _system_call()
    if function is None:
        return False
    if function(_AT_FDCWD, os.fsencode(source), _AT_FDCWD, os.fsencode(target), flags) == 0:
        return True
    number = ctypes.get_errno()
    if number in _UNSUPPORTED:
        return False
    raise OSError(number, os.strerror(number), str(source), None, str(target))


@cache
def _system_call() -> Any:
    """Return renameat2 of the C library; None outside Linux."""
    try:
        function = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):
        return None
    function.argtypes = (
        *(ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint),
    )
    function.restype = ctypes.c_int
    return function
