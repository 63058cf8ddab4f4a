"""Damage a file or store: bytes, numbers, headers, attributes, metadata."""

__all__ = ["mutate"]

import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from fuzz_samples import Sample

_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_WORDS = (
    *(b"", b" ", b"-1", b"0", b"1e999", b"-1e308", b"nan", b"inf", b"1e-320", b"9" * 400),
    *(b'"', b"'", b"\x00", b"\xff\xfe", b"\r", b"\n", b"\t", b";", b"#", b"<", b"&", b"&#0;"),
    *(
        b"2005-13-45",
        b"abc",
        b"1_000",
        b"\xd9\xa1",
        b"=1+1",
        b"4294967295",
        b"18446744073709551615",
    ),
    *(b"9223372036854775807", b"-9223372036854775808", b" " * 5000, b"(" * 2000, b"[" * 2000),
)
_VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 1, 2**31 - 1, 2**62, 2**64, 10**400, 1e308, -1e308, 1e-320),
    *(float("nan"), float("inf"), "", "NaN", "x", "x" * 10_000, " " * 20_000, "\u0000", "é\ud800"),
    *([], {}, [0], [-1], [2**40, 2**40], {"a": 1}, [[[[[]]]]], "pickle", "<f8", "|O", "<U99999999"),
)


def mutate(
    sample: Path, folder: Path, others: "Sequence[Sample]", key: Sequence[int]
) -> tuple[Path, str]:
    """Write a damaged copy of a sample.

    Args:
        sample: A valid file or store.
        folder: Empty directory for the copy.
        others: Samples to take pieces from.
        key: Seed of the random numbers.

    Returns:
        The copy, and a description of the damage.
    """
    rng = np.random.default_rng(key)
    copy = folder / sample.name
    if sample.is_dir():
        shutil.copytree(sample, copy)
        files = sorted(path for path in copy.rglob("*") if path.is_file())
        file = files[int(rng.integers(len(files)))]
        if rng.random() < 0.1:
            file.unlink()
            return copy, f"without {file.relative_to(copy)}"
        if file.name in (".zarray", ".zattrs", ".zmetadata", "zarr.json") and rng.random() < 0.7:
            how = _change_json(file, rng)
        else:
            how = _change_bytes(file, rng, others)
        return copy, f"{file.relative_to(copy)} {how}"
    shutil.copy(sample, copy)
    structured = {".nc": _change_netcdf, ".parquet": _change_parquet, ".npz": _change_npz}
    if sample.suffix in structured and rng.random() < 0.5:
        try:
            return copy, structured[sample.suffix](copy, rng)
        except Exception as error:  # If it cannot be written, damage bytes instead.
            shutil.copy(sample, copy)
            note = type(error).__name__
            return copy, f"{_change_bytes(copy, rng, others)} (after {note})"
    return copy, _change_bytes(copy, rng, others)


def _change_bytes(file: Path, rng: np.random.Generator, others: "Sequence[Sample]") -> str:
    data = bytearray(file.read_bytes())
    if not data:
        file.write_bytes(b"\xff")
        return "was empty"
    how = ("flips", "flips", "cut", "words", "numbers", "numbers", "splice", "repeat")[
        int(rng.integers(8))
    ]
    place = int(rng.integers(len(data)))
    if how == "flips":
        for _ in range(int(rng.integers(1, 9))):
            data[int(rng.integers(len(data)))] ^= int(rng.integers(1, 256))
    elif how == "cut":
        del data[place:]
    elif how == "words":
        for _ in range(int(rng.integers(1, 4))):
            word = _WORDS[int(rng.integers(len(_WORDS)))]
            place = int(rng.integers(len(data) + 1))
            data[place : place + int(rng.integers(12))] = word * (1, 1, 50)[int(rng.integers(3))]
    elif how == "numbers":
        found = list(_NUMBER.finditer(bytes(data)))
        for match in [found[int(i)] for i in rng.integers(len(found), size=2)] if found else []:
            data[match.start() : match.end()] = _WORDS[int(rng.integers(len(_WORDS)))]
    elif how == "splice":
        other = others[int(rng.integers(len(others)))].path
        more = other.read_bytes() if other.is_file() else b"\x00" * 64
        start = int(rng.integers(len(more)))
        data[place : place + 64] = more[start : start + int(rng.integers(1, 512))]
    else:
        data[place:place] = data[place : place + 200] * int(rng.integers(1, 50))
    file.write_bytes(bytes(data))
    return how


def _change_json(file: Path, rng: np.random.Generator) -> str:
    value = json.loads(file.read_text(encoding="utf-8"))
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        for key in list(node) if isinstance(node, dict) else range(len(node)):
            places.append((node, key))
            if isinstance(node[key], dict | list):
                walk(node[key])

    walk(value)
    if not places:
        file.write_text(json.dumps(_VALUES[int(rng.integers(len(_VALUES)))]), encoding="utf-8")
        return "replaced"
    node, key = places[int(rng.integers(len(places)))]
    if isinstance(node, dict) and rng.random() < 0.2:
        del node[key]
        how = f"without {key}"
    else:
        new = _VALUES[int(rng.integers(len(_VALUES)))]
        node[key] = new
        how = f"{key}={str(new)[:20]!r}"
    file.write_bytes(json.dumps(value).encode("utf-8", errors="surrogatepass"))
    return how


def _change_netcdf(file: Path, rng: np.random.Generator) -> str:
    import h5py  # type: ignore[import-untyped, unused-ignore]

    with h5py.File(file, "r+") as raw:
        names = [name for name in raw if isinstance(raw[name], h5py.Dataset)]
        name = names[int(rng.integers(len(names)))]
        kind = int(rng.integers(6))
        owner = raw if rng.random() < 0.5 else raw[name]
        attributes = [key for key in owner.attrs if key.isascii() and not key.startswith("_Net")]
        if kind <= 2 and attributes:
            key = attributes[int(rng.integers(len(attributes)))]
            if rng.random() < 0.2:
                del owner.attrs[key]
                return f"without the attribute {key}"
            new = _VALUES[int(rng.integers(len(_VALUES)))]
            text = owner.attrs[key]
            if isinstance(text, str) and text.startswith("{") and rng.random() < 0.7:
                new = _inside_json(text, rng)
            new = json.dumps(new) if isinstance(new, dict | list | type(None)) else new
            owner.attrs[key] = new
            return f"attribute {key}={str(new)[:20]!r}"
        if kind == 3:
            del raw[name]
            return f"without {name}"
        if kind == 4:
            raw.move(name, f"{name}_")
            return f"{name} renamed"
        dataset = raw[name]
        if dataset.dtype.kind in "iuf" and dataset.size:
            flat = dataset[...].ravel()
            limits = [0, 1, -1, 2**31 - 1, 2**62] if flat.dtype.kind != "f" else [0, np.nan, np.inf]
            more = [-1e308, 1e308, 1e-320, 9.96921e36] if flat.dtype.kind == "f" else [7]
            number = (limits + more)[int(rng.integers(len(limits + more)))]
            with np.errstate(all="ignore"):
                flat[int(rng.integers(flat.size))] = np.asarray(number).astype(flat.dtype)
            dataset[...] = flat.reshape(dataset.shape)
            return f"{name} has {number}"
        if dataset.dtype.kind == "O" and dataset.size:
            flat = dataset[...].ravel()
            words = ("", "x", "é" * 500, "langevin+nothing", "a.b.c", "<b>", "*")
            flat[int(rng.integers(flat.size))] = words[int(rng.integers(len(words)))]
            dataset[...] = flat.reshape(dataset.shape)
        return f"{name} has another text"


def _inside_json(text: str, rng: np.random.Generator) -> str:
    value = json.loads(text)
    node = value
    for _ in range(4):
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            break
        key = keys[int(rng.integers(len(keys)))]
        if not isinstance(node[key], dict | list) or rng.random() < 0.4:
            node[key] = _VALUES[int(rng.integers(len(_VALUES)))]
            break
        node = node[key]
    return json.dumps(value)


def _change_parquet(file: Path, rng: np.random.Generator) -> str:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(file)
    place = int(rng.integers(table.num_columns))
    name = table.column_names[place]
    kind = int(rng.integers(5))
    if kind == 0:
        table = table.remove_column(place)
    elif kind == 1:
        table = table.append_column(name, table.column(place))
    elif kind == 2:
        word = _VALUES[int(rng.integers(len(_VALUES)))]
        table = table.replace_schema_metadata({"driftbayes": json.dumps(word), "parcels_": "x"})
    elif kind == 3:
        types = (pa.string(), pa.float32(), pa.int8(), pa.bool_(), pa.timestamp("ns"), pa.null())
        new = types[int(rng.integers(len(types)))]
        filled = pa.nulls(table.num_rows, new)
        table = table.set_column(place, name, filled)
    else:
        extreme = (np.nan, np.inf, 1e308, -1e308, 0.0)[int(rng.integers(5))]
        values = np.full(table.num_rows, extreme)
        table = table.set_column(place, name, pa.array(values))
    pq.write_table(table, file)
    return f"{name} changed ({kind})"


def _change_npz(file: Path, rng: np.random.Generator) -> str:
    import zipfile

    with zipfile.ZipFile(file) as archive:
        members = {name: bytearray(archive.read(name)) for name in archive.namelist()}
    name = list(members)[int(rng.integers(len(members)))]
    data = members[name]
    head = bytes(data[:128])
    found = list(_NUMBER.finditer(head))
    if found and rng.random() < 0.7:
        match = found[int(rng.integers(len(found)))]
        data[match.start() : match.end()] = _WORDS[int(rng.integers(len(_WORDS)))]
    else:
        data[int(rng.integers(len(data)))] ^= int(rng.integers(1, 256))
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in members.items():
            archive.writestr(member, bytes(content))
    return f"member {name} changed"
