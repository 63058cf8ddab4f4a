"""How ln K moves when the scales of the priors are divided and multiplied by 4."""

__all__ = [
    "Variant",
    "movable_parameters",
    "parameter_groups",
    "sensitivity_rows",
    "unmoved_parameters",
    "variants",
]

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import isfinite
from typing import Any

from driftbayes.inference import Hypothesis, LogEvidence
from driftbayes.priors import Fixed, Uniform

FACTORS = (0.25, 4.0)


@dataclass(frozen=True)
class Variant:
    """One change of the priors: which parameters' scales, by which factor."""

    parameters: tuple[str, ...]
    factor: float

    def factors_for(self, hypothesis: Hypothesis) -> dict[str, float]:
        """The factors for the parameters that a hypothesis has."""
        own = movable_parameters(hypothesis)
        return {name: self.factor for name in self.parameters if name in own}


def variants(hypotheses: Sequence[Hypothesis]) -> list[Variant]:
    """All priors together, then each by itself, each by both factors."""
    sets = parameter_groups(hypotheses)
    return [Variant(tuple(names), factor) for names in sets for factor in FACTORS]


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


def sensitivity_rows(
    cases: Sequence[Variant], evidences: Mapping[str, Sequence[LogEvidence]]
) -> tuple[dict[str, Any], ...]:
    """One row per variant with ln K of every pair.

    Args:
        cases: The variants.
        evidences: For each model ln Z under each of them.
    """
    return tuple(
        {
            "scaled": list(case.parameters),
            "factor": case.factor,
            "log_bayes_factors": {
                f"{b}:{a}": evidences[b][i].log_evidence - evidences[a][i].log_evidence
                for a, b in combinations(evidences, 2)
            },
        }
        for i, case in enumerate(cases)
    )
