"""Which models the parts of the house can take that were built for plain ones."""

__all__ = ["check_plain"]

from collections.abc import Sequence

from driftbayes.errors import DriftbayesError
from driftbayes.inference.hypothesis import Hypothesis
from driftbayes.likelihood import MEMORY
from driftbayes.sampling import Displacements


def check_plain(
    hypotheses: Sequence[Hypothesis],
    purpose: str,
    *,
    data: Displacements | None = None,
    state_space: bool = False,
) -> None:
    """Refuse, with one sentence, models that a computation would get wrong.

    Args:
        hypotheses: The models.
        purpose: What is to be computed, in words.
        data: Displacements that are to be cut into trajectories by the statistics engine.
        state_space: Whether a state-space form is needed.
    """
    for hypothesis in hypotheses:
        model = hypothesis.model
        reason = ""
        if model.kind != "summed":
            reason = "its axes, trajectories or steps are not all alike"
        elif state_space and not model.has_state_space:
            reason = "it has no state-space form"
        elif state_space and not model.observes_position:
            reason = "its state follows means over the exposure, not positions"
        elif data is not None and model.memory is None and data.n_steps > MEMORY:
            reason = f"it needs all of the {data.n_steps} steps of a run, not the last {MEMORY}"
        if reason:
            msg = f"{purpose} cannot take {model.name}: {reason}; leave it out"
            raise DriftbayesError(msg)
