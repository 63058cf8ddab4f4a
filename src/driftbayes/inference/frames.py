"""An evidence with labels: as a table of pandas, a dataset or a tree of xarray."""

__all__ = ["UNITS", "evidence_dataframe", "evidence_dataset", "evidence_datatree", "rows_of"]

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes._version import __version__

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from driftbayes.inference.evidence import Evidence

_OF_MODEL = (
    *("log_evidence", "log_evidence_err", "log_likelihood_at_map", "log_occam_factor"),
    "information_gain",
)
_OF_PARAMETER = ("map", "posterior_mean", "posterior_sd", "log_mean", "log_sd", "contraction")
# Of columns that have the same for all models and parameters; those of a parameter are in `unit`.
UNITS = dict.fromkeys(_OF_MODEL, "nat")


def rows_of(one: "Evidence", quantiles: tuple[float, ...]) -> list[dict[str, Any]]:
    """One row for each parameter, the numbers of the model repeated in each.

    Args:
        one: The evidence.
        quantiles: At which its posterior quantiles are.
    """
    of_model = {name: float(getattr(one, name)) for name in _OF_MODEL}
    rows = []
    for name in one.map:
        at = zip(quantiles, one.posterior_quantiles[name], strict=True)
        rows.append(
            {
                "tau": one.tau,
                "model": one.name,
                "parameter": name,
                "unit": one.parameters[name].unit,
                **{field: float(getattr(one, field)[name]) for field in _OF_PARAMETER},
                **{f"quantile_{q:g}": float(value) for q, value in at},
                "prior": one.priors.get(name, ""),
                **of_model,
                "method": one.method,
                "status": one.status.value,
                "warnings": "; ".join(one.warnings),
                "data_fingerprint": one.data_fingerprint,
            }
        )
    return rows


def evidence_dataframe(one: "Evidence", quantiles: tuple[float, ...]) -> "pd.DataFrame":
    """One row per parameter.

    Args:
        one: The evidence.
        quantiles: At which its posterior quantiles are.
    """
    import pandas as pd

    frame = pd.DataFrame(rows_of(one, quantiles))
    frame.attrs = {"units": dict(UNITS), **_attributes(one)}
    return frame


def evidence_dataset(one: "Evidence", quantiles: tuple[float, ...]) -> "xr.Dataset":
    """Numbers along `parameter`, quantiles and covariance, and the evidence as numbers alone.

    Args:
        one: The evidence.
        quantiles: At which its posterior quantiles are.
    """
    import xarray as xr

    names = list(one.map)
    variables: dict[str, Any] = {
        field: ((), float(getattr(one, field)), {"units": UNITS[field]}) for field in _OF_MODEL
    }
    for field in _OF_PARAMETER:
        variables[field] = "parameter", np.array([getattr(one, field)[name] for name in names])
    values = [np.asarray(one.posterior_quantiles[name]) for name in names]
    variables["posterior_quantile"] = ("parameter", "quantile"), np.array(values)
    variables["posterior_cov"] = ("parameter", "other"), np.asarray(one.posterior_cov)
    coords = {
        "parameter": names,
        "other": names,
        "quantile": list(quantiles),
        "unit": ("parameter", [one.parameters[name].unit for name in names]),
        "prior": ("parameter", [one.priors.get(name, "") for name in names]),
    }
    return xr.Dataset(variables, coords=coords, attrs=_attributes(one))


def evidence_datatree(one: "Evidence", quantiles: tuple[float, ...]) -> "xr.DataTree":
    """Groups `summary` and, of a method that draws, `posterior`, by the conventions of ArviZ.

    Args:
        one: The evidence.
        quantiles: At which its posterior quantiles are.
    """
    import xarray as xr

    about = {"log_evidence": one.log_evidence, "log_evidence_err": one.log_evidence_err}
    groups = {
        "/": xr.Dataset(attrs={**about, **_attributes(one)}),
        "/summary": evidence_dataset(one, quantiles),
    }
    if one.draws is not None:
        groups["/posterior"] = xr.Dataset(
            {
                name: (("chain", "draw"), values[None], {"units": one.parameters[name].unit})
                for name, values in zip(one.map, one.draws.T, strict=True)
            },
            coords={"chain": [0], "draw": np.arange(len(one.draws))},
        )
    return xr.DataTree.from_dict(groups, name=one.name)


def _attributes(one: "Evidence") -> dict[Hashable, Any]:
    """Text and numbers only, so that a file can hold them."""
    found: dict[Hashable, Any] = {
        "hypothesis": one.name,
        "method": one.method,
        "coords": one.coords,
        "status": one.status.value,
        "warnings": "; ".join(one.warnings),
        "tau": one.tau,
        "data_fingerprint": one.data_fingerprint,
        "driftbayes_version": __version__,
        # Where ArviZ looks for the same.
        "inference_library": "driftbayes",
        "inference_library_version": __version__,
    }
    if one.seed is not None:
        found["seed"] = one.seed
    return found
