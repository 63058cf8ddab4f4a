"""Limits on the memory and time for reading a file, checked in advance.

A file on disk can expand to a limited number of bytes in memory; a file that declares more is
refused. The data must also fit into the memory of the machine. `DRIFTBAYES_READ_MEMORY` (a size
such as 8GB) and `DRIFTBAYES_READ_TIME` (seconds) override the limits found for this machine.

The inflated size of compressed data is found without allocating it: Blosc, LZ4 and Zstandard store
it; data in other codecs are inflated piece by piece, and only if they are large enough to matter.
"""

import bz2
import io
import lzma
import os
import re
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from driftbayes.errors import DriftbayesError

# In an array of text all entries are as long as the longest.
MAX_ID_LENGTH = 200
MAX_NAMES = 2000  # columns or variables of a file
MAX_HEAD = 2**22  # bytes of a table up to the end of its first rows
MEMORY_VARIABLE, TIME_VARIABLE = "DRIFTBAYES_READ_MEMORY", "DRIFTBAYES_READ_TIME"
# Deflate turns one byte into at most 1032; the other filters in use stay below on real numbers.
_MAX_PER_COMPRESSED_BYTE = 1100
# Bytes that any machine can spare.
_ALWAYS_ALLOWED = 2**26
# The rest is for computations and for other programs.
_SHARE_OF_FREE_MEMORY = 0.8
_CACHED = ("inactive_file ", "active_file ")
# For a machine whose free memory is unknown.
_FALLBACK_MEMORY = 2**32
# The slowest parser, in Python, reads a megabyte in seconds.
_BASE_SECONDS, _SECONDS_PER_BYTE = 120.0, 2e-5
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{0,9})?)\s*([KMGT]?)i?B?", re.IGNORECASE)
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_BLOCK = 2**18
# Largest number of bytes that one compressed byte can become.
MAX_INFLATION = {"zlib": 1032, "gzip": 1032, "bz2": 2**20, "lzma": 2**14}
# Data that inflate to at most this many bytes are not counted first.
MAX_UNCOUNTED = 2**28
_BLOSC_HEADER = 16
_ZSTD_MAGIC, _ZSTD_BLOCK = 0xFD2FB528, 2**17
_SKIPPABLE = range(0x184D2A50, 0x184D2A60)


def check_stored(what: str, declared: int, stored: int, *, compressed: bool = True) -> None:
    """Refuse data declared to be larger than the stored bytes can expand to."""
    possible = stored * _MAX_PER_COMPRESSED_BYTE if compressed else stored
    if declared > max(possible, _ALWAYS_ALLOWED):
        raise DriftbayesError(
            f"{what} is declared to have {declared:,} bytes, but only {stored:,} are stored; it is "
            "damaged or incomplete"
        )


def check_names(path: Path, count: int, what: str) -> None:
    """Refuse a file with too many columns, variables or arrays."""
    if count > MAX_NAMES:
        raise DriftbayesError(f"{path.name!r} has {count:,} {what}; expected at most {MAX_NAMES:,}")


def stored_size(path: Path) -> int:
    """Return the number of bytes of a file on disk; a sparse file has a larger nominal size."""
    status = path.stat()
    # Small files may be stored in the directory itself, without any block.
    blocks = max(getattr(status, "st_blocks", status.st_size) * 512, 2**16)
    return min(status.st_size, blocks)


def memory_budget() -> int:
    """Return the number of bytes that reading may use."""
    text = os.environ.get(MEMORY_VARIABLE, "").strip()
    if text:
        size = n_bytes_of(text)
        if size < 1:
            raise DriftbayesError(f"{MEMORY_VARIABLE} must be a size such as 8GB, got {text!r:.40}")
        return size
    return max(int(_SHARE_OF_FREE_MEMORY * _free_memory()), _ALWAYS_ALLOWED)


def n_bytes_of(text: str) -> int:
    """Return the number of bytes in `200MB`, `1.5 GB` or `1000`; 0 if it is not a size."""
    match = _SIZE.fullmatch(text.strip())
    return int(float(match[1]) * 1000 ** _POWERS[match[2].upper()]) if match else 0


def check_memory(n_bytes: int, what: str) -> None:
    """Refuse data that do not fit into memory."""
    # Avoid a system call for every small file.
    if n_bytes <= _ALWAYS_ALLOWED:
        return
    budget = memory_budget()
    if n_bytes > budget:
        raise DriftbayesError(
            f"{what} needs {readable_size(n_bytes)} of memory, more than the available "
            f"{readable_size(budget)}; read fewer columns or part of the file, or set "
            f"{MEMORY_VARIABLE}={readable_size(n_bytes).replace(' ', '')}"
        )


class Budget:
    """Memory claimed so far for one file.

    Args:
        what: Name of the data, as the subject of a sentence.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self._claimed = 0

    def claim(self, n_bytes: int) -> None:
        """Add to the claimed memory; refuse if the total does not fit."""
        check_memory(self._claimed + n_bytes, self.what)
        self._claimed += n_bytes


class Clock:
    """Time limit for reading a file, in proportion to its size.

    Args:
        name: Name of the file, for messages.
        n_bytes: Size of the file.
    """

    def __init__(self, name: str, n_bytes: int) -> None:
        text = os.environ.get(TIME_VARIABLE, "").strip()
        try:
            self._allowed = float(text) if text else _BASE_SECONDS + n_bytes * _SECONDS_PER_BYTE
        except ValueError:
            self._allowed = 0.0
        if not self._allowed > 0:
            raise DriftbayesError(f"{TIME_VARIABLE} must be a number of seconds, got {text[:40]!r}")
        self._name = name
        self._start = time.monotonic()

    def check(self) -> None:
        """Raise an error if the time limit has passed."""
        if time.monotonic() - self._start > self._allowed:
            raise DriftbayesError(
                f"{self._name!r} was not read within {self._allowed:.0f} s, longer than a file of "
                f"its size needs; it may be damaged: check it, or increase {TIME_VARIABLE}, in "
                "seconds"
            )


# Called with the number of bytes read and the size of the file.
_watcher: ContextVar[Callable[[int, int], None] | None] = ContextVar("watcher", default=None)


@contextmanager
def watched(progress: Callable[[int, int], None]) -> Iterator[None]:
    """Report the reading of text tables in the block to a function: bytes read, and size."""
    token = _watcher.set(progress)
    try:
        yield
    finally:
        _watcher.reset(token)


class WatchedFile(io.FileIO):
    """A file that reports the progress of reading."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._size, self._watcher = max(path.stat().st_size, 1), _watcher.get()

    def read(self, size: int | None = -1, /) -> bytes:
        """Read bytes and report the position."""
        data = super().read(-1 if size is None else size) or b""
        if self._watcher is not None:
            self._watcher(self.tell(), self._size)
        return data


def readable_size(n_bytes: float) -> str:
    """Format a number of bytes, rounded up so that it can be used as a limit."""
    for unit in ("B", "KB", "MB", "GB"):
        if n_bytes < 1000:
            return f"{int(-(-n_bytes // 1))} {unit}"
        n_bytes /= 1000
    return f"{int(-(-n_bytes // 1))} TB"


def _free_memory() -> int:
    """Return the free memory under the strictest of the limits on this process."""
    limits = []
    with suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        free = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
        limits.append(int(free[0]) * 1024)
    with suppress(OSError, ValueError, IndexError):
        group = Path("/sys/fs/cgroup")
        # "max" where there is no limit.
        limit = int((group / "memory.max").read_text())
        used = int((group / "memory.current").read_text())
        lines = (group / "memory.stat").read_text(encoding="ascii").splitlines()
        # Cached pages of files are released on demand.
        cached = sum(int(line.split()[1]) for line in lines if line.startswith(_CACHED))
        limits.append(limit - max(used - cached, 0))
    with suppress(ImportError, OSError, ValueError):
        import resource

        soft = resource.getrlimit(resource.RLIMIT_AS)[0]
        if soft != resource.RLIM_INFINITY:
            mapped = int(Path("/proc/self/statm").read_text().split()[0])
            limits.append(soft - mapped * resource.getpagesize())
    if not limits:
        with suppress(OSError, ValueError, AttributeError):
            limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2)
    return max(min(limits, default=_FALLBACK_MEMORY), 0)


def exceeds(stream: BinaryIO, start: int, length: int, compressor: str, allowed: int) -> bool:
    """Whether a part of a file would inflate to more than the allowed bytes."""
    stream.seek(start)
    if compressor == "blosc":
        return int.from_bytes(stream.read(_BLOSC_HEADER)[4:8], "little") > allowed
    if compressor == "lz4":
        return int.from_bytes(stream.read(4), "little") > allowed
    if compressor == "zstd":
        return _zstd_size(stream, start + length) > allowed
    # Counting takes as long as reading: skip it if the result is small in any case.
    allowed = max(allowed, MAX_UNCOUNTED)
    if length * MAX_INFLATION[compressor] <= allowed:
        return False
    return inflated_size(stream, length, compressor, allowed) > allowed


def is_cut(stream: BinaryIO, length: int, compressor: str) -> bool:
    """Whether Blosc data are shorter than their header says: the decoder would read beyond them."""
    if compressor != "blosc":
        return False
    stream.seek(0)
    header = stream.read(_BLOSC_HEADER)
    return len(header) < _BLOSC_HEADER or int.from_bytes(header[12:], "little") > length


def shard_parts(
    stream: BinaryIO, size: int, n_inner: int, *, first: bool
) -> Iterator[tuple[int, int]]:
    """Yield offset and length of each chunk of a shard, from the index at its start or end."""
    n_bytes = 16 * n_inner
    if n_bytes > size:
        return
    # With and without a checksum after the index.
    for start in {0} if first else {size - n_bytes - 4, size - n_bytes}:
        stream.seek(max(start, 0))
        pairs = np.frombuffer(stream.read(n_bytes), dtype="<u8")
        for offset, length in pairs[: len(pairs) // 2 * 2].reshape(-1, 2).tolist():
            if offset < size and 0 < length <= size - offset:
                yield offset, length


def _decompressor(compressor: str) -> Any:
    if compressor == "bz2":
        return bz2.BZ2Decompressor()
    if compressor == "lzma":
        return lzma.LZMADecompressor(memlimit=2**28)
    return zlib.decompressobj(31 if compressor == "gzip" else 15)


def inflated_size(stream: BinaryIO, length: int, compressor: str, limit: int) -> int:
    """Count the inflated bytes until they exceed a limit; ignore errors of damaged data."""
    total, left = 0, length
    decompressor = _decompressor(compressor)
    data = b""
    try:
        while total <= limit:
            if not data:
                data = stream.read(min(_BLOCK, left))
                left -= len(data)
                if not data and (decompressor.eof or getattr(decompressor, "needs_input", True)):
                    break
            if decompressor.eof:
                # Concatenated gzip files are one file.
                data = data.lstrip(b"\0") if compressor == "gzip" else data
                if not data:
                    continue
                decompressor = _decompressor(compressor)
            out = decompressor.decompress(data, _BLOCK)
            total += len(out)
            if decompressor.eof:
                data = decompressor.unused_data
            elif compressor in ("zlib", "gzip"):
                data = decompressor.unconsumed_tail
                if not out and not data and not left:
                    break
            else:
                data = b""
    except (zlib.error, OSError, EOFError, ValueError, lzma.LZMAError):
        pass
    return total


def _zstd_size(stream: BinaryIO, end: int) -> int:
    """Return an upper bound of the size of Zstandard frames, from the headers of their blocks."""
    total = 0
    while stream.tell() < end:
        magic = int.from_bytes(stream.read(4), "little")
        if magic in _SKIPPABLE:
            stream.seek(int.from_bytes(stream.read(4), "little"), 1)
            continue
        if magic != _ZSTD_MAGIC:
            # The decoder will report the error.
            return total
        descriptor = int.from_bytes(stream.read(1), "little")
        single, checksum = bool(descriptor & 0x20), bool(descriptor & 4)
        if not single:
            stream.read(1)
        stream.read((0, 1, 2, 4)[descriptor & 3])
        n_size = (1 if single else 0, 2, 4, 8)[descriptor >> 6]
        declared = int.from_bytes(stream.read(n_size), "little") + (256 if n_size == 2 else 0)
        held, last = 0, False
        while not last:
            head = stream.read(3)
            if len(head) < 3 or stream.tell() > end:
                break
            value = int.from_bytes(head, "little")
            last, kind, size = bool(value & 1), value >> 1 & 3, value >> 3
            held += size if kind < 2 else _ZSTD_BLOCK
            stream.seek(1 if kind == 1 else size, 1)
        # The decoder allocates the declared size, if there is one.
        total += declared if n_size else held
        if checksum:
            stream.read(4)
    return total
