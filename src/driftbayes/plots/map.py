"""Draw maps."""

__all__ = ["map_figure", "plot_map"]

from typing import TYPE_CHECKING

import numpy as np

from driftbayes.data.units import readable_time
from driftbayes.errors import DriftbayesError, did_you_mean
from driftbayes.plots.coast import coast_lines
from driftbayes.plots.style import journal_axes, journal_style
from driftbayes.representation import INK

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_map(
    dataset: "xr.Dataset", variable: str, ax: "Axes | None" = None, *, tau: int = 0, season: int = 0
) -> "Axes":
    """Draw a map: ln K in two colours around zero, positive variables on a logarithmic scale.

    Args:
        dataset: A map.
        variable: One of its variables.
        ax: Axes to draw on; None for a new figure.
        tau: Index of the sampling time.
        season: Index of the season.
    """
    from matplotlib.colors import LogNorm, Normalize, SymLogNorm

    if variable not in dataset:
        known = [str(name) for name in dataset.data_vars]
        near = did_you_mean(variable, known)
        msg = f"the map has no variable {variable!r}; it has {', '.join(known)}{near}"
        raise DriftbayesError(msg)
    places = {"tau": tau, "season": season}
    chosen = dataset[variable].isel({k: i for k, i in places.items() if k in dataset.dims})
    values = np.asarray(chosen.values, dtype=np.float64)
    there = values[np.isfinite(values)]
    norm: Normalize
    if "_flow_" in variable and not variable.endswith("_sd"):
        most = float(np.abs(there).max(initial=0.0)) or 1.0
        norm, colours = Normalize(-most, most), "RdBu_r"
    elif variable.startswith("log_k"):
        most = max(float(np.abs(there).max(initial=1.0)), 1.0)
        norm, colours = SymLogNorm(1.0, vmin=-most, vmax=most), "PuOr"
    elif variable.endswith(("probability", "_ok")):
        norm, colours = Normalize(0, 1), "viridis"
    elif there.size and there.min() > 0 and there.max() > 3 * there.min():
        norm, colours = LogNorm(there.min(), there.max()), "viridis"
    else:
        norm, colours = Normalize(), "viridis"
    with journal_axes(ax) as ax:
        x, y = (
            np.append(dataset[f"{a}_bounds"].values[:, 0], dataset[f"{a}_bounds"].values[-1, 1])
            for a in ("x", "y")
        )
        mesh = ax.pcolormesh(x, y, np.ma.masked_invalid(values), norm=norm, cmap=colours)
        unit = chosen.attrs.get("units", "1")
        label = str(chosen.attrs.get("long_name", variable)).replace(", ", "\n")
        label += "" if unit == "1" else f" ({unit})"
        figure = ax.get_figure()
        if figure is not None:
            figure.colorbar(mesh, ax=ax, label=label)
        is_lonlat = dataset["x"].attrs.get("standard_name") == "longitude"
        unit = dataset["x"].attrs.get("units", "")
        ends = f" ({unit})" if unit and not is_lonlat else ""
        ax.set_xlabel("longitude" if is_lonlat else f"x{ends}")
        ax.set_ylabel("latitude" if is_lonlat else f"y{ends}")
        if is_lonlat:
            ax.set_aspect(1 / np.cos(np.radians(np.clip(np.mean(y), -80, 80))))
        else:
            ax.set_aspect("equal")
        # Only the part of the plane that has values.
        rows, columns = (np.flatnonzero(np.isfinite(values).any(axis=a)) for a in (1, 0))
        if len(rows):
            ax.set_xlim(x[columns[0]], x[columns[-1] + 1])
            ax.set_ylim(y[rows[0]], y[rows[-1] + 1])
        if is_lonlat:
            _draw_coast(ax)
        time = readable_time(float(dataset["tau"].values[tau]), dataset.attrs.get("time_unit", ""))
        name = str(dataset["season"].values[season]) if "season" in dataset.dims else "all"
        ax.set_title(f"τ = {time}" + ("" if name == "all" else f", {name}"))
    return ax


def _draw_coast(ax: "Axes") -> None:
    """Draw the coast within the axes, and keep their limits."""
    from matplotlib.collections import LineCollection

    lines = coast_lines(ax.get_xlim(), ax.get_ylim())
    ax.add_collection(LineCollection(lines, colors=INK, linewidths=0.5), autolim=False)


def map_figure(dataset: "xr.Dataset", model: str | None = None) -> "Figure":
    """Draw the main variables of a map side by side.

    Args:
        dataset: A map.
        model: The model to draw, of a map by evidence, with errors; None draws all diffusivities
            and ln K of a fixed grid.
    """
    from matplotlib.figure import Figure

    names = [str(name) for name in dataset.data_vars]
    if model is None:
        shown = [name for name in names if name.endswith(("_kappa", "_k"))]
        shown += [name for name in names if name.startswith("log_k")]
        n_rows = 1
    else:
        plain = model.replace("+", "_")
        wanted = ("kappa", "k", "K_11", "K_12", "K_22", "memory_time", "flow_1", "flow_2")
        first = [f"{plain}_{name}" for name in wanted if f"{plain}_{name}" in names]
        if f"{plain}_K_11" in names:
            first = [name for name in first if not name.endswith(("_kappa", "_k"))]
        shown, n_rows = [*first, *(f"{name}_sd" for name in first)], 2
    n_columns = len(shown) // n_rows
    with journal_style():
        drawing = Figure(figsize=(3.6 * n_columns, 3.0 * n_rows), layout="constrained")
        axes = drawing.subplots(n_rows, n_columns, squeeze=False).ravel()
        for ax, name in zip(axes, shown, strict=True):
            plot_map(dataset, name, ax)
    return drawing
