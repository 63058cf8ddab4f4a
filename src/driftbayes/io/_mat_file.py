"""Read variables of MATLAB files: numbers as arrays, text, cells as lists, structs as dicts.

Versions 5 to 7 are parsed here: SciPy trusts the lengths in a file, so that a damaged file crashes
the process. Version 7.3 is HDF5, read by h5py. Functions, objects and sparse arrays become None.
"""

import math
import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from driftbayes.errors import DriftbayesError
from driftbayes.io import _limits as limits
from driftbayes.io._reading import reading_as, require

_HDF5 = b"\x89HDF\r\n\x1a\n"
_HEADER = 128
_COMPRESSED, _MATRIX = 15, 14
_CELL, _STRUCT, _CHAR, _NUMBERS = 1, 2, 4, range(6, 16)
# NumPy type of each element type.
_STORED = {
    **{1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8"},
    **{13: "u8", 16: "u1", 17: "u2", 18: "u4"},
}
# No tracker nests cells deeper.
_MAX_DEPTH = 8
# Bytes that include the class, size and name of a variable.
_MAX_HEAD = 4096
# The stored data, the arrays, the table and the trajectories.
_MEMORY_PER_BYTE = 4


def names(path: Path) -> list[str]:
    """List the names of the variables."""
    if _is_hdf5(path):
        require("MATLAB 7.3 files", "h5py")
        import h5py

        with reading_as(path, "MATLAB 7.3"), h5py.File(path, "r") as file:
            return [name for name in file if not name.startswith("#")]
    with reading_as(path, "MATLAB"):
        heads = (_Matrix(data, order, path) for data, order in _variables(path, _MAX_HEAD))
        return [head.name for head in heads if head.name]


def load(path: Path, names: Sequence[str]) -> dict[str, Any]:
    """Read variables.

    Args:
        path: The file.
        names: Names of the variables.

    Raises:
        DriftbayesError: If the file is damaged, nested too deep, or too large for the memory.
    """
    if _is_hdf5(path):
        return _load_hdf5(path, names)
    values = {}
    with reading_as(path, "MATLAB"):
        for data, order in _variables(path):
            variable = _Matrix(data, order, path)
            if variable.name in names:
                values[variable.name] = variable.value(1)
    return values


def _is_hdf5(path: Path) -> bool:
    with path.open("rb") as stream:
        head = stream.read(520)
    return head.startswith(_HDF5) or head[512:].startswith(_HDF5)


# Versions 5 to 7: one element with a type and a length for each variable, possibly compressed.


def _variables(path: Path, max_bytes: int | None = None) -> Iterator[tuple[memoryview, str]]:
    """Yield the content of each variable, up to a number of bytes, and its byte order."""
    size, budget = limits.stored_size(path), limits.Budget(f"{path.name!r}")
    with path.open("rb") as stream:
        head = stream.read(_HEADER)
        if not head.startswith(b"MATLAB 5.0"):
            raise DriftbayesError(
                f"{path.name!r} is not a MATLAB file of version 5 to 7.3; save it in MATLAB with "
                "save(..., '-v7')"
            )
        order = "<" if head[126:128] == b"IM" else ">"
        while len(tag := stream.read(8)) == 8:
            kind, n_bytes = struct.unpack(f"{order}II", tag)
            start = stream.tell()
            if start + n_bytes > size:
                raise _damaged(path)
            if kind == _COMPRESSED:
                if max_bytes is None:
                    limit = max(n_bytes * limits.MAX_INFLATION["zlib"], limits.MAX_UNCOUNTED)
                    inflated = limits.inflated_size(stream, n_bytes, "zlib", limit)
                    budget.claim(_MEMORY_PER_BYTE * inflated)
                    stream.seek(start)
                data = zlib.decompressobj().decompress(stream.read(n_bytes), max_bytes or 0)
                if len(data) >= 8 and struct.unpack_from(f"{order}I", data)[0] == _MATRIX:
                    yield memoryview(data)[8:], order
            elif kind == _MATRIX:
                budget.claim(_MEMORY_PER_BYTE * n_bytes if max_bytes is None else 0)
                size_read = n_bytes if max_bytes is None else min(n_bytes, max_bytes)
                yield memoryview(stream.read(size_read)), order
            stream.seek(start + n_bytes)


class _Matrix:
    """An array in a file of version 5, which starts with its class, shape and name."""

    def __init__(self, data: memoryview, order: str, path: Path) -> None:
        self._elements = _elements(data, order)
        self._order, self._path = order, path
        self.kind, self.name = 0, ""
        self.shape: tuple[int, ...] = (0, 0)
        if len(data):
            flags, shape, name = (self._next() for _ in range(3))
            self.kind = int(flags[0]) & 0xFF
            self.shape = tuple(map(int, shape))
            self.name = bytes(name.astype("u1")).decode("latin-1")
            if min(self.shape, default=0) < 0:
                raise _damaged(path)

    def value(self, depth: int) -> Any:
        """Return the array as numbers, text, a list or a dict."""
        if depth > _MAX_DEPTH:
            raise _too_deep(self._path)
        if self.kind == 0:
            return np.empty((0, 0))
        if self.kind in _NUMBERS:
            values = self._next()
            if len(values) != math.prod(self.shape):
                raise _damaged(self._path)
            return values.reshape(self.shape, order="F")
        if self.kind == _CHAR:
            codes = self._next() if math.prod(self.shape) else np.empty(0)
            return np.array(["".join(map(chr, codes.astype(int) & 0xFFFF))])
        if self.kind == _CELL:
            return [self._inner(depth) for _ in range(self._count())]
        if self.kind != _STRUCT:
            return None
        width = int(self._next()[0])
        text = bytes(self._next().astype("u1")).decode("latin-1")
        if width < 1:
            raise _damaged(self._path)
        parts = [text[i : i + width] for i in range(0, len(text), width)]
        fields = [part.partition("\0")[0] for part in parts]
        limits.check_names(self._path, len(fields), "fields")
        rows = [{name: self._inner(depth) for name in fields} for _ in range(self._count())]
        return rows[0] if len(rows) == 1 else rows

    def _count(self) -> int:
        count = math.prod(self.shape)
        # Each element has a tag of 8 bytes.
        if 8 * count > limits.stored_size(self._path) * limits.MAX_INFLATION["zlib"]:
            raise _damaged(self._path)
        return count

    def _inner(self, depth: int) -> Any:
        kind, part = next(self._elements, (0, memoryview(b"")))
        if kind != _MATRIX:
            raise _damaged(self._path)
        return _Matrix(part, self._order, self._path).value(depth + 1)

    def _next(self) -> np.ndarray:
        kind, part = next(self._elements, (0, memoryview(b"")))
        if kind not in _STORED:
            raise _damaged(self._path)
        dtype = np.dtype(f"{self._order}{_STORED[kind]}")
        whole = len(part) // dtype.itemsize * dtype.itemsize
        return np.frombuffer(part[:whole], dtype=dtype)


def _elements(data: memoryview, order: str) -> Iterator[tuple[int, memoryview]]:
    """Yield the data elements of a matrix, each with its type."""
    start = 0
    while start + 8 <= len(data):
        first, n_bytes = struct.unpack_from(f"{order}II", data, start)
        if first >> 16:
            # A small element: length and type in one word, data in the other.
            yield first & 0xFFFF, data[start + 4 : start + 4 + min(first >> 16, 4)]
            start += 8
            continue
        yield first, data[start + 8 : start + 8 + n_bytes]
        start += 8 + n_bytes + (-n_bytes % 8)


def _damaged(path: Path) -> DriftbayesError:
    return DriftbayesError(f"{path.name!r} is truncated or damaged; write it again")


def _too_deep(path: Path) -> DriftbayesError:
    msg = f"{path.name!r} has cells or structs nested more than {_MAX_DEPTH} levels deep"
    return DriftbayesError(f"{msg}; save x, y, t and id as vectors")


# Version 7.3.


def _load_hdf5(path: Path, names: Sequence[str]) -> dict[str, Any]:
    import h5py

    from driftbayes.io._netcdf_file import check_chunks, check_heaps, check_links, check_size

    with reading_as(path, "MATLAB 7.3"), h5py.File(path, "r") as file:
        check_heaps(file, path)
        check_links(file, path)
        budget = limits.Budget(f"{path.name!r}")
        clock = limits.Clock(path.name, path.stat().st_size)

        def value(node: Any, depth: int) -> Any:
            clock.check()
            if depth > _MAX_DEPTH:
                raise _too_deep(path)
            if isinstance(node, h5py.Group):
                check_links(node, path)
                limits.check_names(path, len(node), "fields")
                return _rows({str(name): value(node[name], depth + 1) for name in node})
            if not isinstance(node, h5py.Dataset) or node.is_virtual or node.external:
                msg = f"{path.name!r} has a variable in another file; save all in one file"
                raise DriftbayesError(msg)
            check_size(node, node.shape, str(node.name), path)
            check_chunks(node, str(node.name), path)
            budget.claim(_MEMORY_PER_BYTE * int(node.size) * max(node.dtype.itemsize, 8))
            if node.attrs.get("MATLAB_empty", 0):
                return np.empty((0, 0))
            if h5py.check_ref_dtype(node.dtype) is not None:
                # MATLAB stores arrays by column.
                return [value(file[ref], depth + 1) for ref in node[()].ravel()]
            if node.dtype.kind not in "iufb":
                return None
            array = node[()].T
            if node.attrs.get("MATLAB_class") == b"char":
                return np.array(["".join(map(chr, array.ravel("F").tolist()))])
            return array

        return {name: value(file[name], 0) for name in names}


def _rows(fields: dict[str, Any]) -> Any:
    """Convert an array of structs, which has references in each field, to a list of structs."""
    sizes = {len(v) if isinstance(v, list) else 0 for v in fields.values()}
    if len(sizes) != 1 or sizes <= {0, 1}:
        return fields
    # A struct of cells looks the same; both give one vector per trajectory.
    return [dict(zip(fields, row, strict=True)) for row in zip(*fields.values(), strict=True)]
