"""Tables in memory: pandas DataFrames and Arrow tables."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from driftbayes.data import _schema as schema
from driftbayes.data._columns import names_in_index
from driftbayes.errors import DriftbayesError
from driftbayes.io import _reading as reading

if TYPE_CHECKING:
    import pandas as pd

_NAME = Path("a DataFrame")


def contents_in_frame(frame: "pd.DataFrame") -> reading.Contents:
    """Describe a DataFrame, with the units and the provenance in its attributes."""
    given, columns = frame.attrs, [str(name) for name in frame.columns]
    levels = [name if isinstance(name, str) else None for name in frame.index.names]
    if held := names_in_index(levels, columns):
        frame = frame.reset_index(level=held)
    try:
        table = pa.Table.from_pandas(frame.rename(columns=str), preserve_index=False)
    except (pa.ArrowException, ValueError, TypeError) as error:
        msg = f"the table cannot be read: {reading.reason(error)}; use columns of one type each"
        raise DriftbayesError(msg) from error
    if not table.num_rows:
        raise DriftbayesError("the table has no rows; expected one row per observation")
    keys = ("length_unit", "time_unit", "provenance")
    known = {key: given[key] for key in keys if key in given}
    header = reading.to_json({"schema": schema.SCHEMA_VERSION, **known})
    attributes = {schema.METADATA_KEY: header} if known else {}
    return as_table(_NAME, table.replace_schema_metadata(), "frame", attributes)


def as_table(
    path: Path, table: Any, container: str, attributes: Mapping[str, Any] | None = None
) -> reading.Contents:
    """Describe an Arrow table in memory."""
    names = tuple(map(str, table.column_names))
    types = {name: str(table.schema.field(i).type) for i, name in enumerate(names)}
    return reading.Contents(
        path, container, names=names, types=types, attributes=attributes or {}, table=table
    )
