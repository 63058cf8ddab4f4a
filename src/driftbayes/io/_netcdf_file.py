"""NetCDF files, checked for damage before the HDF5 library reads them.

This is the only module that calls the NetCDF library.
"""

import math
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from driftbayes._storage import PathLike
from driftbayes.errors import DriftbayesError
from driftbayes.io._limits import Budget, check_names, check_stored, exceeds, stored_size
from driftbayes.io._reading import existing_file, reading_as, require

if TYPE_CHECKING:
    import h5py  # type: ignore[import-untyped, unused-ignore]
    import xarray as xr

# Without h5py, h5netcdf imports and then fails on the first file.
NEEDED = ("h5py", "h5netcdf", "xarray")
# Start of a heap of text: signature, version, reserved bytes; its size follows.
_HEAP = b"GCOL\x01\0\0\0"
# Reference to a text of variable length in a variable.
_TEXT = np.dtype([("length", "<u4"), ("heap", "<u8"), ("index", "<u4")])
# Index, reference count, reserved bytes and length of a text in a heap.
_OBJECT_HEADER = struct.Struct("<HHIQ")
_BLOCK = 2**24
# Results of checks of files and of their variables; a file is opened once for each block.
_CHECKED: dict[tuple[str, int, int, str], int] = {}
_MAX_CHECKED = 1000
# Age in seconds at which the time stamp of a file identifies its content.
_SETTLED = 2.0
# Larger files are searched only up to here, to save time.
_MAX_SEARCH = 2**30


def load(path: PathLike) -> "xr.Dataset":
    """Load a NetCDF file, with packed numbers unpacked and times left as numbers."""
    with _raw(path) as opened, _dataset(*opened, lazily=False) as dataset:
        return dataset.load()


@contextmanager
def opened(path: PathLike) -> Iterator[dict[str, Any]]:
    """Open a NetCDF file, and describe it by fields of `Contents`.

    Its dataset is opened lazily, without decoding numbers. Damaged variables are dropped;
    `dataset.encoding["damaged"]` maps their names to messages.
    """
    with _raw(path) as (file, raw, netcdf):
        variables = netcdf.variables
        yield {
            "names": tuple(variables),
            "dims": {name: tuple(map(str, v.dimensions)) for name, v in variables.items()},
            "attributes": dict(netcdf.attrs),
            "variable_attributes": {name: dict(v.attrs) for name, v in variables.items()},
            "dataset": partial(_dataset, file, raw, netcdf, lazily=True),
        }


@contextmanager
def _raw(path: PathLike) -> "Iterator[tuple[Path, h5py.File, Any]]":
    """Open a checked file, as HDF5 and as NetCDF."""
    file = existing_file(path)
    require("NetCDF files", *NEEDED)
    import h5netcdf
    import h5py

    with file.open("rb") as stream:
        if stream.read(3) == b"CDF":
            raise DriftbayesError(
                f"{file.name!r} is in the old NetCDF-3 format, expected NetCDF-4; convert it with "
                "nccopy -k nc4"
            )
    # Opened here, not by xarray, so that a file is closed even if opening it fails halfway.
    with reading_as(file, "NetCDF"), h5py.File(file, "r") as raw:
        check_heaps(raw, file)
        # If this fails in h5netcdf, the destructor of its incomplete object fails too.
        raw.attrs.get("_nc3_strict")
        check_links(raw, file)
        with h5netcdf.File(raw, "r", decode_vlen_strings=True) as netcdf:
            yield file, raw, netcdf


@contextmanager
def _dataset(file: Path, raw: "h5py.File", netcdf: Any, *, lazily: bool) -> "Iterator[xr.Dataset]":
    import xarray as xr
    from xarray.backends import H5NetCDFStore

    variables = netcdf.variables
    check_names(file, len(variables), "variables")
    damaged = {}
    budget = Budget(f"{file.name!r}")
    for name in variables:
        try:
            stored = _stored(raw, name)
            shape = variables[name].shape
            check_size(stored, shape, name, file)
            if not lazily:
                check_chunks(stored, name, file)
                # The stored values, and the unpacked floats.
                n_values = math.prod(map(int, shape))
                budget.claim(n_values * (stored.dtype.itemsize + 8))
        except DriftbayesError as error:
            if not lazily:
                raise
            # Reported only if the variable is used.
            damaged[name] = str(error)
    with xr.open_dataset(
        H5NetCDFStore(netcdf),
        mask_and_scale=not lazily,
        decode_times=False,
        decode_timedelta=False,
        drop_variables=list(damaged),
        # Do not read the coordinates of dimensions in advance.
        create_default_indexes=not lazily,
    ) as dataset:
        dataset.encoding["damaged"] = damaged
        if lazily:
            dataset.encoding["check_chunks"] = lambda name: check_chunks(
                _stored(raw, name), name, file
            )
        yield dataset


def _stored(raw: "h5py.File", name: str) -> "h5py.Dataset":
    # NetCDF renames a variable with the name of a dimension that is not its coordinate.
    renamed = f"_nc4_non_coord_{name}"
    return raw[renamed if renamed in raw else name]


def check_heaps(hdf5: "h5py.File", file: Path) -> None:
    """Refuse a file on which the HDF5 library would never return.

    Text of variable length is stored in heaps without a checksum. The library loops forever on an
    object of size 0 (HDFGroup/hdf5 #1707).
    """
    # All known files have addresses and lengths of 8 bytes.
    if hdf5.id.get_create_plist().get_sizes() != (8, 8):
        return
    damaged = _cached(file, "", lambda: _find_damaged_heap(file))
    if damaged >= 0:
        raise DriftbayesError(
            f"{file.name!r} cannot be read as NetCDF (its text is damaged at byte {damaged}); "
            "restore it from a copy"
        )


def _cached(file: Path, what: str, check: Callable[[], int]) -> int:
    """Return the result of a check, which is repeated only if the file has changed."""
    state = file.stat()
    key = (str(file), state.st_size, state.st_mtime_ns, what)
    if key in _CHECKED:
        return _CHECKED[key]
    found = check()
    # A file written just now may change again without another time stamp.
    if time.time() - state.st_mtime > _SETTLED:
        while len(_CHECKED) >= _MAX_CHECKED:
            _CHECKED.pop(next(iter(_CHECKED)))
        _CHECKED[key] = found
    return found


def _find_damaged_heap(file: Path) -> int:
    """Return the offset of the first heap on which a loop never ends; -1 if there is none."""
    n_bytes = min(file.stat().st_size, _MAX_SEARCH)
    with file.open("rb") as stream:
        for start in range(0, n_bytes, _BLOCK):
            stream.seek(start)
            block = stream.read(_BLOCK + len(_HEAP) - 1)
            offset = block.find(_HEAP)
            while offset >= 0:
                stream.seek(start + offset)
                if not _is_valid_heap(stream.read(len(_HEAP) + 8), stream, n_bytes):
                    return start + offset
                offset = block.find(_HEAP, offset + 1)
    return -1


def _is_valid_heap(header: bytes, stream: BinaryIO, n_bytes: int) -> bool:
    """Whether a loop over the objects of a heap, which follow its header, ends."""
    size = int.from_bytes(header[len(_HEAP) :], "little") - len(header)
    heap = stream.read(max(0, min(size, n_bytes)))
    offset = 0
    while offset + _OBJECT_HEADER.size <= len(heap):
        index, _, _, length = _OBJECT_HEADER.unpack_from(heap, offset)
        # Object 0 is free space and includes its header; the others are padded to 8 bytes.
        step = _OBJECT_HEADER.size + -(-length // 8) * 8 if index else length
        if step < _OBJECT_HEADER.size:
            return False
        offset += step
    return True


def check_links(hdf5: "h5py.Group", file: Path) -> None:
    """Refuse a file that refers to other files, which no NetCDF file does."""
    import h5py

    for name in hdf5:
        kind = hdf5.get(name, getclass=True, getlink=True)
        outside = kind is h5py.ExternalLink
        if not outside and hdf5.get(name, getclass=True) is h5py.Dataset:
            dataset = hdf5[name]
            outside = dataset.is_virtual or bool(dataset.external)
        if outside:
            raise DriftbayesError(
                f"{file.name!r}: variable {_short(name)} is stored in another file; copy it into "
                "this file (nccopy, h5repack)"
            )


def check_size(dataset: "h5py.Dataset", shape: Sequence[int], name: str, file: Path) -> None:
    """Refuse a variable that is declared far larger than its stored data.

    A dataset without data takes no space in the file, and one wrong bit can turn a length of 10
    into 10^18; reading either would fill the memory.
    """
    import h5py

    # A chunk is always unpacked as a whole.
    n_values = max(math.prod(map(int, shape)), math.prod(dataset.chunks or (0,)))
    declared = n_values * dataset.dtype.itemsize
    # In a damaged file even the stored size may be wrong.
    file_size = stored_size(file)
    stored = min(dataset.id.get_storage_size(), file_size)
    filtered = dataset.id.get_create_plist().get_nfilters() > 0
    check_stored(f"{file.name!r}: variable {_short(name)}", declared, stored, compressed=filtered)
    if h5py.check_string_dtype(dataset.dtype) and _longest_text(dataset, file) > file_size:
        raise DriftbayesError(
            f"{file.name!r}: variable {_short(name)} has text longer than the file; the file is "
            "damaged"
        )


def check_chunks(dataset: "h5py.Dataset", name: str, file: Path) -> None:
    """Refuse chunks that would inflate until the memory is full.

    Call this before reading a variable; the result is cached.
    """
    import h5py

    created = dataset.id.get_create_plist()
    filters = [created.get_filter(i)[0] for i in range(created.get_nfilters())]
    # Other filters have low compression ratios or are not installed.
    if h5py.h5z.FILTER_DEFLATE not in filters:
        return
    twice = filters.count(h5py.h5z.FILTER_DEFLATE) > 1
    if _cached(file, name, lambda: twice or _is_bomb(dataset, file)):
        raise DriftbayesError(
            f"{file.name!r}: a chunk of variable {_short(name)} holds far more than the file "
            "declares; it is damaged or malicious"
        )


def _is_bomb(dataset: "h5py.Dataset", file: Path) -> bool:
    """Whether a chunk inflates far beyond its declared size."""
    allowed = 16 * math.prod(dataset.chunks) * dataset.dtype.itemsize
    parts: list[tuple[int, int]] = []

    def keep(chunk: "h5py.h5d.StoreInfo") -> None:
        if chunk.byte_offset is not None:
            parts.append((int(chunk.byte_offset), int(chunk.size)))

    dataset.id.chunk_iter(keep)
    n_bytes = file.stat().st_size
    with file.open("rb") as stream:
        return any(
            exceeds(stream, start, length, "zlib", allowed)
            for start, length in parts
            if start >= 0 and start + length <= n_bytes
        )


def _longest_text(dataset: "h5py.Dataset", file: Path) -> int:
    """Return the length of the longest text of variable length, as allocated by the library."""
    import h5py

    offset = dataset.id.get_offset()
    # Only contiguous datasets, as written by driftbayes and for ids in most other files.
    if offset is None or h5py.check_string_dtype(dataset.dtype).length is not None:
        return 0
    return int(np.fromfile(file, _TEXT, dataset.size, offset=offset)["length"].max(initial=0))


def _short(name: str) -> str:
    return repr(name[:40])
