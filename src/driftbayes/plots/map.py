"""Draw maps."""

__all__ = ["map_figure", "plot_map"]

from typing import TYPE_CHECKING

import numpy as np

from driftbayes._representation import number
from driftbayes._typing import FloatArray, IntArray
from driftbayes.data._units import readable_time, readable_unit
from driftbayes.errors import DriftbayesError, did_you_mean
from driftbayes.plots._coast import draw_coast, shrinking
from driftbayes.plots.style import journal_axes, journal_figure

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.colorbar import Colorbar
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure


# Units for small speeds and diffusivities: upper limit, factor and name.
_SMALL_UNITS = {
    "m/s": ((1e-4, 1e6, "µm/s"), (0.1, 100.0, "cm/s")),
    "m²/s": ((1e-6, 1e12, "µm²/s"),),
}


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
    factor, unit = _shown_unit(dataset, variable)
    values = factor * np.asarray(chosen.values, dtype=np.float64)
    there = values[np.isfinite(values)]
    norm: Normalize
    if "_flow_" in variable and not variable.endswith("_sd"):
        limit = float(np.abs(there).max(initial=0.0)) or 1.0
        norm, colours = Normalize(-limit, limit), "RdBu_r"
    elif variable.startswith("log_k"):
        limit = max(float(np.abs(there).max(initial=1.0)), 1.0)
        norm, colours = SymLogNorm(1.0, vmin=-limit, vmax=limit), "PuOr"
    elif variable.endswith(("probability", "_ok")):
        norm, colours = Normalize(0, 1), "viridis"
    elif there.size and there.min() > 0 and there.max() > 3 * there.min():
        norm, colours = LogNorm(there.min(), there.max()), "viridis"
    else:
        norm, colours = Normalize(*_linear_limits(there)), "viridis"
    with journal_axes(ax) as ax:
        x, y, ends = _axes_of(dataset)
        mesh = ax.pcolormesh(x, y, np.ma.masked_invalid(values), norm=norm, cmap=colours)
        label = str(chosen.attrs.get("long_name", variable)).replace(", ", "\n")
        label = label.replace("error of ", "error of\n").replace(" over ", "\nover ")
        label += "" if unit == "1" else f" ({unit})"
        figure = ax.get_figure()
        if figure is not None:
            _label_decades(figure.colorbar(mesh, ax=ax, label=label), norm)
        is_lonlat = dataset["x"].attrs.get("standard_name") == "longitude"
        ax.set_xlabel("longitude (°)" if is_lonlat else f"x{ends}")
        ax.set_ylabel("latitude (°)" if is_lonlat else f"y{ends}")
        if is_lonlat:
            ax.xaxis.set_major_formatter(
                lambda value, _: f"{(value + 180) % 360 - 180:g}".replace("-", "−")
            )
            ax.set_aspect(1 / shrinking(y))
        else:
            ax.set_aspect("equal")
        columns, rows = _filled(values)
        if len(rows):
            ax.set_xlim(x[columns[0]], x[columns[-1] + 1])
            ax.set_ylim(y[rows[0]], y[rows[-1] + 1])
        if is_lonlat:
            draw_coast(ax)
        time = readable_time(float(dataset["tau"].values[tau]), dataset.attrs.get("time_unit", ""))
        name = str(dataset["season"].values[season]) if "season" in dataset.dims else "all"
        mean = " on average" if dataset.attrs.get("irregular_times") else ""
        ax.set_title(f"τ = {time}{mean}" + ("" if name == "all" else f", {name}"))
    return ax


def _linear_limits(values: FloatArray) -> tuple[float | None, float | None]:
    """Return the limits of a linear scale, at least 2 % of the values apart."""
    if not values.size:
        return None, None
    low, high = float(values.min()), float(values.max())
    middle = 0.5 * (low + high)
    half = max(0.5 * (high - low), 0.01 * abs(middle))
    return middle - half, middle + half


def _shown_unit(dataset: "xr.Dataset", variable: str) -> tuple[float, str]:
    """Return factor and name of a readable unit for a variable and its error.

    The typical value decides: times are in hours or days, small speeds in cm/s.
    """
    unit = str(dataset[variable].attrs.get("units", "1"))
    plain = variable.removesuffix("_sd").removesuffix("_within")
    # Both components of a flow have the same unit.
    same = [f"{plain[:-1]}{i}" for i in (1, 2)] if "_flow_" in plain else [plain]
    sizes = np.abs(np.concatenate([np.ravel(dataset[name].values) for name in same]))
    sizes = sizes[np.isfinite(sizes) & (sizes > 0)]
    if not len(sizes):
        return 1.0, unit
    if unit == "s":
        return readable_unit([float(np.median(sizes))], unit, 3)
    for limit, factor, name in _SMALL_UNITS.get(unit, ()):
        if sizes.max() < limit:
            return factor, name
    return 1.0, unit


def _axes_of(dataset: "xr.Dataset") -> tuple[FloatArray, FloatArray, str]:
    """Return the edges of the cells along x and y, and the unit of a plane."""
    x, y = (
        np.append(dataset[f"{a}_bounds"].values[:, 0], dataset[f"{a}_bounds"].values[-1, 1])
        for a in ("x", "y")
    )
    unit = str(dataset["x"].attrs.get("units", ""))
    if not unit or dataset["x"].attrs.get("standard_name") == "longitude":
        return x, y, ""
    factor, name = readable_unit([np.ptp(x), np.ptp(y)], unit)
    return factor * x, factor * y, f" ({name})"


def _filled(values: FloatArray) -> tuple[IntArray, IntArray]:
    """Return the columns and rows that have values."""
    columns, rows = (np.flatnonzero(np.isfinite(values).any(axis=a)) for a in (0, 1))
    return columns, rows


def _label_decades(bar: "Colorbar", norm: "Normalize") -> None:
    """Label 1, 2 and 5 of each decade if there are few decades."""
    from matplotlib.colors import LogNorm
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    if not isinstance(norm, LogNorm) or (norm.vmax or 1.0) > 1e3 * (norm.vmin or 1.0):
        return
    bar.locator = LogLocator(subs=(1.0, 2.0, 5.0))
    bar.formatter = FuncFormatter(lambda value, _: number(value, 3))
    bar.update_ticks()
    bar.ax.yaxis.set_minor_formatter(NullFormatter())


def map_figure(dataset: "xr.Dataset", model: str | None = None) -> "Figure":
    """Draw the main variables of a map side by side.

    Args:
        dataset: A map.
        model: Model of a map by evidence, drawn with errors; None draws all diffusivities and ln K
            of a fixed grid.
    """
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
    size = (3.6 * n_columns, _height(dataset, shown[0]) * n_rows)
    with journal_figure(*size, n_rows, n_columns, squeeze=False) as (figure, axes):
        for ax, name in zip(axes.ravel(), shown, strict=True):
            plot_map(dataset, name, ax)
    return figure


def _height(dataset: "xr.Dataset", variable: str) -> float:
    """Return the height of a panel in inches, from the region that has values."""
    values = np.asarray(dataset[variable].values, dtype=np.float64)
    x, y, _ = _axes_of(dataset)
    columns, rows = _filled(values.reshape(-1, *values.shape[-2:]).mean(axis=0))
    if not len(rows):
        return 3.0
    width, height = x[columns[-1] + 1] - x[columns[0]], y[rows[-1] + 1] - y[rows[0]]
    if dataset["x"].attrs.get("standard_name") == "longitude":
        width *= shrinking(y)
    # Axes are about 2.3 inches wide; title and label need 0.7.
    return float(np.clip(2.3 * height / width + 0.7, 2.1, 4.5))
