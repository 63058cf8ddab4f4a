"""Uncompressed Zarr arrays (format 3), written atomically chunk by chunk.

A Zarr store is a directory with JSON that describes arrays, and one file per chunk. Uncompressed,
little-endian chunks need only NumPy, and every Zarr library reads them. A chunk may be written
again: the last writer wins, and a reader sees the old or the new chunk. Each chunk ends with its
checksum (codec crc32c of Zarr), which is verified on reading; stores of earlier versions have none.
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

from driftbayes._storage.atomic import atomic_path
from driftbayes._storage.outputs import PathLike
from driftbayes.errors import DriftbayesError

_METADATA = "zarr.json"
_CHECKSUM = "crc32c"
_TYPES = {"float64", "float32", "int64", "int32"}
_Words: TypeAlias = NDArray[np.uint32]
# Castagnoli's polynomial, bits reversed.
_POLYNOMIAL, _ALL = 0x82F63B78, 0xFFFFFFFF


@dataclass(frozen=True)
class ZarrArray:
    """An array in a store.

    Args:
        path: Directory of the array.
        shape: Shape of the array.
        chunks: Shape of a chunk.
        dtype: Type of the numbers.
        attributes: Attributes of the array.
        has_checksums: Whether each chunk ends with its checksum.
    """

    path: Path
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    dtype: np.dtype[Any]
    attributes: Mapping[str, Any]
    has_checksums: bool = True

    def write(self, values: NDArray[Any], start: Sequence[int]) -> None:
        """Write a block aligned with chunks, or with the end of the array."""
        stop = [low + size for low, size in zip(start, values.shape, strict=True)]
        for low, end, limit, chunk in zip(start, stop, self.shape, self.chunks, strict=True):
            if low % chunk or end > limit or (end % chunk and end != limit):
                msg = f"a block from {low} to {end} does not fill chunks of {chunk} up to {limit}"
                raise DriftbayesError(msg)
        for corner in self._corners(start, stop):
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
        """Read the array up to `stop`; chunks never written are NaN or 0."""
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
        """Read the chunk that starts at an index."""
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
        return np.frombuffer(raw[:size], dtype=self.dtype).reshape(self.chunks)

    def verify(self, stop: Sequence[int]) -> None:
        """Read every chunk up to an index; refuse a missing or damaged chunk."""
        for corner in self._corners([0] * len(self.shape), stop):
            self.read_chunk(corner)

    def is_written(self, corner: Sequence[int]) -> bool:
        """Whether the chunk that starts at an index exists."""
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
    # Written last, so that a store with this file is complete. It has a copy of all descriptions,
    # which readers over a network would otherwise fetch separately.
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
    """Whether a directory is a store."""
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
                f"array {name!r} of {Path(path).name!r} is not an uncompressed array (type {kind}, "
                f"codecs {', '.join(codecs)}); convert it first"
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
    """Compute the checksum of the Zarr codec `crc32c`.

    The checksum is linear in the bits: the checksums of pieces of equal length are computed in
    parallel and combined in pairs, after shifting the left one by the length of the right one.

    Examples:
        >>> hex(crc32c(b"123456789"))
        '0xe3069283'
    """
    if not data:
        return 0
    # With an initial value of zero, leading zeros change nothing: all pieces have equal length.
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
        update = tables[7][(row & byte).astype(np.intp)]
        for i in range(1, 8):
            update ^= tables[7 - i][((row >> np.uint64(8 * i)) & byte).astype(np.intp)]
        sums = update.astype(np.uint64)
    joined, n_bytes = sums.astype(np.uint32), 8 * n_words
    while len(joined) > 1:
        joined = _apply(_shift(n_bytes), joined[::2]) ^ joined[1::2]
        n_bytes *= 2
    # The contribution of an initial value of all ones depends only on the length.
    start = _apply(_shift(len(data)), np.array([_ALL], dtype=np.uint32))
    return int(joined[0] ^ start[0]) ^ _ALL


@cache
def _tables() -> NDArray[np.uint32]:
    """Return the checksum of each byte followed by 0 to 7 zero bytes."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = (table >> np.uint32(1)) ^ np.where(table & 1, _POLYNOMIAL, 0).astype(np.uint32)
    tables = [table]
    for _ in range(7):
        last = tables[-1]
        tables.append((last >> np.uint32(8)) ^ table[last & 0xFF])
    return np.stack(tables)


@cache
def _shift(n_bytes: int) -> _Words:
    """Return the image of each bit of a checksum after `n_bytes` zero bytes."""
    if n_bytes == 1:
        bits = np.uint32(1) << np.arange(32, dtype=np.uint32)
        return (bits >> np.uint32(8)) ^ _tables()[0][bits & 0xFF]
    half = _shift(n_bytes // 2)
    shifted = _apply(half, half)
    return _apply(_shift(1), shifted) if n_bytes % 2 else shifted


def _apply(images: _Words, values: _Words) -> _Words:
    """Apply a linear map, given by the images of the bits."""
    result = np.zeros_like(values)
    for bit, image in enumerate(images):
        result ^= np.where((values >> np.uint32(bit)) & np.uint32(1), image, np.uint32(0))
    return result
