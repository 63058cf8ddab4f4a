"""Long tables, one row per observation: CSV and Parquet."""

__all__ = [
    "TIME_ORIGIN",
    "lonlat_of",
    "open_parquet",
    "plain_texts",
    "read_columns",
    "read_rows",
    "read_table",
    "separator_note",
    "unique_names",
    "write_csv",
    "write_parquet",
]

import gzip
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from driftbayes._version import __version__
from driftbayes.data.trajectories import Trajectories
from driftbayes.errors import DriftbayesError
from driftbayes.io import cells, csv_text, provenance, schema
from driftbayes.io.contents import Contents
from driftbayes.io.limits import MAX_ID_LENGTH, check_memory, is_plausible, stored_size
from driftbayes.io.missing import without
from driftbayes.io.paths import begin_with_name, reading_as, reason, require
from driftbayes.io.reading import ReadOptions
from driftbayes.storage import spreadsheet
from driftbayes.storage.atomic import PathLike, atomic_path
from driftbayes.typing import FloatArray, StrArray

# What times that were dates count from, kept as `time_origin` in the provenance.
TIME_ORIGIN = "1970-01-01T00:00:00"
_TEXT_TYPES = ("string", "large_string")
_METADATA_KEY = b"driftbayes"
_NUMBER = (cells.is_number, "a number")
_DATE = (cells.is_date, "an ISO date like 2024-05-17T12:00:00Z")
_EITHER = (cells.is_number, "a number or an ISO date like 2024-05-17T12:00:00Z")


def read_table(contents: Contents, options: ReadOptions) -> Trajectories:
    """Trajectories from a table with canonical columns; rows of trajectories may be mixed."""
    _check_container(contents)
    path, time_unit, length_unit = contents.path, options.time_unit, options.length_unit
    found = schema.file_names(contents.names, options.columns, source=path.name)
    found |= schema.extras_in(contents.names, found, options.columns)
    earlier: dict[str, Any] = {}
    if contents.layout is not None and contents.layout.separator != ",":
        earlier = {"notes": [separator_note(contents.layout)]}
    if _METADATA_KEY.decode() in contents.attributes:
        header = _read_metadata(contents.attributes[_METADATA_KEY.decode()], path.name)
        earlier = header.get("provenance", {})
        length_unit = header.get("length_unit") if length_unit is None else length_unit
        time_unit = header.get("time_unit") if time_unit is None else time_unit
    values = read_columns(contents, found)
    codes, ids = values.pop(schema.ID)
    times, dates = values.pop(schema.TIME)
    axes = schema.coordinates_in(values)
    values |= zip(axes, without([values[axis] for axis in axes], options.missing), strict=True)
    if dates and time_unit not in (None, "", "s"):
        msg = (
            f"the times in {path.name!r} are dates, read as seconds; leave out time_unit, "
            f"got {time_unit!r}"
        )
        raise DriftbayesError(msg)
    if (np.diff(codes) < 0).any():
        # Stable: within a trajectory rows stay as they are in the file, so that times which
        # decrease there are reported and not repaired.
        order = np.argsort(codes, kind="stable")
        times, values = times[order], {name: array[order] for name, array in values.items()}
    origin = {"time_origin": TIME_ORIGIN} if dates else {}
    earlier = provenance.extended(earlier, path, contents.container, options.columns)
    with begin_with_name(path):
        return Trajectories(
            positions=np.column_stack([values[axis] for axis in axes]),
            times=times,
            row_sizes=np.bincount(codes),
            ids=ids,
            position_sd=values.get(schema.POSITION_SD),
            lonlat=lonlat_of(values),
            flags={name: values[column] for name, column in schema.flags_in(values).items()},
            length_unit=length_unit or "",
            time_unit="s" if dates else time_unit or "",
            provenance={**earlier, **origin},
        )


def lonlat_of(values: Mapping[str, FloatArray]) -> FloatArray | None:
    """Longitude and latitude from canonical columns, if they are there."""
    if not set(schema.LONLAT) <= set(values):
        return None
    return np.column_stack([values[axis] for axis in schema.LONLAT])


def read_columns(
    contents: Contents, names: Mapping[str, str], *, layout: csv_text.Layout | None = None
) -> dict[str, Any]:
    """Columns of a table as numbers; the first cell that cannot be used is named."""
    _check_container(contents)
    if contents.container == "parquet":
        return _from_parquet(contents, names)
    return _from_csv(contents, names, layout or contents.layout or csv_text.Layout())


def _check_container(contents: Contents) -> None:
    require("tables", "pyarrow")
    if contents.container not in ("csv", "parquet"):
        msg = (
            f"{contents.path.name!r} is a {contents.container} file, expected a table, CSV or "
            "Parquet; choose another format with --format"
        )
        raise DriftbayesError(msg)


def unique_names(names: Sequence[str]) -> tuple[str, ...]:
    """Names without spaces around them, second and later ones of a kind with a number."""
    seen: Counter[str] = Counter()
    result = []
    for name in map(str.strip, names):
        seen[name] += 1
        result.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
    return tuple(result)


def separator_note(layout: csv_text.Layout) -> str:
    """A note on a separator that is not the comma."""
    return f"cells are separated by {csv_text.SEPARATORS[layout.separator]}"


def _from_csv(
    contents: Contents, names: Mapping[str, str], layout: csv_text.Layout
) -> dict[str, Any]:
    import pyarrow as pa

    path, unique = contents.path, unique_names(layout.header)
    places = {key: unique.index(name) for key, name in names.items()}
    texts = {key for key in names if _role(key) == schema.ID}
    checks = dict.fromkeys(names, _NUMBER)
    if schema.TIME in map(_role, names):
        # The first row decides whether times are dates: it needs a time anyhow.
        key = next(key for key in names if _role(key) == schema.TIME)
        first = [row[places[key]] for row in layout.rows if places[key] < len(row)]
        cell = first[min(layout.n_skipped, len(first) - 1)] if first else ""
        if cells.is_date(cell):
            texts.add(key)
            checks[key] = _DATE
        elif not cells.is_number(cell):
            checks[key] = _EITHER
    doubled = any(layout.header.count(layout.header[place]) > 1 for place in places.values())
    if layout.own_header and (doubled or layout.n_skipped):
        # A column may come twice, as frame does in trackpy's tables: the first is taken.
        layout = replace(layout, header=unique, own_header=False, n_skipped=layout.n_skipped + 1)
    in_file = {key: layout.header[place] for key, place in places.items()}
    try:
        columns = csv_text.read_columns(path, in_file, texts, layout)
        if not any(map(len, columns.values())):
            msg = f"{path.name!r} has a header but no rows; expected one row per observation"
            raise DriftbayesError(msg)
        return {key: _values(key, column, is_csv=True) for key, column in columns.items()}
    except (pa.ArrowException, OSError, cells.BadCellError) as error:
        # Rows without an id are left out where `id:...` is asked for.
        shown = {key: name for key, name in names.items() if not key.startswith("id:")}
        damaged = f"cannot be read as a table: {reason(error)}; it may be damaged or cut short"
        msg = csv_text.first_problem(path, shown, checks, layout) or f"{path.name!r} {damaged}"
        raise DriftbayesError(msg) from error


def _from_parquet(contents: Contents, names: Mapping[str, str]) -> dict[str, Any]:
    path = contents.path
    for name in names.values():
        if contents.names.count(name) > 1:
            msg = f"{path.name!r} has more than one column {name!r}; rename one of them"
            raise DriftbayesError(msg)
    table = _parquet_table(path, list(dict.fromkeys(names.values())), contents.rows)
    result = {}
    for key, name in names.items():
        try:
            result[key] = _values(key, table[name], is_csv=False)
        except cells.BadCellError as error:
            first = 1 if contents.rows is None else contents.rows[0] + 1
            row = "" if error.row is None else f" row {first + error.row}"
            msg = f"{path.name!r}{row}: column {name!r} {error.what}"
            raise DriftbayesError(msg) from error
    return result


def _role(key: str) -> str:
    return key.partition(":")[0]


def _values(key: str, column: Any, *, is_csv: bool) -> Any:
    """What `read_columns` returns for a column."""
    if key == schema.ID:
        return cells.encode_ids(column, text_holds_integers=is_csv)
    if _role(key) == schema.ID:
        return column
    return cells.times(column) if _role(key) == schema.TIME else cells.numbers(column)


def _parquet_table(file: Path, names: list[str], rows: tuple[int, int] | None) -> Any:
    """Some columns of a Parquet file as an Arrow table, its size checked before it is read."""
    with reading_as(file, "Parquet"), open_parquet(file) as parquet:
        n_rows, n_bytes = parquet.metadata.num_rows, stored_size(file)
        if not is_plausible(8 * n_rows * len(names), n_bytes, compressed=True):
            msg = (
                f"{file.name!r} is declared to have {n_rows:,} rows in {n_bytes:,} bytes; the file "
                "is damaged"
            )
            raise DriftbayesError(msg)
        n_read = n_rows if rows is None else rows[1] - rows[0]
        # The table, the numbers, and the trajectories that are made of them.
        check_memory(3 * 8 * n_read * len(names), f"the table {file.name!r}")
        table = parquet.read(columns=names) if rows is None else read_rows(parquet, rows, names)
        table.validate(full=True)
        table = plain_texts(table, file)
    if table.num_rows == 0:
        msg = f"{file.name!r} has columns but no rows; expected one row per observation"
        raise DriftbayesError(msg)
    return table


def open_parquet(file: Path) -> Any:
    """Open a Parquet file such that a text which comes a million times is stored once.

    `plain_texts` makes texts of them again when they are known to be short.
    """
    import pyarrow.parquet as pq

    with pq.ParquetFile(file) as parquet:
        texts = [field.name for field in parquet.schema_arrow if str(field.type) in _TEXT_TYPES]
    return pq.ParquetFile(file, read_dictionary=texts)


def read_rows(parquet: Any, rows: tuple[int, int], names: list[str] | None = None) -> Any:
    """Some rows of an open Parquet file, from the row groups that hold them."""
    groups = range(parquet.metadata.num_row_groups)
    sizes = np.array([parquet.metadata.row_group(i).num_rows for i in groups])
    ends = np.cumsum(sizes)
    low, high = np.searchsorted(ends, [rows[0], rows[1] - 1], side="right").tolist()
    table = parquet.read_row_groups(range(low, high + 1), columns=names, use_threads=False)
    return table.slice(rows[0] - int(ends[low] - sizes[low]), rows[1] - rows[0])


def plain_texts(table: Any, file: Path) -> Any:
    """A table or batch that was read with texts as numbers of texts, with the texts themselves."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for place, name in enumerate(table.schema.names):
        column = table.column(place)
        if not pa.types.is_dictionary(column.type):
            continue
        if str(column.type.value_type) not in _TEXT_TYPES:
            continue
        chunks = column.chunks if hasattr(column, "chunks") else [column]
        lengths = [pc.max(pc.binary_length(chunk.dictionary)).as_py() or 0 for chunk in chunks]
        # A character has at most four bytes.
        if max(lengths, default=0) > 4 * MAX_ID_LENGTH:
            msg = (
                f"{file.name!r}: column {name[:40]!r} holds a text of {max(lengths):,} bytes; use "
                f"ids of at most {MAX_ID_LENGTH} characters"
            )
            raise DriftbayesError(msg)
        table = table.set_column(place, name, column.cast(column.type.value_type))
    return table


def write_csv(trajectories: Trajectories, path: PathLike) -> None:
    """Write trajectories as CSV, every float to its last bit; a missing value is an empty cell.

    A CSV file holds no units and no provenance, and text ids that are all whole numbers are
    read back as whole numbers. A text id that a spreadsheet would run as a formula, as it does with
    `=1+1`, is written with an apostrophe before it, which `read_csv` takes away again. The same
    trajectories give the same bytes, compressed or not.
    """
    require("tables", "pyarrow")
    import pyarrow.csv as pacsv

    table = _as_table(trajectories, escape_ids=True)
    _refuse_padded(trajectories.ids)
    with atomic_path(path) as temporary:
        compressed = Path(path).name.lower().endswith(".gz")
        with temporary.open("wb") as file, _compressing(file, compressed) as stream:
            stream.write((",".join(table.column_names) + "\n").encode())
            options = pacsv.WriteOptions(include_header=False, quoting_style="needed")
            pacsv.write_csv(table, stream, options)


@contextmanager
def _compressing(file: BinaryIO, compressed: bool) -> Iterator[Any]:  # noqa: FBT001
    if not compressed:
        yield file
        return
    # Without the time and the temporary name that gzip would put into its header.
    with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as stream:
        yield stream


def write_parquet(trajectories: Trajectories, path: PathLike) -> None:
    """Write trajectories as Parquet, with units and provenance; a missing value is a null."""
    require("tables", "pyarrow")
    import pyarrow.parquet as pq

    header = {
        "schema": schema.SCHEMA_VERSION,
        "version": __version__,
        "length_unit": trajectories.length_unit,
        "time_unit": trajectories.time_unit,
        "provenance": json.loads(provenance.to_json(trajectories.provenance)),
    }
    table = _as_table(trajectories)
    table = table.replace_schema_metadata({_METADATA_KEY: json.dumps(header)})
    with atomic_path(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")


def _as_table(trajectories: Trajectories, *, escape_ids: bool = False) -> Any:
    import pyarrow as pa

    ids = cells.id_values(trajectories.ids)
    kind = pa.int64() if ids.dtype == np.int64 else pa.string()
    if escape_ids and ids.dtype != np.int64:
        ids = np.array([spreadsheet.escape_cell(value) for value in ids], dtype=object)
    table = {schema.ID: pa.array(ids, type=kind).take(pa.array(trajectories.trajectory_index))}
    table[schema.TIME] = pa.array(trajectories.times)
    for axis, values in zip(schema.COORDINATES, trajectories.positions.T, strict=False):
        table[axis] = pa.array(values, mask=np.isnan(values))
    more = (
        {} if trajectories.position_sd is None else {schema.POSITION_SD: trajectories.position_sd}
    )
    if trajectories.lonlat is not None:
        more |= dict(zip(schema.LONLAT, trajectories.lonlat.T, strict=True))
    more |= {schema.flag_column(name): values for name, values in trajectories.flags.items()}
    for name, values in more.items():
        table[name] = pa.array(values, mask=np.isnan(values))
    return pa.table(table)


def _refuse_padded(ids: StrArray) -> None:
    """Refuse ids that the CSV reader would take for missing or for one another."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if ids.dtype.kind in "iu":
        return
    text = pa.array(ids.tolist(), type=pa.string())
    trimmed = pc.utf8_trim_whitespace(text)
    bad = np.asarray(pc.or_(pc.equal(trimmed, ""), pc.not_equal(trimmed, text)))
    if bad.any():
        msg = (
            f"a CSV file cannot hold the id {str(ids[np.argmax(bad)])!r}, which is blank or has "
            "spaces around it; rename it, or write Parquet"
        )
        raise DriftbayesError(msg)


def _read_metadata(stored: str, source: str) -> dict[str, Any]:
    header = provenance.from_json(stored, source)
    schema.check_schema_version(header.get("schema"), source)
    for key, kind in (("length_unit", str), ("time_unit", str), ("provenance", dict)):
        if not isinstance(header.get(key, kind()), kind):
            msg = f"the metadata of {source!r} has a {key} of the wrong kind; write the file anew"
            raise DriftbayesError(msg)
    return header
