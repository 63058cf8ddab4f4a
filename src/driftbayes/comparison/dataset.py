"""A scan as an xarray Dataset: labels along tau, model, parameter and pair of models."""

__all__ = ["hypotheses_of", "scan_dataset", "scan_from_dataset"]

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from driftbayes._version import __version__
from driftbayes.comparison.bayes import Comparison
from driftbayes.errors import DriftbayesError, Status
from driftbayes.inference import QUANTILES, Evidence, Hypothesis
from driftbayes.inference.estimates import make_estimates
from driftbayes.models import MODELS, model_named
from driftbayes.priors import parse_prior

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
_FIELDS = dict(
    zip(_OF_PARAMETER, ("mode", "mean", "sd", "log_mean", "log_sd", "contraction"), strict=True)
)
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
            "n_dim": first.n_dim,
            "skipped": json.dumps({repr(tau): text for tau, text in scan.skipped.items()}),
            "details": json.dumps({model: _details(records[model]) for model in scan.models}),
            **scan.attributes,
        },
    )
    # Not "units", which xarray would try to read as a calendar.
    dataset["tau"].attrs = {"long_name": "sampling time", "time_unit": first.time_unit}
    return dataset


def _details(records: list[Evidence]) -> list[dict[str, Any]]:
    """What else is to be said of the evidences of a model, one entry for each tau."""
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


def hypotheses_of(dataset: xr.Dataset, n_dim: int = 2) -> dict[str, Hypothesis]:
    """The hypotheses of a scan, by name, from the priors that it stores."""
    n_dim = int(dataset.attrs.get("n_dim", n_dim))
    table = json.loads(str(dataset.attrs["priors"]))
    return {
        name: Hypothesis(
            model_named(name, MODELS, n_dim),
            **{parameter: parse_prior(text) for parameter, text in priors.items()},
        )
        for name, priors in table.items()
    }


def scan_from_dataset(dataset: xr.Dataset) -> tuple[tuple[Comparison, ...], dict[float, str]]:
    """The comparisons of a scan, and the sampling times that were left out.

    Raises:
        DriftbayesError: The dataset is of a version that did not store all of it, or is damaged.
    """
    attributes = dataset.attrs
    if "details" not in attributes:
        version = attributes.get("driftbayes_version", "unknown")
        msg = (
            f"this scan was written by driftbayes {version}, which did not store all of it; "
            "read it with read_scan, or scan the data again"
        )
        raise DriftbayesError(msg)
    try:
        return _comparisons(dataset), _skipped(dataset)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        msg = f"the scan is damaged ({type(error).__name__}: {error}); scan the data again"
        raise DriftbayesError(msg) from error


def _skipped(dataset: xr.Dataset) -> dict[float, str]:
    skipped = json.loads(str(dataset.attrs["skipped"]))
    return {float(tau): str(text) for tau, text in skipped.items()}


def _comparisons(dataset: xr.Dataset) -> tuple[Comparison, ...]:
    attributes = dataset.attrs
    details = json.loads(str(attributes["details"]))
    hypotheses = hypotheses_of(dataset)
    units = str(attributes["length_unit"]), str(attributes["time_unit"])
    of_tau = {name: dataset[name].values for name in _OF_TAU}
    comparisons = []
    for t, tau in enumerate(dataset["tau"].values.tolist()):
        evidences = {}
        for name, hypothesis in hypotheses.items():
            one = dataset.sel(model=name).isel(tau=t)
            labels = [f"{name}.{parameter}" for parameter in hypothesis.names]
            known = dataset.sel(parameter=labels).isel(tau=t)
            estimates = make_estimates(
                hypothesis,
                units,
                known["posterior_quantile"].values,
                **{_FIELDS[field]: known[field].values for field in _OF_PARAMETER},
            )
            log_evidence = float(one["log_evidence"])
            more = details[name][t]
            evidences[name] = Evidence(
                hypothesis=hypothesis,
                method=str(more["method"]),
                coords=str(more["coords"]),
                log_evidence=log_evidence,
                log_evidence_err=float(one["log_evidence_err"]),
                log_likelihood_at_map=float(one["log_likelihood_at_map"]),
                parameters=estimates,
                posterior_cov=np.array(more["posterior_cov"], dtype=float),
                expected_log_likelihood=log_evidence + float(one["information_gain"]),
                status=Status(str(one["status"].values)),
                tau=tau,
                data_fingerprint=str(of_tau["data_fingerprint"][t]),
                warnings=tuple(more["warnings"]),
                derived=more["derived"],
                diagnostics=more["diagnostics"],
                seed=more["seed"],
                n_evaluations=more["n_evaluations"],
            )
        comparisons.append(
            Comparison(
                evidences=evidences,
                probabilities={
                    name: float(dataset["probability"].sel(model=name).isel(tau=t))
                    for name in hypotheses
                },
                tau=tau,
                n_particles=int(of_tau["n_particles"][t]),
                n_steps=int(of_tau["n_steps"][t]),
                n_dim=int(attributes["n_dim"]),
                n_displacements=int(of_tau["n_displacements"][t]),
                length_unit=units[0],
                time_unit=units[1],
            )
        )
    return tuple(comparisons)


def _consistent(scan: "Scan", parameters: list[tuple[str, str]]) -> np.ndarray:
    """Whether each tau lies in the consistent range of each parameter."""
    rows = []
    for model, name in parameters:
        found = scan.consistency[model][name]
        inside = [found is not None and found.tau_min <= t <= found.tau_max for t in scan.taus]
        rows.append(inside)
    return np.array(rows)
