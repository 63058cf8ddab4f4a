"""Draw fields of diffusivity and flow."""

__all__ = ["field_figure"]

from typing import TYPE_CHECKING

import numpy as np

from driftbayes._representation import number, with_error, with_unit
from driftbayes.data._units import readable, readable_unit
from driftbayes.fields._fit import FieldFit
from driftbayes.fields._flight_fit import FlightFit
from driftbayes.plots.style import COLOURS, draw_band, inward_ticks, journal_style

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure


def field_figure(result: FieldFit | FlightFit) -> "Figure":
    """Draw fields with their errors: κ and the flow, or σ, T, k and the flow.

    Args:
        result: A fit of fields.
    """
    from matplotlib.figure import Figure

    dataset = result.to_dataset()
    flows = [("flow_x", "u"), ("flow_y", "v")][: result.splines.n_dim]
    if isinstance(result, FieldFit):
        fields = [("kappa", "κ"), *flows]
    else:
        fields = [("sigma", "σ"), ("memory_time", "T"), ("k", "k"), *flows]
    with journal_style():
        constants: list[str] = []
        if result.splines.n_dim == 1:
            drawing = Figure(figsize=(6.8, 2.6), layout="constrained")
            _draw_lines(drawing, dataset, fields)
        else:
            # Constants are in the title, because a map of one colour shows nothing.
            varying = [field for field in fields if not _is_constant(dataset, field[0])] or fields
            constants = [_constant(dataset, *field) for field in fields if field not in varying]
            drawing = Figure(figsize=(7.2, 0.6 + 2.9 * len(varying)), layout="compressed")
            _draw_maps(drawing, dataset, varying, float(result.splines.spacing.max()))
        log_k = number(result.log_bayes_factor_inhomogeneous)
        tau = readable(result.tau, result.units[1])
        title = [f"τ = {tau}; ln K = {log_k} for fields that vary", *constants]
        drawing.suptitle("\n".join(title), fontsize=9)
    return drawing


def _is_constant(dataset: "xr.Dataset", name: str) -> bool:
    """Whether a field varies by less than a tenth of its error."""
    return bool(np.ptp(dataset[name].values) < 0.1 * np.median(dataset[f"{name}_sd"].values))


def _constant(dataset: "xr.Dataset", name: str, words: str) -> str:
    value, sd = (float(np.median(dataset[key].values)) for key in (name, f"{name}_sd"))
    unit = dataset[name].attrs.get("units", "")
    return f"{words} = {with_error(value, sd)} {unit} everywhere"


def _label(dataset: "xr.Dataset", name: str, words: str) -> str:
    return with_unit(words, dataset[name].attrs.get("units", ""))


def _draw_lines(figure: "Figure", dataset: "xr.Dataset", fields: list[tuple[str, str]]) -> None:
    per, unit = readable_unit(dataset["x"].values, dataset.attrs["length_unit"])
    axes = figure.subplots(1, len(fields))
    inward_ticks(*axes)
    for ax, (name, words) in zip(axes, fields, strict=True):
        x, mean, sd = dataset["x"].values * per, dataset[name].values, dataset[f"{name}_sd"].values
        ax.plot(x, mean, color=COLOURS["langevin"])
        draw_band(ax, x, mean, 1.96 * sd, COLOURS["langevin"])
        ax.set(xlabel=with_unit("x", unit), ylabel=_label(dataset, name, words))
        if not name.startswith("flow"):
            ax.set_ylim(bottom=0)


def _draw_maps(
    figure: "Figure", dataset: "xr.Dataset", fields: list[tuple[str, str]], near: float
) -> None:
    """Draw maps where there are steps within a knot interval."""
    from scipy.ndimage import distance_transform_edt

    spacing = float(dataset["x"].values[1] - dataset["x"].values[0])
    far = distance_transform_edt(dataset["n_steps"].values == 0) * spacing > near
    per, unit = readable_unit(
        np.concatenate([dataset["x"].values, dataset["y"].values]), dataset.attrs["length_unit"]
    )
    x, y = (dataset[name].values * per for name in ("x", "y"))
    axes = figure.subplots(len(fields), 2, sharex=True, sharey=True, squeeze=False)
    inward_ticks(*axes.ravel())
    for row, (name, words) in enumerate(fields):
        for column, (suffix, kind) in enumerate((("", ""), ("_sd", "sd of "))):
            ax = axes[row, column]
            values = np.ma.masked_array(dataset[name + suffix].values, far)
            # A few poorly determined points at the edge must not set the colours.
            colours, limits = "viridis", {"vmax": float(np.quantile(values.compressed(), 0.98))}
            if name.startswith("flow") and not column:
                # A flow that is consistent with zero is pale.
                limit = float(max(np.abs(values).max(), 2 * dataset[f"{name}_sd"].max()))
                colours, limits = "RdBu_r", {"vmin": -limit, "vmax": limit}
            mesh = ax.pcolormesh(x, y, values, cmap=colours, rasterized=True, **limits)
            extend = "max" if values.max() > mesh.norm.vmax else "neither"
            label = _label(dataset, name, kind + words)
            figure.colorbar(mesh, ax=ax, label=label, extend=extend)
            ax.set_aspect("equal")
            if row == len(fields) - 1:
                ax.set_xlabel(with_unit("x", unit))
            if not column:
                ax.set_ylabel(with_unit("y", unit))
