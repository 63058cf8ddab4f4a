"""How much memory and time the reading of a file may take, checked before either is spent.

A file is judged by what it can honestly hold: so many bytes in memory for so many on disk. What
passes that must still fit into the memory of the machine. `DRIFTBAYES_READ_MEMORY` (a size such as
8GB) and `DRIFTBAYES_READ_TIME` (seconds) replace what is found for this machine.

What compressed bytes would inflate to is found without making room for it: Blosc, LZ4 and Zstandard
say how much they hold; what says nothing is inflated piece by piece, and only if it is large enough
to matter.
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

# In an array of text all entries take the room of the longest.
MAX_ID_LENGTH = 200
# Columns or variables of a file, and bytes of a table up to the end of its first rows.
MAX_NAMES = 2000
MAX_HEAD = 2**22
MEMORY_VARIABLE, TIME_VARIABLE = "DRIFTBAYES_READ_MEMORY", "DRIFTBAYES_READ_TIME"
# Deflate turns one byte into at most 1032; the other filters in use stay below on real numbers.
_MAX_PER_COMPRESSED_BYTE = 1100
# Any machine can spare this much, and what is small need not be stored to the last byte.
_ALWAYS_ALLOWED = 2**26
# The rest is for what is computed, and for other programs.
_SHARE_OF_FREE_MEMORY = 0.8
_CACHED = ("inactive_file ", "active_file ")
# Of a machine that does not say how much memory is free.
_FALLBACK_MEMORY = 2**32
# The slowest of our parsers, in Python, reads a megabyte in seconds.
_BASE_SECONDS, _SECONDS_PER_BYTE = 120.0, 2e-5
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{0,9})?) ?([KMGT]?)i?B?", re.IGNORECASE)
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_BLOCK = 2**18
# What one byte can become at the most.
MAX_INFLATION = {"zlib": 1032, "gzip": 1032, "bz2": 2**20, "lzma": 2**14}
# Below this size compressed bytes are inflated without counting first.
HARMLESS = 2**28
_BLOSC_HEADER = 16
_ZSTD_MAGIC, _ZSTD_BLOCK = 0xFD2FB528, 2**17
_SKIPPABLE = range(0x184D2A50, 0x184D2A60)


def check_stored(what: str, declared: int, stored: int, *, compressed: bool = True) -> None:
    """Refuse what is declared to take more bytes in memory than can come out of those stored."""
    possible = stored * _MAX_PER_COMPRESSED_BYTE if compressed else stored
    if declared > max(possible, _ALWAYS_ALLOWED):
        raise DriftbayesError(
            f"{what} is declared to have {declared:,} bytes, but only {stored:,} are stored; it is "
            "damaged or was never filled"
        )


def check_names(path: Path, count: int, what: str) -> None:
    """Refuse a file of too many columns, variables or arrays."""
    if count > MAX_NAMES:
        raise DriftbayesError(f"{path.name!r} has {count:,} {what}; expected at most {MAX_NAMES:,}")


def stored_size(path: Path) -> int:
    """Number of bytes that a file takes on its disk: a file of holes claims far more."""
    found = path.stat()
    # Small files may lie in the directory itself, in no block at all.
    blocks = max(getattr(found, "st_blocks", found.st_size) * 512, 2**16)
    return min(found.st_size, blocks)


def memory_budget() -> int:
    """Number of bytes that reading may take."""
    told = os.environ.get(MEMORY_VARIABLE, "").strip()
    if told:
        match = _SIZE.fullmatch(told)
        size = float(match[1]) * 1000 ** _POWERS[match[2].upper()] if match else 0.0
        if size < 1:
            msg = f"{MEMORY_VARIABLE} must be a size such as 8GB, got {told[:40]!r}"
            raise DriftbayesError(msg)
        return int(size)
    return max(int(_SHARE_OF_FREE_MEMORY * _free_memory()), _ALWAYS_ALLOWED)


def check_memory(n_bytes: int, what: str) -> None:
    """Refuse what would not fit into the memory."""
    # Not asked of the system for every small file.
    if n_bytes <= _ALWAYS_ALLOWED:
        return
    budget = memory_budget()
    if n_bytes > budget:
        raise DriftbayesError(
            f"{what} would take {readable_size(n_bytes)} of memory, more than the "
            f"{readable_size(budget)} that reading may use here; read fewer columns or a part of "
            f"the file, or set {MEMORY_VARIABLE}={readable_size(n_bytes).replace(' ', '')}"
        )


class Budget:
    """Memory that one file has been given so far.

    Args:
        what: What is read, as the beginning of a sentence.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self._claimed = 0

    def claim(self, n_bytes: int) -> None:
        """Refuse if all that was claimed and this would not fit."""
        check_memory(self._claimed + n_bytes, self.what)
        self._claimed += n_bytes


class Clock:
    """Time that reading a file may take, in proportion to its size.

    Args:
        name: Name of the file, for messages.
        n_bytes: Its size.
    """

    def __init__(self, name: str, n_bytes: int) -> None:
        told = os.environ.get(TIME_VARIABLE, "").strip()
        try:
            self._allowed = float(told) if told else _BASE_SECONDS + n_bytes * _SECONDS_PER_BYTE
        except ValueError:
            self._allowed = 0.0
        if not self._allowed > 0:
            raise DriftbayesError(f"{TIME_VARIABLE} must be a number of seconds, got {told[:40]!r}")
        self._name = name
        self._start = time.monotonic()

    def check(self) -> None:
        """Refuse to go on when the time is over."""
        if time.monotonic() - self._start > self._allowed:
            raise DriftbayesError(
                f"{self._name!r} was not read after {self._allowed:.0f} s, longer than a file of "
                f"its size needs; it may be damaged: check it, or set {TIME_VARIABLE} to more "
                "seconds"
            )


# Told how many bytes of a file have been read, and of how many.
_watcher: ContextVar[Callable[[int, int], None] | None] = ContextVar("watcher", default=None)


@contextmanager
def watched(progress: Callable[[int, int], None]) -> Iterator[None]:
    """Tell a function how far tables of text are read in the block: bytes read, and size."""
    token = _watcher.set(progress)
    try:
        yield
    finally:
        _watcher.reset(token)


class WatchedFile(io.FileIO):
    """A file that tells how far it is read."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._size, self._watcher = max(path.stat().st_size, 1), _watcher.get()

    def read(self, size: int | None = -1, /) -> bytes:
        """Read some bytes."""
        found = super().read(-1 if size is None else size) or b""
        if self._watcher is not None:
            self._watcher(self.tell(), self._size)
        return found


def readable_size(n_bytes: float) -> str:
    """A number of bytes in words, rounded up so that it can be given as a limit."""
    for unit in ("B", "KB", "MB", "GB"):
        if n_bytes < 1000:
            return f"{int(-(-n_bytes // 1))} {unit}"
        n_bytes /= 1000
    return f"{int(-(-n_bytes // 1))} TB"


def _free_memory() -> int:
    """Memory that is free, by the narrowest of the limits that hold here."""
    found = []
    with suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        free = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
        found.append(int(free[0]) * 1024)
    with suppress(OSError, ValueError, IndexError):
        group = Path("/sys/fs/cgroup")
        # "max" where there is no limit.
        limit = int((group / "memory.max").read_text())
        used = int((group / "memory.current").read_text())
        lines = (group / "memory.stat").read_text(encoding="ascii").splitlines()
        # Pages of files are given back when others need the room.
        kept = sum(int(line.split()[1]) for line in lines if line.startswith(_CACHED))
        found.append(limit - max(used - kept, 0))
    with suppress(ImportError, OSError, ValueError):
        import resource

        soft = resource.getrlimit(resource.RLIMIT_AS)[0]
        if soft != resource.RLIM_INFINITY:
            mapped = int(Path("/proc/self/statm").read_text().split()[0])
            found.append(soft - mapped * resource.getpagesize())
    if not found:
        with suppress(OSError, ValueError, AttributeError):
            found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2)
    return max(min(found, default=_FALLBACK_MEMORY), 0)


def exceeds(stream: BinaryIO, start: int, length: int, compressor: str, allowed: int) -> bool:
    """Whether a part of a file would come out larger than allowed."""
    stream.seek(start)
    if compressor == "blosc":
        return int.from_bytes(stream.read(_BLOSC_HEADER)[4:8], "little") > allowed
    if compressor == "lz4":
        return int.from_bytes(stream.read(4), "little") > allowed
    if compressor == "zstd":
        return _zstd_size(stream, start + length) > allowed
    # Counting takes as long as reading does: only what could do harm is counted.
    allowed = max(allowed, HARMLESS)
    if length * MAX_INFLATION[compressor] <= allowed:
        return False
    return inflated_size(stream, length, compressor, allowed) > allowed


def is_cut(stream: BinaryIO, length: int, compressor: str) -> bool:
    """Whether a file of Blosc ends before its header says: the decoder would read on beyond it."""
    if compressor != "blosc":
        return False
    stream.seek(0)
    header = stream.read(_BLOSC_HEADER)
    return len(header) < _BLOSC_HEADER or int.from_bytes(header[12:], "little") > length


def shard_parts(
    stream: BinaryIO, size: int, n_inner: int, *, first: bool
) -> Iterator[tuple[int, int]]:
    """Where the chunks of a shard lie, from the list of them at its end or its beginning."""
    n_bytes = 16 * n_inner
    if n_bytes > size:
        return
    # With and without a checksum behind the list.
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


def inflated_size(stream: BinaryIO, length: int, compressor: str, most: int) -> int:
    """Bytes that come out, counted until there are too many; damage is for the decoder to tell."""
    total, left = 0, length
    decompressor = _decompressor(compressor)
    data = b""
    try:
        while total <= most:
            if not data:
                data = stream.read(min(_BLOCK, left))
                left -= len(data)
                if not data and (decompressor.eof or getattr(decompressor, "needs_input", True)):
                    break
            if decompressor.eof:
                # Several files of gzip one after the other are one.
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
    """The most that frames of Zstandard can hold, from the headers of their blocks."""
    total = 0
    while stream.tell() < end:
        magic = int.from_bytes(stream.read(4), "little")
        if magic in _SKIPPABLE:
            stream.seek(int.from_bytes(stream.read(4), "little"), 1)
            continue
        if magic != _ZSTD_MAGIC:
            # The decoder says what is wrong.
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
        # Room is made for what is declared, whatever the blocks hold.
        total += declared if n_size else held
        if checksum:
            stream.read(4)
    return total
