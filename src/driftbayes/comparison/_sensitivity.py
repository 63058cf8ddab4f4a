"""Sensitivity of ln K to the scales of the priors."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes._aliases import public
from driftbayes._precision import in_double_precision
from driftbayes._representation import Described, number
from driftbayes._typing import FloatArray, Progress
from driftbayes.comparison._hypotheses import check_names, model_pairs
from driftbayes.data._sampling import Displacements
from driftbayes.data._trajectories import as_numbers
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
from driftbayes.priors import Fixed, Uniform

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# Factors on the scales of priors in a comparison, and in a table of the sensitivity.
FACTORS = (0.25, 4.0)
_MANY_FACTORS = np.geomspace(1 / 16, 16, 17)


def movable_parameters(hypothesis: Hypothesis) -> tuple[str, ...]:
    """List the parameters whose priors have a scale that can be varied.

    These include the given width of the prior of a flow that was integrated out, but no known
    quantities such as an exposure. A uniform prior of a dimensionless number with natural bounds,
    such as a fraction, has no scale.
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
    """List the inferred parameters whose priors have no scale."""
    found = [n for h in hypotheses for n in h.names if n not in movable_parameters(h)]
    return tuple(dict.fromkeys(found))


def parameter_groups(hypotheses: Sequence[Hypothesis]) -> list[list[str]]:
    """Group parameters to scale together: all of them, then each quantity if there are several.

    Parameters of one quantity are scaled together: the diffusivities κ and k of different models,
    the components of a tensor, the same parameter of the classes of a mixture.
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
    """Evidence of a hypothesis under scaled priors.

    Args:
        evidence: Evidence with the original priors.
        logs: ln Z, (group, factor).
        errs: Standard errors of ln Z.
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
    """Compute the evidence of a hypothesis for all groups of priors and factors on their scales."""
    own = movable_parameters(hypothesis)
    # Groups that differ only in parameters of other models give the same evidence.
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


@dataclass(frozen=True, eq=False, repr=False)
class PriorSensitivity(Described):
    """Ln K of every pair of models under scaled priors.

    Args:
        factors: Factors on the scales.
        groups: Parameters that were scaled together: all of them first, then each quantity.
        log_bayes_factors: For each pair, "langevin:brownian", ln K (group, factor).
        log_bayes_factor_errs: Standard errors of ln K.
        tau: Sampling time.
        method: Method of the evidences.
        time_unit: Name of the unit of tau.
        unmoved: Parameters whose priors have no scale: uniform between natural bounds.
    """

    factors: FloatArray
    groups: tuple[tuple[str, ...], ...]
    log_bayes_factors: dict[str, FloatArray]
    log_bayes_factor_errs: dict[str, FloatArray]
    tau: float
    method: str
    time_unit: str = ""
    unmoved: tuple[str, ...] = ()

    def plot(self) -> "Figure":
        """Draw ln K of the first two models for rescaled priors."""
        return public("sensitivity_figure", "driftbayes.plots.scan")(self)

    def to_json(self) -> dict[str, Any]:
        """Return plain numbers and text, one row per group and factor."""
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
        """Sentences with the ranges of ln K."""
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
        """Return whether ln K of a pair changes sign within the table."""
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
    progress: Progress | None = None,
    **options: Any,
) -> PriorSensitivity:
    r"""Compute ln K as a function of the scales of the priors.

    For a well-constrained parameter, ln Z falls by one for each e-fold by which its prior is
    widened: $\partial \ln Z / \partial \ln s \to -1$. All priors are scaled together, then those of
    each quantity, such as κ and k, including the width of the prior of a mean flow.

    Args:
        hypotheses: Two or more models with their priors.
        data: Displacements at one tau.
        factors: Factors on the scales.
        method: Method of the evidence, as for `evidence`.
        seed: Random seed for sampling methods.
        progress: Called with the stage, the number done and the total.
        **options: Options of a method given by name.
    """
    check_names(hypotheses)
    scale = as_numbers("factors", factors)
    if len(hypotheses) < 2:
        raise DriftbayesError("the sensitivity of ln K needs two or more models, got 1; add one")
    if scale.ndim != 1 or not scale.size or not (np.isfinite(scale) & (scale > 0)).all():
        raise DriftbayesError(f"factors must be positive numbers, got {scale.tolist()}")
    groups = tuple(map(tuple, parameter_groups(hypotheses)))
    if not groups:
        names = ", ".join(hypothesis.name for hypothesis in hypotheses)
        raise DriftbayesError(f"no prior of {names} has a scale; give one that is not uniform")
    how: dict[str, Any] = {"method": as_method(method, **options), "seed": seed}
    found: list[ScaledEvidence] = []
    for h in hypotheses:
        if progress is not None:
            progress("models", len(found), len(hypotheses))
        batch = Batch.of(data, model=h.model)
        found.append(scaled_evidence(h, batch, groups, scale.tolist(), **how))
    pairs = model_pairs({scaled.name: scaled for scaled in found})
    return PriorSensitivity(
        factors=scale,
        groups=groups,
        log_bayes_factors={pair: b.logs - a.logs for pair, (b, a) in pairs.items()},
        log_bayes_factor_errs={pair: np.hypot(b.errs, a.errs) for pair, (b, a) in pairs.items()},
        tau=found[0].evidence.tau,
        method=found[0].evidence.method,
        time_unit=found[0].evidence.time_unit,
        unmoved=unmoved_parameters(hypotheses),
    )
