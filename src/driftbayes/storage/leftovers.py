"""Names of temporary files that tell who writes them, and removal of those nobody writes any more.

A process that is killed cannot remove its temporary files. Their names hold the machine, the
process and when it started, so that the next command that writes in the same folder can tell them
from those of a process that still runs.
"""

import hashlib
import os
import platform
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from driftbayes.errors import DriftbayesError

_NAME = re.compile(
    r"\.driftbayes-(?P<place>[0-9a-f]{8})-(?P<pid>[0-9]{1,10})-(?P<start>[0-9]{1,20})-[0-9a-f]{12}"
    r"(?P<backup>-backup)?(\..*)?"
)
# What another machine left is removed when nothing in it has changed for so many seconds.
_MAX_AGE = 7 * 86_400.0
# Some names of 255 bytes end in a "suffix" that leaves no room for the rest.
_MAX_SUFFIX = 32


def temporary_path(target: Path) -> Path:
    """A new hidden name beside a file or directory, with the same suffix."""
    suffix = target.suffix if len(os.fsencode(target.suffix)) <= _MAX_SUFFIX else ""
    return target.with_name(f"{_owner()}{suffix}")


def backup_folder(target: Path) -> Path:
    """A new hidden name beside a directory, for a folder that keeps the old one while it moves."""
    return target.with_name(f"{_owner()}-backup")


@contextmanager
def scratch_folder(parent: str | os.PathLike[str] | None = None) -> Iterator[Path]:
    """A new folder for temporary files, removed after the block, or swept if that is killed."""
    place = Path(tempfile.gettempdir() if parent is None else parent)
    sweep(place)
    folder = place / _owner()
    # Only the user can look into it, as into those of `tempfile`.
    try:
        folder.mkdir(mode=0o700)
    except OSError as error:
        raise DriftbayesError(
            f"cannot make a folder for temporary files in '{place}': {error.strerror}; choose "
            "another place"
        ) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sweep(folder: Path) -> list[Path]:
    """Remove temporary files of ended processes from a folder, and return their paths.

    Only names that `temporary_path` and `backup_folder` make are considered.
    """
    removed: list[Path] = []
    try:
        names = [entry.name for entry in os.scandir(folder) if _NAME.fullmatch(entry.name)]
    except OSError:
        return removed
    for name in names:
        match = _NAME.fullmatch(name)
        path = folder / name
        if match is None or not _is_abandoned(path, match):
            continue
        if match["backup"]:
            _restore(path)
        with suppress(OSError):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
            removed.append(path)
    return removed


def _restore(backup: Path) -> None:
    """Move a directory back that was set aside, if its successor never took its place."""
    with suppress(OSError):
        for old in backup.iterdir():
            place = backup.with_name(old.name)
            if not os.path.lexists(place):
                old.rename(place)


def _is_abandoned(path: Path, match: re.Match[str]) -> bool:
    # Elsewhere than on POSIX systems, asking whether a process runs may end it.
    if match["place"] == _place() and os.name == "posix":
        return not _is_running(int(match["pid"]), int(match["start"]))
    # Nobody can be asked whether the process runs: only its silence can be seen.
    try:
        files = [path, *path.rglob("*")] if path.is_dir() and not path.is_symlink() else [path]
        newest = max(file.lstat().st_mtime for file in files)
    except OSError:
        return False
    return time.time() - newest > _MAX_AGE


def _is_running(pid: int, start: int) -> bool:
    """Whether a process of this machine runs and is the one that started then."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    # Process numbers are used again; the time of the start tells two processes apart.
    state, began = _stat(pid)
    return state not in ("Z", "X") and (not start or not began or began == start)


def _owner() -> str:
    pid = os.getpid()
    return f".driftbayes-{_place()}-{pid}-{_stat(pid)[1]}-{secrets.token_hex(6)}"


def _stat(pid: int) -> tuple[str, int]:
    """State of a process and its start in clock ticks after boot; 0 where that is not known."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "", 0
    # The name of the program, in parentheses, may hold anything.
    fields = text.rpartition(")")[2].split()
    return (fields[0], int(fields[19])) if len(fields) > 19 else ("", 0)


@cache
def _place() -> str:
    """The machine since it was started, and the process namespace, as eight hexadecimal digits."""
    parts = [platform.node()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii"))
    with suppress(OSError):
        parts.append(os.readlink("/proc/self/ns/pid"))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:8]
