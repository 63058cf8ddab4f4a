"""Write grids of diffusivity and flow for Parcels and OpenDrift, and Python code to use them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes._typing import FloatArray
from driftbayes.data._units import readable_time
from driftbayes.errors import DriftbayesError
from driftbayes.simulators._grid_texts import OPENDRIFT, PARCELS, PARCELS_3, SPHERE, SPHERE_3
from driftbayes.simulators._gridded import GriddedDispersion
from driftbayes.simulators._recommend import CONVENTION

if TYPE_CHECKING:
    import xarray as xr

# Nodes per cell, because simulators interpolate linearly between the splines' values.
_REFINED, _MAX_NODES = 4, 4_000_000
# Parcels takes the gradient of a diffusivity over this fraction of the node spacing.
_DRES = 0.25
# SGRID conventions: nodes at lon and lat, no staggered points.
_SGRID = {
    "cf_role": "grid_topology",
    "topology_dimension": np.int32(2),
    "node_dimensions": "lon lat",
    "node_coordinates": "lon lat",
    "face_dimensions": "x_center: lon (padding: low) y_center: lat (padding: low)",
    "vertical_dimensions": "depth_center: depth (padding: low)",
}


@dataclass(frozen=True, eq=False)
class GridExport:
    """A grid for a simulator.

    Args:
        dataset: Content of the file.
        script: Python code that uses the file, with a placeholder for its name.
        notes: Notes for the user.
    """

    dataset: "xr.Dataset"
    script: str
    notes: tuple[str, ...]

    def text(self, file: str) -> str:
        """Return Python code that uses the file.

        Args:
            file: Its name.
        """
        return self.script.replace("GRID_FILE", repr(file))


def export_grid(dispersion: GriddedDispersion, simulator: str) -> GridExport:
    """Make a grid for a simulator, in metres and seconds.

    Args:
        dispersion: Diffusivity and flow, in metres and seconds.
        simulator: A name of `GRID_SIMULATORS`.

    Raises:
        DriftbayesError: The simulator does not support such a grid.
    """
    if simulator not in GRID_SIMULATORS:
        raise DriftbayesError(
            f"{dispersion.title} can be exported as a grid for {', '.join(GRID_SIMULATORS)}, not "
            f"for {simulator!r}"
        )
    return GRID_SIMULATORS[simulator](dispersion)


def _for_parcels(dispersion: GriddedDispersion, script: str, sphere: str) -> GridExport:
    import xarray as xr

    if dispersion.ground is not None and dispersion.ground.frame == "local":
        dispersion = dispersion.on_lonlat()
    x, y = _nodes(dispersion)
    points = np.meshgrid(x, y)
    u, v = dispersion.flow_at(*points)
    zonal, meridional = dispersion.diffusivity_at(*points)
    what = "" if dispersion.flow is not None else "; zero, because it was not estimated"
    variables = {
        "Kh_zonal": (zonal, "m2 s-1", "diffusivity along x"),
        "Kh_meridional": (meridional, "m2 s-1", "diffusivity along y"),
        "U": (u, "m s-1", f"mean flow along x, without the gradient of the diffusivity{what}"),
        "V": (v, "m s-1", f"mean flow along y, without the gradient of the diffusivity{what}"),
        "has_data": (_known(dispersion, *points), "1", "whether the cell holds data"),
    }
    units = ("degrees_east", "degrees_north") if dispersion.is_lonlat else ("m", "m")
    dataset = xr.Dataset(
        {
            name: (("time", "depth", "lat", "lon"), values[None, None], _about(unit, words))
            for name, (values, unit, words) in variables.items()
        },
        {
            "lon": ("lon", x, {"axis": "X", "units": units[0]}),
            "lat": ("lat", y, {"axis": "Y", "units": units[1]}),
            "depth": ("depth", [0.0], {"axis": "Z", "units": "m"}),
            "time": ("time", [0.0], {"axis": "T"}),
        },
    )
    dataset["grid"] = xr.DataArray(np.int32(0), attrs=_SGRID)
    (west, east), (south, north) = (edges[[0, -1]].tolist() for edges in dispersion.edges)
    text = script.format(
        mesh="spherical" if dispersion.is_lonlat else "flat",
        dres=_DRES * min(x[1] - x[0], y[1] - y[0]),
        time_step=_whole(dispersion.time_step),
        **{"west": west, "east": east, "south": south, "north": north},
        sphere=sphere if dispersion.is_lonlat else "",
        sphere_name="DriftOnSphere, " if dispersion.is_lonlat else "",
    )
    return _make_export(dispersion, dataset, text)


def _for_opendrift(dispersion: GriddedDispersion) -> GridExport:
    import xarray as xr

    dispersion = dispersion.on_lonlat()
    if not dispersion.is_isotropic:
        raise DriftbayesError(
            "OpenDrift uses one diffusivity for both axes, but those of "
            f"{dispersion.title} differ; use --for parcels, or a model without +anisotropic"
        )
    x, y = _nodes(dispersion)
    points = np.meshgrid(x, y)
    # OpenDrift moves particles along straight lines on the earth, so curvature causes no drift.
    drift = dispersion.drift_at(*points, on_sphere=False)
    east, north = dispersion.flow_at(*points) + drift
    k, known = dispersion.diffusivity_at(*points)[0], _known(dispersion, *points)
    flow = "gradient of the diffusivity"
    if dispersion.flow is not None:
        flow = f"mean flow and {flow}"
    about_k = _about("m2 s-1", "horizontal diffusivity", "horizontal_diffusivity")
    about_u = _about("m s-1", f"{flow}, to the east", "x_sea_water_velocity")
    about_v = _about("m s-1", f"{flow}, to the north", "y_sea_water_velocity")
    dims = ("lat", "lon")
    dataset = xr.Dataset(
        {
            "horizontal_diffusivity": (dims, k, about_k),
            "u": (dims, east, about_u),
            "v": (dims, north, about_v),
            "has_data": (dims, known, _about("1", "whether the cell holds data")),
        },
        {
            "lon": ("lon", x, _about("degrees_east", "longitude", "longitude")),
            "lat": ("lat", y, _about("degrees_north", "latitude", "latitude")),
        },
    )
    return _make_export(
        dispersion, dataset, OPENDRIFT.format(time_step=_whole(dispersion.time_step))
    )


GRID_SIMULATORS: dict[str, Callable[[GriddedDispersion], GridExport]] = {
    "parcels": partial(_for_parcels, script=PARCELS, sphere=SPHERE),
    "parcels3": partial(_for_parcels, script=PARCELS_3, sphere=SPHERE_3),
    "opendrift": _for_opendrift,
}


def _nodes(dispersion: GriddedDispersion) -> tuple[FloatArray, FloatArray]:
    """Return the nodes of the grid, extended by a cell on all sides."""
    refined = _REFINED
    while refined > 1 and dispersion.has_data.size * refined**2 > _MAX_NODES:
        refined //= 2
    out = []
    for edges, side in zip(dispersion.edges, dispersion.sides, strict=True):
        n = (len(edges) - 1) * refined
        out.append(edges[0] + side * np.arange(-refined, n + refined + 1) / refined)
    return out[0], out[1]


def _known(dispersion: GriddedDispersion, x: FloatArray, y: FloatArray) -> np.ndarray:
    """Return whether each node lies in a cell with data."""
    places = []
    for values, edges, side in zip((x, y), dispersion.edges, dispersion.sides, strict=True):
        place = np.floor((values - edges[0]) / side).astype(np.int64)
        places.append(np.clip(place, 0, len(edges) - 2))
    return dispersion.has_data[places[1], places[0]].astype(np.int8)


def _about(unit: str, words: str, standard: str | None = None) -> dict[str, Any]:
    about = {"units": unit, "long_name": words}
    return about if standard is None else about | {"standard_name": standard}


def _whole(seconds: float) -> float:
    """Round a time step in seconds down to two digits."""
    size = 10.0 ** (np.floor(np.log10(seconds)) - 1)
    return float(f"{np.floor(seconds / size) * size:.6g}")


def _make_export(dispersion: GriddedDispersion, dataset: "xr.Dataset", script: str) -> GridExport:
    notes = list(dispersion.notes)
    low, high = (float(end) for end in dispersion.edges[0][[0, -1]])
    if dispersion.is_lonlat and (high > 180 or low < -180):
        notes.append(
            f"longitudes run from {low:.6g} to {high:.6g}, across the date line; release particles "
            "at longitudes in this range"
        )
    if dispersion.is_lonlat and high - low > 360 - 2 * dispersion.sides[0]:
        notes.append("the map goes around the earth; its eastern and western edges are walls")
    if not dispersion.is_lonlat and dispersion.ground is not None:
        notes.append(
            "x and y are metres on the azimuthal equidistant plane around "
            f"{dispersion.ground.lon:.4f}° E, {dispersion.ground.lat:.4f}° N"
        )
    k = dispersion.diffusivity[:, dispersion.has_data]
    names = ("driftbayes_version", "data_fingerprint")
    version, fingerprint = (dispersion.origin[name] for name in names)
    flow = "zero flow: a uniform density stays uniform"
    if dispersion.flow is not None:
        flow = "estimated flow: a uniform density stays uniform where it has no divergence"
    lines = [
        f"{dispersion.title}, by driftbayes {version}; data fingerprint {fingerprint}",
        f"diffusivity from {k.min():.4g} to {k.max():.4g} m2/s; {flow}",
        f"convention: {CONVENTION}",
        f"use time steps of up to {readable_time(_whole(dispersion.time_step), 's')}",
        *(f"note: {note}" for note in notes),
    ]
    about = {
        "Conventions": "CF-1.11, SGRID-0.3" if "grid" in dataset else "CF-1.11",
        "title": f"{dispersion.title}, averaged over the posterior",
        "source": f"driftbayes {version}",
        "data_fingerprint": fingerprint,
        "convention": CONVENTION,
        "time_step_s": _whole(dispersion.time_step),
        "notes": "; ".join(notes),
    }
    header = "".join(f"# {line}\n" for line in lines)
    return GridExport(dataset.assign_attrs(about), header + script, tuple(notes))
