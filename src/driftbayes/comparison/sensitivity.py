"""Sensitivity of ln K to the scales of the priors."""

__all__ = [
    "FACTORS",
    "PriorSensitivity",
    "ScaledEvidence",
    "movable_parameters",
    "parameter_groups",
    "prior_sensitivity",
    "scaled_evidence",
    "unmoved_parameters",
]

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import isfinite
from typing import Any

import numpy as np

from driftbayes.comparison.hypotheses import check_names
from driftbayes.data.sampling import Displacements
from driftbayes.errors import DriftbayesError
from driftbayes.inference import (
    Batch,
    Evidence,
    Hypothesis,
    LogEvidence,
    Method,
    as_method,
    evidence_with_variants,
)
from driftbayes.likelihood import ReducedDisplacements, SummedDisplacements
from driftbayes.precision import in_double_precision
from driftbayes.priors import Fixed, Uniform
from driftbayes.representation import number
from driftbayes.typing import FloatArray

# Of a comparison, and of a table of the sensitivity.
FACTORS = (0.25, 4.0)
_MANY_FACTORS = np.geomspace(1 / 16, 16, 17)


def movable_parameters(hypothesis: Hypothesis) -> tuple[str, ...]:
    """Parameters whose priors have a scale to be doubted.

    The width of the prior of a flow that was integrated out is one of them, although its value is
    given; what is known, such as an exposure, is not. A uniform prior of a pure number between
    bounds that are its own, such as a share of a whole, has no scale.
    """
    found = []
    for name, parameter in hypothesis.model.parameters.items():
        prior = hypothesis.priors[name]
        is_number = not (parameter.length_power or parameter.time_power)
        if isinstance(prior, Fixed):
            movable = parameter.is_prior_scale
        else:
            bounded = is_number and isinstance(prior, Uniform)
            movable = not bounded and not isfinite(parameter.upper)
        if movable:
            found.append(name)
    return tuple(found)


def unmoved_parameters(hypotheses: Sequence[Hypothesis]) -> tuple[str, ...]:
    """Parameters that are inferred and whose priors have no scale to be moved."""
    found = [n for h in hypotheses for n in h.names if n not in movable_parameters(h)]
    return tuple(dict.fromkeys(found))


def parameter_groups(hypotheses: Sequence[Hypothesis]) -> list[list[str]]:
    """All parameters, then each by itself, if there are several.

    Of one quantity, all move together: the diffusivities κ and k of different models, the
    components of a tensor, the same parameter of the classes of a mixture. To change one prior and
    not the other would change the question.
    """
    groups: dict[str, list[str]] = {}
    for hypothesis in hypotheses:
        for name in movable_parameters(hypothesis):
            is_scale = name == hypothesis.model.scale_parameter
            quantity = "scale" if is_scale else re.sub(r"(_\d+|(?<=^h)\d+)$", "", name)
            members = groups.setdefault(quantity, [])
            if name not in members:
                members.append(name)
    everything = list(dict.fromkeys(name for members in groups.values() for name in members))
    if len(groups) < 2:
        return [everything] if everything else []
    return [everything, *groups.values()]


@dataclass(frozen=True, eq=False)
class ScaledEvidence:
    """Evidence of a hypothesis, also with the scales of groups of priors multiplied.

    Args:
        evidence: With the priors as they are.
        logs: ln Z, (group, factor).
        errs: Their errors, one sigma.
    """

    evidence: Evidence
    logs: FloatArray
    errs: FloatArray

    @property
    def name(self) -> str:
        """Name of the model."""
        return self.evidence.name


def scaled_evidence(
    hypothesis: Hypothesis,
    batch: Batch,
    groups: Sequence[Sequence[str]],
    factors: Sequence[float],
    **how: Any,
) -> ScaledEvidence:
    """Evidence of a hypothesis under all factors of the scales of groups of priors."""
    own = movable_parameters(hypothesis)
    # Groups that differ in parameters of other models are the same question.
    keys = [
        tuple((name, float(f)) for name in group if name in own and f != 1)
        for group in groups
        for f in factors
    ]
    distinct = [key for key in dict.fromkeys(keys) if key]
    others = [hypothesis.rescaled(dict(key)) for key in distinct]
    first, found = evidence_with_variants(hypothesis, others, batch, **how)
    every: list[Evidence | LogEvidence] = [first, *found]
    by_key = dict(zip([(), *distinct], every, strict=True))
    shape = (len(groups), len(factors))
    logs = np.array([by_key[key].log_evidence for key in keys]).reshape(shape)
    errs = np.array([by_key[key].log_evidence_err for key in keys]).reshape(shape)
    return ScaledEvidence(first, logs, errs)


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

    def __repr__(self) -> str:
        """How ln K changes."""
        return f"<PriorSensitivity: {' '.join(self.sentences)}>"

    def to_json(self) -> dict[str, Any]:
        """Plain numbers and text, one row per group and factor."""
        tables = ("log_bayes_factors", "log_bayes_factor_errs")
        rows = [
            {
                "scaled": list(group),
                "factor": float(factor),
                **{
                    name: {pair: float(v[i, j]) for pair, v in getattr(self, name).items()}
                    for name in tables
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
            ends = f"{number(low)} to {number(high)}"
            found.append(f"ln K({pair}) ranges from {ends}; its sign {sign}.")
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
    factors: Sequence[float] | FloatArray = _MANY_FACTORS,
    method: Method | str = "auto",
    seed: int = 0,
    progress: Callable[[str, int, int], None] | None = None,
    **options: Any,
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
        method: Method of the evidence, as for `evidence`.
        seed: Random seed for sampling methods.
        progress: Called with a stage, how many are done, and of how many.
        **options: Options of a method given by name.
    """
    check_names(hypotheses)
    scale = np.asarray(factors, dtype=np.float64)
    if len(hypotheses) < 2:
        msg = f"the sensitivity of ln K needs two models or more, got {len(hypotheses)}; add one"
        raise DriftbayesError(msg)
    if scale.ndim != 1 or not scale.size or not (np.isfinite(scale) & (scale > 0)).all():
        raise DriftbayesError(f"factors must be positive numbers, got {list(factors)}")
    groups = tuple(map(tuple, parameter_groups(hypotheses)))
    if not groups:
        names = ", ".join(hypothesis.name for hypothesis in hypotheses)
        msg = f"no prior of {names} has a scale to be multiplied; give one that is not uniform"
        raise DriftbayesError(msg)
    how: dict[str, Any] = {"method": as_method(method, **options), "seed": seed}
    found: list[ScaledEvidence] = []
    for h in hypotheses:
        if progress is not None:
            progress("models", len(found), len(hypotheses))
        batch = Batch.of(data, model=h.model)
        found.append(scaled_evidence(h, batch, groups, scale.tolist(), **how))
    pairs = {f"{b.name}:{a.name}": (a, b) for a, b in combinations(found, 2)}
    return PriorSensitivity(
        factors=scale,
        groups=groups,
        log_bayes_factors={pair: b.logs - a.logs for pair, (a, b) in pairs.items()},
        log_bayes_factor_errs={pair: np.hypot(b.errs, a.errs) for pair, (a, b) in pairs.items()},
        tau=found[0].evidence.tau,
        method=found[0].evidence.method,
        unmoved=unmoved_parameters(hypotheses),
    )
