"""Zarr stores, checked from their metadata before any decoder opens them.

A store names its codecs, and some codecs, such as `pickle`, run code. Only codecs that convert
bytes to numbers or text are allowed, in any file of the store.
"""

import base64
import json
import logging
import math
import os
import stat
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes._storage.atomic import atomic_folder
from driftbayes._storage.outputs import PathLike
from driftbayes.data import _schema as schema
from driftbayes.errors import DriftbayesError
from driftbayes.io import _limits as limits
from driftbayes.io._reading import describe_dataset, reading_as, reason, require

if TYPE_CHECKING:
    import xarray as xr

_STORE_FILES = ("zarr.json", ".zgroup", ".zmetadata")
_DESCRIPTIONS = (".zarray", ".zgroup", ".zattrs", ".zmetadata", "zarr.json")
_COMPRESSORS = ("blosc", "zlib", "gzip", "bz2", "lzma", "zstd", "lz4")
# Codecs to text, or to bytes or numbers of about the same size.
_FILTERS = (
    *("shuffle", "delta", "fixedscaleoffset", "quantize", "bitround", "astype", "packbits"),
    *("crc32", "crc32c", "adler32", "fletcher32", "jenkins_lookup3"),
    *("vlen-utf8", "bytes", "transpose", "sharding_indexed"),
)
_NUMCODECS_PREFIX = "numcodecs."
# Members of a description that hold codecs, and those that hold arbitrary user data.
_CODEC_LISTS = ("codecs", "index_codecs", "filters")
_USER_DATA = ("attributes", ".zattrs")
_MAX_DESCRIPTION = 2**26
# Allowed size of a chunk: a factor, as a filter may make eight numbers of one byte, and an offset,
# as text takes more memory than its array declares.
_MAX_EXPANSION, _MAX_OVERHEAD = 16, 2**26
_MAX_CHECKED = 16


@dataclass(frozen=True)
class _ArrayInfo:
    """Metadata of an array in a store."""

    described: Mapping[str, Any]  # description of the array
    format: int  # version of Zarr, 2 or 3
    n_bytes: int  # size in memory
    chunk_bytes: int  # size of a chunk, or of an inner chunk of a shard
    compressor: str | None  # name of the compressor, if any
    n_inner: int = 0  # number of chunks in a shard, 0 without shards
    index_first: bool = False  # whether a shard begins with its index
    attributes: Mapping[str, Any] = field(default_factory=dict)  # attributes of the array

    @classmethod
    def parse(cls, described: Mapping[str, Any], name: str, folder: Path) -> "_ArrayInfo":
        """Parse the description of an array."""
        try:
            return cls._parse_v3(described) if "codecs" in described else cls._parse_v2(described)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DriftbayesError(
                f"{folder.name!r} cannot be read as a Zarr store (the description of array "
                f"{name[:40]!r} is invalid: {reason(error)}); it may be damaged"
            ) from error

    @classmethod
    def _parse_v2(cls, described: Mapping[str, Any]) -> "_ArrayInfo":
        shape, chunks = _sizes(described["shape"]), _sizes(described["chunks"])
        size, names = _itemsize(described["dtype"]), map(_name, _codecs_v2(described))
        n_bytes, chunk_bytes = math.prod(shape) * size, math.prod(chunks) * size
        return cls(described, 2, n_bytes, chunk_bytes, _compressor(names))

    @classmethod
    def _parse_v3(cls, described: Mapping[str, Any]) -> "_ArrayInfo":
        shape = _sizes(described["shape"])
        chunks = _sizes(described["chunk_grid"]["configuration"]["chunk_shape"])
        size = _itemsize(described["data_type"])
        codecs = described["codecs"]
        names = [_name(part) for part in codecs]
        n_inner, first = 0, False
        if "sharding_indexed" in names:
            sharding = next(part for part in codecs if _name(part) == "sharding_indexed")
            configuration = sharding["configuration"]
            if len(codecs) > 1 or "sharding_indexed" in map(_name, configuration["codecs"]):
                raise ValueError("nested or compressed shards")
            inner = _sizes(configuration["chunk_shape"])
            n_inner = math.prod(-(-n // m) for n, m in zip(chunks, inner, strict=True))
            first = configuration.get("index_location", "end") == "start"
            chunks, names = inner, [_name(part) for part in configuration["codecs"]]
        n_bytes, chunk_bytes = math.prod(shape) * size, math.prod(chunks) * size
        return cls(described, 3, n_bytes, chunk_bytes, _compressor(names), n_inner, first)


# Checked stores, each with its state at the time.
_CHECKED: dict[Path, tuple[tuple[bool, int, int, int], dict[str, _ArrayInfo]]] = {}


def check_store(folder: Path, *, is_complete: bool = True) -> dict[str, _ArrayInfo]:
    """Refuse a store that could run code, never end or fill the memory."""
    files = list(_files(folder))
    # A store is opened once for each block: the result is cached.
    infos = [path.stat() for path, _ in files]
    state = (
        is_complete,
        len(files),
        sum(info.st_size for info in infos),
        max((info.st_mtime_ns for info in infos), default=0),
    )
    key = folder.resolve()
    known = _CHECKED.get(key)
    if known is None or known[0] != state:
        while len(_CHECKED) >= _MAX_CHECKED:
            _CHECKED.pop(next(iter(_CHECKED)))
        _CHECKED[key] = (state, _check_files(files, folder, is_complete=is_complete))
    return _CHECKED[key][1]


def _check_files(
    files: list[tuple[Path, str]], folder: Path, *, is_complete: bool
) -> dict[str, _ArrayInfo]:
    described = {}
    for path, name in files:
        if path.name in _DESCRIPTIONS:
            described[path] = _json(path, folder)
            _check_codecs(described[path], folder, name)
    stored = sum(limits.stored_size(path) for path, _ in files)
    clock = limits.Clock(folder.name, stored)
    arrays = {}
    for path, description in described.items():
        is_v3_array = path.name == "zarr.json" and description.get("node_type") == "array"
        if path.name == ".zarray" or is_v3_array:
            name = path.parent.relative_to(folder).as_posix()
            array = _ArrayInfo.parse(description, name, folder)
            if is_complete:
                limits.check_stored(f"{folder.name!r}: array {name[:40]!r}", array.n_bytes, stored)
            arrays[path.parent] = array
    limits.check_names(folder, len(arrays), "arrays")
    for path, name in files:
        clock.check()
        owner = next((parent for parent in path.parents if parent in arrays), None)
        if owner is not None and path.name not in _DESCRIPTIONS:
            _check_chunk(path, arrays[owner], name, folder)
    result = {}
    for path, array in arrays.items():
        own = array.described.get("attributes")
        if array.format == 2:
            own = described.get(path / ".zattrs")
        if path.parent == folder:
            result[path.name] = replace(array, attributes=own if isinstance(own, dict) else {})
    return result


def _files(folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield all files of a store; refuse links, pipes and devices, which may have no end."""
    for root, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = Path(root) / name
            shown = path.relative_to(folder).as_posix()
            try:
                mode = path.stat().st_mode
            except OSError as error:
                msg = f"{folder.name!r}: {shown[:80]!r} cannot be read ({reason(error)})"
                raise DriftbayesError(msg) from error
            if stat.S_ISDIR(mode) and not path.is_symlink():
                continue
            if not stat.S_ISREG(mode):
                what = "a link to a directory" if stat.S_ISDIR(mode) else "a device or a pipe"
                raise DriftbayesError(
                    f"{folder.name!r}: {shown[:80]!r} is {what}, expected a regular file; copy "
                    "the data into the store"
                )
            yield path, shown


def _json(path: Path, folder: Path) -> dict[str, Any]:
    shown = path.relative_to(folder).as_posix()[:80]
    try:
        if path.stat().st_size > _MAX_DESCRIPTION:
            msg = f"{folder.name!r}: {shown!r} has more than {_MAX_DESCRIPTION:,} bytes"
            raise DriftbayesError(msg)
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, DriftbayesError):
            raise
        raise DriftbayesError(
            f"{folder.name!r} cannot be read as a Zarr store ({shown!r}: {reason(error)}); "
            "it may be damaged or incomplete"
        ) from error
    if not isinstance(content, dict):
        raise DriftbayesError(
            f"{folder.name!r} cannot be read as a Zarr store ({shown!r} does not hold a JSON "
            "object); it is damaged"
        )
    return content


def _described(folder: Path, name: str) -> dict[str, Any]:
    """Read a description at the root of a store; empty if it is missing or damaged."""
    try:
        return _json(folder / name, folder)
    except DriftbayesError:
        return {}


def _check_codecs(node: Any, folder: Path, name: str) -> None:
    """Refuse a description with a codec that is not known to be safe."""
    if name.endswith(".zattrs"):
        return
    for codec, where in _codecs(node):
        known = codec.removeprefix(_NUMCODECS_PREFIX)
        if known not in (*_COMPRESSORS, *_FILTERS):
            why = "object codecs can run code" if known == "pickle" else "it is not supported"
            raise DriftbayesError(
                f"{folder.name!r}: {name[:80]!r} names the codec {codec[:40]!r} ({where}); "
                f"{why}: rewrite the store with numbers, or text as vlen-utf8"
            )


def _codecs(node: Any) -> Iterator[tuple[str, str]]:
    """Yield the names of all codecs in a description, each with the member that holds it."""
    if isinstance(node, list):
        for part in node:
            yield from _codecs(part)
    elif isinstance(node, dict):
        for key, value in node.items():
            if str(key).endswith(_USER_DATA):
                continue
            if key in _CODEC_LISTS and isinstance(value, list):
                for part in value:
                    yield _name(part), str(key)
            elif key in ("compressor", "object_codec") and value is not None:
                yield _name(value), str(key)
            yield from _codecs(value)


def _name(codec: Any) -> str:
    if isinstance(codec, dict):
        return str(codec.get("id", codec.get("name")))
    return str(codec)


def _sizes(shape: Any) -> list[int]:
    sizes = [n for n in shape if isinstance(n, int) and not isinstance(n, bool) and 0 <= n < 2**62]
    if len(sizes) != len(shape) or len(sizes) > 32:
        raise ValueError("a shape must be a list of whole numbers from 0 up")
    return [max(n, 1) for n in sizes] if math.prod(sizes) else sizes


def _itemsize(kind: Any) -> int:
    """Return the bytes of a value in memory; for text of variable length, of its pointer."""
    if isinstance(kind, dict):
        configuration = kind.get("configuration") or {}
        return int(configuration.get("length_bytes", 8)) if isinstance(configuration, dict) else 8
    if isinstance(kind, list):
        return sum(_itemsize(part[1]) for part in kind)
    try:
        return max(np.dtype(str(kind)).itemsize, 1)
    except TypeError:
        return 8


def _codecs_v2(described: Mapping[str, Any]) -> list[Any]:
    compressor = described.get("compressor")
    return [*(described.get("filters") or []), *([compressor] if compressor else [])]


def _compressor(names: Iterable[str]) -> str | None:
    known = (name.removeprefix(_NUMCODECS_PREFIX) for name in names)
    compressors = [name for name in known if name in _COMPRESSORS]
    if len(compressors) > 1:
        raise ValueError(f"{len(compressors)} compressors, expected at most one")
    return compressors[0] if compressors else None


def _check_chunk(path: Path, array: _ArrayInfo, name: str, folder: Path) -> None:
    """Refuse a chunk that would decode to far more than its array declares."""
    allowed = _MAX_EXPANSION * array.chunk_bytes + _MAX_OVERHEAD
    size = path.stat().st_size
    too_large = size > allowed * max(array.n_inner, 1)
    if not too_large and array.compressor is not None and size:
        with path.open("rb") as stream:
            if not array.n_inner:
                if limits.is_cut(stream, size, array.compressor):
                    raise DriftbayesError(
                        f"{folder.name!r}: the chunk {name[:80]!r} is truncated; restore it from a "
                        "copy"
                    )
                too_large = limits.exceeds(stream, 0, size, array.compressor, allowed)
            else:
                parts = limits.shard_parts(stream, size, array.n_inner, first=array.index_first)
                too_large = any(
                    limits.exceeds(stream, start, length, array.compressor, allowed)
                    for start, length in parts
                )
    if not too_large and size and not array.n_inner:
        too_large = _count_texts(path, array) > max(array.chunk_bytes, 1)
    if too_large:
        raise DriftbayesError(
            f"{folder.name!r}: the chunk {name[:80]!r} holds more than the {array.chunk_bytes:,} "
            "bytes that its array declares for one; the store is damaged or malicious"
        )


def _count_texts(path: Path, array: _ArrayInfo) -> int:
    """Read the number of texts that a chunk declares, which its decoder allocates in advance."""
    codecs = [*_codecs_v2(array.described), *(array.described.get("codecs") or [])]
    if "vlen-utf8" not in map(_name, codecs):
        return 0
    import numcodecs  # type: ignore[import-untyped, unused-ignore]

    data: Any = path.read_bytes()
    if array.compressor is not None:
        try:
            data = numcodecs.get_codec({"id": array.compressor}).decode(data)
        # The reader will report the error.
        except Exception:
            return 0
    return int.from_bytes(bytes(data[:4]), "little")


def is_foreign_store(folder: Path) -> bool:
    """Whether a directory is a Zarr store, but not a turbulence run of driftbayes."""
    if not any((folder / name).is_file() for name in _STORE_FILES):
        return False
    attributes = _described(folder, "zarr.json").get("attributes")
    return not (isinstance(attributes, dict) and schema.SCHEMA_ATTRIBUTE in attributes)


@contextmanager
def opened(folder: Path) -> Iterator[dict[str, Any]]:
    """Open a Zarr store of format 2 or 3 lazily, and describe it by fields of `Contents`.

    Numbers are not decoded. A variable has the attribute `_FillValue` only if the store declares
    it. Every array of format 2 has a `fill_value` for chunks that were never written, 0 by default:
    `encoding["zarr_fill"]` holds it if it is another number.
    """
    require("Zarr stores", "zarr", "xarray")
    import xarray as xr

    arrays = check_store(folder)
    logging.getLogger("asyncio").addFilter(_is_not_of_zarr)
    with (
        reading_as(folder, "a Zarr store", "it may be damaged or incomplete"),
        xr.open_dataset(
            str(folder),
            engine="zarr",
            decode_times=False,
            decode_timedelta=False,
            mask_and_scale=False,
            use_zarr_fill_value_as_mask=True,
            chunks=None,
            consolidated=False,
            # Do not read the coordinates of dimensions in advance.
            create_default_indexes=False,
        ) as dataset,
    ):
        for name, variable in dataset.variables.items():
            _declare_fill(variable, arrays.get(str(name)))
        # zarr lists arrays in the order in which their descriptions happen to be read.
        ordered = dataset[sorted(map(str, dataset.variables))]
        yield {**describe_dataset(ordered), "dataset": partial(nullcontext, ordered)}


def _declare_fill(variable: "xr.Variable", array: _ArrayInfo | None) -> None:
    """Replace the fill value set by xarray with the one that the store declares."""
    variable.attrs.pop("_FillValue", None)
    if array is None:
        return
    declared = array.attributes.get("_FillValue")
    if isinstance(declared, str) and variable.dtype.kind == "f":
        text, declared = declared, None
        with suppress(ValueError, struct.error):
            # In format 3, xarray writes floats as bytes; other programs write "NaN".
            declared = struct.unpack("<d", base64.b64decode(text, validate=True))[0]
        with suppress(ValueError):
            declared = float(text)
    if declared is not None:
        variable.attrs["_FillValue"] = declared
    fill = array.described.get("fill_value")
    chosen = isinstance(fill, int | float) and not isinstance(fill, bool) and fill not in (0, None)
    if array.format == 2 and declared is None and chosen:
        variable.encoding["zarr_fill"] = fill


def _is_not_of_zarr(record: logging.LogRecord) -> bool:
    # zarr awaits only the first task that fails on a damaged store; asyncio would log the others.
    message = record.getMessage()
    return not ("never retrieved" in message and "zarr" in message)


def save(dataset: "xr.Dataset", path: PathLike) -> None:
    """Write a Zarr store atomically; replace a store that driftbayes wrote earlier."""
    require("Zarr stores", "zarr", "xarray")
    with atomic_folder(path, may_replace=is_own_store) as temporary:
        # Every program reads format 2, which has a stable encoding of text.
        encoding = {str(name): {"_FillValue": None} for name in dataset.variables}
        dataset.to_zarr(temporary, zarr_format=2, consolidated=True, encoding=encoding)


def is_own_store(folder: Path) -> bool:
    """Whether a directory is a Zarr store that `save` wrote."""
    return schema.SCHEMA_ATTRIBUTE in _described(folder, ".zattrs")
