"""Bayes factors, model probabilities, and the verdict in words."""

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes._magnitudes import whole
from driftbayes._precision import in_double_precision
from driftbayes._representation import (
    Described,
    number,
    plain,
    to_dataframe,
    to_dataset,
    to_datatree,
)
from driftbayes._typing import Progress
from driftbayes.comparison._hypotheses import (
    check_names,
    check_prior_probabilities,
    check_progress,
    model_pairs,
)
from driftbayes.comparison._sensitivity import (
    FACTORS,
    ScaledEvidence,
    parameter_groups,
    scaled_evidence,
)
from driftbayes.data._units import readable
from driftbayes.errors import DriftbayesError, Status, did_you_mean
from driftbayes.inference import AnyData, Batch, Evidence, Hypothesis, Method, as_method

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

# Kass and Raftery (1995): 2 ln K of 2, 6 and 10.
_SCALE = ((5.0, "very strongly"), (3.0, "strongly"), (1.0, "positively"))
# Options of models in which particles share motion.
_SHARING = ("common", "flow", "eddies")
# Significance level of the goodness of fit. P-values are adjusted for the number of quantities, so
# a true model is contradicted with this probability. The 200 replicas of a report resolve nothing
# below 1/201: a level of 0.005 would depend on a single replica.
FIT_LEVEL = 0.01
# Tests need single displacements, not sums over a file.
NOT_TESTED = (
    "goodness of fit, measurement noise and dependence between particles are not tested for files "
    "read in blocks; run `driftbayes check`, which reads a sample"
)


def strength(log_bayes_factor: float) -> str:
    """Return Kass and Raftery's word for |ln K|; "indistinguishable" below 1, "unknown" for NaN.

    Args:
        log_bayes_factor: ln K.

    Example:
        >>> strength(6.2)
        'very strongly'
    """
    if np.isnan(log_bayes_factor):
        return "unknown"
    for threshold, word in _SCALE:
        if abs(log_bayes_factor) >= threshold:
            return word
    return "indistinguishable"


def log_bayes_factor(m1: Evidence, m0: Evidence) -> float:
    r"""$\ln K_{1,0} = \ln p(D \mid M_1) - \ln p(D \mid M_0)$. Paper: [eq:bayes-factor].

    Positive if the data favour `m1`. Refused for evidences of different data, tau or units.

    Example:
        >>> import driftbayes as db
        >>> tracks = db.simulate("brownian", {"kappa": 1.0}, tau=0.5, n_particles=10, n_steps=20)
        >>> result = tracks.compare(0.5, scales=db.Scales(u_rms=1.4, time=1.0))
        >>> log_bayes_factor(result["langevin"], result["brownian"]) < 0
        True
    """
    _check_same_data([m1, m0])
    return m1.log_evidence - m0.log_evidence


def log_bayes_factor_err(m1: Evidence, m0: Evidence) -> float:
    """Return the standard error of ln K; NaN if a method has none."""
    return float(np.hypot(m1.log_evidence_err, m0.log_evidence_err))


def model_probabilities(
    evidences: Sequence[Evidence], prior_probabilities: Sequence[float] | None = None
) -> np.ndarray:
    r"""$p(M_i \mid D) \propto p(D \mid M_i)\, p(M_i)$: probabilities within the set of models.

    Args:
        evidences: Evidences of the same data.
        prior_probabilities: $p(M_i)$, by default equal; normalised here.

    Example:
        >>> import driftbayes as db
        >>> tracks = db.simulate("brownian", {"kappa": 1.0}, tau=0.5, n_particles=10, n_steps=20)
        >>> result = tracks.compare(0.5, scales=db.Scales(u_rms=1.4, time=1.0))
        >>> model_probabilities([result["brownian"]]).tolist()
        [1.0]
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
    """Comparison of several hypotheses at one tau.

    Args:
        evidences: Evidence of each hypothesis, by name.
        probabilities: Probability of each hypothesis within this set.
        tau: Sampling time.
        n_particles: Number of trajectories used.
        n_steps: Number of steps of the longest run.
        n_dim: Number of spatial dimensions.
        n_displacements: Total number of scalar displacements.
        time_unit: Name of the unit of tau.
        length_unit: Name of the unit of length.
        sensitivity: ln K under other priors, if requested.
        priors_from_data: Whether scales of the priors were estimated from the same data; None if
            unknown.
        dependence: Dependence between particles, if detected.
        fit_p_values: P-value of the goodness of fit of each model tested.
        doubts: Other explanations of the data, one clause each.

    Example:
        >>> import driftbayes as db
        >>> tracks = db.simulate("brownian", {"kappa": 1.0}, tau=0.5, n_particles=10, n_steps=20)
        >>> result = tracks.compare(0.5, scales=db.Scales(u_rms=1.4, time=1.0))
        >>> list(result.probabilities), result.best
        (['brownian', 'langevin'], 'brownian')
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
    fit_p_values: Mapping[str, float] = field(default_factory=dict)
    doubts: tuple[str, ...] = ()

    def __getitem__(self, model: str) -> Evidence:
        """Return the evidence of one model."""
        if not (isinstance(model, str) and model in self.evidences):
            near = did_you_mean(model, tuple(self.evidences))
            msg = f"no model {model!r} in this comparison of {', '.join(self.evidences)}{near}"
            raise DriftbayesError(msg)
        return self.evidences[model]

    def __iter__(self) -> Iterator[str]:
        return iter(self.evidences)

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
        pairs = model_pairs(self.evidences)
        return {pair: log_bayes_factor(*both) for pair, both in pairs.items()}

    @property
    def log_bayes_factor_errs(self) -> dict[str, float]:
        """Standard errors of `log_bayes_factors`."""
        pairs = model_pairs(self.evidences)
        return {pair: log_bayes_factor_err(*both) for pair, both in pairs.items()}

    @property
    def best(self) -> str:
        """Name of the most probable model."""
        return max(self.probabilities, key=lambda name: np.nan_to_num(self.probabilities[name]))

    @property
    def without_evidence(self) -> dict[str, str]:
        """Models whose evidence could not be computed, each with a brief reason."""
        lost = {n: e.status for n, e in self.evidences.items() if not np.isfinite(e.log_evidence)}
        return {
            name: "no finite evidence" if status is Status.OK else status.value.replace("_", " ")
            for name, status in lost.items()
        }

    @property
    def _ranked(self) -> list[Evidence]:
        """Finite evidences, the largest first."""
        found = [e for e in self.evidences.values() if np.isfinite(e.log_evidence)]
        return sorted(found, key=lambda e: -e.log_evidence)

    @property
    def verdict(self) -> str:
        """Verdict on the scale of Kass and Raftery, with all caveats.

        The strength is that of ln K minus one standard error, corrected for dependence between
        particles. Models without an evidence are named; the others are ranked.
        """
        at = f"at tau = {readable(self.tau, self.time_unit)}"
        ranked, without = self._ranked, [f"{n}: {why}" for n, why in self.without_evidence.items()]
        if not ranked:
            return f"no verdict {at}, no model has an evidence; {'; '.join(without)}"
        misfit = self.misfit
        shared = [self.both_ways] if self.both_ways else []
        sentence = "; ".join([self._ranking(at) + misfit, *shared, *without, *self.doubts])
        if without and len(ranked) > 1:
            sentence = f"among the {len(ranked)} models with an evidence, {sentence}"
        elif misfit:
            sentence = f"among the models compared, {sentence}"
        limits = [f"{name} of {e.name}" for e in ranked for name in e.parameters_near_zero]
        unknown = [f"{name} of {e.name}" for e in ranked for name in e.unidentified_parameters]
        for words, names in (
            ("not identifiable", [name for name in unknown if name not in limits]),
            ("consistent with zero", limits),
        ):
            if names:
                sentence += f"; {words}: {', '.join(names)}"
        conflicts = [e.name for e in ranked if e.contradicts_prior]
        if conflicts:
            sentence += f"; prior and data are in conflict for {', '.join(conflicts)}"
        doubtful = [e.name for e in ranked if e.status is not Status.OK]
        if doubtful:
            sentence += f"; with doubts about {', '.join(doubtful)}, see the warnings"
        return sentence

    def _ranking(self, at: str) -> str:
        """State which model is favoured, and how strongly."""
        ranked = self._ranked
        best = ranked[0]
        if len(ranked) == 1:
            what = "with an evidence" if len(self.evidences) > 1 else "considered"
            return f"{best.name} is the only model {what} {at}"
        close = [e for e in ranked if not self._lower_end(best, e) >= _SCALE[-1][0]]
        if len(close) > 1:
            names = [e.name for e in reversed(close)]
            last = close[-1]
            spread = best.log_evidence - last.log_evidence
            log_k = f"{spread:.2f}, below 1"
            if spread >= _SCALE[-1][0]:
                log_k = self._log_k_text(best, last)
            elif self.dependence is not None:
                log_k = f"{spread:.2f}{self._correction(best.name, last.name)}"
            what = "are indistinguishable"
            if self._corrected(best, last) >= _SCALE[-1][0]:
                what = "cannot be distinguished within the error of ln K"
            return f"{', '.join(names[:-1])} and {names[-1]} {what} {at} (ln K = {log_k})"
        second = ranked[1]
        word = strength(self._lower_end(best, second))
        least = "at least " if word != strength(self._corrected(best, second)) else ""
        log_k = self._log_k_text(best, second, with_error=bool(least))
        return f"{best.name} is {least}{word} favoured over {second.name} {at} (ln K = {log_k})"

    def _corrected(self, best: Evidence, other: Evidence) -> float:
        """Return ln K, corrected for dependence between particles if known."""
        scaled = self._scaled(best.name, other.name)
        return best.log_evidence - other.log_evidence if scaled is None else scaled

    def _lower_end(self, best: Evidence, other: Evidence) -> float:
        """Return the corrected ln K minus its standard error."""
        error = log_bayes_factor_err(best, other)
        return self._corrected(best, other) - (error if error > 0 else 0.0)

    def _log_k_text(self, best: Evidence, other: Evidence, *, with_error: bool = True) -> str:
        log_k, error = best.log_evidence - other.log_evidence, log_bayes_factor_err(best, other)
        has_error = with_error and error > 0.01
        text = f"{log_k:.2f} ± {error:.2f}" if has_error else number(log_k)
        return text + self._correction(best.name, other.name)

    def _scaled(self, best: str, other: str) -> float | None:
        scaled = (self.dependence or {}).get("scaled_log_bayes_factors") or {}
        if f"{best}:{other}" in scaled:
            return float(scaled[f"{best}:{other}"])
        return -float(scaled[f"{other}:{best}"]) if f"{other}:{best}" in scaled else None

    def _correction(self, best: str, other: str) -> str:
        """Return the correction of ln K for dependence between particles, in words."""
        pair = (self.evidences[name].hypothesis.model for name in (best, other))
        if self.dependence is None or any(model.shares_motion for model in pair):
            return ""
        scaled = self._scaled(best, other)
        about = "overstated" if scaled is None else f"about {scaled:.3g} corrected"
        models = ", ".join(self.missing_models)
        remedy = f"; {models} model the shared motion" if models else ""
        return (
            f" as if particles were independent, {about} for "
            f"{self.dependence['n_effective']:.3g} effective particles of "
            f"{self.dependence['n_particles']}{remedy}"
        )

    @property
    def missing_models(self) -> tuple[str, ...]:
        """Models of shared motion that should be compared as well."""
        known = (self.dependence or {}).get("models", ())
        return tuple(name for name in known if name not in self.evidences)

    @property
    def shared_motion(self) -> dict[str, dict[str, float]]:
        """Ln K of two models with independent particles, and of the same two with shared motion.

        By pair ("langevin:brownian", the better first for independent particles), then
        "independent" and the options that were compared ("common", "flow", "eddies").
        """
        found: dict[str, dict[str, float]] = {}
        for option in _SHARING:
            # Models with the option, which is always the outermost, by their name without it.
            bases = {}
            for name, e in self.evidences.items():
                model: Any = e.hypothesis.model
                if option in model.options and name not in self.without_evidence:
                    bases[model.base.name] = e
            ranked = [e for e in self._ranked if e.name in bases][:2]
            if len(ranked) == 2:
                best, other = ranked
                known = found.setdefault(f"{best.name}:{other.name}", {})
                known["independent"] = log_bayes_factor(best, other)
                known[option] = log_bayes_factor(bases[best.name], bases[other.name])
        return found

    @property
    def both_ways(self) -> str:
        """Sentence with ln K for independent particles and for shared motion; may be empty."""
        clauses = []
        for pair, ways in self.shared_motion.items():
            parts = [
                f"with shared motion (+{way}) ln K = {number(log_k)}"
                if way in _SHARING
                else f"treated as independent ln K = {number(log_k)}"
                for way, log_k in ways.items()
            ]
            clauses.append(f"{pair.replace(':', ' over ')}: {'; '.join(parts)}")
        return "; ".join(clauses)

    @property
    def misfit(self) -> str:
        """Clause for a verdict if the goodness of fit contradicts the best model."""
        p_value = self.fit_p_values.get(self.best, np.nan)
        if not p_value < FIT_LEVEL:
            return ""
        checked = [self.fit_p_values.get(e.name, np.nan) for e in self._ranked]
        is_none = len(checked) > 1 and all(p < FIT_LEVEL for p in checked)
        what = "none explains" if is_none else f"{self.best} does not explain"
        return f", but {what} the data (goodness of fit p = {p_value:.2g})"

    @property
    def overstated(self) -> str:
        """Ln K of the best two models with its correction; empty if particles are independent."""
        ranked = self._ranked
        if len(ranked) < 2 or not self._correction(ranked[0].name, ranked[1].name):
            return ""
        return f"ln K = {self._log_k_text(ranked[0], ranked[1], with_error=False)}"

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as plain numbers and text."""
        models = {
            name: {**e.to_json(), "probability": plain(self.probabilities[name])}
            for name, e in self.evidences.items()
        }
        result: dict[str, Any] = {
            **self.facts,
            "method": self.method,
            "models": models,
            "log_bayes_factors": plain(self.log_bayes_factors),
            "log_bayes_factor_errs": plain(self.log_bayes_factor_errs),
            "verdict": self.verdict,
        }
        if self.sensitivity:
            result["prior_sensitivity"] = plain(self.sensitivity)
        if self.priors_from_data is not None:
            result["priors_from_data"] = self.priors_from_data
        if self.dependence is not None:
            result["dependence"] = dict(self.dependence)
        if self.shared_motion:
            result["shared_motion"] = plain(self.shared_motion)
        if self.fit_p_values:
            result["fit_p_values"] = plain(self.fit_p_values)
        if self.doubts:
            result["doubts"] = list(self.doubts)
        return result

    def to_dataframe(self) -> "pd.DataFrame":
        """Return a pandas table, one row per model and parameter, with a column of units."""
        return to_dataframe(self)

    def to_dataset(self) -> "xr.Dataset":
        """Return an xarray Dataset along model, parameter and pair of models."""
        return to_dataset(self)

    def to_datatree(self) -> "xr.DataTree":
        """Return a tree with the comparison, and the evidence of each model for ArviZ."""
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
    progress: Progress | None = None,
    **options: Any,
) -> Comparison:
    """Compare hypotheses on the same displacements.

    Args:
        hypotheses: Model families with their priors, of different names.
        data: Displacements at one tau.
        method: Method of the evidence; "auto" integrates exactly where it can, "laplace" is the
            paper's approximation; others as for `evidence`.
        seed: Random seed for sampling methods.
        prior_probabilities: Prior probabilities of the models, by default equal.
        sensitivity: Whether to repeat the comparison with prior scales divided and multiplied by 4.
        progress: Called with the stage, the number done and the total.
        **options: Options of a method given by name.

    Example:
        >>> import driftbayes as db
        >>> brownian = db.Hypothesis(db.Brownian, kappa=db.Exponential(1.0))
        >>> tracks = db.simulate("brownian", {"kappa": 1.0}, tau=0.5, n_particles=10, n_steps=20)
        >>> result = db.compare_hypotheses([brownian], db.displacements(tracks, tau=0.5))
        >>> result.probabilities
        {'brownian': 1.0}
    """
    check_names(hypotheses)
    check_prior_probabilities(prior_probabilities, len(hypotheses))
    check_progress(progress)
    seed = whole(seed, "seed")
    # Before any computation, so that a model refuses unsuitable data at once.
    batches = {h.name: Batch.of(data, model=h.model) for h in hypotheses}
    groups = parameter_groups(hypotheses) if sensitivity else []
    how: dict[str, Any] = {"method": as_method(method, **options), "seed": seed}

    report = progress or (lambda *_: None)
    done: list[str] = []
    report("models", 0, len(hypotheses))

    def compute(hypothesis: Hypothesis) -> ScaledEvidence:
        found = scaled_evidence(hypothesis, batches[hypothesis.name], groups, FACTORS, **how)
        done.append(hypothesis.name)
        report("models", len(done), len(hypotheses))
        return found

    # One thread per processor: each holds the nodes of a posterior in memory.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(compute, hypotheses))
    pairs = model_pairs({found.name: found for found in results})
    rows = tuple(
        {
            "scaled": list(group),
            "factor": factor,
            "log_bayes_factors": {
                pair: float(b.logs[i, j] - a.logs[i, j]) for pair, (b, a) in pairs.items()
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
    """Return the comparison of evidences that were computed for these data."""
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
        raise DriftbayesError("expected one or more evidences, got none")
    fingerprints = {e.data_fingerprint for e in evidences}
    if len(fingerprints) != 1:
        parts = ", ".join(
            f"{e.name}: {e.data_fingerprint} (tau = {readable(e.tau, e.time_unit)})"
            for e in evidences
        )
        raise DriftbayesError(
            f"evidences must have the same data, tau and units, got {parts}; "
            "compute them again from one set of displacements"
        )
