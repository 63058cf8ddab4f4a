"""Set up an analysis: models with priors, and how trajectories are cut."""

__all__ = ["Cut", "Models", "Priors", "Scales", "hypotheses_for", "named_models"]

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from driftbayes.comparison import HypothesisSet, make_hypotheses
from driftbayes.data.sampling import Cut
from driftbayes.data.trajectories import Trajectories
from driftbayes.errors import DriftbayesError, PriorWarning
from driftbayes.inference import Hypothesis
from driftbayes.models import MODELS, AbstractModel, model_named
from driftbayes.priors import AbstractPrior, parse_prior

One = str | Hypothesis | AbstractModel
Models = One | Sequence[One] | HypothesisSet
Priors = Mapping[str, AbstractPrior | str]


@dataclass(frozen=True)
class Scales:
    """Scales of the motion, from which default priors are made.

    Args:
        u_rms: Root mean square speed, in the units of the trajectories.
        time: Time scale of the velocity, for example the eddy turnover time.
    """

    u_rms: float
    time: float


def hypotheses_for(
    models: Models,
    tracks: Trajectories,
    *,
    priors: Priors | None = None,
    scales: Scales | None = None,
) -> HypothesisSet:
    """Hypotheses for an analysis, with a warning where their priors come from the data.

    Args:
        models: Names, separated by commas or in a list, "all", hypotheses, models with priors in
            place of their parameters, or a set of hypotheses.
        tracks: Where to take scales from if they are not given.
        priors: Priors by parameter name, or as text ("exponential:2").
        scales: Scales of the motion, for priors that are not given.

    Raises:
        DriftbayesError: A model or a parameter is unknown, or a prior is missing.
    """
    if isinstance(models, HypothesisSet):
        return models
    wanted = _listed(models)
    ready = [one for one in wanted if isinstance(one, Hypothesis)]
    names = [one for one in wanted if not isinstance(one, Hypothesis)]
    if ready and (priors or scales) and not names:
        msg = "hypotheses have their priors already; leave out priors and scales"
        raise DriftbayesError(msg)
    if not names and ready:
        return HypothesisSet(tuple(ready), from_data=False, note="priors as given")
    given = {
        name: parse_prior(prior) if isinstance(prior, str) else prior
        for name, prior in (priors or {}).items()
    }
    u_rms, time = (None, None) if scales is None else (scales.u_rms, scales.time)
    made = make_hypotheses(names, tracks, priors=given, u_rms=u_rms, timescale=time)
    if made.from_data:
        warnings.warn(made.note, PriorWarning, stacklevel=4)
    by_name = dict(zip(names, made.hypotheses, strict=True))
    every = [one if isinstance(one, Hypothesis) else by_name[one] for one in wanted]
    return HypothesisSet(tuple(every), made.from_data, made.note)


def named_models(models: Models, n_dim: int) -> list[AbstractModel]:
    """The models, for a number of dimensions."""
    wanted = models.hypotheses if isinstance(models, HypothesisSet) else _listed(models)
    return [
        one.model if isinstance(one, Hypothesis) else model_named(one, MODELS, n_dim)
        for one in wanted
    ]


def _listed(models: One | Sequence[One]) -> list[str | Hypothesis]:
    if isinstance(models, Hypothesis | AbstractModel):
        models = [models]
    if not isinstance(models, str):
        return [Hypothesis(one) if isinstance(one, AbstractModel) else one for one in models]
    names = [name.strip() for name in models.split(",") if name.strip()]
    return list(MODELS) if names == ["all"] else list(names)
