"""Tables in memory: pandas DataFrames, and what other readers make of their files."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from driftbayes.data import schema
from driftbayes.errors import DriftbayesError
from driftbayes.io import reading

if TYPE_CHECKING:
    import pandas as pd

_NAME = Path("a DataFrame")


def contents_in_frame(frame: "pd.DataFrame") -> reading.Contents:
    """Contents of a DataFrame, with the units and the provenance in its attributes."""
    named = frame.rename(columns=str)
    try:
        table = pa.Table.from_pandas(named, preserve_index=False).replace_schema_metadata()
    except (pa.ArrowException, ValueError, TypeError) as error:
        msg = f"the table cannot be read: {reading.reason(error)}; use columns of one type each"
        raise DriftbayesError(msg) from error
    if not table.num_rows:
        raise DriftbayesError("the table has no rows; expected one row per observation")
    keys = ("length_unit", "time_unit", "provenance")
    known = {key: frame.attrs[key] for key in keys if key in frame.attrs}
    header = reading.to_json({"schema": schema.SCHEMA_VERSION, **known})
    return as_table(_NAME, table, "frame", {schema.METADATA_KEY: header} if known else {})


def as_table(
    path: Path, table: Any, container: str, attributes: Mapping[str, Any] | None = None
) -> reading.Contents:
    """Contents of an Arrow table that is in memory."""
    names = tuple(map(str, table.column_names))
    types = {name: str(table.schema.field(i).type) for i, name in enumerate(names)}
    return reading.Contents(
        path, container, names=names, types=types, attributes=attributes or {}, table=table
    )
