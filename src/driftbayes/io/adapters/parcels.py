"""Parcels: Zarr stores of version 3 (`trajectory × obs`), Parquet tables of version 4.

Parcels writes `units = "degrees_east"` whatever the mesh. Only `parcels_mesh` (version 3) and
`parcels_grid_mesh` (version 4) tell metres from degrees, and on a sphere the radius.
"""

__all__ = ["PARCELS_3", "PARCELS_4"]

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from driftbayes.data.sphere import on_plane
from driftbayes.data.trajectories import Trajectories
from driftbayes.errors import DriftbayesError
from driftbayes.io.contents import Contents
from driftbayes.io.datasets import (
    foreign_provenance,
    from_grid,
    numbers,
    parse_time_unit,
    time_origin,
)
from driftbayes.io.reading import Format, ReadOptions
from driftbayes.io.tables import read_table

if TYPE_CHECKING:
    import xarray as xr

# A nautical mile is one minute of latitude: the sphere of version 3.
_RADIUS = 1852 * 60 * 180 / np.pi


def _mesh(contents: Contents, options: ReadOptions) -> tuple[bool, float | None, str]:
    """Whether positions are degrees, the radius of the sphere, and a note."""
    if options.coordinates is not None:
        degrees = options.coordinates == "degrees"
        return (
            degrees,
            _RADIUS if degrees else None,
            f"positions are {options.coordinates}, as told",
        )
    stored = contents.attributes.get("parcels_mesh", contents.attributes.get("parcels_grid_mesh"))
    text = str(stored).lower()
    if stored is None or not ("flat" in text or "spherical" in text):
        msg = (
            f"{contents.path.name!r} does not say whether its mesh is flat or spherical "
            f"(parcels_mesh: {stored}), and Parcels writes degrees for both; pass --coordinates "
            "plane or --coordinates degrees"
        )
        raise DriftbayesError(msg)
    if "flat" in text:
        return False, None, "flat mesh: positions are metres, though the file says degrees"
    radius = re.search(r"radius=(\d+(?:\.\d*)?(?:e\+?\d\d?)?)", text)
    return True, float(radius[1]) if radius else _RADIUS, "spherical mesh: degrees, on its sphere"


def _convert(dataset: "xr.Dataset", contents: Contents, options: ReadOptions) -> Trajectories:
    is_degrees, radius, note = _mesh(contents, options)
    source = contents.path.name
    units = contents.variable_attributes.get("time", {}).get("units", "seconds")
    factor, unit = parse_time_unit(units, source)
    origin = time_origin(contents.variable_attributes.get("time", {}))
    trajectories = from_grid(
        [numbers(dataset, "lon", source), numbers(dataset, "lat", source)],
        numbers(dataset, "time", source) * factor,
        dataset["trajectory"].to_numpy().tolist(),
        contents,
        length_unit=options.length_unit or ("" if is_degrees else "m"),
        time_unit=options.time_unit or unit,
        provenance=foreign_provenance(contents, "parcels", [note], options.columns, origin),
    )
    return (
        on_plane(trajectories, frame=options.frame, radius=radius) if is_degrees else trajectories
    )


def _read(contents: Contents, options: ReadOptions) -> Trajectories:
    is_degrees, radius, note = _mesh(contents, options)
    time = "t" if contents.has("t") else "time"
    x, y = ("x", "y") if contents.has("x", "y") else ("lon", "lat")
    units = contents.variable_attributes.get(time, {}).get("units", "seconds")
    factor, unit = parse_time_unit(units, contents.path.name)
    origin = time_origin(contents.variable_attributes.get(time, {}))
    told = replace(
        options,
        columns={"id": "particle_id", "time": time, "x": x, "y": y, "z": None},
        length_unit=options.length_unit or "m",
        time_unit=options.time_unit or unit,
    )
    table = read_table(contents, told)
    table = table.in_units(time=(factor, table.time_unit))
    notes = foreign_provenance(contents, "parcels", [note], options.columns, origin)
    trajectories = replace(table, provenance=notes)
    return (
        on_plane(trajectories, frame=options.frame, radius=radius) if is_degrees else trajectories
    )


PARCELS_3 = Format(
    "parcels-zarr",
    "particle file of Parcels 3, a Zarr store",
    lambda contents: (
        contents.container in ("zarr", "netcdf")
        and contents.has("lon", "lat", "time", "trajectory")
        and any(key.startswith("parcels_") for key in contents.attributes)
    ),
    convert=_convert,
)
PARCELS_4 = Format(
    "parcels-parquet",
    "particle file of Parcels 4, a Parquet table",
    lambda contents: (
        contents.container == "parquet"
        and contents.has("particle_id")
        and any(key.startswith("parcels_") for key in contents.attributes)
    ),
    read=_read,
    reads_rows=True,
)
