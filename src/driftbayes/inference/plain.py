"""Which models the parts of the house can take that were built for plain ones."""

__all__ = ["check_plain", "check_plain_models"]

from collections.abc import Iterable, Sequence

from driftbayes.errors import DriftbayesError
from driftbayes.inference.hypothesis import Hypothesis
from driftbayes.models import AbstractModel


def check_plain(
    hypotheses: Sequence[Hypothesis], purpose: str, *, state_space: bool = False
) -> None:
    """Refuse, with one sentence, hypotheses that a computation would get wrong.

    Args:
        hypotheses: The models with their priors.
        purpose: What is to be computed, in words.
        state_space: Whether a state-space form is needed.
    """
    check_plain_models((h.model for h in hypotheses), purpose, state_space=state_space)


def check_plain_models(
    models: Iterable[AbstractModel], purpose: str, *, state_space: bool = False
) -> None:
    """Refuse classes of models likewise; the arguments are those of `check_plain`."""
    for model in models:
        reason = ""
        if model.kind != "summed":
            reason = "its axes, trajectories or steps are not all alike"
        elif state_space and not model.has_state_space:
            reason = "it has no state-space form"
        elif state_space and not model.observes_position:
            reason = "its fixes are means over an exposure, not positions"
        if reason:
            msg = f"{purpose} cannot take {model.name}: {reason}; leave it out"
            raise DriftbayesError(msg)
