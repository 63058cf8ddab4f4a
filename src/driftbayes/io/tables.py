"""Long tables, one row per observation: CSV and Parquet."""

__all__ = [
    "TIME_ORIGIN",
    "lonlat_of",
    "parquet_columns",
    "plain_texts",
    "read_csv",
    "read_parquet",
    "separated_by",
    "text_columns",
    "write_csv",
    "write_parquet",
]

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from driftbayes._version import __version__
from driftbayes.errors import DriftbayesError
from driftbayes.io import cells, csv_text, provenance, schema
from driftbayes.io.limits import LONGEST_ID, check_memory, is_plausible, stored_size
from driftbayes.io.missing import without
from driftbayes.io.packages import require
from driftbayes.io.paths import begin_with_name, existing_file, reason
from driftbayes.storage import spreadsheet
from driftbayes.storage.atomic import PathLike, atomic_path
from driftbayes.trajectories import Trajectories
from driftbayes.typing import FloatArray, StrArray

# What times that were dates count from, kept as `time_origin` in the provenance.
TIME_ORIGIN = "1970-01-01T00:00:00"
_TEXT_TYPES = ("string", "large_string")
_METADATA_KEY = b"driftbayes"
_NUMBER = (cells.is_number, "a number")
_DATE = (cells.is_date, "an ISO date like 2024-05-17T12:00:00Z")
_EITHER = (cells.is_number, "a number or an ISO date like 2024-05-17T12:00:00Z")


def read_csv(
    path: PathLike,
    *,
    columns: Mapping[str, str | None] | None = None,
    length_unit: str | None = None,
    time_unit: str | None = None,
    missing: Sequence[float] | None = None,
) -> Trajectories:
    """Trajectories from a CSV file, compressed if its name ends in .gz.

    Args:
        path: A file with a header and the columns `id`, `time`, `x` and, if there are any, `y`,
            `z` and `sd`. Rows of different trajectories may be mixed.
        columns: Names in the file of these columns, where they differ, or None to leave one out.
        length_unit: Name of the unit of positions.
        time_unit: Name of the unit of times; dates are in seconds.
        missing: Numbers that stand for a missing value.
    """
    require("tables", "pyarrow")
    import pyarrow as pa

    file = existing_file(path)
    layout = csv_text.layout(file)
    header, first = layout.header, layout.rows[0]
    names = [name.strip() for name in header]
    found = schema.file_names(names, columns, source=file.name)
    found |= schema.extras_in(names, found, columns)
    in_file = {canonical: header[names.index(name)] for canonical, name in found.items()}
    # The first row decides whether times are dates: it needs a time anyhow.
    cell = names.index(found[schema.TIME])
    first_time = first[cell] if cell < len(first) else ""
    dates = cells.is_date(first_time)
    checks = dict.fromkeys(found, _NUMBER)
    checks[schema.TIME] = _DATE if dates else _NUMBER if cells.is_number(first_time) else _EITHER
    text = {schema.ID, schema.TIME} if dates else {schema.ID}
    try:
        return _assemble(
            csv_text.read_columns(file, in_file, text, layout),
            path=file,
            reader="csv",
            columns=columns,
            length_unit=length_unit,
            time_unit=time_unit,
            missing=missing,
            stored={} if layout.separator == "," else {"notes": [separated_by(layout)]},
        )
    except (pa.ArrowException, OSError, cells.BadCellError) as error:
        problem = csv_text.first_problem(file, found, checks, layout)
        damaged = f"cannot be read as a table: {reason(error)}; it may be damaged or cut short"
        msg = problem or f"{file.name!r} {damaged}"
        raise DriftbayesError(msg) from error


def separated_by(layout: csv_text.Layout) -> str:
    """A note on a separator that is not the comma."""
    return f"cells are separated by {csv_text.SEPARATORS[layout.separator]}"


def read_parquet(
    path: PathLike,
    *,
    columns: Mapping[str, str | None] | None = None,
    length_unit: str | None = None,
    time_unit: str | None = None,
    missing: Sequence[float] | None = None,
    rows: tuple[int, int] | None = None,
) -> Trajectories:
    """Trajectories from a Parquet file; arguments as for `read_csv`.

    Args:
        path: A Parquet file.
        columns: Names in the file of canonical columns, where they differ.
        length_unit: Name of the unit of positions.
        time_unit: Name of the unit of times.
        missing: Numbers that stand for a missing value.
        rows: The first row to read and one past the last; by default all.
    """
    require("tables", "pyarrow")
    import pyarrow.parquet as pq

    file = existing_file(path)
    # Anything at all can come out of a damaged file, and all of it is the file's fault.
    try:
        with pq.ParquetFile(file) as parquet:
            names = parquet.schema_arrow.names
            stored = (parquet.schema_arrow.metadata or {}).get(_METADATA_KEY)
    except Exception as error:
        raise DriftbayesError(_damaged(file, error)) from error
    found = schema.file_names(names, columns, source=file.name)
    found |= schema.extras_in(names, found, columns)
    header = {} if stored is None else _read_metadata(stored, file.name)
    table = parquet_columns(file, list(found.values()), rows)
    try:
        return _assemble(
            {canonical: table[name] for canonical, name in found.items()},
            path=file,
            reader="parquet",
            columns=columns,
            length_unit=length_unit if length_unit is not None else header.get("length_unit"),
            time_unit=time_unit if time_unit is not None else header.get("time_unit"),
            missing=missing,
            stored=header.get("provenance", {}),
        )
    except _NamedCellError as error:
        first = 0 if rows is None else rows[0]
        row = "" if error.row is None else f" row {first + error.row + 1}"
        msg = f"{file.name!r}{row}: column {found[error.column]!r} {error.what}"
        raise DriftbayesError(msg) from error


def parquet_columns(file: Path, names: list[str], rows: tuple[int, int] | None = None) -> Any:
    """Some columns of a Parquet file as an Arrow table, its size checked before it is read.

    Args:
        file: A Parquet file.
        names: Of the columns, which are there, each once.
        rows: The first row to read and one past the last; by default all.
    """
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(file) as parquet:
            n_rows = parquet.metadata.num_rows
            texts = [n for n in names if str(parquet.schema_arrow.field(n).type) in _TEXT_TYPES]
    except Exception as error:
        raise DriftbayesError(_damaged(file, error)) from error
    n_bytes = stored_size(file)
    if not is_plausible(8 * n_rows * len(names), n_bytes, compressed=True):
        msg = (
            f"{file.name!r} is declared to have {n_rows:,} rows in {n_bytes:,} bytes; the file is "
            "damaged"
        )
        raise DriftbayesError(msg)
    n_read = n_rows if rows is None else rows[1] - rows[0]
    # The table, the numbers, and the trajectories that are made of them.
    check_memory(3 * 8 * n_read * len(names), f"the table {file.name!r}")
    try:
        # A text that comes a million times is stored once, and kept so until it is known to be
        # short.
        with pq.ParquetFile(file, read_dictionary=texts) as parquet:
            table = parquet.read(columns=names) if rows is None else _rows(parquet, names, rows)
            table.validate(full=True)
    except Exception as error:
        raise DriftbayesError(_damaged(file, error)) from error
    table = plain_texts(table, file)
    if table.num_rows == 0:
        msg = f"{file.name!r} has columns but no rows; expected one row per observation"
        raise DriftbayesError(msg)
    return table


def _rows(parquet: Any, names: list[str], rows: tuple[int, int]) -> Any:
    """Some rows of an open Parquet file, from the row groups that hold them."""
    groups = range(parquet.metadata.num_row_groups)
    sizes = np.array([parquet.metadata.row_group(i).num_rows for i in groups])
    ends = np.cumsum(sizes)
    low, high = np.searchsorted(ends, [rows[0], rows[1] - 1], side="right").tolist()
    table = parquet.read_row_groups(range(low, high + 1), columns=names, use_threads=False)
    return table.slice(rows[0] - int(ends[low] - sizes[low]), rows[1] - rows[0])


def text_columns(schema: Any) -> list[str]:
    """Names of the columns of text of an Arrow schema."""
    return [field.name for field in schema if str(field.type) in _TEXT_TYPES]


def plain_texts(table: Any, file: Path) -> Any:
    """A table or batch that was read with texts as numbers of texts, with the texts themselves.

    Args:
        table: What was read.
        file: Where it comes from, for messages.
    """
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
        if max(lengths, default=0) > 4 * LONGEST_ID:
            msg = (
                f"{file.name!r}: column {name[:40]!r} holds a text of {max(lengths):,} bytes; use "
                f"ids of at most {LONGEST_ID} characters"
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

    Args:
        trajectories: What to write.
        path: The file, compressed if its name ends in .gz.
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
    """Write trajectories as Parquet, with units and provenance; a missing value is a null.

    Args:
        trajectories: What to write.
        path: The file.
    """
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


class _NamedCellError(cells.BadCellError):
    """A bad cell together with the canonical name of its column."""

    def __init__(self, column: str, error: cells.BadCellError) -> None:
        super().__init__(error.what, error.row)
        self.column = column


def _assemble(
    table: Mapping[str, Any],
    *,
    path: Path,
    reader: str,
    columns: Mapping[str, str | None] | None,
    length_unit: str | None,
    time_unit: str | None,
    missing: Sequence[float] | None,
    stored: Mapping[str, Any] | None = None,
) -> Trajectories:
    """Trajectories from canonical columns in any order of trajectories."""
    current = schema.ID
    try:
        codes, ids = cells.encode_ids(table[current], text_holds_integers=reader == "csv")
        current = schema.TIME
        times, dates = cells.times(table[current])
        values = {}
        for current in table:
            if current not in (schema.ID, schema.TIME):
                values[current] = cells.numbers(table[current])
    except cells.BadCellError as error:
        raise _NamedCellError(current, error) from error
    axes = schema.coordinates_in(values)
    values |= zip(axes, without([values[axis] for axis in axes], missing), strict=True)
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
    with begin_with_name(path):
        return Trajectories(
            positions=np.column_stack([values[axis] for axis in schema.coordinates_in(values)]),
            times=times,
            row_sizes=np.bincount(codes),
            ids=ids,
            position_sd=values.get(schema.POSITION_SD),
            lonlat=lonlat_of(values),
            flags={name: values[column] for name, column in schema.flags_in(values).items()},
            length_unit=length_unit or "",
            time_unit="s" if dates else time_unit or "",
            provenance={**provenance.extended(stored or {}, path, reader, columns), **origin},
        )


def lonlat_of(values: Mapping[str, FloatArray]) -> FloatArray | None:
    """Longitude and latitude from canonical columns, if they are there."""
    if not set(schema.LONLAT) <= set(values):
        return None
    return np.column_stack([values[axis] for axis in schema.LONLAT])


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


def _read_metadata(stored: bytes, source: str) -> dict[str, Any]:
    header = provenance.from_json(stored.decode(errors="replace"), source)
    schema.check_schema_version(header.get("schema"), source)
    for key, kind in (("length_unit", str), ("time_unit", str), ("provenance", dict)):
        if not isinstance(header.get(key, kind()), kind):
            msg = f"the metadata of {source!r} has a {key} of the wrong kind; write the file anew"
            raise DriftbayesError(msg)
    return header


def _damaged(file: Path, error: Exception) -> str:
    return (
        f"{file.name!r} cannot be read as Parquet ({reason(error)}); "
        "it may be damaged, cut short or of another format"
    )
