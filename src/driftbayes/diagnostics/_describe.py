"""Describe diagnostics of trajectories."""

import json
import math
from typing import TYPE_CHECKING

from driftbayes._representation import Card, Table, amount, number, with_error, with_unit
from driftbayes.data._units import DIFFUSIVITY, SPEED, readable, readable_unit, unit_of

if TYPE_CHECKING:
    import xarray as xr

# Maximum number of lags in the table, about.
_MAX_LAGS = 20


def describe_diagnostics(result: "xr.Dataset") -> Card:
    """Describe the curves of `diagnose` in a table, with lags and displacements in readable units.

    Args:
        result: Result of `diagnose`.
    """
    length, time = (str(result.attrs.get(f"{what}_unit", "")) for what in ("length", "time"))
    per_lag, lag_unit = readable_unit(result["lag"].values, time)
    per_length, side = readable_unit([float(result["msd"].max()) ** 0.5], length)
    diffusivity = unit_of(DIFFUSIVITY, (length, time))
    columns = {
        "lvaf": ("r", f"{diffusivity}²" if diffusivity else "", 1.0),
        "absolute_diffusivity": ("κ_abs", diffusivity, 1.0),
        "taylor_diffusivity": ("∫r", diffusivity, 1.0),
        "msd": ("MSD", f"{side}²" if side else "", per_length**2),
        "kurtosis": ("kurtosis", "", 1.0),
    }
    rows = []
    for i in range(0, result.sizes["lag"], max(1, result.sizes["lag"] // _MAX_LAGS)):
        at = result.isel(lag=i)
        cells = [
            with_error(float(at[name]) * factor, float(at[f"{name}_sd"]) * factor)
            if math.isfinite(at[name])
            else "-"
            for name, (_, _, factor) in columns.items()
        ]
        rows.append((number(float(at["lag"]) * per_lag), *cells))
    heads = (
        with_unit("lag", lag_unit),
        *(with_unit(words, unit) for words, unit, _ in columns.values()),
    )
    speed = amount(result.attrs["u_rms"], unit_of(SPEED, (length, time)), 4)
    headline = f"u_rms = {speed}, T = {readable(result.attrs['timescale'], time, 4)}"
    title = "r: velocity autocovariance; Var(Δx_i) = 2κτ per axis"
    table = Table(heads, tuple(rows), "r" * len(heads), title=title)
    return Card("Diagnostics", headline, (), _sentences(result), (table,))


def _sentences(result: "xr.Dataset") -> tuple[str, ...]:
    """Return sentences on the correlation of steps and on its modulation."""
    values, errors = (
        json.loads(result.attrs[name]) for name in ("step_correlations", "step_correlation_errors")
    )
    texts = [
        f"{value:.3f}" + (f" ± {error:.1g}" if error else "")
        for value, error in zip(values, errors, strict=True)
        if value
    ]
    found = []
    if texts:
        found.append(f"Correlation of displacements 1, 2, ... intervals apart: {', '.join(texts)}")
    if "modulation" in result.attrs:
        sentence = str(result.attrs["modulation"])
        found.append(f"{sentence[0].upper()}{sentence[1:]}")
    return tuple(found)
