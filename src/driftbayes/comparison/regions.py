"""Maps: comparisons in every cell of a grid, at every sampling time and in every season."""

__all__ = [
    "SEASONS",
    "cell_axes",
    "cell_edges",
    "describe_cells",
    "longitude_range",
    "map_regions",
    "not_a_plane",
    "season_numbers",
]

import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import xarray as xr

from driftbayes._magnitudes import whole
from driftbayes._precision import in_double_precision
from driftbayes._representation import Card, Table, number
from driftbayes._typing import FloatArray, IntArray, Progress
from driftbayes._version import __version__
from driftbayes.comparison._bayes import Comparison
from driftbayes.comparison._scan import scan_displacements
from driftbayes.data._sampling import Displacements, displacements, snap_taus, subset
from driftbayes.data._trajectories import Trajectories
from driftbayes.errors import DriftbayesError, Status
from driftbayes.inference import Hypothesis, as_method
from driftbayes.inference._methods import method_text

SEASONS = ("DJF", "MAM", "JJA", "SON")
# January first.
_SEASON_OF_MONTH = np.array([0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 0])
# More cells suggest a wrong unit.
_MAX_CELLS = 200_000


@in_double_precision
def map_regions(
    trajectories: Trajectories,
    hypotheses: Sequence[Hypothesis],
    *,
    cell: float,
    taus: Iterable[float],
    n_tau: int = 10,
    seasons: bool = False,
    min_windows: int = 20,
    progress: Progress | None = None,
    **how: Any,
) -> xr.Dataset:
    """Compare hypotheses in every cell of a grid.

    Trajectories are cut into windows of `n_tau` steps; a window belongs to the cell and the season
    in which it starts. Cells are boxes of longitude and latitude if positions were converted from
    degrees, and of x and y otherwise.

    Args:
        trajectories: Positions of the particles.
        hypotheses: Model families with their priors, the same everywhere.
        cell: Side of a cell, in degrees or in the unit of positions.
        taus: Sampling times, rounded to multiples of the recording interval.
        n_tau: Steps per window.
        seasons: Whether to separate the four seasons; times must have a known origin.
        min_windows: Minimum number of windows in a cell; others are left empty.
        progress: Called with the stage, the number done and the total.
        **how: `method` of the evidence and its `seed`.
    """
    if not (np.isfinite(cell) and cell > 0):
        raise DriftbayesError(f"the side of a cell must be positive, got {cell}")
    min_windows = whole(min_windows, "min_windows", 1)
    if trajectories.n_dim != 2:
        raise DriftbayesError(not_a_plane(trajectories.n_dim))
    place = trajectories.positions if trajectories.lonlat is None else trajectories.lonlat
    is_lonlat = trajectories.lonlat is not None
    edges = _edges(place, cell, is_lonlat=is_lonlat)
    labels = list(SEASONS) if seasons else ["all"]
    season = season_numbers(trajectories) if seasons else np.zeros(len(place), dtype=np.int64)
    actual = snap_taus(trajectories, taus)
    found: dict[tuple[int, int, int, int], Comparison] = {}
    counts = np.zeros((2, len(actual), len(labels), len(edges[1]) - 1, len(edges[0]) - 1))
    for i, tau in enumerate(actual):
        data = displacements(trajectories, float(tau), n_tau=n_tau, windows="all")
        rows = np.asarray(data.start_row)
        column = _number(place[rows, 0], edges[0], turn=360.0 if is_lonlat else None)
        row = _number(place[rows, 1], edges[1])
        keys, parts = _parts(data, np.stack([season[rows], row, column], axis=-1))
        for key, part in zip(keys, parts, strict=True):
            counts[(0, i, *key)] = len(part.row_sizes)
            counts[(1, i, *key)] = part.n_particles
        kept = [n for n, part in enumerate(parts) if len(part.row_sizes) >= min_windows]
        if kept:
            result = scan_displacements([parts[n] for n in kept], hypotheses, **how)
            for n, comparison in zip(kept, result.comparisons, strict=True):
                found[(i, *keys[n])] = comparison
        if progress is not None:
            progress("maps", i + 1, len(actual))
    if not found:
        raise DriftbayesError(
            f"no cell holds {min_windows} windows of {n_tau} steps, the fullest has "
            f"{int(counts[0].max())}; use larger cells, fewer steps or a smaller --min-windows"
        )
    dataset = _dataset(found, counts, hypotheses, trajectories)
    dataset = dataset.assign_coords(
        tau=("tau", actual, {"long_name": "sampling time", "time_unit": trajectories.time_unit}),
        season=("season", labels, {"long_name": "season in which a window starts"}),
        **cell_axes(edges, trajectories.length_unit, is_lonlat=is_lonlat),
    )
    options = {"cell": cell, "n_tau": n_tau, "min_windows": min_windows}
    options["seed"] = how.get("seed", 0)
    return dataset.assign_attrs(
        Conventions="CF-1.11",
        driftbayes_version=__version__,
        convention="Var(dx_i) = 2 kappa tau per axis; ln is natural",
        method=method_text(as_method(how.get("method", "auto"))),
        length_unit=trajectories.length_unit,
        time_unit=trajectories.time_unit,
        data_fingerprint=trajectories.fingerprint,
        provenance=json.dumps(dict(trajectories.provenance), default=str),
        priors=json.dumps({h.name: h.describe() for h in hypotheses}),
        options=json.dumps(options),
    )


def not_a_plane(n_dim: int) -> str:
    """Explain that a map needs two dimensions."""
    advice = "use `driftbayes field`" if n_dim == 1 else "omit one, for example with --columns z="
    return f"a map needs two dimensions, got {n_dim}; {advice}"


def _edges(place: FloatArray, cell: float, *, is_lonlat: bool) -> tuple[FloatArray, FloatArray]:
    """Compute edges of the cells along x and y, at multiples of the side."""
    low, high = np.nanmin(place, axis=0), np.nanmax(place, axis=0)
    if is_lonlat:
        low[0], high[0] = longitude_range(place[:, 0])
        if high[0] - low[0] > 360 - cell:
            # All around the earth: one turn, from -180.
            low[0], high[0] = -180.0, 180.0 - 1e-9 * cell
    first = np.floor(low / cell)
    return cell_edges(first, (np.floor(high / cell) - first + 1).astype(np.int64), cell)


def cell_edges(first: FloatArray, counts: IntArray, side: float) -> tuple[FloatArray, FloatArray]:
    """Return the edges of cells along x and y; raise an error if there are too many cells.

    Args:
        first: First edge along each axis, in sides of a cell.
        counts: Number of cells along each axis.
        side: Side of a cell.
    """
    if counts.prod() > _MAX_CELLS:
        raise DriftbayesError(
            f"cells of side {side:g} give a map of {counts.prod():,} cells, more than "
            f"{_MAX_CELLS:,}; use larger cells, and check their unit"
        )
    x, y = ((start + np.arange(n + 1)) * side for start, n in zip(first, counts, strict=True))
    return x, y


def longitude_range(longitude: FloatArray) -> tuple[float, float]:
    """Return the smallest range that contains all longitudes, with its centre in [-180, 180).

    It begins after the widest gap, so that it may extend across the date line.
    """
    turned = np.unique(longitude[np.isfinite(longitude)] % 360.0)
    gaps = np.diff(turned, append=turned[0] + 360.0)
    first = float(turned[(int(np.argmax(gaps)) + 1) % len(turned)])
    low, high = first, first + float(360.0 - gaps.max())
    shift = 360.0 * np.floor((0.5 * (low + high) + 180.0) / 360.0)
    return low - shift, high - shift


def _number(values: FloatArray, edges: FloatArray, turn: float | None = None) -> IntArray:
    """Return the number of the cell of each value; `turn` is the period of longitudes."""
    if turn is not None:
        values = (values - edges[0]) % turn + edges[0]
    found = np.searchsorted(edges, values, side="right") - 1
    return np.asarray(np.clip(found, 0, len(edges) - 2))


def season_numbers(trajectories: Trajectories) -> IntArray:
    """Return the number of the season of each observation."""
    origin = trajectories.provenance.get("time_origin")
    if origin is None or trajectories.time_unit != "s":
        raise DriftbayesError(
            "seasons need times in seconds with a known origin, as from dates; "
            f"these are in {trajectories.time_unit or 'an unknown unit'} since "
            f"{origin or 'an unknown date'}: omit --seasons (in Python: seasons=False)"
        )
    seconds = np.datetime64(str(origin), "s") + trajectories.times.astype("timedelta64[s]")
    month = seconds.astype("datetime64[M]").astype(np.int64) % 12
    return np.asarray(_SEASON_OF_MONTH[month])


def _parts(
    data: Displacements, cells: IntArray
) -> tuple[list[tuple[int, int, int]], list[Displacements]]:
    """Return the cells that contain windows, and the windows of each."""
    unique, inverse = np.unique(cells, axis=0, return_inverse=True)
    order = np.argsort(inverse.ravel(), kind="stable")
    ends = np.cumsum(np.bincount(inverse.ravel()))
    moves = np.asarray(data.dx.reshape(len(data.row_sizes), -1).any(axis=1))
    keys, parts = [], []
    for cell, runs in zip(unique.tolist(), np.split(order, ends[:-1]), strict=True):
        # Without motion, no diffusivity can be inferred.
        if moves[runs].any():
            keys.append(tuple(cell))
            # A linear flow is expanded around the centre of the cell.
            parts.append(subset(data, runs).on_own_ground())
    return keys, parts


def _dataset(
    found: dict[tuple[int, int, int, int], Comparison],
    counts: np.ndarray,
    hypotheses: Sequence[Hypothesis],
    trajectories: Trajectories,
) -> xr.Dataset:
    dims = ("tau", "season", "y", "x")
    shape = counts.shape[1:]
    variables: dict[str, Any] = {
        "n_windows": (dims, counts[0].astype(np.int32), {"long_name": "windows that start here"}),
        "n_particles": (dims, counts[1].astype(np.int32), {"long_name": "particles among them"}),
    }
    comparisons, places = found.values(), tuple(zip(*found, strict=True))

    def add(name: str, long_name: str, unit: str | None, values: Iterable[float]) -> None:
        out = np.full(shape, np.nan)
        out[places] = list(values)
        text = {"long_name": long_name} if unit is None else {"long_name": long_name, "units": unit}
        variables[name] = dims, out, text

    for hypothesis in hypotheses:
        model = hypothesis.name
        evidences = [comparison.evidences[model] for comparison in comparisons]
        plain = _plain(model)
        for name in hypothesis.names:
            unit = hypothesis.model.parameters[name].unit(*trajectories.units)
            for what, suffix in (("posterior_mean", ""), ("posterior_sd", "_sd")):
                long_name = f"{what.replace('_', ' ')} of {name}, {model}"
                values = [getattr(e, what)[name] for e in evidences]
                add(f"{plain}_{name}{suffix}", long_name, unit, values)
        converged = (e.status is Status.OK for e in evidences)
        add(f"{plain}_ok", f"evidence of {model} converged", None, converged)
        chances = (comparison.probabilities[model] for comparison in comparisons)
        add(f"{plain}_probability", f"probability of {model}", "1", chances)
    for pair in next(iter(comparisons)).log_bayes_factors:
        log_k = (comparison.log_bayes_factors[pair] for comparison in comparisons)
        name = f"log_k_{_plain(pair.replace(':', '_over_'))}"
        add(name, f"ln K, {pair.replace(':', ' over ')}", "1", log_k)
    return xr.Dataset(variables)


def _plain(name: str) -> str:
    return name.replace("+", "_").replace("*", "_")


def cell_axes(
    edges: tuple[FloatArray, FloatArray], length_unit: str, *, is_lonlat: bool
) -> dict[str, Any]:
    """Return CF coordinates x and y of a grid of cells, with their bounds.

    Args:
        edges: Edges of the cells along x and y.
        length_unit: Unit of x and y on a plane, empty if unknown.
        is_lonlat: Whether x and y are longitudes and latitudes in degrees.
    """
    on_earth = {"x": ("longitude", "degrees_east"), "y": ("latitude", "degrees_north")}
    centres: dict[str, Any] = {}
    bounds: dict[str, Any] = {}
    for name, along in zip("xy", edges, strict=True):
        attributes = {"axis": name.upper(), "bounds": f"{name}_bounds"}
        if is_lonlat:
            attributes |= dict(zip(("standard_name", "units"), on_earth[name], strict=True))
        elif length_unit:
            attributes["units"] = length_unit
        centres[name] = name, 0.5 * (along[1:] + along[:-1]), attributes
        bounds[f"{name}_bounds"] = (name, "bound"), np.stack([along[:-1], along[1:]], axis=-1)
    return centres | bounds


def describe_cells(result: xr.Dataset) -> Card:
    """Describe a map on a fixed grid by the median and the extremes of every quantity.

    Args:
        result: Result of `map_regions`.
    """
    n_windows, least = result["n_windows"], json.loads(result.attrs["options"])["min_windows"]
    rows = []
    for name in map(str, result.data_vars):
        values = result[name].values
        finite = values[values == values]
        unit = result[name].attrs.get("units", "")
        if not name.startswith("n_") and not name.endswith("_ok") and len(finite):
            low, middle, high = (number(q) for q in np.quantile(finite, [0.0, 0.5, 1.0]))
            rows.append((name, "" if unit == "1" else unit, middle, low, high))
    n_cells = int((n_windows >= least).sum())
    headline = f"{n_cells} of {n_windows.size} cells have {least} or more windows"
    table = Table(("quantity", "unit", "median", "lowest", "highest"), tuple(rows), "llrrr")
    return Card("Map", headline, tables=(table,))
