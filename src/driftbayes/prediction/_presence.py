"""Probability of presence on a grid: Gaussians summed over particles and posterior draws."""

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.special import ndtr

from driftbayes._aliases import Saved, public
from driftbayes._representation import (
    Card,
    Described,
    Table,
    describe,
    number,
    summarise,
    with_unit,
)
from driftbayes._typing import FloatArray
from driftbayes._version import __version__
from driftbayes.comparison.regions import cell_axes, cell_edges
from driftbayes.data._units import readable_unit
from driftbayes.data.sphere import metres_per_degree
from driftbayes.data.tangent import LastFixes
from driftbayes.errors import DriftbayesError, warn
from driftbayes.prediction._predict import LEVELS

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

# Default number of cells along the longer side.
_N_CELLS = 100
# Default margin of the grid beyond the outermost mean, in standard deviations.
_REACH = 4.0
# Relative change of the length of a degree over one standard deviation above which to warn.
_MAX_CHANGE = 0.1


@dataclass(frozen=True, eq=False)
class Gaussians:
    """Isotropic Gaussian distributions of particles, given each posterior draw.

    Args:
        means: Means (draw, particle, horizon, dim).
        sds: Standard deviation per axis, (draw, particle, horizon).
        weights: Weight of each draw; they sum to one.
    """

    means: FloatArray
    sds: FloatArray
    weights: FloatArray


@dataclass(frozen=True, eq=False, repr=False)
class PresenceMap(Described, Saved):
    """Probability that a particle is in each cell of a grid.

    Args:
        horizons: Times since the last fix.
        edges: Edges of the cells along x and y, or longitudes and latitudes in degrees.
        probability: Probability (horizon, y, x) of a particle chosen at random; times the number of
            particles it is the expected number in a cell.
        outside: Probability of being outside the grid, by horizon.
        last: Last position of each particle, in the coordinates of the grid.
        n_draws: Number of posterior draws.
        length_unit: Unit of length.
        time_unit: Unit of time.
        in_degrees: Whether the grid is of longitude and latitude.
        areas: Area of the cells of each row, in the square of the unit of length.
        source: Source of the probability, if not posterior draws of homogeneous models.
    """

    kind: ClassVar[str] = "presence"

    horizons: FloatArray
    edges: tuple[FloatArray, FloatArray]
    probability: FloatArray
    outside: FloatArray
    last: FloatArray
    n_draws: int
    length_unit: str
    time_unit: str
    in_degrees: bool
    areas: FloatArray
    source: str = ""

    @cached_property
    def level(self) -> FloatArray:
        """Probability of the smallest highest-density region that contains each cell.

        Cells with a level of at most 0.95 form the smallest region with a probability of 95 %.
        """
        out = np.empty_like(self.probability)
        for level, p in zip(out, self.probability, strict=True):
            order = np.argsort(-(p / self.areas[:, None]), axis=None, kind="stable")
            preceding = np.cumsum(p.flat[order]) - p.flat[order]
            level.flat[order] = preceding
        return out

    def region_areas(self, level: float) -> FloatArray:
        """Return the area of the region of a probability, by horizon; NaN if it exceeds the grid.

        Args:
            level: Probability, between 0 and 1.
        """
        inside = (self.level < level) * self.areas[:, None]
        enough = self.probability.sum(axis=(1, 2)) >= level
        return np.where(enough, inside.sum(axis=(1, 2)), np.nan)

    def to_dataset(self) -> "xr.Dataset":
        """Return probability, level and probability outside, following the CF conventions."""
        import xarray as xr

        since = {"long_name": "time since the last position", "time_unit": self.time_unit}
        axes = cell_axes(self.edges, self.length_unit, is_lonlat=self.in_degrees)
        coordinates = {"horizon": ("horizon", self.horizons, since)}
        coordinates |= {name: axes[name] for name in ("x", "x_bounds", "y", "y_bounds")}
        region = (
            "probability of all cells with a higher density; below 0.95 in the smallest region of "
            "95 %"
        )
        dims, outside = ("horizon", "y", "x"), "probability of being outside the grid"
        variables: dict[str, Any] = {
            name: (dims[: values.ndim], values, {"long_name": words, "units": "1"})
            for name, values, words in (
                ("probability", self.probability, "probability that a particle is in the cell"),
                ("region", self.level, region),
                ("outside", self.outside, outside),
            )
        }
        last = ("particle", "dim"), self.last, {"long_name": "last position"}
        variables["last_position"] = last
        return xr.Dataset(variables, coordinates).assign_attrs(
            Conventions="CF-1.11",
            driftbayes_version=__version__,
            n_particles=len(self.last),
            n_draws=self.n_draws,
            length_unit=self.length_unit,
            time_unit=self.time_unit,
            options=json.dumps({"levels": LEVELS}),
            **({"source": self.source} if self.source else {}),
        )

    def plot(self) -> "Figure":
        """Draw the probability of presence with its regions."""
        return public("presence_figure", "driftbayes.plots.presence")(self)

    def to_json(self) -> dict[str, Any]:
        """Return the size of the grid, the probability outside, and areas of the regions."""
        return {
            "n_cells": list(self.probability.shape[:0:-1]),
            "n_particles": len(self.last),
            **({"source": self.source} if self.source else {}),
            "outside": self.outside.tolist(),
            "region_areas": {f"{p:g}": self.region_areas(p).tolist() for p in LEVELS},
        }


@summarise.register
def _(result: PresenceMap) -> str:
    n_rows, n_columns = result.probability.shape[1:]
    return (
        f"probability of presence of {len(result.last)} particles in {n_columns} × {n_rows} cells"
    )


@describe.register
def _(result: PresenceMap) -> Card:
    per_time, time = readable_unit(result.horizons, result.time_unit)
    areas = np.array([result.region_areas(level) for level in LEVELS])
    sizes = np.sqrt(areas[np.isfinite(areas)])
    per, length = readable_unit(sizes, result.length_unit) if sizes.size else (1.0, "")
    square = f"{length}²" if length else ""
    heads = (
        with_unit("T", time),
        "outside the grid",
        *(with_unit(f"area of {100 * level:g} %", square) for level in LEVELS),
    )
    rows = []
    for i, horizon in enumerate(result.horizons):
        both = [number(area * per**2, 3) if np.isfinite(area) else "-" for area in areas[:, i]]
        rows.append((number(horizon * per_time, 5), number(result.outside[i], 3), *both))
    title = "Smallest regions that contain a particle with probability 50 and 95 %"
    table = Table(heads, tuple(rows), "rrrr", title=title)
    about = (f"From the {result.source}.",) if result.source else ()
    return Card("Presence map", summarise(result), sentences=about, tables=(table,))


def presence_map(
    gaussians: Gaussians,
    horizons: FloatArray,
    last: FloatArray,
    *,
    cell: float | None = None,
    fixes: LastFixes | None = None,
    units: tuple[str, str] = ("", ""),
) -> PresenceMap:
    r"""Sum Gaussians into the cells of a grid, in closed form.

    $$P_{ij} = \frac{1}{N} \sum_{p,m} w_m
      \left[\Phi(x_{i+1}) - \Phi(x_i)\right]_{pm} \left[\Phi(y_{j+1}) - \Phi(y_j)\right]_{pm}$$

    On the earth, the mean of each Gaussian is projected exactly, and its width is converted to
    degrees there.

    Args:
        gaussians: Distributions of the particles, given each draw.
        horizons: Times since the last fix.
        last: Last position of each particle.
        cell: Side of a cell, in the unit of positions or in degrees; by default a hundredth of the
            longer side of the grid.
        fixes: Last positions on the earth, if positions come from degrees.
        units: Units of length and time.

    Raises:
        DriftbayesError: The motion is not in a plane, the cells are too many, or the map would
            reach a pole.
    """
    if gaussians.means.shape[-1] != 2:
        msg = f"a map of presence needs two dimensions, got {gaussians.means.shape[-1]}"
        raise DriftbayesError(msg)
    means, sds = gaussians.means, np.repeat(gaussians.sds[..., None], 2, axis=-1)
    if fixes is not None:
        means, sds, last = _on_earth(gaussians, fixes)
    used = gaussians.weights > 0
    edges = _edges(means[used], sds[used], cell, turn=360.0 if fixes is not None else None)
    shifts = (-360.0, 0.0, 360.0) if fixes is not None else (0.0,)
    n_particles, n_horizons = means.shape[1:3]
    probability = np.zeros((n_horizons, len(edges[1]) - 1, len(edges[0]) - 1))
    outside = np.zeros(n_horizons)
    for m in np.flatnonzero(used):
        weight = gaussians.weights[m] / n_particles
        for h in range(n_horizons):
            (x, y), (wide, high) = means[m, :, h].T, sds[m, :, h].T
            along = [
                # Longitudes are periodic.
                np.asarray(sum(_normal(edges[0], x + shift, wide) for shift in shifts)),
                _normal(edges[1], y, high),
            ]
            columns, rows = (np.diff(table, axis=-1) for table in along)
            probability[h] += weight * rows.T @ columns
            in_x, in_y = (table[:, -1] - table[:, 0] for table in along)
            outside[h] += weight * np.sum((1 - in_x) + in_x * (1 - in_y))
    return PresenceMap(
        horizons=horizons,
        edges=edges,
        probability=probability,
        outside=np.maximum(outside, 0.0),
        last=last,
        n_draws=int(used.sum()),
        length_unit=units[0],
        time_unit=units[1],
        in_degrees=fixes is not None,
        areas=_areas(edges, fixes),
    )


def _normal(edges: FloatArray, mean: FloatArray, sd: FloatArray) -> FloatArray:
    """Return the normal distribution functions (particle, edge)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        z = (edges - mean[:, None]) / sd[:, None]
    # Without variance a particle is on one side of an edge.
    return ndtr(np.where(np.isnan(z), np.inf, z))


def _on_earth(gaussians: Gaussians, fixes: LastFixes) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return means and standard deviations in degrees; longitudes differ by less than 360°."""
    means = np.array(fixes.to_lonlat(gaussians.means))
    last = np.array(fixes.lonlat)
    # All longitudes within 180° of the middle.
    angles = np.radians(last[:, 0])
    middle = float(np.degrees(np.arctan2(np.sin(angles).mean(), np.cos(angles).mean())))
    if (last[:, 0] > 180).any():
        middle %= 360.0
    for lon in (means[..., 0], last[:, 0]):
        lon[...] = (lon - middle + 180.0) % 360.0 - 180.0 + middle
    lat = means[..., 1]
    per_metre = fixes.ground.per_metre
    east, north = metres_per_degree(lat, fixes.ground.radius)
    sds = np.stack(
        [gaussians.sds / (east * per_metre), gaussians.sds / (north * per_metre)], axis=-1
    )
    if float((np.abs(lat) + _REACH * sds[..., 1]).max()) >= 90.0:
        raise DriftbayesError(
            "the particles may reach a pole, which a map in longitude and latitude cannot show; "
            "use a shorter horizon, or write members with -o"
        )
    change = float((np.tan(np.radians(np.abs(lat))) * np.radians(sds[..., 1])).max())
    if change > _MAX_CHANGE:
        warn(
            f"a degree of longitude changes by {change:.0%} over one standard deviation of the "
            "forecast, but the map treats it as constant; use shorter horizons, or members (-o)"
        )
    return means, sds, last


def _edges(
    means: FloatArray, sds: FloatArray, cell: float | None, turn: float | None
) -> tuple[FloatArray, FloatArray]:
    """Return the edges of the cells, at multiples of their side."""
    low = (means - _REACH * sds).min(axis=(0, 1, 2))
    high = (means + _REACH * sds).max(axis=(0, 1, 2))
    side = float((high - low).max()) / _N_CELLS if cell is None else cell
    if not (np.isfinite(side) and side > 0):
        raise DriftbayesError(f"the side of a cell must be positive, got {side:g}")
    if turn is not None and high[0] - low[0] > turn:
        # Once around the earth, from the smallest longitude, in whole cells.
        side = turn / np.ceil(turn / side)
        high[0] = low[0] + turn - 1e-9 * side
    first = low / side if turn is not None and high[0] - low[0] > turn - side else low // side
    counts = np.maximum(np.ceil(high / side - first - 1e-9).astype(np.int64), 1)
    return cell_edges(first, counts, side)


def _areas(edges: tuple[FloatArray, FloatArray], fixes: LastFixes | None) -> FloatArray:
    """Return the area of a cell of each row."""
    widths = np.diff(edges[1])
    side = float(edges[0][1] - edges[0][0])
    if fixes is None:
        return side * widths
    east, north = metres_per_degree(0.5 * (edges[1][1:] + edges[1][:-1]), fixes.ground.radius)
    return np.maximum(east, 0.0) * side * north * widths * fixes.ground.per_metre**2
