"""The checksum of Zarr's codec `crc32c` (Castagnoli's polynomial), in NumPy alone.

A checksum is linear in the bits. The bytes are cut into many pieces of the same length, whose
checksums are made side by side, and these are joined two by two: that of the left piece is moved
on by the length of the right one.
"""

__all__ = ["crc32c"]

import math
from functools import cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

_Words: TypeAlias = NDArray[np.uint32]

_POLYNOMIAL = 0x82F63B78
_ALL = 0xFFFFFFFF


def crc32c(data: bytes) -> int:
    """The CRC32C of some bytes.

    Args:
        data: The bytes.

    Examples:
        >>> hex(crc32c(b"123456789"))
        '0xe3069283'
    """
    if len(data) < 4:
        return _plainly(data)
    # A start from all ones is one from zero with the first four bytes inverted. From zero, zeros
    # in front change nothing, so that all pieces can be of one length.
    n_pieces = 1 << max(math.isqrt(len(data)).bit_length() - 1, 0)
    n_words = -(-len(data) // (8 * n_pieces))
    padded = np.zeros(8 * n_words * n_pieces, dtype=np.uint8)
    first = len(padded) - len(data)
    padded[first:] = np.frombuffer(data, dtype=np.uint8)
    padded[first : first + 4] ^= 0xFF
    words = padded.view("<u8").reshape(n_pieces, n_words).T.copy()
    tables = _tables()
    sums = np.zeros(n_pieces, dtype=np.uint64)
    byte = np.uint64(0xFF)
    for row in words:
        row ^= sums
        found = tables[7][(row & byte).astype(np.intp)]
        for i in range(1, 8):
            found ^= tables[7 - i][((row >> np.uint64(8 * i)) & byte).astype(np.intp)]
        sums = found.astype(np.uint64)
    joined, n_bytes = sums.astype(np.uint32), 8 * n_words
    while len(joined) > 1:
        joined = _apply(_moved_by(n_bytes), joined[::2]) ^ joined[1::2]
        n_bytes *= 2
    return int(joined[0]) ^ _ALL


def _plainly(data: bytes) -> int:
    table = _tables()[0]
    value = _ALL
    for byte in data:
        value = (value >> 8) ^ int(table[(value ^ byte) & 0xFF])
    return value ^ _ALL


@cache
def _tables() -> NDArray[np.uint32]:
    """For each byte, its checksum when 0 to 7 bytes of zero follow."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = (table >> np.uint32(1)) ^ np.where(table & 1, _POLYNOMIAL, 0).astype(np.uint32)
    tables = [table]
    for _ in range(7):
        last = tables[-1]
        tables.append((last >> np.uint32(8)) ^ table[last & 0xFF])
    return np.stack(tables)


@cache
def _moved_by(n_bytes: int) -> _Words:
    """What becomes of each bit of a checksum when so many bytes of zero follow."""
    if n_bytes == 1:
        bits = np.uint32(1) << np.arange(32, dtype=np.uint32)
        return (bits >> np.uint32(8)) ^ _tables()[0][bits & 0xFF]
    half = _moved_by(n_bytes // 2)
    moved = _apply(half, half)
    return _apply(_moved_by(1), moved) if n_bytes % 2 else moved


def _apply(images: _Words, values: _Words) -> _Words:
    """A linear map, given by the images of the bits, of some values."""
    found = np.zeros_like(values)
    for bit, image in enumerate(images):
        found ^= np.where((values >> np.uint32(bit)) & np.uint32(1), image, np.uint32(0))
    return found
