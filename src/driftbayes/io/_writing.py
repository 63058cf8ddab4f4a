"""Write trajectories as CSV, Parquet, NetCDF or Zarr."""

import gzip
import json
import re
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes._storage import PathLike, atomic, atomic_path
from driftbayes._typing import StrArray
from driftbayes._version import __version__
from driftbayes.data import _schema as schema
from driftbayes.data._trajectories import Trajectories
from driftbayes.errors import DriftbayesError
from driftbayes.io._ids import id_values
from driftbayes.io._reading import require, to_json

if TYPE_CHECKING:
    import xarray as xr


def write_csv(trajectories: Trajectories, path: PathLike) -> None:
    """Write trajectories as CSV, every float to its last bit; a missing value is an empty cell.

    A CSV file holds no units and no provenance, and text ids that are all whole numbers are
    read back as whole numbers. A text id that a spreadsheet would run as a formula, such as `=1+1`,
    is written after an apostrophe, which the reader removes. The same trajectories give the same
    bytes, compressed or not.
    """
    require("tables", "pyarrow")
    import pyarrow.csv as pacsv

    table = _as_table(trajectories, escape_ids=True)
    _refuse_padded(trajectories.ids)
    with atomic_path(path) as temporary, temporary.open("wb") as file, ExitStack() as stack:
        stream: Any = file
        if Path(path).name.lower().endswith(".gz"):
            # The gzip header must not hold the time or the temporary name.
            compressed = gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0)
            stream = stack.enter_context(compressed)
        stream.write((",".join(table.column_names) + "\n").encode())
        options = pacsv.WriteOptions(include_header=False, quoting_style="needed")
        pacsv.write_csv(table, stream, options)


def write_parquet(trajectories: Trajectories, path: PathLike) -> None:
    """Write trajectories as Parquet, with units and provenance; a missing value is a null."""
    require("tables", "pyarrow")
    import pyarrow.parquet as pq

    header = {
        "schema": schema.SCHEMA_VERSION,
        "version": __version__,
        "length_unit": trajectories.length_unit,
        "time_unit": trajectories.time_unit,
        "provenance": json.loads(to_json(trajectories.provenance)),
    }
    table = _as_table(trajectories)
    table = table.replace_schema_metadata({schema.METADATA_KEY: json.dumps(header)})
    with atomic_path(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")


def _as_table(trajectories: Trajectories, *, escape_ids: bool = False) -> Any:
    import pyarrow as pa

    from driftbayes.io._cells import escape_cell

    ids = id_values(trajectories.ids)
    kind = pa.int64() if ids.dtype == np.int64 else pa.string()
    if escape_ids and ids.dtype != np.int64:
        ids = np.array([escape_cell(value) for value in ids], dtype=object)
    _check_flags(trajectories)
    table = {schema.ID: pa.array(ids, type=kind).take(pa.array(trajectories.trajectory_index))}
    table[schema.TIME] = pa.array(trajectories.times)
    for name, (dim, values, _) in trajectories.ragged_variables()[0].items():
        if dim == schema.OBS_DIM:
            table[name] = pa.array(values, mask=np.isnan(values))
    return pa.table(table)


def _refuse_padded(ids: StrArray) -> None:
    """Refuse ids that the CSV reader would read as missing or as another id."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if ids.dtype.kind in "iu":
        return
    text = pa.array(ids.tolist(), type=pa.string())
    trimmed = pc.utf8_trim_whitespace(text)
    bad = np.asarray(pc.or_(pc.equal(trimmed, ""), pc.not_equal(trimmed, text)))
    if bad.any():
        raise DriftbayesError(
            f"a CSV file cannot hold the id {str(ids[np.argmax(bad)])!r}, which is blank or has "
            "spaces around it; rename it, or write Parquet"
        )


def write_netcdf(trajectories: Trajectories, path: PathLike) -> None:
    """Write trajectories as NetCDF, with units and provenance."""
    from driftbayes.io._netcdf_file import NEEDED

    require("NetCDF files", *NEEDED)
    atomic.write_netcdf(to_dataset(trajectories), Path(path))


def write_zarr(trajectories: Trajectories, path: PathLike) -> None:
    """Write trajectories as a Zarr store, with units and provenance."""
    from driftbayes.io._zarr_store import save

    save(to_dataset(trajectories), path)


def to_dataset(trajectories: Trajectories) -> "xr.Dataset":
    """Convert trajectories to a dataset in the contiguous ragged layout of CF."""
    import xarray as xr

    _check_flags(trajectories)
    variables, coords = trajectories.ragged_variables()
    traj, _, about = coords[schema.ID]
    coords[schema.ID] = (traj, id_values(trajectories.ids), about)
    return xr.Dataset(
        variables,
        coords=coords,
        attrs={
            "Conventions": schema.CONVENTIONS,
            "featureType": schema.FEATURE_TYPE,
            schema.SCHEMA_ATTRIBUTE: schema.SCHEMA_VERSION,
            schema.VERSION_ATTRIBUTE: __version__,
            schema.PROVENANCE_ATTRIBUTE: to_json(trajectories.provenance),
        },
    )


def _check_flags(trajectories: Trajectories) -> None:
    """Refuse flags whose names cannot be written to a file."""
    for name in trajectories.flags:
        if not re.fullmatch(r"\w+", name):
            raise DriftbayesError(f"a flag name must have only letters and digits, got {name!r}")
