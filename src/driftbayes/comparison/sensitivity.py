"""How ln K moves when the scales of the priors are divided and multiplied by 4."""

__all__ = ["Variant", "parameter_groups", "sensitivity_rows", "variants"]

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from driftbayes.inference import Evidence, Hypothesis

FACTORS = (0.25, 4.0)


@dataclass(frozen=True)
class Variant:
    """One change of the priors: which parameters' scales, by which factor."""

    parameters: tuple[str, ...]
    factor: float

    def factors_for(self, hypothesis: Hypothesis) -> dict[str, float]:
        """The factors for the parameters that a hypothesis has."""
        return {name: self.factor for name in self.parameters if name in hypothesis.names}


def variants(hypotheses: Sequence[Hypothesis]) -> list[Variant]:
    """All priors together, then those of each physical dimension, each by both factors.

    Parameters of the same dimension, such as κ and k, move together: to change one prior
    and not the other would change the question.
    """
    sets = parameter_groups(hypotheses)
    return [Variant(tuple(names), factor) for names in sets for factor in FACTORS]


def parameter_groups(hypotheses: Sequence[Hypothesis]) -> list[list[str]]:
    """All parameters, then those of each physical dimension, if there are several."""
    groups: dict[tuple[int, int], list[str]] = {}
    for hypothesis in hypotheses:
        for name in hypothesis.names:
            parameter = hypothesis.model.parameters[name]
            if not (parameter.length_power or parameter.time_power):
                # A pure number, often confined to an interval, has no scale to be doubted.
                continue
            members = groups.setdefault((parameter.length_power, parameter.time_power), [])
            if name not in members:
                members.append(name)
    everything = [name for members in groups.values() for name in members]
    return [everything, *groups.values()] if len(groups) > 1 else [everything]


def sensitivity_rows(
    cases: Sequence[Variant], evidences: Mapping[str, Sequence[Evidence]]
) -> tuple[dict[str, Any], ...]:
    """One row per variant with ln K of every pair.

    Args:
        cases: The variants.
        evidences: For each model its evidences, the first under the prior as given and the others
            in the order of `cases`.
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
        for i, case in enumerate(cases, start=1)
    )
