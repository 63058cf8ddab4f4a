"""What is in a file, before anything is read from it: the container, the names, the attributes."""

__all__ = ["Contents", "contents_of"]

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from driftbayes.errors import DriftbayesError
from driftbayes.io import csv_text, nc_file, numpy_file, xml_text, zarr_file
from driftbayes.io.limits import MAX_NAMES
from driftbayes.io.paths import existing_file, reading_as, require
from driftbayes.storage.atomic import PathLike

Container = Literal["csv", "parquet", "netcdf", "zarr", "xml", "npz", "run"]


@dataclass(frozen=True)
class Contents:
    """Names and attributes, by which a format is recognised.

    Args:
        path: The file, or the directory of a store.
        container: In what the data are kept; "run" is the directory of a turbulence run.
        names: Columns or variables.
        attributes: Of the whole.
        dims: Dimensions of each variable, for containers that have them.
        variable_attributes: Attributes of each column or variable.
        types: Type of each column of a Parquet file, as Arrow writes it.
        layout: Of a table of text.
        rows: For a part of a Parquet table, its first row and one past the last.
    """

    path: Path
    container: Container
    names: tuple[str, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    dims: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    variable_attributes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    layout: csv_text.Layout | None = None
    rows: tuple[int, int] | None = None

    def has(self, *names: str) -> bool:
        """Whether all these columns or variables are there."""
        return set(names) <= set(self.names)


def contents_of(path: PathLike) -> Contents:
    """Look into a file, by its first bytes and not by its name alone."""
    found = Path(path)
    if found.is_dir():
        if zarr_file.is_foreign_store(found):
            return Contents(found, "zarr", **zarr_file.describe(found))
        return Contents(found, "run")
    file = existing_file(path)
    with file.open("rb") as stream:
        head = stream.read(512)
    if head.startswith(b"PAR1"):
        return _of_parquet(file)
    if head.startswith((b"\x89HDF\r\n\x1a\n", b"CDF")):
        return Contents(file, "netcdf", **nc_file.describe(file))
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"<?xml", b"<!DOCTYPE", b"<Track")):
        root, attributes = xml_text.root(file)
        return Contents(file, "xml", (root,), attributes)
    if head.startswith((b"PK\x03\x04", b"\x93NUMPY")):
        return Contents(file, "npz", numpy_file.names(file))
    # HDF5 allows a block of another's before its own; nothing we read has one.
    if file.suffix.lower() in (".nc", ".nc4", ".cdf"):
        return Contents(file, "netcdf", **nc_file.describe(file))
    if file.suffix.lower() in (".parquet", ".pq"):
        return _of_parquet(file)
    layout = csv_text.layout(file)
    return Contents(file, "csv", tuple(map(str.strip, layout.header)), layout=layout)


def _of_parquet(file: Path) -> Contents:
    require("tables", "pyarrow")
    import pyarrow.parquet as pq

    with reading_as(file, "Parquet"):
        schema = pq.read_schema(file)
    if len(schema.names) > MAX_NAMES:
        msg = f"{file.name!r} has {len(schema.names):,} columns; expected at most {MAX_NAMES:,}"
        raise DriftbayesError(msg)
    return Contents(
        file,
        "parquet",
        tuple(schema.names),
        attributes=_decoded(schema.metadata),
        variable_attributes={column.name: _decoded(column.metadata) for column in schema},
        types={column.name: str(column.type) for column in schema},
    )


def _decoded(metadata: Mapping[bytes, bytes] | None) -> dict[str, str]:
    return {
        key.decode(errors="replace"): value.decode(errors="replace")
        for key, value in (metadata or {}).items()
    }
