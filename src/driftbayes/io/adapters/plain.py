"""Our own layouts, and plain tables of any program: the names are ours, or the user's mapping."""

__all__ = ["NETCDF", "RUN", "TABLE", "ZARR", "scaled"]

from dataclasses import replace
from typing import TYPE_CHECKING

from driftbayes.io import schema
from driftbayes.io.contents import Contents
from driftbayes.io.netcdf import from_dataset, read_netcdf
from driftbayes.io.reading import Format, ReadOptions
from driftbayes.io.tables import read_table
from driftbayes.io.zarr import read_zarr
from driftbayes.sphere import on_plane
from driftbayes.trajectories import Trajectories
from driftbayes.units import length_factor, time_factor

if TYPE_CHECKING:
    import xarray as xr

# Names that can mean nothing else.
_DEGREES = (("lon", "lat"), ("longitude", "latitude"), ("Longitude", "Latitude"), ("LON", "LAT"))


def _read_table(contents: Contents, options: ReadOptions) -> Trajectories:
    columns = dict(options.columns or {})
    degrees = options.coordinates == "degrees"
    names = _lonlat(contents, columns)
    if names is not None and options.coordinates != "plane":
        columns |= {"x": names[0], "y": names[1], "z": None}
        degrees = True
    trajectories = read_table(contents, replace(options, columns=columns or None))
    return on_plane(trajectories, frame=options.frame) if degrees else scaled(trajectories, options)


def _lonlat(contents: Contents, columns: dict[str, str | None]) -> tuple[str, str] | None:
    """Names of the columns of longitude and latitude, if positions are these."""
    if columns.get("lon") or columns.get("lat"):
        # Taken out: the table itself knows x and y only.
        return str(columns.pop("lon", None) or "lon"), str(columns.pop("lat", None) or "lat")
    if "x" in columns or "x" in contents.names:
        return None
    return next((pair for pair in _DEGREES if contents.has(*pair)), None)


def scaled(trajectories: Trajectories, options: ReadOptions) -> Trajectories:
    """Positions in pixels to a length, and times in frames to a time, as the user gave them."""
    if options.pixel_size is not None:
        size, unit = options.pixel_size
        trajectories = trajectories.in_units(length=(size, length_factor(unit, unit)[1]))
    if options.frame_interval is not None:
        size, unit = options.frame_interval
        trajectories = trajectories.in_units(time=(size, time_factor(unit, unit)[1]))
    return trajectories


def _read_netcdf(contents: Contents, options: ReadOptions) -> Trajectories:
    trajectories = read_netcdf(
        contents.path,
        columns=options.columns,
        length_unit=options.length_unit,
        time_unit=options.time_unit,
        missing=options.missing,
    )
    if options.coordinates == "degrees":
        return on_plane(trajectories, frame=options.frame)
    return scaled(trajectories, options)


def _convert_zarr(dataset: "xr.Dataset", contents: Contents, options: ReadOptions) -> Trajectories:
    trajectories = from_dataset(
        dataset,
        contents.path,
        columns=options.columns,
        length_unit=options.length_unit,
        time_unit=options.time_unit,
        reader="zarr",
    )
    if options.coordinates == "degrees":
        return on_plane(trajectories, frame=options.frame)
    return scaled(trajectories, options)


def _read_run(contents: Contents, options: ReadOptions) -> Trajectories:
    return read_zarr(
        contents.path,
        columns=options.columns,
        length_unit=options.length_unit,
        time_unit=options.time_unit,
    )


RUN = Format(
    "run",
    "directory of a turbulence run",
    lambda contents: contents.container == "run",
    read=_read_run,
)
NETCDF = Format(
    "netcdf",
    "NetCDF with id, time, x, y, z, sd in the contiguous ragged layout, as we write it",
    lambda contents: (
        contents.container == "netcdf"
        and (schema.SCHEMA_ATTRIBUTE in contents.attributes or contents.has("id", "time", "x"))
    ),
    read=_read_netcdf,
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
