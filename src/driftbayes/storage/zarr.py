"""Plain Zarr arrays (format 3), written chunk by chunk, each chunk whole or not at all.

A Zarr store is a directory with JSON that describes arrays and one file per chunk. The plain kind,
uncompressed and little-endian, needs nothing but NumPy to write and to read, and every Zarr library
reads it. A chunk may be written again: the last writer wins, and a reader sees one or the other.
Each chunk ends with its checksum (Zarr's codec crc32c), which is verified when the chunk is read;
stores of earlier versions have none.
"""

import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from driftbayes.errors import DriftbayesError
from driftbayes.storage.atomic import atomic_path
from driftbayes.storage.outputs import PathLike

_METADATA = "zarr.json"
_CHECKSUM = "crc32c"
_TYPES = {"float64", "float32", "int64", "int32"}
_Words: TypeAlias = NDArray[np.uint32]
# Castagnoli's polynomial, bits reversed.
_POLYNOMIAL, _ALL = 0x82F63B78, 0xFFFFFFFF


@dataclass(frozen=True)
class ZarrArray:
    """One array of a store.

    Args:
        path: Its directory.
        shape: Its shape.
        chunks: Shape of a chunk.
        dtype: Type of its numbers.
        attributes: What the store says about it.
        has_checksums: Whether each chunk ends with its checksum.
    """

    path: Path
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    dtype: np.dtype[Any]
    attributes: Mapping[str, Any]
    has_checksums: bool = True

    def write(self, values: NDArray[Any], start: Sequence[int]) -> None:
        """Write a block that begins at a chunk's corner and ends at one or at the array's end."""
        for low, size, limit, chunk in zip(
            start, values.shape, self.shape, self.chunks, strict=True
        ):
            end = low + size
            if low % chunk or end > limit or (end % chunk and end != limit):
                msg = f"a block from {low} to {end} does not fill chunks of {chunk} up to {limit}"
                raise DriftbayesError(msg)
        for corner in self._corners(
            start, [a + n for a, n in zip(start, values.shape, strict=True)]
        ):
            inside = tuple(
                slice(c - s, c - s + n) for c, s, n in zip(corner, start, self.chunks, strict=True)
            )
            part = values[inside]
            full = np.full(self.chunks, _fill(self.dtype), dtype=self.dtype)
            full[tuple(slice(n) for n in part.shape)] = part
            file = self._file(corner)
            file.parent.mkdir(parents=True, exist_ok=True)
            raw = full.tobytes()
            if self.has_checksums:
                raw += crc32c(raw).to_bytes(4, "little")
            with atomic_path(file) as temporary:
                temporary.write_bytes(raw)

    def read(self, stop: Sequence[int] | None = None) -> NDArray[Any]:
        """Read the array up to `stop`; what was never written is NaN or 0."""
        shape = self.shape if stop is None else tuple(stop)
        out = np.full(shape, _fill(self.dtype), dtype=self.dtype)
        for corner in self._corners([0] * len(shape), shape):
            if not self.is_written(corner):
                continue
            chunk = self.read_chunk(corner)
            inside = tuple(
                slice(c, min(c + n, limit))
                for c, n, limit in zip(corner, self.chunks, shape, strict=True)
            )
            out[inside] = chunk[tuple(slice(s.stop - s.start) for s in inside)]
        return out

    def read_chunk(self, corner: Sequence[int]) -> NDArray[Any]:
        """Read the chunk that begins at an index."""
        file = self._file(corner)
        name = f"chunk {file.relative_to(self.path)} of {self.path.name!r}"
        try:
            raw = file.read_bytes()
        except OSError as error:
            msg = f"{name} cannot be read: {error.strerror}; restore it from a copy"
            raise DriftbayesError(msg) from error
        size = math.prod(self.chunks) * self.dtype.itemsize
        expected = size + 4 * self.has_checksums
        if len(raw) != expected:
            raise DriftbayesError(
                f"{name} is damaged: it has {len(raw)} bytes, expected {expected}; restore it from "
                "a copy"
            )
        if self.has_checksums and crc32c(raw[:size]) != int.from_bytes(raw[size:], "little"):
            msg = f"{name} is damaged: its checksum does not match; restore it from a copy"
            raise DriftbayesError(msg)
        return np.frombuffer(raw, dtype=self.dtype, count=size // self.dtype.itemsize).reshape(
            self.chunks
        )

    def verify(self, stop: Sequence[int]) -> None:
        """Read every chunk up to an index, and refuse one that is missing or damaged."""
        for corner in self._corners([0] * len(self.shape), stop):
            self.read_chunk(corner)

    def is_written(self, corner: Sequence[int]) -> bool:
        """Whether the chunk that begins at an index is there."""
        return self._file(corner).exists()

    def _corners(self, start: Sequence[int], stop: Sequence[int]) -> Iterator[tuple[int, ...]]:
        ranges = [range(a, b, n) for a, b, n in zip(start, stop, self.chunks, strict=True)]
        return itertools.product(*ranges)

    def _file(self, corner: Sequence[int]) -> Path:
        index = [str(c // n) for c, n in zip(corner, self.chunks, strict=True)]
        return self.path.joinpath("c", *index)


def create_group(
    path: PathLike, arrays: Mapping[str, Mapping[str, Any]], attributes: Mapping[str, Any]
) -> dict[str, ZarrArray]:
    """Make a store with empty arrays."""
    root = Path(path)
    metadata = {name: _array_metadata(**spec) for name, spec in arrays.items()}
    for name, described in metadata.items():
        (root / name).mkdir(parents=True, exist_ok=True)
        _write_json(root / name / _METADATA, described)
    # Last, so that a store that has this file is complete; with a copy of all descriptions, which
    # readers over a network would otherwise fetch one by one.
    _write_json(
        root / _METADATA,
        {
            "zarr_format": 3,
            "node_type": "group",
            "attributes": dict(attributes),
            "consolidated_metadata": {
                "kind": "inline",
                "must_understand": False,
                "metadata": metadata,
            },
        },
    )
    return {name: open_array(root, name) for name in arrays}


def is_group(path: PathLike) -> bool:
    """Whether there is a store."""
    return (Path(path) / _METADATA).is_file()


def read_attributes(path: PathLike) -> dict[str, Any]:
    """Read the attributes of a store."""
    return dict(_read_json(Path(path) / _METADATA).get("attributes", {}))


def open_array(path: PathLike, name: str) -> ZarrArray:
    """Open an array of a store."""
    folder = Path(path) / name
    described = _read_json(folder / _METADATA)
    try:
        codecs = [codec["name"] for codec in described["codecs"]]
        kind = described["data_type"]
        plain = codecs in (["bytes"], ["bytes", _CHECKSUM])
        if described["zarr_format"] != 3 or not plain or kind not in _TYPES:
            raise DriftbayesError(
                f"array {name!r} of {Path(path).name!r} is not of the plain kind that driftbayes "
                f"writes (type {kind}, codecs {', '.join(codecs)}); convert it first"
            )
        return ZarrArray(
            path=folder,
            shape=tuple(map(int, described["shape"])),
            chunks=tuple(map(int, described["chunk_grid"]["configuration"]["chunk_shape"])),
            dtype=np.dtype(kind).newbyteorder("<"),
            attributes=described.get("attributes", {}),
            has_checksums=_CHECKSUM in codecs,
        )
    except (KeyError, TypeError) as error:
        msg = f"the description of array {name!r} in {Path(path).name!r} is damaged: {error}"
        raise DriftbayesError(msg) from error


def _array_metadata(
    *,
    shape: Sequence[int],
    chunks: Sequence[int],
    dtype: str,
    dims: Sequence[str],
    attributes: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    fill = _fill(np.dtype(dtype))
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(shape),
        "data_type": dtype,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunks)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": "NaN" if isinstance(fill, float) else fill,
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": _CHECKSUM}],
        "attributes": dict(attributes or {}),
        "dimension_names": list(dims),
    }


def _fill(dtype: np.dtype[Any]) -> float | int:
    return float("nan") if dtype.kind == "f" else 0


def _write_json(path: Path, value: Any) -> None:
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(value, indent=1))


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text())
    except FileNotFoundError as error:
        msg = f"{path.parent.name!r} has no {path.name}, expected a Zarr store of format 3"
        raise DriftbayesError(msg) from error
    except (OSError, ValueError) as error:
        msg = f"{path.name} of {path.parent.name!r} cannot be read: {error}; it may be damaged"
        raise DriftbayesError(msg) from error
    if not isinstance(value, dict):
        msg = f"{path.name} of {path.parent.name!r} does not hold a JSON object; it is damaged"
        raise DriftbayesError(msg)
    return value


def crc32c(data: bytes) -> int:
    """Compute the checksum of Zarr's codec `crc32c`.

    It is linear in the bits: the data are cut into pieces of one length whose checksums are
    computed side by side, then joined two by two, the left one moved on by the length of the
    right one.

    Examples:
        >>> hex(crc32c(b"123456789"))
        '0xe3069283'
    """
    if not data:
        return 0
    # From a start at zero, zeros in front change nothing: all pieces can be of one length.
    n_pieces = 1 << max(math.isqrt(len(data)).bit_length() - 1, 0)
    n_words = -(-len(data) // (8 * n_pieces))
    padded = np.zeros(8 * n_words * n_pieces, dtype=np.uint8)
    padded[-len(data) :] = np.frombuffer(data, dtype=np.uint8)
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
    # What a start from all ones adds is the same for all data of one length.
    start = _apply(_moved_by(len(data)), np.array([_ALL], dtype=np.uint32))
    return int(joined[0] ^ start[0]) ^ _ALL


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
