"""Ln K against the scale of the priors: how much of a verdict is the prior's."""

__all__ = ["PriorSensitivity", "prior_sensitivity"]

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from driftbayes.comparison.bayes import check_names
from driftbayes.comparison.sensitivity import Variant, parameter_groups, unmoved_parameters
from driftbayes.data.sampling import Displacements
from driftbayes.errors import DriftbayesError
from driftbayes.inference import (
    Batch,
    Evidence,
    Hypothesis,
    LogEvidence,
    Method,
    evidence_with_variants,
)
from driftbayes.inference.laplace import Coords
from driftbayes.likelihood import ReducedDisplacements, SummedDisplacements
from driftbayes.precision import in_double_precision
from driftbayes.typing import FloatArray

FACTORS = np.geomspace(1 / 16, 16, 17)


@dataclass(frozen=True, eq=False)
class PriorSensitivity:
    """Ln K of every pair of models, with the scales of groups of priors multiplied.

    Args:
        factors: By what the scales were multiplied.
        groups: The parameters that were scaled together: all of them first, then each by itself.
        log_bayes_factors: For each pair, "langevin:brownian", ln K (group, factor).
        log_bayes_factor_errs: Their errors, one sigma.
        tau: Sampling time.
        method: Method of the evidences.
        unmoved: Parameters whose priors have no scale: uniform between bounds of their own.
    """

    factors: FloatArray
    groups: tuple[tuple[str, ...], ...]
    log_bayes_factors: dict[str, FloatArray]
    log_bayes_factor_errs: dict[str, FloatArray]
    tau: float
    method: str
    unmoved: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain numbers and text, one row per group and factor."""
        rows = [
            {
                "scaled": list(group),
                "factor": float(factor),
                "log_bayes_factors": {
                    pair: float(values[i, j]) for pair, values in self.log_bayes_factors.items()
                },
                "log_bayes_factor_errs": {
                    pair: float(values[i, j]) for pair, values in self.log_bayes_factor_errs.items()
                },
            }
            for i, group in enumerate(self.groups)
            for j, factor in enumerate(self.factors)
        ]
        return {
            "tau": self.tau,
            "method": self.method,
            "not_scaled": list(self.unmoved),
            "rows": rows,
        }

    @property
    def sentences(self) -> tuple[str, ...]:
        """Ranges of ln K in words."""
        found = []
        if self.unmoved:
            names = ", ".join(self.unmoved)
            found.append(f"Uniform priors with fixed bounds were not scaled: {names}")
        for pair, values in self.log_bayes_factors.items():
            sign = "changes" if self.verdict_changes(pair) else "does not change"
            low, high = values.min(), values.max()
            found.append(f"ln K({pair}) ranges from {low:.4g} to {high:.4g}; its sign {sign}.")
        return tuple(found)

    def verdict_changes(self, pair: str) -> bool:
        """Whether ln K of a pair changes its sign anywhere in the table."""
        values = self.log_bayes_factors[pair]
        return bool(values.min() < 0 < values.max())


@in_double_precision
def prior_sensitivity(
    hypotheses: Sequence[Hypothesis],
    data: Displacements | ReducedDisplacements | SummedDisplacements,
    *,
    factors: Sequence[float] | FloatArray = FACTORS,
    method: Method = "auto",
    coords: Coords = "natural",
    seed: int = 0,
) -> PriorSensitivity:
    r"""Ln K as a function of the scales of the priors.

    For a parameter that the data know well, ln Z falls by one for each e-fold by which its prior is
    widened: $\partial \ln Z / \partial \ln s \to -1$. All priors are scaled together, then each by
    itself, the width of the prior of a mean flow among them. Those of one quantity, such as κ and
    k, move together: to change one and not the other would change the question.

    Args:
        hypotheses: Two or more models with their priors.
        data: Displacements at one tau.
        factors: By what to multiply the scales.
        method: Of the evidence.
        coords: Coordinates of Laplace's method.
        seed: Of a method that samples.
    """
    check_names(hypotheses)
    scale = np.asarray(factors, dtype=np.float64)
    if len(hypotheses) < 2:
        msg = f"the sensitivity of ln K needs two models or more, got {len(hypotheses)}; add one"
        raise DriftbayesError(msg)
    if scale.ndim != 1 or not scale.size or not (np.isfinite(scale) & (scale > 0)).all():
        msg = f"factors must be positive numbers, got {list(factors)}"
        raise DriftbayesError(msg)
    groups = tuple(map(tuple, parameter_groups(hypotheses)))
    if not groups:
        names = ", ".join(hypothesis.name for hypothesis in hypotheses)
        msg = f"no prior of {names} has a scale to be multiplied; give one that is not uniform"
        raise DriftbayesError(msg)
    records: list[Evidence] = []
    logs: dict[str, FloatArray] = {}
    errs: dict[str, FloatArray] = {}
    for hypothesis in hypotheses:
        cases = [
            Variant(group, float(f)).factors_for(hypothesis) for group in groups for f in scale
        ]
        # Groups that differ in parameters of other models are the same question.
        keys = [tuple((name, f) for name, f in case.items() if f != 1) for case in cases]
        distinct = dict(zip(keys, cases, strict=True))
        distinct.pop((), None)
        others = [hypothesis.rescaled(case) for case in distinct.values()]
        batch = Batch.of(data, model=hypothesis.model)
        first, found = evidence_with_variants(
            hypothesis, others, batch, method=method, coords=coords, seed=seed
        )
        every: list[Evidence | LogEvidence] = [first, *found]
        by_key = dict(zip([(), *distinct], every, strict=True))
        logs[hypothesis.name] = np.array([by_key[key].log_evidence for key in keys])
        errs[hypothesis.name] = np.array([by_key[key].log_evidence_err for key in keys])
        records.append(first)
    shape = (len(groups), len(scale))
    values, errors = {}, {}
    for a, b in combinations(logs, 2):
        values[f"{b}:{a}"] = (logs[b] - logs[a]).reshape(shape)
        errors[f"{b}:{a}"] = np.hypot(errs[b], errs[a]).reshape(shape)
    first = records[0]
    return PriorSensitivity(
        factors=scale,
        groups=groups,
        log_bayes_factors=values,
        log_bayes_factor_errs=errors,
        tau=first.tau,
        method=first.method,
        unmoved=unmoved_parameters(hypotheses),
    )
