"""Name the models with shared motion that fit particles which move together."""

__all__ = ["models_at", "models_with_shared_motion"]

from collections.abc import Sequence

from driftbayes.data.sampling import WHOLE, Displacements
from driftbayes.data.trajectories import Trajectories
from driftbayes.errors import DriftbayesError
from driftbayes.inference import Batch
from driftbayes.models import MODELS, model_named


def models_with_shared_motion(
    names: Sequence[str], data: Displacements, options: Sequence[str]
) -> list[str]:
    """Return the names of models with the first option that can take the data; empty if none can.

    Args:
        names: Models in which particles are independent.
        data: Displacements at one tau.
        options: Options that fit, such as "common" and "flow", the best first.
    """
    # What a flow cannot take, such as errors of positions, a common motion may.
    for option in dict.fromkeys([*options, "common"]):
        found = [f"{name}+{option}" for name in names]
        found = [name for name in found if _takes(name, data)]
        if found:
            return found
    return []


def models_at(
    tracks: Trajectories, tau: float, names: Sequence[str], options: Sequence[str]
) -> list[str]:
    """The same for trajectories at a sampling time; empty if no two positions are that far apart.

    Args:
        tracks: The trajectories.
        tau: Sampling time.
        names: Models in which particles are independent.
        options: Options that fit, the best first.
    """
    try:
        data = WHOLE(tracks, tau)
    except DriftbayesError:
        return []
    return models_with_shared_motion(names, data, options)


def _takes(name: str, data: Displacements) -> bool:
    try:
        Batch.of(data, model=model_named(name, MODELS, data.n_dim))
    except DriftbayesError:
        return False
    return True
