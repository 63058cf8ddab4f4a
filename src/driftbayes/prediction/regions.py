"""Search regions of particles: ellipses with 50 % and 95 % probability, over time."""

__all__ = ["REGION_MEMBERS", "SearchRegions", "search_regions"]

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from driftbayes._aliases import Saved
from driftbayes._typing import FloatArray, StrArray
from driftbayes._version import __version__
from driftbayes.errors import DriftbayesError
from driftbayes.prediction._forecast import ParticleForecast
from driftbayes.prediction._predict import LEVELS

if TYPE_CHECKING:
    import xarray as xr

_N_VERTICES = 72
# Smallest number of members for regions.
REGION_MEMBERS = 400


@dataclass(frozen=True, eq=False)
class SearchRegions(Saved):
    """Ellipses of given probabilities, for each particle and horizon.

    Args:
        ids: Names of the particles.
        times: Time of each particle and horizon.
        horizons: Times since the last fix.
        levels: Probabilities.
        polygons: Vertices (particle, horizon, level, vertex, 2); longitude and latitude for data in
            degrees.
        areas: Area of each region, (particle, horizon, level), in the square of the unit of length.
        length_unit: Unit of length.
        time_unit: Unit of time.
        in_degrees: Whether vertices are longitudes and latitudes.
    """

    kind: ClassVar[str] = "regions"

    ids: StrArray
    times: FloatArray
    horizons: FloatArray
    levels: tuple[float, ...]
    polygons: FloatArray
    areas: FloatArray
    length_unit: str
    time_unit: str
    in_degrees: bool

    def to_dataset(self) -> "xr.Dataset":
        """Return vertices, areas and times of the regions, following the CF conventions."""
        import xarray as xr

        names, units = ("x", "y"), (self.length_unit,) * 2
        if self.in_degrees:
            names, units = ("lon", "lat"), ("degrees_east", "degrees_north")
        dims = ("particle", "horizon", "probability")
        since = {"long_name": "time since the last position", "time_unit": self.time_unit}
        level = {"long_name": "probability that the particle is in the region", "units": "1"}
        coordinates = {
            "particle": ("particle", self.ids.astype(str)),
            "horizon": ("horizon", self.horizons, since),
            "probability": ("probability", np.array(self.levels), level),
        }
        time = {"long_name": "time of the forecast", "time_unit": self.time_unit}
        area = {"long_name": "area of the region", "length_unit": self.length_unit}
        variables: dict[str, Any] = {
            "time": (dims[:2], self.times, time),
            "area": (dims, self.areas, area),
        }
        for i, (name, unit) in enumerate(zip(names, units, strict=True)):
            words = {"long_name": "vertices of the region"} | ({"units": unit} if unit else {})
            variables[name] = (*dims, "vertex"), self.polygons[..., i], words
        return xr.Dataset(variables, coordinates).assign_attrs(
            Conventions="CF-1.11", length_unit=self.length_unit, time_unit=self.time_unit
        )

    def to_geojson(self) -> dict[str, Any]:
        """Return one feature per particle, horizon and level, the largest region first."""
        features = []
        for p, name in enumerate(self.ids):
            for h, horizon in enumerate(self.horizons):
                for level in np.argsort(self.levels)[::-1]:
                    ring = self.polygons[p, h, level]
                    properties = {
                        "particle": str(name),
                        "time": float(self.times[p, h]),
                        "horizon": float(horizon),
                        "probability": self.levels[level],
                        "area": float(self.areas[p, h, level]),
                    }
                    closed = np.vstack([ring, ring[:1]]).tolist()
                    geometry = {"type": "Polygon", "coordinates": [closed]}
                    features.append(
                        {"type": "Feature", "properties": properties, "geometry": geometry}
                    )
        return {
            "type": "FeatureCollection",
            "driftbayes": {
                "version": __version__,
                "length_unit": self.length_unit,
                "time_unit": self.time_unit,
                "coordinates": "degrees" if self.in_degrees else "plane",
            },
            "features": features,
        }


def search_regions(forecast: ParticleForecast, levels: Sequence[float] = LEVELS) -> SearchRegions:
    """Find the ellipses of given probabilities for each particle and horizon.

    Their shape is the members' covariance; their size is an order statistic of the Mahalanobis
    distances, for any distribution of the members.

    Args:
        forecast: Members of the forecast, 20 or more for a region of 95 %.
        levels: Probabilities, between 0 and 1.

    Raises:
        DriftbayesError: There are too few members, or the motion is not in a plane.
    """
    n_members, _, _, n_dim = forecast.positions.shape
    if n_dim != 2:
        raise DriftbayesError(f"search regions need two dimensions, got {n_dim}")
    for level in levels:
        if not 0 < level < 1:
            raise DriftbayesError(f"a level must be between 0 and 1, got {level}")
    needed = int(np.ceil(1 / (1 - max(levels))))
    if n_members < needed:
        msg = f"a region of {max(levels):.0%} needs {needed} members, got {n_members}"
        raise DriftbayesError(msg)
    x = forecast.positions[:, :, 1:]
    mean = x.mean(axis=0)
    away = x - mean
    covariance = np.einsum("mphi,mphj->phij", away, away) / (n_members - 1)
    root = np.linalg.cholesky(covariance)
    inverse = np.linalg.inv(root)
    distance = np.sort(np.linalg.norm(np.einsum("phij,mphj->mphi", inverse, away), axis=-1), axis=0)
    # The next member is within the k-th distance with probability k/(M + 1).
    ranks = [min(int(np.ceil(level * (n_members + 1))), n_members) - 1 for level in levels]
    radius = distance[ranks]
    angle = 2 * np.pi * np.arange(_N_VERTICES) / _N_VERTICES
    circle = np.stack([np.cos(angle), np.sin(angle)])
    offsets = np.einsum("phij,jv->phvi", root, circle)
    polygons = mean[None, :, :, None] + radius[..., None, None] * offsets[None]
    areas = np.pi * radius**2 * np.sqrt(np.linalg.det(covariance))
    return SearchRegions(
        ids=forecast.ids,
        times=forecast.last_times[:, None] + forecast.horizons[1:],
        horizons=forecast.horizons[1:],
        levels=tuple(levels),
        polygons=_on_earth(forecast, np.moveaxis(polygons, 0, 2)),
        areas=np.moveaxis(areas, 0, 2),
        length_unit=forecast.length_unit,
        time_unit=forecast.time_unit,
        in_degrees=forecast.fixes is not None,
    )


def _on_earth(forecast: ParticleForecast, polygons: FloatArray) -> FloatArray:
    """Convert vertices to degrees if the data were in degrees, with continuous longitudes."""
    if forecast.fixes is None:
        return polygons
    n_particles, n_horizons, n_levels, n_vertices, _ = polygons.shape
    # Each vertex is the end of a straight path from the last fix.
    ends = polygons.transpose(1, 2, 3, 0, 4).reshape(-1, n_particles, 1, 2)
    laid = forecast.fixes.to_lonlat(ends).reshape(n_horizons, n_levels, n_vertices, n_particles, 2)
    vertices = laid.transpose(3, 0, 1, 2, 4).copy()
    vertices[..., 0] = np.degrees(np.unwrap(np.radians(vertices[..., 0]), axis=-1))
    return vertices
