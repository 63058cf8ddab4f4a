r"""Diffusivity and mean flow of a map or a field, as a function of position.

The values of the cells are the coefficients of a quadratic B-spline, mirrored at the edges of the
map. It is positive if the cells are, and has a continuous gradient, which vanishes across the
edges. Particles that are reflected there therefore keep a uniform density if they drift with

$$d_i = \partial_i K_i, \quad\text{and on the earth}\quad d_y = \partial_y K_y
  - K_y \tan\varphi / R ,$$

the well-mixed drift. The flow of a field does not include this drift. The flow of a map is the mean
step over τ, which includes the mean of the drift over a cell of the tree; it is subtracted, so that
it does not count twice. (The local drift, which the map concentrates at the edges of its cells,
must not be subtracted: without it particles accumulate on the side of an edge where K is smaller.)
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from driftbayes._typing import FloatArray
from driftbayes.data.sphere import earth_radius, metres_per_degree
from driftbayes.data.tangent import Ground
from driftbayes.errors import DriftbayesError

# Maximum latitude of a grid of longitudes and latitudes, in degrees.
_MAX_LATITUDE = 89.0
# Maximum displacement in a time step, as a fraction of a cell, for particles to stay well mixed.
_MAX_STEP = 0.25


@dataclass(frozen=True, eq=False)
class GriddedDispersion:
    """Diffusivity along two axes and mean flow, in cells.

    Args:
        edges: Edges of the cells along x and y: degrees, or lengths on a plane.
        diffusivity: Along x and y, (2, y, x).
        flow: Mean flow, (2, y, x); None if there is none.
        cell_side: Side of the cells over which the flow includes the mean well-mixed drift, (y, x);
            None if it does not include it.
        has_data: Whether each cell holds data, (y, x); others have the value of the nearest cell.
        is_lonlat: Whether positions are longitudes and latitudes.
        ground: Position of the plane on the earth, if known.
        per_metre: A metre in the unit of length.
        title: Name of the map or field.
        notes: Notes for the user.
        origin: Version, fingerprint and source of the data.
    """

    edges: tuple[FloatArray, FloatArray]
    diffusivity: FloatArray
    flow: FloatArray | None
    cell_side: FloatArray | None
    has_data: np.ndarray
    is_lonlat: bool
    ground: Ground | None
    per_metre: float
    title: str
    notes: tuple[str, ...]
    origin: dict[str, str]

    @property
    def sides(self) -> tuple[float, float]:
        """Sides of a cell along x and y, in the unit of positions."""
        x, y = (float(e[-1] - e[0]) / (len(e) - 1) for e in self.edges)
        return x, y

    @property
    def is_isotropic(self) -> bool:
        """Whether both axes have the same diffusivity."""
        return bool(np.allclose(self.diffusivity[0], self.diffusivity[1], rtol=1e-12))

    def lengths(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the length of a unit of x and of y: of a degree at latitude y, or 1 on a plane.

        Args:
            y: Latitudes in degrees, or positions.
        """
        if not self.is_lonlat:
            return np.ones_like(y), np.ones_like(y)
        east, north = metres_per_degree(y)
        return east * self.per_metre, north * self.per_metre

    def diffusivity_at(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """Evaluate the diffusivity along both axes at points.

        Args:
            x: First coordinate, mirrored beyond the edges.
            y: Second coordinate, of the same shape.
        """
        return self._at(self.diffusivity, x, y)

    def flow_at(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """Evaluate the mean flow without the well-mixed drift at points; zero if there is none.

        Args:
            x: First coordinate.
            y: Second coordinate.
        """
        if self.flow is None:
            return np.zeros((2, *np.shape(x)))
        flow = self._at(self.flow, x, y)
        if self.cell_side is None:
            return flow
        side = self._at(self.cell_side[None], x, y)[0]
        return flow - self.drift_at(x, y, over=side)

    def drift_at(
        self,
        x: FloatArray,
        y: FloatArray,
        *,
        over: FloatArray | None = None,
        on_sphere: bool = True,
    ) -> FloatArray:
        """Evaluate the well-mixed drift at points.

        Args:
            x: First coordinate.
            y: Second coordinate.
            over: Length along each axis over which to average; None for no average.
            on_sphere: Whether to include the drift due to the curvature of the earth.
        """
        (per_x, per_y), (kx, ky) = self.lengths(np.asarray(y)), self.diffusivity
        if over is None:
            along = self._at(kx[None], x, y, axis=0)[0] / per_x
            across = self._at(ky[None], x, y, axis=1)[0] / per_y
        else:
            dx, dy = 0.5 * over / per_x, 0.5 * over / per_y
            along = (self._at(kx[None], x + dx, y) - self._at(kx[None], x - dx, y))[0] / over
            across = (self._at(ky[None], x, y + dy) - self._at(ky[None], x, y - dy))[0] / over
        if self.is_lonlat and on_sphere:
            radius = earth_radius(None) * self.per_metre
            across = across - self._at(ky[None], x, y)[0] * np.tan(np.radians(y)) / radius
        return np.stack([along, across])

    def _at(self, values: FloatArray, x: FloatArray, y: FloatArray, axis: int = -1) -> FloatArray:
        """Evaluate splines at points, or their derivatives along one axis."""
        columns, across = _spline(np.asarray(x), self.edges[0], derivative=axis == 0)
        rows, along = _spline(np.asarray(y), self.edges[1], derivative=axis == 1)
        out = np.zeros((len(values), *np.shape(x)))
        for i in range(3):
            for j in range(3):
                out += values[:, rows[i], columns[j]] * along[i] * across[j]
        return out

    @cached_property
    def time_step(self) -> float:
        """Largest time step with which a random walk in this grid stays well mixed."""
        x, y = (0.5 * (e[1:] + e[:-1]) for e in self.edges)
        lengths = zip(self.sides, self.lengths(y), strict=True)
        sides = np.stack([np.tile((side * per)[:, None], len(x)) for side, per in lengths])
        by_walk = (_MAX_STEP * sides) ** 2 / (2 * self.diffusivity)
        speed = np.abs(self.drift_at(*np.meshgrid(x, y)) + self.flow_at(*np.meshgrid(x, y)))
        with np.errstate(divide="ignore"):
            by_flow = _MAX_STEP * sides / speed
        return float(min(by_walk.min(), by_flow.min()))

    def on_lonlat(self) -> "GriddedDispersion":
        """Interpolate to a grid of longitudes and latitudes.

        Raises:
            DriftbayesError: The position of the plane on the earth is unknown, or at a pole.
        """
        if self.is_lonlat:
            return self
        if self.ground is None:
            raise DriftbayesError(
                f"{self.title} is on a plane of unknown position on the earth, but longitudes and "
                "latitudes are needed; use --for parcels, which supports a plane"
            )
        if self.ground.frame != "local":
            raise DriftbayesError(
                f"{self.title} is on a plane around a pole, where longitudes and latitudes form no "
                "grid; use --for parcels, which supports a plane"
            )
        rim = _rim(self.edges)
        lonlat = np.array([self.ground.lonlat(point) for point in rim])
        lonlat[:, 0] = self.ground.lon + (lonlat[:, 0] - self.ground.lon + 180) % 360 - 180
        low, high = lonlat.min(axis=0), lonlat.max(axis=0)
        n_rows, n_columns = self.has_data.shape
        edges = (
            np.linspace(low[0], high[0], n_columns + 1),
            np.linspace(low[1], high[1], n_rows + 1),
        )
        check_latitudes(edges[1], self.title)
        lon, lat = np.meshgrid(*(0.5 * (e[1:] + e[:-1]) for e in edges))
        places = self.ground.positions(np.stack([lon.ravel(), lat.ravel()], axis=-1))
        x, y = (places[:, i].reshape(lon.shape) for i in range(2))
        inside = [(v >= e[0]) & (v <= e[-1]) for v, e in zip((x, y), self.edges, strict=True)]
        x, y = (np.clip(v, e[0], e[-1]) for v, e in zip((x, y), self.edges, strict=True))
        there = self._at(self.has_data[None].astype(float), x, y)[0] > 0.5
        flow = None if self.flow is None else self._at(self.flow, x, y)
        interpolated = replace(
            self,
            edges=edges,
            diffusivity=self._at(self.diffusivity, x, y),
            flow=flow,
            has_data=there & inside[0] & inside[1],
            is_lonlat=True,
        )
        if flow is not None:
            # The flow on the plane includes the drift due to the curvature of the earth.
            flat = interpolated.drift_at(lon, lat, on_sphere=False)
            flow[1] += flat[1] - interpolated.drift_at(lon, lat)[1]
        return interpolated


def check_latitudes(edges: FloatArray, title: str) -> None:
    """Raise an error if a grid of longitudes and latitudes reaches a pole.

    Args:
        edges: Edges of the cells along latitude, in degrees.
        title: Name of the map or field.
    """
    largest = float(np.abs(edges).max())
    if largest > _MAX_LATITUDE:
        raise DriftbayesError(
            f"{title} reaches a latitude of {largest:.1f}°, too close to a pole for a grid of "
            "longitudes and latitudes; read the data on a plane (--frame transported)"
        )


def _rim(edges: tuple[FloatArray, FloatArray]) -> FloatArray:
    """Return points along the rim of a rectangle."""
    x, y = edges
    sides = [(x, np.full(len(x), end)) for end in y[[0, -1]]]
    sides += [(np.full(len(y), end), y) for end in x[[0, -1]]]
    return np.concatenate([np.stack(side, axis=-1) for side in sides])


def _spline(
    x: FloatArray, edges: FloatArray, *, derivative: bool
) -> tuple[list[np.ndarray], list[FloatArray]]:
    """Return the three cells with nonzero weight at each position, and their weights."""
    n, side = len(edges) - 1, (edges[-1] - edges[0]) / (len(edges) - 1)
    place = (x - edges[0]) / side
    cell = np.clip(np.floor(place), -n, 2 * n - 1).astype(np.int64)
    t = np.clip(place - cell - 0.5, -0.5, 0.5)
    # Mirrored: cell -1 is cell 0, cell n is cell n - 1.
    turned = [np.mod(cell + i, 2 * n) for i in (-1, 0, 1)]
    cells = [np.minimum(c, 2 * n - 1 - c) for c in turned]
    if derivative:
        return cells, [(t - 0.5) / side, -2 * t / side, (t + 0.5) / side]
    return cells, [0.5 * (0.5 - t) ** 2, 0.75 - t**2, 0.5 * (0.5 + t) ** 2]
