"""Arrays in .npy and .npz files; what a header claims is checked before room is made for it."""

__all__ = ["array", "names"]

import io
import math
import warnings
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np

from driftbayes.errors import DriftbayesError
from driftbayes.io.limits import check_memory, is_plausible, stored_size
from driftbayes.io.paths import reading_as

# The name of the only array of a .npy file.
ONLY = "array"
_MAGIC = b"\x93NUMPY"
_SUFFIX = ".npy"
_MAX_ARRAYS = 1000
_MAX_HEADER = 2**16
_MEMORY_PER_BYTE = 6
# What NumPy writes; other methods can make far more of one byte.
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def names(path: Path) -> tuple[str, ...]:
    """Names of the arrays in a file; none in an archive of other things."""
    if _is_single(path):
        return (ONLY,)
    try:
        with reading_as(path, "NumPy arrays"), zipfile.ZipFile(path) as archive:
            members = archive.namelist()
    except DriftbayesError:
        # Spreadsheets and documents are archives too.
        if path.suffix.lower() != ".npz":
            return ()
        raise
    if len(members) > _MAX_ARRAYS:
        msg = f"{path.name!r} has {len(members):,} members; expected a few arrays"
        raise DriftbayesError(msg)
    return tuple(name.removesuffix(_SUFFIX) for name in members if name.endswith(_SUFFIX))


def array(path: Path, name: str) -> np.ndarray:
    """One array of numbers or text, never of objects: nothing is unpickled."""
    n_bytes = stored_size(path)
    with reading_as(path, "NumPy arrays"):
        if _is_single(path):
            with path.open("rb") as stream:
                return _read(stream, path, name, n_bytes, compressed=False)
        with zipfile.ZipFile(path) as archive:
            member = archive.getinfo(name + _SUFFIX)
            if member.compress_type not in _METHODS:
                msg = f"{path.name!r} is compressed as NumPy never does; write it with np.savez"
                raise DriftbayesError(msg)
            with archive.open(member) as stream:
                deflated = member.compress_type == zipfile.ZIP_DEFLATED
                return _read(stream, path, name, n_bytes, compressed=deflated)


def _read(stream: IO[bytes], path: Path, name: str, stored: int, *, compressed: bool) -> np.ndarray:
    with warnings.catch_warnings():
        # Headers written by Python 2 are read, with a warning that helps nobody.
        warnings.simplefilter("ignore")
        head = _head(stream, path, name)
        version = np.lib.format.read_magic(head)
        read_header: Any = (
            np.lib.format.read_array_header_1_0
            if version == (1, 0)
            else np.lib.format.read_array_header_2_0
        )
        shape, fortran, dtype = read_header(head)
    if dtype.hasobject or dtype.kind not in "iufbSUmM":
        msg = (
            f"{path.name!r}: array {name[:40]!r} holds {str(dtype)[:40]}, expected numbers; "
            "objects are pickles, which can run code and are not read"
        )
        raise DriftbayesError(msg)
    if not all(isinstance(n, int) and 0 <= n < 2**62 for n in shape):
        msg = f"{path.name!r}: array {name[:40]!r} has an impossible shape; the file is damaged"
        raise DriftbayesError(msg)
    declared = math.prod(shape) * dtype.itemsize
    if not is_plausible(declared, stored, compressed=compressed) or dtype.itemsize == 0:
        msg = (
            f"{path.name!r}: array {name[:40]!r} is declared to have {declared:,} bytes, but the "
            f"file has {stored:,}; it is damaged"
        )
        raise DriftbayesError(msg)
    # As stored, as floats, by axes, as positions and times.
    check_memory(_MEMORY_PER_BYTE * declared, f"{path.name!r}: array {name[:40]!r}")
    data = stream.read(declared)
    if len(data) < declared:
        msg = f"{path.name!r}: array {name[:40]!r} is cut short; write the file anew"
        raise DriftbayesError(msg)
    flat = np.frombuffer(data, dtype=dtype)
    return flat.reshape(shape[::-1]).T if fortran else flat.reshape(shape)


def _head(stream: IO[bytes], path: Path, name: str) -> io.BytesIO:
    """Magic, version, length and header of an array; a length of gigabytes is not believed."""
    start = stream.read(len(_MAGIC) + 2)
    length = stream.read(2 if start[len(_MAGIC) :] == b"\x01\x00" else 4)
    size = int.from_bytes(length, "little")
    if size > _MAX_HEADER:
        msg = f"{path.name!r}: array {name[:40]!r} has a header of {size:,} bytes; it is damaged"
        raise DriftbayesError(msg)
    return io.BytesIO(start + length + stream.read(size))


def _is_single(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(len(_MAGIC)) == _MAGIC
