"""Hand-made hostile files: code, endless devices, bombs, wrong sizes, deep nesting."""

__all__ = ["KINDS", "make"]

import gzip
import io
import json
import os
import pickle
import socket
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import h5py  # type: ignore[import-untyped, unused-ignore]
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import xarray as xr

from driftbayes.io import write_scan
from fuzz_samples import scan

KINDS = ("tables", "xml", "numpy", "parquet", "netcdf", "stores", "runs", "special", "scans")
MARK = "code-was-run"
_ROWS = b"id,time,x,y\na,0,1,2\na,1,2,3\nb,0,5,6\nb,1,6,7\n"


def make(
    folder: Path, kinds: Collection[str] = KINDS
) -> Iterator[tuple[str, Path, str | None, bool]]:
    """Write the files one at a time; yield name, path, format or None, and whether it is a scan.

    Args:
        folder: Empty directory.
        kinds: Kinds of files to write.
    """
    makers = (_tables, _xml, _numpy, _parquet, _netcdf, _stores, _runs, _special, _scans)
    for kind, maker in zip(KINDS, makers, strict=True):
        if kind in kinds:
            for name, path in maker(folder):
                yield name, path, None, kind == "scans"


class _Harm:
    """Object that leaves a mark if it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self.place = str(folder / MARK)

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (self.place,))


def _file(folder: Path, name: str, data: bytes) -> tuple[str, Path]:
    path = folder / name.replace(" ", "-")
    path.write_bytes(data)
    return name, path


def _tables(folder: Path) -> Iterator[tuple[str, Path]]:
    long = 40 * 2**20
    yield _file(folder, "first line without an end.csv", b"x" * long)
    yield _file(folder, "header of many columns.csv", b",".join(b"c%d" % i for i in range(400_000)))
    yield _file(folder, "quote that never closes.csv", _ROWS + b'"' + b"a,b\n" * 500_000)
    yield _file(folder, "row without an end.csv", _ROWS + b"c,0," + b"9" * long + b",1\n")
    yield _file(folder, "only spaces.csv", b" " * long)
    yield _file(folder, "only line ends.csv", b"\n" * long)
    yield _file(folder, "only comments.csv", b"#\n" * (long // 2))
    yield _file(folder, "only zeros.csv", bytes(long))
    yield _file(folder, "nested numbers.csv", b"id,time,x\na,0," + b"(" * 10**6 + b"\n")
    yield _file(folder, "spaces between cells.csv", b"44000 " + b" " * 10**6 + b"x\n")
    yield _file(folder, "digits without an end.csv", b"id,time,x\n" + b"1" * 10**6 + b",0,0\n")
    yield _file(folder, "one name many times.csv", b",".join([b"x"] * 50_000) + b"\n")
    yield _file(folder, "huge id.csv", b"id,time,x\n" + b"a" * 3 * 10**6 + b",0,0\n")
    bomb = _gzip_of(b"a,0,1,2\n" * 2**17, 3000)
    yield _file(folder, "gzip of gigabytes.csv.gz", gzip.compress(_ROWS) + bomb)
    yield _file(folder, "gzip of one line.csv.gz", _gzip_of(b"x" * 2**20, 4000))
    yield _file(folder, "gzip of zeros.csv.gz", _gzip_of(bytes(2**20), 4000))
    date = b"id,time,x\na," + b"2020-01-01T00:00:00" + b" " * 10**6 + b"Z,0\n"
    yield _file(folder, "date of spaces.csv", date)
    yield _file(folder, "formulas.csv", b"id,time,x\n=cmd|'/c calc'!A1,0,0\n=1+1,1,1\n")


def _deflated(block: bytes, times: int) -> bytes:
    """Return the deflated repetition of a block, compressed once and repeated."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    part = compressor.compress(block) + compressor.flush(zlib.Z_FULL_FLUSH)
    return part * times + b"\x03\x00"


def _gzip_of(block: bytes, times: int) -> bytes:
    # The checksum at the end is wrong, which a reader notices too late.
    return bytes.fromhex("1f8b08000000000000ff") + _deflated(block, times) + bytes(8)


def _zlib_of(block: bytes, times: int) -> bytes:
    return bytes.fromhex("78da") + _deflated(block, times) + bytes(4)


def _xml(folder: Path) -> Iterator[tuple[str, Path]]:
    laughs = b"".join(b'<!ENTITY l%d "%s">' % (i, b"&l%d;" % (i - 1) * 10) for i in range(1, 40))
    head = b'<?xml version="1.0"?>'
    yield _file(
        folder, "entities.xml", head + b'<!DOCTYPE a [<!ENTITY l0 "x">' + laughs + b"]><Tracks/>"
    )
    outside = b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><Tracks nTracks="&x;"/>'
    yield _file(folder, "entity of a file.xml", head + outside)
    yield _file(folder, "deep.xml", head + b"<Tracks>" + b"<a>" * 10**6)
    many = b" ".join(b'a%d="1"' % i for i in range(200_000))
    yield _file(folder, "many attributes.xml", head + b"<Tracks " + many + b"/>")
    yield _file(folder, "long attribute.xml", head + b'<Tracks a="' + b"x" * 30 * 2**20 + b'"/>')
    spots = b'<particle><detection t="1e308" x="1e308" y="-1e308" z="0"/></particle>' * 1000
    yield _file(folder, "extreme tracks.xml", head + b"<Tracks>" + spots + b"</Tracks>")


def _npy(descr: str, shape: str, data: bytes = bytes(64), version: int = 1) -> bytes:
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    size = len(header).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + size + header + data


def _zip(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return stream.getvalue()


def _numpy(folder: Path) -> Iterator[tuple[str, Path]]:
    code = pickle.dumps(_Harm(folder))
    yield _file(folder, "pickle.npy", _npy("'|O'", "(1,)", code))
    yield _file(folder, "pickle.npz", _zip({"x.npy": _npy("'|O'", "(1,)", code)}))
    yield _file(folder, "pickle.pkl", code)
    yield _file(folder, "declared huge.npy", _npy("'<f8'", "(10000000000, 3, 2)"))
    nested = "(" * 3000 + ")" * 3000
    yield _file(folder, "nested header.npy", _npy("'<f8'", nested))
    header = b"\x93NUMPY\x02\x00" + (2**32 - 1).to_bytes(4, "little")
    big = _zip({"x.npy": header + bytes(2 * 10**7)})
    yield _file(folder, "header of gigabytes.npz", big)
    zeros = _zip({"x.npy": _npy("'<f8'", "(10000000, 1, 2)", bytes(160_000_000))})
    yield _file(folder, "zeros.npz", zeros)
    many = {f"a{i}.npy": b"" for i in range(2000)}
    yield _file(folder, "many members.npz", _zip(many))
    yield _file(folder, "text of gigabytes.npy", _npy("'<U500000000'", "(2,)"))


def _parquet(folder: Path) -> Iterator[tuple[str, Path]]:
    path = folder / "one long id a million times.parquet"
    words = pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(10**6, np.int32)), pa.array(["x" * 20_000])
    )
    numbers = pa.array(np.arange(1e6))
    table = pa.table({"id": words, "time": numbers, "x": numbers})
    pq.write_table(table, path, compression="zstd")
    yield path.stem, path
    path = folder / "constant.parquet"
    zeros = pa.array(np.zeros(10**7))
    table = pa.table({name: zeros for name in ("id", "time", "x", "y")})
    pq.write_table(table, path, compression="zstd")
    yield path.stem, path
    path = folder / "many columns.parquet"
    pq.write_table(pa.table({f"c{i}": [0.0] for i in range(5000)}), path)
    yield path.stem, path
    path = folder / "lists of gigabytes.parquet"
    lists = pa.array([np.zeros(5 * 10**6)])
    obs = pa.StructArray.from_arrays([lists, lists, lists], names=["time", "lon", "lat"])
    pq.write_table(pa.table({"obs": obs}), path, compression="zstd")
    yield path.stem, path
    yield _file(folder, "footer.parquet", b"PAR1" + (2**31 - 1).to_bytes(4, "little") + b"PAR1")


def _dataset(**changed: Any) -> xr.Dataset:
    variables = {
        "rowsize": ("traj", np.array([2, 1])),
        "id": ("traj", np.array([1, 2])),
        "time": ("obs", np.array([0.0, 1.0, 0.0]), {"units": "s"}),
        "lon": ("obs", np.array([1.0, 1.1, 1.0])),
        "lat": ("obs", np.array([1.0, 1.1, 1.0])),
    }
    return xr.Dataset(variables | changed)


def _netcdf(folder: Path) -> Iterator[tuple[str, Path]]:
    def saved(name: str, dataset: xr.Dataset) -> tuple[str, Path]:
        path = folder / f"{name.replace(' ', '-')}.nc"
        dataset.to_netcdf(path, engine="h5netcdf")
        return name, path

    for name, units in (
        ("units of spaces", "s" + " " * 200_000 + "x"),
        ("units of since", "since " * 50_000),
        ("units of gigabytes of digits", "s since " + "1" * 500_000),
    ):
        path = folder / f"{name.replace(' ', '-')}.nc"
        _dataset().to_netcdf(path, engine="h5netcdf")
        with h5py.File(path, "r+", libver="latest") as raw:
            del raw["time"].attrs["units"]
            raw["time"].attrs.create("units", units[:60_000], dtype=h5py.string_dtype())
        yield name, path
    path = folder / "declared dimensions.nc"
    with h5py.File(path, "w") as raw:
        for i in range(60):
            scale = raw.create_dataset(f"d{i}", (2**26,), "i1", chunks=(2**20,), compression="gzip")
            scale.make_scale(f"d{i}")
    yield path.stem, path
    path = folder / "chunk that inflates.nc"
    with h5py.File(path, "w") as raw:
        for name in ("id", "time", "x", "rowsize"):
            data = raw.create_dataset(name, (4,), "f8", chunks=(4,), compression="gzip")
            data.make_scale(name)
            deflated = _zlib_of(bytes(2**20), 3000)
            data.id.write_direct_chunk((0,), deflated)
    yield path.stem, path
    path = folder / "compressed twice.nc"
    with h5py.File(path, "w") as raw:
        created = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        created.set_chunk((4,))
        created.set_deflate(9)
        created.set_deflate(9)
        space = h5py.h5s.create_simple((4,))
        found = h5py.h5d.create(raw.id, b"time", h5py.h5t.IEEE_F64LE, space, created)
        found.write_direct_chunk((0,), _zlib_of(_zlib_of(bytes(2**20), 1000), 2))
    yield path.stem, path
    path = folder / "groups in a circle.nc"
    with h5py.File(path, "w") as raw:
        raw.create_group("a")["a"] = raw["/"]
        raw["b"] = h5py.SoftLink("/a/a/a/a")
    yield path.stem, path
    path = folder / "groups a thousand deep.nc"
    with h5py.File(path, "w") as raw:
        raw.create_group("/".join(["g"] * 2000))
    yield path.stem, path
    path = folder / "variables of another file.nc"
    with h5py.File(path, "w") as raw:
        raw["time"] = h5py.ExternalLink("/dev/zero", "time")
        raw.create_dataset("x", (4,), "f8", external=[("/dev/zero", 0, 32)])
    yield path.stem, path
    yield saved("counts beyond memory", _dataset(rowsize=("traj", np.array([2**62, 2**62]))))
    yield saved("packed to infinity", _dataset(lon=("obs", np.ones(3), {"scale_factor": 1e308})))


def _store(folder: Path, name: str, form: int = 2) -> Path:
    path = folder / f"{name.replace(' ', '-')}.zarr"
    _dataset().to_zarr(path, zarr_format=form, consolidated=False)
    return path


def _edit(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    value = json.loads(path.read_text(encoding="utf-8"))
    change(value)
    path.write_text(json.dumps(value), encoding="utf-8")


def _update(changed: dict[str, Any], value: dict[str, Any]) -> None:
    value.update(changed)


def _stores(folder: Path) -> Iterator[tuple[str, Path]]:
    code = pickle.dumps(np.array([_Harm(folder)], dtype=object))
    objects = {"dtype": "|O", "compressor": None, "fill_value": None}
    for name, change in (
        ("pickle filter", {**objects, "filters": [{"id": "pickle"}]}),
        ("json objects", {**objects, "filters": [{"id": "json2"}]}),
        ("msgpack objects", {**objects, "filters": [{"id": "msgpack2"}]}),
        ("pickle compressor", {"compressor": {"id": "pickle"}}),
        ("pickle behind another", {"filters": [{"id": "delta"}, {"id": "pickle"}]}),
        ("object without codec", {**objects, "filters": None}),
        ("unknown codec", {"compressor": {"id": "nonsense"}}),
        ("shape of petabytes", {"shape": [10**14]}),
        ("shape below zero", {"shape": [-3]}),
        ("chunks of petabytes", {"chunks": [10**14]}),
        ("chunks of nothing", {"chunks": [0]}),
        ("text of petabytes", {"dtype": "<U1000000000"}),
    ):
        path = _store(folder, name)
        _edit(path / "lon" / ".zarray", partial(_update, change))
        (path / "lon" / "0").write_bytes(code)
        yield name, path
    path = _store(folder, "pickle in consolidated metadata")
    _edit(path / ".zgroup", lambda value: None)
    described = json.loads((path / "lon" / ".zarray").read_text(encoding="utf-8"))
    described["filters"] = [{"id": "pickle"}]
    consolidated = {"metadata": {".zgroup": {"zarr_format": 2}, "lon/.zarray": described}}
    (path / ".zmetadata").write_text(json.dumps(consolidated), encoding="utf-8")
    yield "pickle in consolidated metadata", path
    path = _store(folder, "pickle of format 3", 3)
    _edit(
        path / "lon" / "zarr.json",
        lambda value: value["codecs"].insert(0, {"name": "numcodecs.pickle", "configuration": {}}),
    )
    yield "pickle of format 3", path
    path = _store(folder, "pickle in a nested group")
    (path / "deep" / "inner").mkdir(parents=True)
    (path / "deep" / ".zgroup").write_text('{"zarr_format": 2}', encoding="utf-8")
    (path / "deep" / "inner" / ".zarray").write_text(json.dumps(described), encoding="utf-8")
    yield "pickle in a nested group", path
    for name, compressor in (("gzip", {"id": "gzip", "level": 9}), ("zlib", {"id": "zlib"})):
        path = _store(folder, f"chunk of {name} that inflates")
        new: dict[str, Any] = {"compressor": compressor}
        _edit(path / "lon" / ".zarray", partial(_update, new))
        data = _gzip_of(bytes(2**20), 3000) if name == "gzip" else _zlib_of(bytes(2**20), 3000)
        (path / "lon" / "0").write_bytes(data)
        yield f"chunk of {name} that inflates", path
    path = _store(folder, "chunk of blosc that inflates")
    chunk = bytearray((path / "lon" / "0").read_bytes())
    chunk[4:8] = (2**31 - 1).to_bytes(4, "little")
    (path / "lon" / "0").write_bytes(bytes(chunk))
    yield "chunk of blosc that inflates", path
    path = _store(folder, "chunk of zstd that inflates", 3)
    block = (2**17 << 3 | 1 << 1).to_bytes(3, "little") + b"\0"
    frame = bytes.fromhex("28b52ffd0058") + block * 30_000 + bytes([1, 0, 0])
    (path / "lon" / "c" / "0").write_bytes(frame)
    yield "chunk of zstd that inflates", path
    path = _store(folder, "chunk linked to a device")
    (path / "lon" / "0").unlink()
    (path / "lon" / "0").symlink_to("/dev/zero")
    yield "chunk linked to a device", path
    path = _store(folder, "metadata linked to a device")
    (path / "lon" / ".zarray").unlink()
    (path / "lon" / ".zarray").symlink_to("/dev/zero")
    yield "metadata linked to a device", path
    path = _store(folder, "chunk that is a pipe")
    (path / "lat" / "0").unlink()
    os.mkfifo(path / "lat" / "0")
    yield "chunk that is a pipe", path
    path = _store(folder, "store in a circle")
    (path / "loop").symlink_to(path)
    yield "store in a circle", path
    path = _store(folder, "chunk of holes")
    with (path / "lon" / "0").open("r+b") as stream:
        stream.truncate(2**40)
    yield "chunk of holes", path
    path = _store(folder, "metadata nested deep")
    (path / ".zattrs").write_text("[" * 10**6, encoding="utf-8")
    yield "metadata nested deep", path
    path = _store(folder, "sixty coordinates", 2)
    for i in range(60):
        inside = path / f"d{i}"
        inside.mkdir()
        new = {**described, "filters": None, "dtype": "|i1", "shape": [2**26], "chunks": [2**20]}
        (inside / ".zarray").write_text(json.dumps(new), encoding="utf-8")
        (inside / ".zattrs").write_text(
            json.dumps({"_ARRAY_DIMENSIONS": [f"d{i}"]}), encoding="utf-8"
        )
    yield "sixty coordinates", path
    path = _store(folder, "units of spaces in a store")
    _edit(path / "time" / ".zattrs", lambda value: value.update(units="s" + " " * 10**6 + "x"))
    yield "units of spaces in a store", path


def _runs(folder: Path) -> Iterator[tuple[str, Path]]:
    from fuzz_samples import _run

    for name, array, change in (
        ("run of petabytes", "time", {"shape": [10**14]}),
        ("run with chunks of nothing", "x", {"shape": [2, 0]}),
        ("run of other types", "x", {"data_type": "|O"}),
    ):
        path = _run(folder / name.replace(" ", "-"))
        file = path / "trajectories.zarr" / array / "zarr.json"
        _edit(file, partial(_update, change))
        yield name, path
    path = _run(folder / "run-with-a-pipe")
    chunk = path / "trajectories.zarr" / "x" / "c" / "0" / "0"
    chunk.unlink()
    os.mkfifo(chunk)
    yield "run with a pipe", path


def _special(folder: Path) -> Iterator[tuple[str, Path]]:
    os.mkfifo(folder / "pipe.csv")
    yield "pipe", folder / "pipe.csv"
    yield "endless device", Path("/dev/zero")
    yield "random device", Path("/dev/urandom")
    (folder / "link.csv").symlink_to("/dev/zero")
    yield "link to a device", folder / "link.csv"
    (folder / "loop.csv").symlink_to(folder / "loop.csv")
    yield "link to itself", folder / "loop.csv"
    listener = socket.socket(socket.AF_UNIX)
    here = os.getcwd()
    os.chdir(folder)
    listener.bind("socket.csv")
    os.chdir(here)
    listener.close()
    yield "socket", folder / "socket.csv"
    with (folder / "holes.csv").open("wb") as stream:
        stream.write(_ROWS)
        stream.truncate(2**40)
    yield "table of holes", folder / "holes.csv"
    with (folder / "holes.npy").open("wb") as stream:
        stream.write(_npy("'<f8'", "(10000000000, 1, 2)"))
        stream.truncate(2**38)
    yield "array of holes", folder / "holes.npy"
    (folder / "empty.zarr").mkdir()
    yield "empty directory", folder / "empty.zarr"


def _scans(folder: Path) -> Iterator[tuple[str, Path]]:
    good = scan()
    for name, changed in (
        ("scan without models", good.drop_vars("model")),
        ("scan of no times", good.isel(tau=slice(0, 0))),
        ("scan of times below zero", good.assign_coords(tau=[-1.0, 0.0, np.nan])),
        ("scan of unknown models", good.assign_coords(model=["one", "two"])),
        ("scan of one model twice", good.assign_coords(model=["brownian", "brownian"])),
        ("scan of other parameters", good.assign_coords(parameter=["a", "b", ""])),
        (
            "scan of text for numbers",
            good.assign(probability=(("model", "tau"), np.full((2, 3), "x"))),
        ),
        ("scan of other dimensions", good.rename(tau="time")),
        ("scan of nothing but NaN", good.map(lambda v: v * np.nan if v.dtype.kind == "f" else v)),
        ("scan of extremes", good.map(lambda v: v * 1e308 if v.dtype.kind == "f" else v)),
        ("scan with a list of priors", good.assign_attrs(priors="[1, 2]")),
        ("scan with nested options", good.assign_attrs(options="[" * 30_000)),
        ("scan with a consistency of text", good.assign_attrs(consistency='{"brownian": "yes"}')),
        ("scan with a reading of numbers", good.assign_attrs(provenance='{"reading": 7}')),
        ("scan with a title of tags", good.assign_attrs(length_unit="<script>alert(1)</script>")),
    ):
        path = folder / f"{name.replace(' ', '-')}.nc"
        write_scan(changed, path)
        yield name, path
