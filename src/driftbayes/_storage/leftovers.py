"""Names of temporary files, and removal of those of ended processes.

A process that is killed cannot remove its temporary files. Their names hold the machine, the
process and its start time, so that the next command that writes in the same folder can remove
them, but not those of a running process.
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
    r"\.driftbayes-(?P<machine>[0-9a-f]{8})-(?P<pid>[0-9]{1,10})-(?P<start>[0-9]{1,20})"
    r"-[0-9a-f]{12}(?P<backup>-backup)?(\..*)?"
)
# Time in seconds after which unchanged files of another machine are removed.
_MAX_AGE = 7 * 86_400.0
# A name has at most 255 bytes, and some names have a very long "suffix".
_MAX_SUFFIX = 32


def temporary_path(target: Path) -> Path:
    """Return a new hidden path beside a file or directory, with the same suffix."""
    suffix = target.suffix if len(os.fsencode(target.suffix)) <= _MAX_SUFFIX else ""
    return target.with_name(f"{_owner()}{suffix}")


def backup_folder(target: Path) -> Path:
    """Return a new hidden path beside a directory, for its backup while it is replaced."""
    return target.with_name(f"{_owner()}-backup")


@contextmanager
def scratch_folder(parent: str | os.PathLike[str] | None = None) -> Iterator[Path]:
    """Make a folder for temporary files that is removed after the block."""
    root = Path(tempfile.gettempdir() if parent is None else parent)
    sweep(root)
    folder = root / _owner()
    # Readable by the user only, like folders of `tempfile`.
    try:
        folder.mkdir(mode=0o700)
    except OSError as error:
        raise DriftbayesError(
            f"cannot make a folder for temporary files in '{root}': {error.strerror}; choose "
            "another place"
        ) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sweep(folder: Path) -> list[Path]:
    """Remove temporary files of ended processes from a folder, and return their paths.

    Only names made by `temporary_path` and `backup_folder` are considered.
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
    """Move a directory back from its backup, unless the new directory is in place."""
    with suppress(OSError):
        for old in backup.iterdir():
            target = backup.with_name(old.name)
            if not os.path.lexists(target):
                old.rename(target)


def _is_abandoned(path: Path, match: re.Match[str]) -> bool:
    # On other systems than POSIX, os.kill(pid, 0) may end the process.
    if match["machine"] == _machine() and os.name == "posix":
        return not _is_running(int(match["pid"]), int(match["start"]))
    # The state of the process is unknown: use the age of its files.
    try:
        files = [path, *path.rglob("*")] if path.is_dir() and not path.is_symlink() else [path]
        newest = max(file.lstat().st_mtime for file in files)
    except OSError:
        return False
    return time.time() - newest > _MAX_AGE


def _is_running(pid: int, start: int) -> bool:
    """Whether a process of this machine is running and has this start time."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    # Process numbers are reused; the start time distinguishes two processes.
    state, began = _stat(pid)
    return state not in ("Z", "X") and (not start or not began or began == start)


def _owner() -> str:
    pid = os.getpid()
    return f".driftbayes-{_machine()}-{pid}-{_stat(pid)[1]}-{secrets.token_hex(6)}"


def _stat(pid: int) -> tuple[str, int]:
    """Return the state of a process and its start in clock ticks after boot, 0 if unknown."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "", 0
    # The name of the program, in parentheses, may contain any character.
    fields = text.rpartition(")")[2].split()
    return (fields[0], int(fields[19])) if len(fields) > 19 else ("", 0)


@cache
def _machine() -> str:
    """Return a hash of the machine, its boot and the process namespace."""
    parts = [platform.node()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii"))
    with suppress(OSError):
        parts.append(os.readlink("/proc/self/ns/pid"))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:8]
