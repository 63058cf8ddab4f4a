"""Ragged arrays of clouddrift: NetCDF and Zarr, and the Parquet that awkward arrays become."""

__all__ = ["CLOUDDRIFT", "CLOUDDRIFT_PARQUET"]

from functools import partial
from typing import Any

import numpy as np

from driftbayes.data.sphere import on_plane
from driftbayes.data.trajectories import Trajectories
from driftbayes.errors import DriftbayesError
from driftbayes.io import cells
from driftbayes.io.adapters.cf import assemble
from driftbayes.io.contents import Contents
from driftbayes.io.datasets import foreign_provenance, from_ragged
from driftbayes.io.layouts import find_layout
from driftbayes.io.limits import check_memory, is_plausible, stored_size
from driftbayes.io.missing import without
from driftbayes.io.paths import begin_with_name, reading_as, require
from driftbayes.io.reading import Format, ReadOptions
from driftbayes.suggest import did_you_mean
from driftbayes.typing import FloatArray, IntArray

_OBS = "obs"
_PAIRS = (("lon", "lat"), ("longitude", "latitude"), ("x", "y"))


def _is_ragged(contents: Contents) -> bool:
    if contents.container not in ("netcdf", "zarr"):
        return False
    try:
        layout = find_layout(contents)
    except DriftbayesError:
        return False
    known = {"rowsize", "row_size", "count"}
    return layout.kind == "contiguous" and str(layout.counter).lower() in known


def _read(contents: Contents, options: ReadOptions) -> Trajectories:
    """From a table with one row for each trajectory, its observations as lists in a record."""
    source = contents.path.name
    record = _record(contents)
    told = {role: name for role, name in (options.columns or {}).items() if name}
    names = [record.type.field(i).name for i in range(record.type.num_fields)]
    x, y = _pair(told, names, source)
    time = told.get("time", "time")
    columns = {name: _flat(record, name, source) for name in (time, x, y)}
    sizes = columns[x][1]
    if any((other != sizes).any() for _, other in columns.values()):
        msg = f"{source!r}: lists of {time!r}, {x!r} and {y!r} differ in length; it is damaged"
        raise DriftbayesError(msg)
    times, unit = _times(columns[time][0], time, source)
    # Of numbers nobody knows what they count.
    origin = "1970-01-01T00:00:00" if unit else None
    degrees = options.coordinates == "degrees" or (
        options.coordinates is None and "lon" in x.lower()
    )
    trajectories = from_ragged(
        without([_numbers(columns[name][0], name, source) for name in (x, y)], options.missing),
        times,
        sizes,
        _ids(contents, record, told.get("id", "id"), source),
        contents,
        length_unit=options.length_unit or "",
        time_unit=options.time_unit or unit,
        provenance=foreign_provenance(contents, "clouddrift", [], options.columns, origin),
    )
    with begin_with_name(contents.path):
        return on_plane(trajectories, frame=options.frame) if degrees else trajectories


def _record(contents: Contents) -> Any:
    """The column of records, in one piece."""
    require("tables", "pyarrow")
    import pyarrow.parquet as pq

    file = contents.path
    with reading_as(file, "Parquet"), pq.ParquetFile(file) as parquet:
        groups = [parquet.metadata.row_group(i) for i in range(parquet.metadata.num_row_groups)]
        values = sum(g.column(i).num_values for g in groups for i in range(g.num_columns))
        n_bytes = stored_size(file)
        if not is_plausible(8 * values, n_bytes, compressed=True):
            msg = (
                f"{file.name!r} is declared to have {values:,} values in {n_bytes:,} bytes; "
                "the file is damaged"
            )
            raise DriftbayesError(msg)
        check_memory(3 * 8 * values, f"{file.name!r}")
        table = parquet.read(columns=[_OBS])
        table.validate(full=True)
        record = table[_OBS].combine_chunks()
    if len(record) == 0:
        msg = f"{file.name!r} has no rows; expected one for each trajectory"
        raise DriftbayesError(msg)
    return record


def _pair(told: dict[str, str], names: list[str], source: str) -> tuple[str, str]:
    x, y = told.get("lon", told.get("x")), told.get("lat", told.get("y"))
    if x and y:
        return x, y
    for pair in _PAIRS:
        if set(pair) <= set(names):
            return pair
    msg = (
        f"{source!r}: the record 'obs' has no lon and lat; it has "
        f"{', '.join(repr(name[:40]) for name in names[:8])}: pass columns "
        "(--columns lon=NAME,lat=NAME)"
    )
    raise DriftbayesError(msg)


def _flat(record: Any, name: str, source: str) -> tuple[Any, IntArray]:
    """The lists of one field end to end, and the length of each."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if record.type.get_field_index(name) < 0:
        there = [record.type.field(i).name for i in range(record.type.num_fields)]
        near = did_you_mean(name, there)
        msg = f"{source!r}: the record 'obs' has no field {name!r}; name one with --columns{near}"
        raise DriftbayesError(msg)
    lists = pc.struct_field(record, name)
    kind = lists.type
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        msg = f"{source!r}: field {name!r} of 'obs' holds {kind}, expected a list of numbers"
        raise DriftbayesError(msg)
    sizes = np.asarray(pc.fill_null(pc.list_value_length(lists), 0)).astype(np.int64)
    return pa.chunked_array([lists.flatten()]), sizes


def _numbers(column: Any, name: str, source: str) -> FloatArray:
    try:
        return cells.numbers(column)
    except cells.BadCellError as error:
        msg = f"{source!r}: field {name!r} of 'obs' {error.what}"
        raise DriftbayesError(msg) from error


def _times(column: Any, name: str, source: str) -> tuple[FloatArray, str]:
    import pyarrow as pa

    kind = column.type
    if not (pa.types.is_timestamp(kind) or pa.types.is_duration(kind)):
        return _numbers(column, name, source), ""
    per_second = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}[kind.unit]
    # NaT, the smallest integer, and null are both no time.
    whole = column.cast(pa.int64()).fill_null(np.iinfo(np.int64).min)
    ticks = whole.combine_chunks().to_numpy(zero_copy_only=False)
    missing = ticks == np.iinfo(np.int64).min
    return np.where(missing, np.nan, ticks / per_second), "s"


def _ids(contents: Contents, record: Any, name: str, source: str) -> list[Any]:
    import pyarrow as pa
    import pyarrow.compute as pc

    index = record.type.get_field_index(name)
    index = index if index >= 0 else record.type.get_field_index(name.upper())
    if index < 0:
        return list(range(len(record)))
    ids = pc.struct_field(record, [index])
    if pa.types.is_list(ids.type) or pa.types.is_large_list(ids.type):
        # One for each observation, all the same.
        ids = pc.list_element(ids, 0)
    if not (pa.types.is_integer(ids.type) or pa.types.is_string(ids.type)) and not (
        pa.types.is_large_string(ids.type)
    ):
        msg = (
            f"{source!r}: field {name!r} of 'obs' holds {ids.type}, expected whole numbers or text"
        )
        raise DriftbayesError(msg)
    values: list[Any] = ids.to_pylist()
    if any(value is None for value in values):
        msg = f"{source!r}: field {name!r} of 'obs' is empty in a row; every one needs an id"
        raise DriftbayesError(msg)
    return values


CLOUDDRIFT = Format(
    "clouddrift",
    "ragged arrays of clouddrift, NetCDF or Zarr",
    _is_ragged,
    convert=partial(assemble, name="clouddrift"),
)
CLOUDDRIFT_PARQUET = Format(
    "clouddrift-parquet",
    "ragged arrays of clouddrift, the Parquet of awkward arrays",
    lambda contents: (
        contents.container == "parquet" and contents.types.get(_OBS, "").startswith("struct<")
    ),
    read=_read,
)
