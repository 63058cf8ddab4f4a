"""Our own layouts, and plain tables of any program: the names are ours, or the user's mapping."""

__all__ = ["NETCDF", "TABLE", "ZARR"]

from dataclasses import replace
from typing import TYPE_CHECKING

from driftbayes.data.sphere import on_plane
from driftbayes.data.trajectories import Trajectories
from driftbayes.io import schema
from driftbayes.io.contents import Contents
from driftbayes.io.netcdf import from_dataset, read_netcdf
from driftbayes.io.reading import Format, ReadOptions
from driftbayes.io.tables import read_table

if TYPE_CHECKING:
    import xarray as xr

# Names that can mean nothing else.
_DEGREES = (("lon", "lat"), ("longitude", "latitude"), ("Longitude", "Latitude"), ("LON", "LAT"))


def _read_table(contents: Contents, options: ReadOptions) -> Trajectories:
    columns = dict(options.columns or {})
    names = _lonlat(contents, columns)
    if names is not None and options.coordinates != "plane":
        columns |= {"x": names[0], "y": names[1], "z": None}
        options = replace(options, coordinates="degrees")
    return _placed(read_table(contents, replace(options, columns=columns or None)), options)


def _lonlat(contents: Contents, columns: dict[str, str | None]) -> tuple[str, str] | None:
    """Names of the columns of longitude and latitude, if positions are these."""
    if columns.get("lon") or columns.get("lat"):
        # Taken out: the table itself knows x and y only.
        return str(columns.pop("lon", None) or "lon"), str(columns.pop("lat", None) or "lat")
    if "x" in columns or "x" in contents.names:
        return None
    return next((pair for pair in _DEGREES if contents.has(*pair)), None)


def _placed(trajectories: Trajectories, options: ReadOptions) -> Trajectories:
    if options.coordinates == "degrees":
        return on_plane(trajectories, frame=options.frame)
    return options.scale(trajectories)


def _convert_zarr(dataset: "xr.Dataset", contents: Contents, options: ReadOptions) -> Trajectories:
    return _placed(from_dataset(dataset, contents.path, options, reader="zarr"), options)


NETCDF = Format(
    "netcdf",
    "NetCDF with id, time, x, y, z, sd in the contiguous ragged layout, as we write it",
    lambda contents: (
        contents.container == "netcdf"
        and (schema.SCHEMA_ATTRIBUTE in contents.attributes or contents.has("id", "time", "x"))
    ),
    read=lambda contents, options: _placed(read_netcdf(contents.path, options), options),
)
ZARR = Format(
    "zarr",
    "Zarr with id, time, x, y, z, sd in the contiguous ragged layout, as we write it",
    lambda contents: (
        contents.container == "zarr" and schema.SCHEMA_ATTRIBUTE in contents.attributes
    ),
    convert=_convert_zarr,
)
TABLE = Format(
    "table",
    "CSV or Parquet, one row for each observation: id, time and x, y, z or lon, lat; --columns",
    lambda contents: contents.container in ("csv", "parquet"),
    read=_read_table,
    reads_rows=True,
)
