"""Whether compressed bytes would come out larger than allowed, found without making room for them.

Blosc, LZ4 and Zstandard say how much they hold; what says nothing is inflated piece by piece, and
only if it is large enough to matter.
"""

__all__ = ["exceeds", "gzip_size", "is_cut", "shard_parts"]

import bz2
import lzma
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

_BLOCK = 2**18
# What one byte can become at the most.
_MAX_RATIO = {"zlib": 1032, "gzip": 1032, "bz2": 2**20, "lzma": 2**14}
_HARMLESS = 2**28
_BLOSC_HEADER = 16
_ZSTD_MAGIC, _ZSTD_BLOCK = 0xFD2FB528, 2**17
_SKIPPABLE = range(0x184D2A50, 0x184D2A60)


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
    allowed = max(allowed, _HARMLESS)
    if length * _MAX_RATIO[compressor] <= allowed:
        return False
    return _inflated(stream, length, compressor, allowed) > allowed


def is_cut(stream: BinaryIO, length: int, compressor: str) -> bool:
    """Whether a file of Blosc ends before its header says: the decoder would read on beyond it."""
    if compressor != "blosc":
        return False
    stream.seek(0)
    header = stream.read(_BLOSC_HEADER)
    return len(header) < _BLOSC_HEADER or int.from_bytes(header[12:], "little") > length


def gzip_size(stream: BinaryIO, length: int, most: int) -> int:
    """Number of bytes that a gzip file inflates to; counting stops soon after `most`."""
    return _inflated(stream, length, "gzip", most)


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


def _inflated(stream: BinaryIO, length: int, compressor: str, most: int) -> int:
    """Bytes that come out, counted until there are too many; damage is for the decoder to tell."""
    total, left = 0, length
    decompressor = _decompressor(compressor)
    data = b""
    try:
        while total <= most:
            if not data:
                data = stream.read(min(_BLOCK, left))
                left -= len(data)
                if not data and getattr(decompressor, "needs_input", True):
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
