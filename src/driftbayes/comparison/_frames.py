"""Convert comparisons and scans to pandas tables, and xarray datasets and trees."""

import json
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes._representation import to_dataframe, to_dataset, to_datatree
from driftbayes._version import __version__
from driftbayes.comparison._bayes import Comparison
from driftbayes.comparison._dataset import TAU_FIELDS
from driftbayes.comparison._scan import Scan, is_consistent
from driftbayes.inference._describe import (
    MODEL_FIELDS,
    PARAMETER_FIELDS,
    UNITS,
    evidence_datatree,
    evidence_rows,
)
from driftbayes.inference._evidence import QUANTILES, Evidence

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr


@to_dataframe.register(Comparison)
def _(comparison: Comparison) -> "pd.DataFrame":
    import pandas as pd

    frame = pd.DataFrame(_rows(comparison))
    frame.attrs = {**_attributes(comparison), "data_fingerprint": comparison.data_fingerprint}
    return frame


@to_dataset.register(Comparison)
def comparison_dataset(comparison: Comparison) -> "xr.Dataset":
    """Convert a comparison to a dataset, like a scan at one tau but without consistency."""
    whole = scan_dataset(Scan((comparison,))).isel(tau=0).drop_vars("consistent")
    units = [row["unit"] for row in _rows(comparison)]
    whole = whole.assign_coords(unit=("parameter", units))
    attributes = {name: value for name, value in whole.attrs.items() if name != "consistency"}
    whole.attrs = {**attributes, "data_fingerprint": comparison.data_fingerprint}
    return whole


@to_datatree.register(Comparison)
def _(comparison: Comparison) -> "xr.DataTree":
    import xarray as xr

    dataset = comparison_dataset(comparison)
    groups = {"/": xr.Dataset(attrs=dataset.attrs), "/comparison": dataset}
    for name, evidence in comparison.evidences.items():
        # A slash would split the name into two groups.
        inside = f"/{name.replace('/', '_')}"
        for path, node in evidence_datatree(evidence).to_dict().items():
            groups[inside + path.rstrip("/")] = node
    return xr.DataTree.from_dict(groups)


@to_dataframe.register(Scan)
def _(scan: Scan) -> "pd.DataFrame":
    import pandas as pd

    rows = []
    for i, comparison in enumerate(scan.comparisons):
        for row in _rows(comparison):
            inside = is_consistent(scan, row["model"], row["parameter"])
            rows.append({**row, "consistent": bool(inside[i])})
    frame = pd.DataFrame(rows)
    frame.attrs = {**_attributes(scan.comparisons[0]), **dict(scan.attributes.items())}
    return frame


@to_dataset.register(Scan)
def scan_dataset(scan: Scan) -> "xr.Dataset":
    """Convert a scan to a dataset; its attributes include all that is needed to repeat it."""
    import xarray as xr

    comparisons, first = scan.comparisons, scan.comparisons[0]
    records = {model: scan.evidences(model) for model in scan.models}
    parameters = [(model, name) for model in scan.models for name in records[model][0].map]
    pairs = list(first.log_bayes_factors)

    variables: dict[str, Any] = {}
    for field in MODEL_FIELDS:
        rows = [[getattr(e, field) for e in records[model]] for model in scan.models]
        variables[field] = ("model", "tau"), np.array(rows)
    statuses = [[e.status.value for e in records[model]] for model in scan.models]
    variables["status"] = ("model", "tau"), np.array(statuses)
    chances = [[c.probabilities[model] for c in comparisons] for model in scan.models]
    variables["probability"] = ("model", "tau"), np.array(chances)
    for field in PARAMETER_FIELDS:
        rows = [[getattr(e, field)[name] for e in records[model]] for model, name in parameters]
        variables[field] = ("parameter", "tau"), np.array(rows)
    quantiles = [
        [e.posterior_quantiles[name] for e in records[model]] for model, name in parameters
    ]
    variables["posterior_quantile"] = ("parameter", "tau", "quantile"), np.array(quantiles)
    variables["consistent"] = (
        ("parameter", "tau"),
        np.array([is_consistent(scan, model, name) for model, name in parameters]),
    )
    for field in TAU_FIELDS:
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
            "n_dim": first.n_dim,
            "skipped": json.dumps({repr(tau): text for tau, text in scan.skipped.items()}),
            "details": json.dumps({model: _details(records[model]) for model in scan.models}),
            "doubts": json.dumps([_doubts(comparison) for comparison in comparisons]),
            **scan.attributes,
        },
    )
    # Not "units", which xarray would decode as a calendar.
    dataset["tau"].attrs = {"long_name": "sampling time", "time_unit": first.time_unit}
    return dataset


def _details(records: list[Evidence]) -> list[dict[str, Any]]:
    """Return further fields of the evidences of a model, one entry for each tau."""
    return [
        {
            "method": e.method,
            "coords": e.coords,
            "warnings": list(e.warnings),
            "derived": {name: float(value) for name, value in e.derived.items()},
            "diagnostics": {name: float(value) for name, value in e.diagnostics.items()},
            "posterior_cov": np.asarray(e.posterior_cov).tolist(),
            "seed": e.seed,
            "n_evaluations": e.n_evaluations,
        }
        for e in records
    ]


def _doubts(comparison: Comparison) -> dict[str, Any]:
    """Return the caveats of a verdict, as fields of the comparison."""
    return {
        "dependence": None if comparison.dependence is None else dict(comparison.dependence),
        "fit_p_values": dict(comparison.fit_p_values),
        "doubts": list(comparison.doubts),
    }


def _rows(comparison: Comparison) -> list[dict[str, Any]]:
    return [
        {
            **row,
            "probability": float(comparison.probabilities[name]),
            "n_particles": comparison.n_particles,
            "n_displacements": comparison.n_displacements,
        }
        for name, evidence in comparison.evidences.items()
        for row in evidence_rows(evidence)
    ]


def _attributes(comparison: Comparison) -> dict[Hashable, Any]:
    return {
        "units": {"tau": comparison.time_unit, **UNITS},
        "length_unit": comparison.length_unit,
        "time_unit": comparison.time_unit,
        "method": comparison.method,
        "driftbayes_version": __version__,
    }
