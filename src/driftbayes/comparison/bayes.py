"""Bayes factors, model probabilities, and the verdict in words."""

__all__ = [
    "Comparison",
    "compare_hypotheses",
    "log_bayes_factor",
    "model_probabilities",
    "strength",
]

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from driftbayes.comparison.hypotheses import check_names, check_prior_probabilities
from driftbayes.comparison.sensitivity import (
    FACTORS,
    ScaledEvidence,
    parameter_groups,
    scaled_evidence,
)
from driftbayes.errors import DriftbayesError, Status, did_you_mean
from driftbayes.inference import AnyData, Batch, Evidence, Hypothesis, Method, as_method
from driftbayes.precision import in_double_precision
from driftbayes.representation import Described, to_dataframe, to_dataset, to_datatree

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

# Kass and Raftery (1995): 2 ln K of 2, 6 and 10.
_SCALE = ((5.0, "very strongly"), (3.0, "strongly"), (1.0, "positively"))


def strength(log_bayes_factor: float) -> str:
    """Kass and Raftery's word for |ln K|; "indistinguishable" below 1, "unknown" for NaN."""
    if np.isnan(log_bayes_factor):
        return "unknown"
    for threshold, word in _SCALE:
        if abs(log_bayes_factor) >= threshold:
            return word
    return "indistinguishable"


def log_bayes_factor(m1: Evidence, m0: Evidence) -> float:
    r"""$\ln K_{1,0} = \ln p(D \mid M_1) - \ln p(D \mid M_0)$. Paper: [eq:bayes-factor].

    Positive if the data favour `m1`. Refused for evidences of different data, tau or units.
    """
    _check_same_data([m1, m0])
    return m1.log_evidence - m0.log_evidence


def log_bayes_factor_err(m1: Evidence, m0: Evidence) -> float:
    """Error of ln K, one sigma; NaN if a method has none."""
    return float(np.hypot(m1.log_evidence_err, m0.log_evidence_err))


def model_probabilities(
    evidences: Sequence[Evidence], prior_probabilities: Sequence[float] | None = None
) -> np.ndarray:
    r"""$p(M_i \mid D) \propto p(D \mid M_i)\, p(M_i)$: probabilities within the set of models.

    Args:
        evidences: Evidences of the same data.
        prior_probabilities: $p(M_i)$, by default equal; normalised here.
    """
    _check_same_data(evidences)
    n = len(evidences)
    prior = np.full(n, 1.0 / n)
    if prior_probabilities is not None:
        check_prior_probabilities(prior_probabilities, n)
        prior = np.asarray(prior_probabilities, dtype=float)
    logs = np.array([e.log_evidence for e in evidences]) + np.log(prior / prior.sum())
    if not np.isfinite(logs).any():
        return np.full(n, np.nan)
    weights = np.exp(logs - np.nanmax(logs))
    return weights / np.nansum(weights)


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Described):
    """What the data at one tau say of several hypotheses.

    Args:
        evidences: The evidence of each hypothesis, by name.
        probabilities: Probability of each within this set.
        tau: Sampling time.
        n_particles: Trajectories used.
        n_steps: Steps per run; of the longest if they differ.
        n_dim: Spatial dimensions.
        n_displacements: Scalar displacements in all.
        time_unit: Name of the unit of tau.
        length_unit: Name of the unit of length.
        sensitivity: ln K under other priors, if asked for.
        priors_from_data: Whether scales of the priors were estimated from the same data; None if
            that is not known.
        dependence: How particles move together, if they do.
    """

    evidences: Mapping[str, Evidence]
    probabilities: Mapping[str, float]
    tau: float
    n_particles: int
    n_steps: int
    n_dim: int
    n_displacements: int
    time_unit: str = ""
    length_unit: str = ""
    sensitivity: tuple[Mapping[str, Any], ...] = field(default=())
    priors_from_data: bool | None = None
    dependence: Mapping[str, Any] | None = None

    def __getitem__(self, model: str) -> Evidence:
        """The evidence of one model."""
        if model not in self.evidences:
            near = did_you_mean(model, tuple(self.evidences))
            msg = f"no model {model!r} in this comparison of {', '.join(self.evidences)}{near}"
            raise DriftbayesError(msg)
        return self.evidences[model]

    @property
    def data_fingerprint(self) -> str:
        """Hash of the data, tau and units."""
        return next(iter(self.evidences.values())).data_fingerprint

    @property
    def facts(self) -> dict[str, Any]:
        """Sampling time, numbers of data, units and fingerprint."""
        names = ("tau", "n_particles", "n_steps", "n_dim", "n_displacements", "length_unit")
        return {name: getattr(self, name) for name in (*names, "time_unit", "data_fingerprint")}

    @property
    def method(self) -> str:
        """Method of the evidences."""
        first = next(iter(self.evidences.values()))
        return f"{first.method} ({first.coords})" if first.coords else first.method

    @property
    def log_bayes_factors(self) -> dict[str, float]:
        """Ln K of every pair, the later model against the earlier: "langevin:brownian"."""
        return {
            f"{b}:{a}": log_bayes_factor(self.evidences[b], self.evidences[a])
            for a, b in combinations(self.evidences, 2)
        }

    @property
    def log_bayes_factor_errs(self) -> dict[str, float]:
        """Errors of the former."""
        return {
            f"{b}:{a}": log_bayes_factor_err(self.evidences[b], self.evidences[a])
            for a, b in combinations(self.evidences, 2)
        }

    @property
    def best(self) -> str:
        """Name of the most probable model."""
        return max(self.probabilities, key=lambda name: np.nan_to_num(self.probabilities[name]))

    @property
    def verdict(self) -> str:
        """One sentence on the scale of Kass and Raftery."""
        at = f"at tau = {self.tau:g} {self.time_unit}".rstrip()
        failed = [n for n, e in self.evidences.items() if not np.isfinite(e.log_evidence)]
        if failed:
            return f"no verdict {at}: the evidence of {', '.join(failed)} could not be computed"
        ranked = sorted(self.evidences.values(), key=lambda e: -e.log_evidence)
        best = ranked[0]
        if len(ranked) == 1:
            sentence = f"{best.name} is the only model considered {at}"
        else:
            log_k = best.log_evidence - ranked[1].log_evidence
            word = strength(log_k)
            if word == "indistinguishable":
                close = [e for e in ranked if best.log_evidence - e.log_evidence < _SCALE[-1][0]]
                names = [e.name for e in reversed(close)]
                spread = best.log_evidence - close[-1].log_evidence
                sentence = (
                    f"{', '.join(names[:-1])} and {names[-1]} are indistinguishable {at} "
                    f"(ln K = {spread:.2f}, below 1)"
                )
            else:
                sentence = (
                    f"{best.name} is {word} favoured over {ranked[1].name} {at} "
                    f"(ln K = {log_k:.4g})"
                )
        unknown = [
            f"{name} of {e.name}"
            for e in self.evidences.values()
            for name in e.unidentified_parameters
        ]
        if unknown:
            sentence += f"; not identifiable: {', '.join(unknown)}"
        doubtful = [n for n, e in self.evidences.items() if e.status is not Status.OK]
        if doubtful:
            sentence += f"; with doubts about {', '.join(doubtful)}, see the warnings"
        return sentence

    def to_json(self) -> dict[str, Any]:
        """The comparison as plain numbers and text."""
        models = {
            name: {**e.to_json(), "probability": _finite(self.probabilities[name])}
            for name, e in self.evidences.items()
        }
        result: dict[str, Any] = {
            **self.facts,
            "method": self.method,
            "models": models,
            "log_bayes_factors": _finite_values(self.log_bayes_factors),
            "log_bayes_factor_errs": _finite_values(self.log_bayes_factor_errs),
            "verdict": self.verdict,
        }
        if self.sensitivity:
            result["prior_sensitivity"] = [
                {**row, "log_bayes_factors": _finite_values(row["log_bayes_factors"])}
                for row in self.sensitivity
            ]
        if self.priors_from_data is not None:
            result["priors_from_data"] = self.priors_from_data
        if self.dependence is not None:
            result["dependence"] = dict(self.dependence)
        return result

    def to_dataframe(self) -> "pd.DataFrame":
        """A pandas table, one row per model and parameter, with a column of units."""
        return to_dataframe(self)

    def to_dataset(self) -> "xr.Dataset":
        """An xarray Dataset along model, parameter and pair of models."""
        return to_dataset(self)

    def to_datatree(self) -> "xr.DataTree":
        """A tree with the comparison, and for each model its evidence as ArviZ takes it."""
        return to_datatree(self)


@in_double_precision
def compare_hypotheses(
    hypotheses: Sequence[Hypothesis],
    data: AnyData,
    *,
    method: Method | str = "auto",
    seed: int = 0,
    prior_probabilities: Sequence[float] | None = None,
    sensitivity: bool = False,
    **options: Any,
) -> Comparison:
    """Compare hypotheses on the same displacements.

    Args:
        hypotheses: Model families with their priors, of different names.
        data: Displacements at one tau.
        method: Method of the evidence; "auto" integrates exactly where it can, "laplace" is the
            paper's approximation; others as for `evidence`.
        seed: Random seed for sampling methods.
        prior_probabilities: Probabilities of the models before the data, by default equal.
        sensitivity: Whether to repeat the comparison with prior scales divided and multiplied by 4.
        **options: Options of a method given by name.
    """
    check_names(hypotheses)
    check_prior_probabilities(prior_probabilities, len(hypotheses))
    # Each before the work: a model that cannot take these data says so at once.
    batches = {h.name: Batch.of(data, model=h.model) for h in hypotheses}
    groups = parameter_groups(hypotheses) if sensitivity else []
    how: dict[str, Any] = {"method": as_method(method, **options), "seed": seed}

    def judge(hypothesis: Hypothesis) -> ScaledEvidence:
        # A thread does not see double precision that was switched on by a `with` block.
        with jax.enable_x64(True):  # noqa: FBT003
            return scaled_evidence(hypothesis, batches[hypothesis.name], groups, FACTORS, **how)

    # As many at a time as there are processors: each holds the nodes of a posterior.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(judge, hypotheses))
    rows = tuple(
        {
            "scaled": list(group),
            "factor": factor,
            "log_bayes_factors": {
                f"{b.name}:{a.name}": float(b.logs[i, j] - a.logs[i, j])
                for a, b in combinations(results, 2)
            },
        }
        for i, group in enumerate(groups)
        for j, factor in enumerate(FACTORS)
    )
    records = [found.evidence for found in results]
    return comparison_of(records, data, prior_probabilities, sensitivity=rows)


def comparison_of(
    evidences: Sequence[Evidence],
    data: AnyData,
    prior_probabilities: Sequence[float] | None = None,
    sensitivity: tuple[Mapping[str, Any], ...] = (),
) -> Comparison:
    """The comparison of evidences that were computed for these data."""
    probabilities = model_probabilities(evidences, prior_probabilities)
    return Comparison(
        evidences={e.name: e for e in evidences},
        probabilities={e.name: float(p) for e, p in zip(evidences, probabilities, strict=True)},
        tau=data.tau,
        n_particles=data.n_particles,
        n_steps=data.n_steps,
        n_dim=data.n_dim,
        n_displacements=data.n_displacements,
        time_unit=data.time_unit,
        length_unit=data.length_unit,
        sensitivity=sensitivity,
    )


def _check_same_data(evidences: Sequence[Evidence]) -> None:
    if not evidences:
        msg = "expected one or more evidences, got none"
        raise DriftbayesError(msg)
    fingerprints = {e.data_fingerprint for e in evidences}
    if len(fingerprints) != 1:
        parts = ", ".join(f"{e.name}: {e.data_fingerprint} (tau = {e.tau:g})" for e in evidences)
        msg = (
            f"evidences compare only for the same data, tau and units, got {parts}; "
            "compute them again from one set of displacements"
        )
        raise DriftbayesError(msg)


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _finite_values(values: Mapping[str, float]) -> dict[str, float | None]:
    return {name: _finite(value) for name, value in values.items()}
