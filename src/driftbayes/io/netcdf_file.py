"""NetCDF files, checked against what they can hold before the HDF5 library reads anything.

This is the only module that calls the NetCDF library.
"""

import math
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from driftbayes.errors import DriftbayesError
from driftbayes.io.limits import Budget, check_names, check_stored, exceeds, stored_size
from driftbayes.io.reading import existing_file, reading_as, require
from driftbayes.storage import PathLike

if TYPE_CHECKING:
    import h5py  # type: ignore[import-untyped, unused-ignore]
    import xarray as xr

# Without h5py, h5netcdf imports and then fails on the first file.
NEEDED = ("h5py", "h5netcdf", "xarray")
# How a collection of text begins: signature, version, reserved bytes; its size follows.
_HEAP = b"GCOL\x01\0\0\0"
# What stands in a variable for a text of variable length.
_TEXT = np.dtype([("length", "<u4"), ("heap", "<u8"), ("index", "<u4")])
# Index, count of references, reserved bytes, length of a text in a collection.
_OBJECT_HEADER = struct.Struct("<HHIQ")
_BLOCK = 2**24
# Variables whose chunks were looked at, and whether they inflate without end.
_CHUNKS: dict[tuple[str, int, int, str], bool] = {}
_MAX_KNOWN = 1000
# Beyond, looking at every byte takes longer than a damaged file is likely.
_MAX_SEARCH = 2**30


def load(path: PathLike) -> "xr.Dataset":
    """Load a NetCDF file, with packed numbers unpacked and times left as numbers."""
    with _opened(path, lazily=False) as dataset:
        return dataset.load()


@contextmanager
def open_file(path: PathLike) -> "Iterator[xr.Dataset]":
    """Open a NetCDF file; nothing is read yet, and numbers stay as stored.

    Variables that cannot be what they claim are not in it; `dataset.encoding["damaged"]` has what
    is wrong with each.
    """
    with _opened(path, lazily=True) as dataset:
        yield dataset


def describe(path: PathLike) -> dict[str, Any]:
    """Names, dimensions and attributes of a file, as fields of `Contents`, without its numbers."""
    with _raw(path) as (_, _, netcdf):
        variables = netcdf.variables
        return {
            "names": tuple(variables),
            "dims": {name: tuple(map(str, v.dimensions)) for name, v in variables.items()},
            "attributes": dict(netcdf.attrs),
            "variable_attributes": {name: dict(v.attrs) for name, v in variables.items()},
        }


@contextmanager
def _raw(path: PathLike) -> "Iterator[tuple[Path, h5py.File, Any]]":
    """A checked file, as HDF5 and as NetCDF; its errors become one sentence."""
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
    # We hold the file, not xarray: one that fails halfway is then closed here and now, not by a
    # destructor that can only complain.
    with reading_as(file, "NetCDF"), h5py.File(file, "r") as raw:
        check_heaps(raw, file)
        # Where this cannot be read, h5netcdf leaves half an object whose destructor fails.
        raw.attrs.get("_nc3_strict")
        check_links(raw, file)
        with h5netcdf.File(raw, "r", decode_vlen_strings=True) as netcdf:
            yield file, raw, netcdf


@contextmanager
def _opened(path: PathLike, *, lazily: bool) -> "Iterator[xr.Dataset]":
    import xarray as xr
    from xarray.backends import H5NetCDFStore

    with _raw(path) as (file, raw, netcdf):
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
                    # As stored and, where numbers are unpacked, as floats.
                    n_values = math.prod(map(int, shape))
                    budget.claim(n_values * (stored.dtype.itemsize + 8))
            except DriftbayesError as error:
                if not lazily:
                    raise
                # It may not be needed; whoever asks for it is told.
                damaged[name] = str(error)
        with xr.open_dataset(
            H5NetCDFStore(netcdf),
            mask_and_scale=not lazily,
            decode_times=False,
            decode_timedelta=False,
            drop_variables=list(damaged),
            # Else the coordinates of dimensions are read at once, needed or not.
            create_default_indexes=not lazily,
        ) as dataset:
            dataset.encoding["damaged"] = damaged
            if lazily:
                dataset.encoding["check_chunks"] = lambda name: check_chunks(
                    _stored(raw, name), name, file
                )
            yield dataset


def _stored(raw: "h5py.File", name: str) -> "h5py.Dataset":
    # NetCDF renames a variable that is called like a dimension without being its coordinate.
    renamed = f"_nc4_non_coord_{name}"
    return raw[renamed if renamed in raw else name]


def check_heaps(hdf5: "h5py.File", file: Path) -> None:
    """Refuse a file on which the HDF5 library would never return.

    Text of variable length lies in heaps without a checksum, and the library walks them without
    a look at whether it moves: on an object of size 0 it stays for ever (HDFGroup/hdf5 #1707).
    """
    # Addresses and lengths of 8 bytes; we know of no file with others.
    if hdf5.id.get_create_plist().get_sizes() != (8, 8):
        return
    n_bytes = min(file.stat().st_size, _MAX_SEARCH)
    with file.open("rb") as stream:
        for start in range(0, n_bytes, _BLOCK):
            stream.seek(start)
            block = stream.read(_BLOCK + len(_HEAP) - 1)
            place = block.find(_HEAP)
            while place >= 0:
                stream.seek(start + place)
                if not _ends(stream.read(len(_HEAP) + 8), stream, n_bytes):
                    raise DriftbayesError(
                        f"{file.name!r} cannot be read as NetCDF (the text in it is damaged at "
                        f"byte {start + place}); restore it from a copy"
                    )
                place = block.find(_HEAP, place + 1)


def _ends(header: bytes, stream: BinaryIO, n_bytes: int) -> bool:
    """Whether a walk over the objects of a heap, which follow its header, comes to an end."""
    size = int.from_bytes(header[len(_HEAP) :], "little") - len(header)
    heap = stream.read(max(0, min(size, n_bytes)))
    place = 0
    while place + _OBJECT_HEADER.size <= len(heap):
        index, _, _, length = _OBJECT_HEADER.unpack_from(heap, place)
        # Object 0 is the free space and counts its own header; the others are padded to 8 bytes.
        step = _OBJECT_HEADER.size + -(-length // 8) * 8 if index else length
        if step < _OBJECT_HEADER.size:
            return False
        place += step
    return True


def check_links(hdf5: "h5py.Group", file: Path) -> None:
    """Refuse a file that would have other files read in its name, which no NetCDF file does."""
    import h5py

    for name in hdf5:
        kind = hdf5.get(name, getclass=True, getlink=True)
        outside = kind is h5py.ExternalLink
        if not outside and hdf5.get(name, getclass=True) is h5py.Dataset:
            dataset = hdf5[name]
            outside = dataset.is_virtual or bool(dataset.external)
        if outside:
            raise DriftbayesError(
                f"{file.name!r}: variable {_short(name)} lies in another file; copy it into this "
                "one (nccopy, h5repack)"
            )


def check_size(dataset: "h5py.Dataset", shape: Sequence[int], name: str, file: Path) -> None:
    """Refuse a variable that is declared far larger than what is stored of it.

    A dataset of any size costs nothing in the file as long as nothing is written to it, and one
    wrong bit can turn a length of ten into one of 10^18; reading either would fill the memory.
    """
    import h5py

    # To read one value of a chunk all of the chunk is unpacked.
    n_values = max(math.prod(map(int, shape)), math.prod(dataset.chunks or (0,)))
    declared = n_values * dataset.dtype.itemsize
    # Of a damaged file even the size of what is stored may be wrong.
    file_size = stored_size(file)
    stored = min(dataset.id.get_storage_size(), file_size)
    filtered = dataset.id.get_create_plist().get_nfilters() > 0
    check_stored(f"{file.name!r}: variable {_short(name)}", declared, stored, compressed=filtered)
    if h5py.check_string_dtype(dataset.dtype) and _longest_text(dataset, file) > file_size:
        raise DriftbayesError(
            f"{file.name!r}: variable {_short(name)} has a text that is longer than the file; "
            "the file is damaged"
        )


def check_chunks(dataset: "h5py.Dataset", name: str, file: Path) -> None:
    """Refuse chunks that would inflate without end: the library goes on until the memory is full.

    To be asked before a variable is read, once for each file and variable.
    """
    import h5py

    created = dataset.id.get_create_plist()
    filters = [created.get_filter(i)[0] for i in range(created.get_nfilters())]
    # Other filters than this one cannot make much of little, or are not installed.
    if h5py.h5z.FILTER_DEFLATE not in filters:
        return
    state = file.stat()
    key = (str(file), state.st_size, state.st_mtime_ns, name)
    if key not in _CHUNKS:
        while len(_CHUNKS) >= _MAX_KNOWN:
            _CHUNKS.pop(next(iter(_CHUNKS)))
        twice = filters.count(h5py.h5z.FILTER_DEFLATE) > 1
        _CHUNKS[key] = twice or _is_bomb(dataset, file)
    if _CHUNKS[key]:
        raise DriftbayesError(
            f"{file.name!r}: a chunk of variable {_short(name)} holds far more than the file "
            "declares; it is damaged or malicious"
        )


def _is_bomb(dataset: "h5py.Dataset", file: Path) -> bool:
    """Whether a chunk inflates to much more than it should."""
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
    """Length of the longest text of variable length, for which room is made before it is read."""
    import h5py

    place = dataset.id.get_offset()
    # In one piece and unpacked only: what we write ourselves, and ids in most other files.
    if place is None or h5py.check_string_dtype(dataset.dtype).length is not None:
        return 0
    return int(np.fromfile(file, _TEXT, dataset.size, offset=place)["length"].max(initial=0))


def _short(name: str) -> str:
    return repr(name[:40])
