"""Plain Zarr arrays (format 3), written chunk by chunk, each chunk whole or not at all.

A Zarr store is a directory with JSON that describes arrays and one file per chunk. The plain kind,
uncompressed and little-endian, needs nothing but NumPy to write and to read, and every Zarr library
reads it. A chunk may be written again: the last writer wins, and a reader sees one or the other.
Each chunk ends with its checksum (Zarr's codec crc32c), which is verified when the chunk is read;
stores of earlier versions have none.
"""

__all__ = ["ZarrArray", "create_group", "is_group", "open_array", "read_attributes"]

import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftbayes.errors import DriftbayesError
from driftbayes.storage.atomic import PathLike, atomic_path
from driftbayes.storage.crc32c import crc32c

_METADATA = "zarr.json"
_CHECKSUM = "crc32c"
_TYPES = {"float64", "float32", "int64", "int32"}


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
        """Write a block that begins at a chunk's corner and ends at one or at the array's end.

        Args:
            values: The block.
            start: Index of its first element.
        """
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
        """The array from its beginning to `stop`; what was never written is NaN or 0."""
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
        """The whole chunk that begins at an index."""
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
            msg = (
                f"{name} is damaged: it has {len(raw)} bytes, expected {expected}; restore it from "
                "a copy"
            )
            raise DriftbayesError(msg)
        if self.has_checksums and crc32c(raw[:size]) != int.from_bytes(raw[size:], "little"):
            msg = f"{name} is damaged: its checksum does not match; restore it from a copy"
            raise DriftbayesError(msg)
        return np.frombuffer(raw, dtype=self.dtype, count=size // self.dtype.itemsize).reshape(
            self.chunks
        )

    def verify(self, stop: Sequence[int]) -> None:
        """Read every chunk up to an index, and refuse one that is missing or damaged.

        Args:
            stop: One past the last index along each axis.
        """
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
    """Make a store with empty arrays.

    Args:
        path: The directory to make.
        arrays: For each name `shape`, `chunks`, `dtype`, `dims` and, if wanted, `attributes`.
        attributes: Of the store.
    """
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
    """Attributes of a store."""
    return dict(_read_json(Path(path) / _METADATA).get("attributes", {}))


def open_array(path: PathLike, name: str) -> ZarrArray:
    """An array of a store, by name."""
    folder = Path(path) / name
    described = _read_json(folder / _METADATA)
    try:
        codecs = [codec["name"] for codec in described["codecs"]]
        kind = described["data_type"]
        plain = codecs in (["bytes"], ["bytes", _CHECKSUM])
        if described["zarr_format"] != 3 or not plain or kind not in _TYPES:
            msg = (
                f"array {name!r} of {Path(path).name!r} is not of the plain kind that driftbayes "
                f"writes (type {kind}, codecs {', '.join(codecs)}); convert it first"
            )
            raise DriftbayesError(msg)
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
        "codecs": [
            {"name": "bytes", "configuration": {"endian": "little"}},
            {"name": _CHECKSUM},
        ],
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
