"""A scan as an xarray Dataset: labels along tau, model, parameter and pair of models."""

__all__ = ["scan_dataset"]

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from driftbayes._version import __version__
from driftbayes.inference import QUANTILES

if TYPE_CHECKING:
    from driftbayes.comparison.scan import Scan

_OF_MODEL = (
    "log_evidence",
    "log_evidence_err",
    "log_likelihood_at_map",
    "log_occam_factor",
    "information_gain",
)
_OF_PARAMETER = ("map", "posterior_mean", "posterior_sd", "log_mean", "log_sd", "contraction")
_OF_TAU = ("n_particles", "n_steps", "n_displacements", "data_fingerprint", "verdict")


def scan_dataset(scan: "Scan") -> xr.Dataset:
    """All numbers of a scan, with what is needed to repeat it in the attributes."""
    comparisons, first = scan.comparisons, scan.comparisons[0]
    records = {model: scan.evidences(model) for model in scan.models}
    parameters = [(model, name) for model in scan.models for name in records[model][0].map]
    pairs = list(first.log_bayes_factors)

    variables: dict[str, Any] = {}
    for field in _OF_MODEL:
        rows = [[getattr(e, field) for e in records[model]] for model in scan.models]
        variables[field] = ("model", "tau"), np.array(rows)
    statuses = [[e.status.value for e in records[model]] for model in scan.models]
    variables["status"] = ("model", "tau"), np.array(statuses)
    chances = [[c.probabilities[model] for c in comparisons] for model in scan.models]
    variables["probability"] = ("model", "tau"), np.array(chances)
    for field in _OF_PARAMETER:
        rows = [[getattr(e, field)[name] for e in records[model]] for model, name in parameters]
        variables[field] = ("parameter", "tau"), np.array(rows)
    quantiles = [
        [e.posterior_quantiles[name] for e in records[model]] for model, name in parameters
    ]
    variables["posterior_quantile"] = ("parameter", "tau", "quantile"), np.array(quantiles)
    variables["consistent"] = ("parameter", "tau"), _consistent(scan, parameters)
    for field in _OF_TAU:
        variables[field] = "tau", np.array([getattr(c, field) for c in comparisons])
    coords: dict[str, Any] = {
        "tau": scan.taus,
        "model": list(scan.models),
        "parameter": [f"{model}.{name}" for model, name in parameters],
        "quantile": list(QUANTILES),
    }
    if pairs:
        coords["pair"] = pairs
        for field in ("log_bayes_factor", "log_bayes_factor_err"):
            rows = [[getattr(c, f"{field}s")[pair] for c in comparisons] for pair in pairs]
            variables[field] = ("pair", "tau"), np.array(rows)
    dataset = xr.Dataset(
        variables,
        coords=coords,
        attrs={
            "driftbayes_version": __version__,
            "method": first.method,
            "convention": "Var(dx_i) = 2 kappa tau per axis; ln is natural",
            "length_unit": first.length_unit,
            "time_unit": first.time_unit,
            "priors": json.dumps({m: dict(first.evidences[m].priors) for m in scan.models}),
            "consistency": json.dumps(scan.consistency_json()),
            **scan.attributes,
        },
    )
    # Not "units", which xarray would try to read as a calendar.
    dataset["tau"].attrs = {"long_name": "sampling time", "time_unit": first.time_unit}
    return dataset


def _consistent(scan: "Scan", parameters: list[tuple[str, str]]) -> np.ndarray:
    """Whether each tau lies in the consistent range of each parameter."""
    rows = []
    for model, name in parameters:
        found = scan.consistency[model][name]
        inside = [found is not None and found.tau_min <= t <= found.tau_max for t in scan.taus]
        rows.append(inside)
    return np.array(rows)
