"""Parquet files: columns, rows, and the nested layout of clouddrift."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from driftbayes._typing import FloatArray, IntArray
from driftbayes.data._schema import TIME_ORIGIN
from driftbayes.data._trajectories import Trajectories
from driftbayes.errors import DriftbayesError, did_you_mean
from driftbayes.io import _cells as cells
from driftbayes.io import _limits as limits
from driftbayes.io._ids import BadCellError
from driftbayes.io._layouts import PAIRS, from_ragged
from driftbayes.io._reading import Contents, ReadOptions, prefix_errors, reading_as

_TEXT_TYPES = ("string", "large_string")
_OBS = "obs"


def describe(file: Path) -> dict[str, Any]:
    """Return names, types and attributes of the columns, as fields of `Contents`."""
    with reading_as(file, "Parquet"):
        schema = pq.read_schema(file)
    limits.check_names(file, len(schema.names), "columns")
    return {
        "names": tuple(schema.names),
        "attributes": _decoded(schema.metadata),
        "variable_attributes": {column.name: _decoded(column.metadata) for column in schema},
        "types": {column.name: str(column.type) for column in schema},
    }


def _decoded(metadata: Mapping[bytes, bytes] | None) -> dict[str, str]:
    return {
        key.decode(errors="replace"): value.decode(errors="replace")
        for key, value in (metadata or {}).items()
    }


def read_table(contents: Contents, names: Sequence[str]) -> Any:
    """Read columns as an Arrow table, after a check of their size."""
    if contents.table is not None:
        return contents.table.select(list(names))
    file, rows = contents.path, (contents.part or {}).get("rows")
    with reading_as(file, "Parquet"), open_parquet(file) as parquet:
        n_rows = parquet.metadata.num_rows
        limits.check_stored(f"{file.name!r}", 8 * n_rows * len(names), limits.stored_size(file))
        n_read = n_rows if rows is None else rows[1] - rows[0]
        # The table, the numbers and the trajectories.
        limits.check_memory(3 * 8 * n_read * len(names), f"the table {file.name!r}")
        columns = list(names)
        table = parquet.read(columns=columns) if rows is None else read_rows(parquet, rows, columns)
        table.validate(full=True)
        table = plain_texts(table, file)
    if table.num_rows == 0:
        msg = f"{file.name!r} has columns but no rows; expected one row per observation"
        raise DriftbayesError(msg)
    return table


def open_parquet(file: Path) -> Any:
    """Open a Parquet file with dictionary-encoded text, so that repeated text is stored once.

    `plain_texts` decodes the text after checking that it is short.
    """
    with pq.ParquetFile(file) as parquet:
        texts = [field.name for field in parquet.schema_arrow if str(field.type) in _TEXT_TYPES]
    return pq.ParquetFile(file, read_dictionary=texts)


def read_rows(parquet: Any, rows: tuple[int, int], names: list[str] | None = None) -> Any:
    """Read rows (start, stop) of an open Parquet file from their row groups."""
    groups = range(parquet.metadata.num_row_groups)
    sizes = np.array([parquet.metadata.row_group(i).num_rows for i in groups])
    ends = np.cumsum(sizes)
    low, high = np.searchsorted(ends, [rows[0], rows[1] - 1], side="right").tolist()
    table = parquet.read_row_groups(range(low, high + 1), columns=names, use_threads=False)
    return table.slice(rows[0] - int(ends[low] - sizes[low]), rows[1] - rows[0])


def plain_texts(table: Any, file: Path) -> Any:
    """Decode dictionary-encoded text in a table or batch; refuse long text."""
    for index, name in enumerate(table.schema.names):
        column = table.column(index)
        kind = column.type
        if not (pa.types.is_dictionary(kind) and str(kind.value_type) in _TEXT_TYPES):
            continue
        chunks = column.chunks if hasattr(column, "chunks") else [column]
        lengths = [pc.max(pc.binary_length(chunk.dictionary)).as_py() or 0 for chunk in chunks]
        # A character has at most four bytes.
        if max(lengths, default=0) > 4 * limits.MAX_ID_LENGTH:
            raise DriftbayesError(
                f"{file.name!r}: column {name[:40]!r} holds text of {max(lengths):,} bytes; use "
                f"ids of at most {limits.MAX_ID_LENGTH} characters"
            )
        table = table.set_column(index, name, column.cast(kind.value_type))
    return table


# clouddrift: one row per trajectory, with its observations as lists in a record.


def _read_nested(contents: Contents, options: ReadOptions) -> Trajectories:
    source, given = contents.source, options.names
    record = _read_record(contents.path)
    names = [record.type.field(i).name for i in range(record.type.num_fields)]
    x, y = given.get("lon", given.get("x")), given.get("lat", given.get("y"))
    if not (x and y):
        x, y = next((pair for pair in PAIRS if set(pair) <= set(names)), (None, None))
    if x is None or y is None:
        raise DriftbayesError(
            f"{source!r}: the record 'obs' has no lon and lat; it has "
            f"{', '.join(repr(name[:40]) for name in names[:8])}: pass columns "
            "(--columns lon=NAME,lat=NAME)"
        )
    time = given.get("time", "time")
    columns = {name: _flat(record, name, source) for name in (time, x, y)}
    sizes = columns[x][1]
    if any((other != sizes).any() for _, other in columns.values()):
        msg = f"{source!r}: lists of {time!r}, {x!r} and {y!r} differ in length; it is damaged"
        raise DriftbayesError(msg)
    times, unit = _times(columns[time][0], time, source)
    # Times given as numbers have no known origin.
    origin = TIME_ORIGIN if unit else None
    degrees = options.coordinates == "degrees" or (
        options.coordinates is None and "lon" in x.lower()
    )
    coordinates = [_numbers(columns[name][0], name, source) for name in (x, y)]
    trajectories = from_ragged(
        options.without_missing(coordinates),
        times,
        sizes,
        _ids(record, given.get("id", "id"), source),
        contents,
        length_unit=options.length_unit or "",
        time_unit=options.time_unit or unit,
        provenance=contents.provenance("clouddrift", [], options, origin),
    )
    with prefix_errors(contents.path):
        return options.place(trajectories, degrees=True) if degrees else trajectories


def _read_record(file: Path) -> Any:
    """Read the column of records."""
    with reading_as(file, "Parquet"), pq.ParquetFile(file) as parquet:
        groups = [parquet.metadata.row_group(i) for i in range(parquet.metadata.num_row_groups)]
        n_values = sum(g.column(i).num_values for g in groups for i in range(g.num_columns))
        limits.check_stored(f"{file.name!r}", 8 * n_values, limits.stored_size(file))
        limits.check_memory(3 * 8 * n_values, f"{file.name!r}")
        table = parquet.read(columns=[_OBS])
        table.validate(full=True)
        record = table[_OBS].combine_chunks()
    if len(record) == 0:
        raise DriftbayesError(f"{file.name!r} has no rows; expected one row per trajectory")
    return record


def _flat(record: Any, name: str, source: str) -> tuple[Any, IntArray]:
    """Return the concatenated lists of a field, and the length of each."""
    if record.type.get_field_index(name) < 0:
        near = did_you_mean(name, [field.name for field in record.type])
        msg = f"{source!r}: the record 'obs' has no field {name!r}; select one with --columns{near}"
        raise DriftbayesError(msg)
    lists = pc.struct_field(record, name)
    if not _is_list(lists.type):
        msg = f"{source!r}: field {name!r} of 'obs' holds {lists.type}, expected a list of numbers"
        raise DriftbayesError(msg)
    sizes = np.asarray(pc.fill_null(pc.list_value_length(lists), 0)).astype(np.int64)
    return pa.chunked_array([lists.flatten()]), sizes


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _numbers(column: Any, name: str, source: str) -> FloatArray:
    try:
        return cells.numbers(column)
    except BadCellError as error:
        raise DriftbayesError(f"{source!r}: field {name!r} of 'obs' {error.what}") from error


def _times(column: Any, name: str, source: str) -> tuple[FloatArray, str]:
    kind = column.type
    if not (pa.types.is_timestamp(kind) or pa.types.is_duration(kind)):
        return _numbers(column, name, source), ""
    per_second = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}[kind.unit]
    # NaT is the smallest integer.
    missing = np.iinfo(np.int64).min
    ticks = column.cast(pa.int64()).fill_null(missing).combine_chunks()
    ticks = ticks.to_numpy(zero_copy_only=False)
    return np.where(ticks == missing, np.nan, ticks / per_second), "s"


def _ids(record: Any, name: str, source: str) -> list[Any]:
    index = record.type.get_field_index(name)
    index = index if index >= 0 else record.type.get_field_index(name.upper())
    if index < 0:
        return list(range(len(record)))
    ids = pc.struct_field(record, [index])
    if _is_list(ids.type):
        # The same id for each observation.
        ids = pc.list_element(ids, 0)
    if not (pa.types.is_integer(ids.type) or str(ids.type) in _TEXT_TYPES):
        raise DriftbayesError(
            f"{source!r}: field {name!r} of 'obs' holds {ids.type}, expected whole numbers or text"
        )
    values: list[Any] = ids.to_pylist()
    if any(value is None for value in values):
        msg = f"{source!r}: field {name!r} of 'obs' is empty in a row; every row needs an id"
        raise DriftbayesError(msg)
    return values


READERS = {"clouddrift-parquet": _read_nested}
