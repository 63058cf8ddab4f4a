"""Probability of presence in a varying diffusivity and flow, by the Fokker–Planck equation."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from driftbayes._typing import FloatArray
from driftbayes.errors import DriftbayesError, warn
from driftbayes.fields._fokker_planck import Field, FokkerPlanck, Grid
from driftbayes.prediction._presence import PresenceMap
from driftbayes.simulators._gridded import GriddedDispersion

# Default number of cells along the longer side, and maximum number of all cells.
_N_CELLS, _MAX_CELLS = 100, 40_000
# Maximum probability in the outermost cells without a warning that walls reflect.
_MAX_AT_WALLS = 0.01


@dataclass(frozen=True, eq=False)
class _Ground(Grid):
    """Cells on a plane or on the earth.

    Args:
        dispersion: Diffusivity and flow, which define lengths.
    """

    dispersion: GriddedDispersion

    @cached_property
    def volumes(self) -> FloatArray:
        x, y = self.dispersion.lengths(self.centres[1])
        return np.multiply.outer(np.diff(self.edges[0]), np.diff(self.edges[1]) * x * y)


class _Transport(FokkerPlanck):
    """Transport of probability by diffusivities along two axes, also on the earth."""

    def __init__(self, grid: _Ground) -> None:
        self._dispersion = grid.dispersion
        super().__init__(grid, kappa=1.0, velocity=(0.0, 0.0))

    def _geometry(self, axis: int) -> tuple[FloatArray, FloatArray]:
        """Return the distance between the cells on both sides of each face, and its length."""
        distance, across = super()._geometry(axis)
        lengths = self._dispersion.lengths(self.grid.faces(axis)[1].ravel())
        return distance * lengths[axis], across * lengths[1 - axis]

    def _at_faces(self, field: Field, axis: int, name: str) -> FloatArray:
        faces = self.grid.faces(axis)
        at = self._dispersion.diffusivity_at if name == "kappa" else self._dispersion.flow_at
        return np.asarray(at(*faces)[axis]).ravel()


def presence_in_space(
    dispersion: GriddedDispersion,
    positions: FloatArray,
    horizons: FloatArray,
    *,
    cell: float | None = None,
    units: tuple[str, str] = ("", ""),
    draws: Sequence[GriddedDispersion] = (),
) -> PresenceMap:
    """Transport the probability of presence by a map or a field.

    The edges of the map reflect. Probability is conserved to rounding and never negative. An
    average over posterior draws of the field includes its errors.

    Args:
        dispersion: Diffusivity and flow, in `units`.
        positions: Positions of the particles, (particle, 2), in the coordinates of `dispersion`.
        horizons: Times ahead, increasing.
        cell: Side of a cell, in the unit of positions or in degrees; by default a hundredth of the
            longer side of the map.
        units: Units of length and time.
        draws: Posterior draws; if empty, `dispersion` itself is used.

    Raises:
        DriftbayesError: All particles are outside the map, or the cells are too many.
    """
    grid = _grid(dispersion, cell)
    places = np.array(positions, dtype=np.float64)
    if dispersion.is_lonlat:
        low = grid.edges[0][0]
        places[:, 0] = low + (places[:, 0] - low) % 360.0
    ends = zip(places.T, grid.edges, strict=True)
    inside = np.logical_and(*((x >= e[0]) & (x <= e[-1]) for x, e in ends))
    if not inside.any():
        msg = f"no particle is inside {dispersion.title}; its last positions must lie there"
        raise DriftbayesError(msg)
    share = float(inside.mean())
    if share < 1:
        warn(
            f"{int((~inside).sum())} of {len(inside)} particles are outside {dispersion.title}; "
            "they stay there and count as outside the grid"
        )
    out = np.zeros((len(horizons), *(len(e) - 1 for e in grid.edges)))
    fields = draws or (dispersion,)
    plain = _Transport(grid)
    start = np.sum([plain.at(place) for place in places[inside]], axis=0) / len(places)
    for field in fields:
        solver = _Transport(replace(grid, dispersion=field))
        p, before = start, 0.0
        for i, horizon in enumerate(horizons):
            p, before = solver.evolve(p, float(horizon) - before), float(horizon)
            out[i] += p / len(fields)
    rim = out[-1].sum() - out[-1, 1:-1, 1:-1].sum()
    if rim > _MAX_AT_WALLS:
        warn(
            f"{rim:.0%} of the probability lies in the outermost cells of {dispersion.title}, "
            "whose edges reflect; use shorter horizons, or a map of a larger region"
        )
    source = f"averaged {dispersion.title.removeprefix('the ')}, without its posterior errors"
    if draws:
        source = f"posterior of {dispersion.title}, by {len(draws)} draws"
    return PresenceMap(
        horizons=np.asarray(horizons, dtype=np.float64),
        edges=(grid.edges[0], grid.edges[1]),
        probability=out.transpose(0, 2, 1),
        outside=np.full(len(out), 1.0 - share),
        last=places,
        n_draws=len(fields),
        length_unit=units[0],
        time_unit=units[1],
        in_degrees=dispersion.is_lonlat,
        areas=np.asarray(grid.volumes[0]),
        source="; ".join((source, *dispersion.notes)),
    )


def _grid(dispersion: GriddedDispersion, cell: float | None) -> _Ground:
    spans = np.array([float(e[-1] - e[0]) for e in dispersion.edges])
    if cell is None:
        middle = np.array([0.5 * (dispersion.edges[1][0] + dispersion.edges[1][-1])])
        scales = np.array([float(length[0]) for length in dispersion.lengths(middle)])
        sides = float((spans * scales).max()) / _N_CELLS / scales
    else:
        sides = np.full(2, cell)
    if not (np.isfinite(sides) & (sides > 0)).all():
        raise DriftbayesError(f"the side of a cell must be positive, got {cell:g}")
    counts = np.maximum(np.ceil(spans / sides - 1e-9), 2)
    if counts.prod() > _MAX_CELLS:
        raise DriftbayesError(
            f"a side of {sides[0]:g} gives {counts.prod():,.0f} cells, more than {_MAX_CELLS:,}; "
            "use larger cells, and check their unit"
        )
    x, y = (
        np.linspace(e[0], e[-1], int(n) + 1) for e, n in zip(dispersion.edges, counts, strict=True)
    )
    return _Ground((x, y), (False, False), dispersion)
