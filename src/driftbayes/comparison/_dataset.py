"""Read a scan back from its xarray Dataset."""

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes.comparison._bayes import Comparison
from driftbayes.errors import DriftbayesError, Status
from driftbayes.inference import Evidence, Hypothesis
from driftbayes.inference._describe import PARAMETER_FIELDS
from driftbayes.inference._evidence import make_estimates
from driftbayes.models import MODELS, model_named
from driftbayes.priors import parse_prior

if TYPE_CHECKING:
    import xarray as xr

_FIELDS = dict(
    zip(PARAMETER_FIELDS, ("mode", "mean", "sd", "log_mean", "log_sd", "contraction"), strict=True)
)
TAU_FIELDS = ("n_particles", "n_steps", "n_displacements", "data_fingerprint", "verdict")


class _OtherModelError(DriftbayesError):
    """A model of a scan that is not registered, or has other parameters."""


def hypotheses_of(dataset: "xr.Dataset", n_dim: int = 2) -> dict[str, Hypothesis]:
    """Return the hypotheses of a scan, by name, from its stored priors.

    Args:
        dataset: Dataset of a scan.
        n_dim: Number of spatial dimensions, if the scan does not store it.
    """
    n_dim = int(dataset.attrs.get("n_dim", n_dim))
    table = json.loads(str(dataset.attrs["priors"]))
    found = {}
    for name, texts in table.items():
        priors = {parameter: parse_prior(text) for parameter, text in texts.items()}
        try:
            found[name] = Hypothesis(model_named(name, MODELS, n_dim), **priors)
        except DriftbayesError as error:
            raise _OtherModelError(
                f"the scan has a model {name!r} with parameters {', '.join(priors)}, which is not "
                "known here; register yours before opening it, driftbayes.MODELS[NAME] = MODEL, or "
                "open only the numbers with read_scan"
            ) from error
    return found


def scan_from_dataset(dataset: "xr.Dataset") -> tuple[tuple[Comparison, ...], dict[float, str]]:
    """Return the comparisons of a scan, and the omitted sampling times.

    Args:
        dataset: Dataset of a scan.

    Raises:
        DriftbayesError: The dataset is damaged, from a version that stored only a part, or has a
            model that is not registered.
    """
    attributes = dataset.attrs
    if "details" not in attributes:
        version = attributes.get("driftbayes_version", "unknown")
        raise DriftbayesError(
            f"this scan was written by driftbayes {version}, which stored only a part of it; "
            "read it with read_scan, or scan the data again"
        )
    try:
        skipped = json.loads(str(attributes["skipped"]))
        return _comparisons(dataset), {float(tau): str(text) for tau, text in skipped.items()}
    except _OtherModelError:
        raise
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        msg = f"the scan is damaged ({type(error).__name__}: {error}); scan the data again"
        raise DriftbayesError(msg) from error


def with_details(dataset: "xr.Dataset") -> "xr.Dataset":
    """Fill in the attributes that files of older versions lack."""
    if "details" in dataset.attrs:
        return dataset
    method, _, coords = str(dataset.attrs.get("method", "exact")).partition(" (")
    nothing: dict[str, Any] = {"warnings": [], "derived": {}, "diagnostics": {}, "seed": None}
    row = {"method": method, "coords": coords.rstrip(")"), "n_evaluations": None, **nothing}
    details = {}
    for name in map(str, dataset["model"].values):
        labels = [p for p in dataset["parameter"].values if str(p).rpartition(".")[0] == name]
        variances = dataset["posterior_sd"].sel(parameter=labels).values.T ** 2
        details[name] = [{**row, "posterior_cov": np.diag(v).tolist()} for v in variances]
    older = {"details": json.dumps(details), "skipped": "{}", "n_dim": 2}
    return dataset.assign_attrs({**older, **dataset.attrs})


def _comparisons(dataset: "xr.Dataset") -> tuple[Comparison, ...]:
    attributes = dataset.attrs
    details = json.loads(str(attributes["details"]))
    hypotheses = hypotheses_of(dataset)
    units = str(attributes["length_unit"]), str(attributes["time_unit"])
    of_tau = {name: dataset[name].values for name in TAU_FIELDS}
    # Files of older versions have no doubts.
    n_taus = len(dataset["tau"])
    doubts = json.loads(str(attributes.get("doubts", json.dumps([{}] * n_taus))))
    comparisons = []
    for t, tau in enumerate(dataset["tau"].values.tolist()):
        evidences = {}
        for name, hypothesis in hypotheses.items():
            values = dataset.sel(model=name).isel(tau=t)
            labels = [f"{name}.{parameter}" for parameter in hypothesis.names]
            known = dataset.sel(parameter=labels).isel(tau=t)
            estimates = make_estimates(
                hypothesis,
                units,
                known["posterior_quantile"].values,
                **{_FIELDS[field]: known[field].values for field in PARAMETER_FIELDS},
            )
            log_evidence = float(values["log_evidence"])
            more = details[name][t]
            evidences[name] = Evidence(
                hypothesis=hypothesis,
                method=str(more["method"]),
                coords=str(more["coords"]),
                log_evidence=log_evidence,
                log_evidence_err=float(values["log_evidence_err"]),
                log_likelihood_at_map=float(values["log_likelihood_at_map"]),
                parameters=estimates,
                posterior_cov=np.array(more["posterior_cov"], dtype=float),
                expected_log_likelihood=log_evidence + float(values["information_gain"]),
                status=Status(str(values["status"].values)),
                tau=tau,
                time_unit=units[1],
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
                dependence=doubts[t].get("dependence"),
                fit_p_values=doubts[t].get("fit_p_values", {}),
                doubts=tuple(doubts[t].get("doubts", ())),
            )
        )
    return tuple(comparisons)
