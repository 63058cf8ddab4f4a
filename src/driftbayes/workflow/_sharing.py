"""Models of shared motion for particles that move together."""

from collections.abc import Sequence

from driftbayes.data._sampling import WHOLE, Displacements
from driftbayes.data._trajectories import Trajectories
from driftbayes.errors import DriftbayesError
from driftbayes.inference import Batch
from driftbayes.models import MODELS, model_named


def models_with_shared_motion(
    names: Sequence[str], data: Displacements, options: Sequence[str]
) -> list[str]:
    """Return the names of models with the first option that supports the data, if any.

    Args:
        names: Models with independent particles.
        data: Displacements at one tau.
        options: Suitable options, such as "common" and "flow", the best first.
    """
    # A common motion may support data that a flow does not, such as measurement errors.
    for option in dict.fromkeys([*options, "common"]):
        found = [f"{name}+{option}" for name in names]
        found = [name for name in found if _supports(name, data)]
        if found:
            return found
    return []


def models_at(
    tracks: Trajectories, tau: float, names: Sequence[str], options: Sequence[str]
) -> list[str]:
    """Apply `models_with_shared_motion` to trajectories; empty if no positions are tau apart.

    Args:
        tracks: The trajectories.
        tau: Sampling time.
        names: Models with independent particles.
        options: Suitable options, the best first.
    """
    try:
        data = WHOLE(tracks, tau)
    except DriftbayesError:
        return []
    return models_with_shared_motion(names, data, options)


def _supports(name: str, data: Displacements) -> bool:
    try:
        Batch.of(data, model=model_named(name, MODELS, data.n_dim))
    except DriftbayesError:
        return False
    return True
