"""Uploaded files: a request body with a line that lists the files, followed by their bytes."""

import io
import json
import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from driftbayes.errors import DriftbayesError
from driftbayes.io._limits import n_bytes_of

_MAX_FILES = 50_000
_MAX_LIST = 8 * 10**6
_MAX_NAME = 120
_MAX_DEPTH = 12
_BLOCK = 1 << 20
# Names of devices, with any suffix.
_DEVICES = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.I)


def parse_size(text: str) -> int:
    """Return the number of bytes in `200MB`, `1.5GB` or `1000`."""
    size = n_bytes_of(text)
    if size < 1:
        raise DriftbayesError(f"--max-upload must be a size such as 200MB or 1GB, got {text!r}")
    return size


def check_size(size: int, max_size: int) -> None:
    """Refuse an upload of `size` bytes if it exceeds `max_size`."""
    if size > max_size:
        raise DriftbayesError(
            f"the upload has {_readable(size)}, at most {_readable(max_size)} are allowed; start "
            "with --max-upload SIZE, or open the file with `driftbayes explore FILE`"
        )


def safe_name(text: str) -> str:
    """Return a safe file name: no directory, no device, no control characters."""
    base = text.replace("\\", "/").rpartition("/")[2]
    kept = "".join(c if c.isalnum() or c in " ._-+=()[]@,#~" else "_" for c in base).strip(" ")
    if not kept.strip("."):
        raise DriftbayesError(f"expected the name of a file, got {text!r}; rename it")
    if _DEVICES.fullmatch(kept):
        kept = f"_{kept}"
    # Keep the suffix, which may determine the format.
    return kept if len(kept) <= _MAX_NAME else kept[-_MAX_NAME:].lstrip(" .")


def receive(stream: io.BufferedIOBase, length: int, folder: Path) -> Path:
    """Write uploaded files into a folder; return the file, or the folder of several.

    Args:
        stream: Body of the request.
        length: Length of the body.
        folder: An empty folder.
    """
    line = stream.readline(min(length, _MAX_LIST))
    files = _listed(line)
    if len(line) + sum(size for _, size in files) != length:
        raise DriftbayesError("the list of files does not match their bytes; send them again")
    for path, size in files:
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        # Two names may have become equal.
        try:
            with target.open("xb") as file:
                _copy(stream, file, size)
        except (FileExistsError, IsADirectoryError) as error:
            raise DriftbayesError(f"two files are named {path.name!r}; rename one") from error
    return folder / files[0][0].parts[0]


def _listed(line: bytes) -> list[tuple[PurePosixPath, int]]:
    try:
        manifest: Any = json.loads(line)
        pairs = [(str(file["path"]), file["size"]) for file in manifest["files"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        pairs = []
    if not 0 < len(pairs) <= _MAX_FILES:
        raise DriftbayesError(f"expected a list of 1 to {_MAX_FILES:,} files before their bytes")
    found = []
    for text, size in pairs:
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise DriftbayesError(f"expected the size of {text!r} in bytes, got {size!r}")
        found.append((_inside(text.split("/")), size))
    tops = {path.parts[0] for path, _ in found}
    if len(tops) > 1:
        msg = f"expected one file or one folder, got {len(tops)}; drop one at a time"
        raise DriftbayesError(msg)
    return found


def _inside(parts: Sequence[str]) -> PurePosixPath:
    named = [part for part in parts if part]
    if not 0 < len(named) <= _MAX_DEPTH:
        msg = f"expected a path of 1 to {_MAX_DEPTH} names, got {len(named)}; send a flatter folder"
        raise DriftbayesError(msg)
    return PurePosixPath(*(safe_name(part) for part in named))


def _copy(stream: io.BufferedIOBase, file: io.BufferedIOBase, size: int) -> None:
    left = size
    while left:
        block = stream.read(min(left, _BLOCK))
        if not block:
            raise DriftbayesError("the connection ended before the end of the file; send it again")
        file.write(block)
        left -= len(block)


def _readable(size: int) -> str:
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= factor:
            return f"{size / factor:.4g} {unit}"
    return f"{size} bytes"
