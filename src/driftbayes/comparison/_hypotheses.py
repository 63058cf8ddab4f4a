"""Hypotheses for named models, with priors from the user, from given scales, or from the data."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any, TypeVar

import numpy as np

from driftbayes._precision import in_double_precision
from driftbayes._representation import amount
from driftbayes.data._trajectories import Trajectories
from driftbayes.data._units import SPEED, readable, unit_of
from driftbayes.diagnostics._scales import Scales, data_scales
from driftbayes.errors import DriftbayesError, did_you_mean, expect, shown
from driftbayes.inference import Hypothesis
from driftbayes.models import MODELS, model_named
from driftbayes.priors import AbstractPrior, Exponential, scaling_priors

# End of the note if scales were estimated from the data.
ADVICE = "pass --u-rms and --timescale (scales=) for an independent prior"


@dataclass(frozen=True)
class HypothesisSet:
    """Hypotheses, and the origin of their priors.

    Args:
        hypotheses: The hypotheses.
        from_data: Whether the scale of any prior was estimated from the data.
        note: Sentence on the priors and their origin.
    """

    hypotheses: tuple[Hypothesis, ...]
    from_data: bool
    note: str


@in_double_precision
def make_hypotheses(
    names: Sequence[str],
    trajectories: Trajectories | None = None,
    *,
    priors: Mapping[str, AbstractPrior] | None = None,
    u_rms: float | None = None,
    timescale: float | None = None,
    tau: float | None = None,
) -> HypothesisSet:
    """Make hypotheses for models by name.

    Priors come from the first of: `priors`, the scaling rule with `u_rms` and `timescale`, the same
    rule with scales estimated from the trajectories at tau. The last uses the data twice and is
    meant for exploration, as the note says. The prior mean of a flow's correlation length is the
    extent of the first positions of the particles.

    Args:
        names: Names of models, with options: see `model_named`.
        trajectories: Data from which scales are estimated if not given.
        priors: Priors by parameter name.
        u_rms: Root mean square speed.
        timescale: Time scale of the velocity, for example the eddy turnover time.
        tau: Sampling time at which scales are estimated, the shortest of a scan; by default the
            recording interval.
    """
    if not names:
        raise DriftbayesError(f"expected at least one model; known are {', '.join(MODELS)}")
    n_dim = 2 if trajectories is None else trajectories.n_dim
    models = [model_named(name, MODELS, n_dim) for name in names]
    twice = [name for name in names if list(names).count(name) > 1]
    if twice:
        raise DriftbayesError(f"model {twice[0]!r} is given twice; remove one")
    if (u_rms is None) != (timescale is None):
        raise DriftbayesError("give both u_rms and timescale, or neither")
    given = dict(priors or {})
    needed = [name for model in models for name in model.parameters]
    extra = [name for name in given if name not in needed]
    if extra:
        raise DriftbayesError(
            f"there is no parameter {extra[0]!r} in {', '.join(names)}; "
            f"they have {', '.join(dict.fromkeys(needed))}{did_you_mean(extra[0], needed)}"
        )
    # Given priors replace the default priors of a model.
    own = [{n: p for n, p in model.default_priors().items() if n not in given} for model in models]
    ruled = [n for m, held in zip(models, own, strict=True) for n in m.parameters if n not in held]
    missing = [name for name in dict.fromkeys(ruled) if name not in given]
    from_data = bool(missing) and u_rms is None
    source = "as given"
    if missing:
        if u_rms is None or timescale is None:
            if trajectories is None:
                msg = f"no prior for {', '.join(missing)}: give priors, or u_rms and timescale"
                raise DriftbayesError(msg)
            found = data_scales(trajectories, tau)
            table = scaling_priors(**asdict(found))
            source = f"set from the data ({_scales_text(found, trajectories, tau)})"
        else:
            table = scaling_priors(u_rms, timescale)
            units = ("", "") if trajectories is None else trajectories.units
            speed = amount(u_rms, unit_of(SPEED, units), 4)
            size = f"u_rms = {speed}, T = {readable(timescale, units[1], 4)}"
            source = f"from the given scales ({size})"
        if given:
            source = f"for {', '.join(given)} as given, for {', '.join(missing)} {source}"
        if "length" in missing and trajectories is not None:
            table = {**table, "length": Exponential(mean=_extent(trajectories))}
        # The classes of a mixture have the same prior.
        plain = {name: name.removeprefix("class_").partition("_")[0] for name in missing}
        without = [name for name in missing if plain[name] not in table]
        if without:
            about = next(m.parameters[without[0]] for m in models if without[0] in m.parameters)
            raise DriftbayesError(
                f"there is no default prior for {without[0]!r} ({about.meaning}); "
                f"give one, for example {without[0]}=fixed:VALUE"
            )
        given = {**{name: table[plain[name]] for name in missing}, **given}
    tables = [{**given, **held} for held in own]
    used = [(n, t[n]) for m, t in zip(models, tables, strict=True) for n in m.parameters]
    text = ", ".join(dict.fromkeys(f"{name} ~ {prior.describe(6)}" for name, prior in used))
    note = f"priors {source}: {text}"
    if from_data:
        note = f"default {note}; {ADVICE}"
    return HypothesisSet(
        hypotheses=tuple(
            Hypothesis.from_table(model, table) for model, table in zip(models, tables, strict=True)
        ),
        from_data=from_data,
        note=note,
    )


def _extent(trajectories: Trajectories) -> float:
    """Compute the root mean square distance of the first positions from their centre.

    The likelihood of a flow is conditional on these positions, so a prior may depend on them.
    """
    from driftbayes.data.tangent import ground_of

    rows = np.flatnonzero(trajectories.observed)
    first = rows[np.unique(trajectories.trajectory_index[rows], return_index=True)[1]]
    ground = ground_of(trajectories)
    if ground is None or trajectories.lonlat is None:
        x = trajectories.positions[first]
    else:
        x = ground[0].positions(trajectories.lonlat[first])
    extent = float(np.sqrt(np.mean(np.sum((x - x.mean(axis=0)) ** 2, axis=1))))
    if extent > 0:
        return extent
    raise DriftbayesError(
        "all particles begin at one position, which gives no scale for the correlation length of "
        "a flow; give its prior, for example length=exponential:10"
    )


def _scales_text(scales: Scales, trajectories: Trajectories, tau: float | None) -> str:
    time = trajectories.time_unit
    speed = amount(scales.u_rms, unit_of(SPEED, trajectories.units), 4)
    text = f"u_rms = {speed}, T = {readable(scales.timescale, time, 4)}"
    if tau is not None and tau > 1.5 * (trajectories.recording_interval or tau):
        text += f" at tau = {readable(tau, time)}"
    if scales.memory is None:
        return text
    return f"{text}; rates from T = {readable(scales.memory, time, 4)}"


def check_names(hypotheses: Sequence[Hypothesis]) -> None:
    """Refuse an empty list of hypotheses, and two with the same name."""
    if isinstance(hypotheses, str) or not isinstance(hypotheses, Sequence):
        raise DriftbayesError(f"hypotheses must be a list of hypotheses, got {shown(hypotheses)}")
    for hypothesis in hypotheses:
        expect(hypothesis, Hypothesis, "hypotheses", "a list of hypotheses")
    names = [hypothesis.name for hypothesis in hypotheses]
    if not names or len(set(names)) != len(names):
        msg = f"expected one or more hypotheses of different models, got {names}; name each once"
        raise DriftbayesError(msg)


_Result = TypeVar("_Result")


def model_pairs(results: Mapping[str, _Result]) -> dict[str, tuple[_Result, _Result]]:
    """Pair the result of each model with those of earlier models, named "langevin:brownian"."""
    return {f"{b}:{a}": (results[b], results[a]) for a, b in combinations(results, 2)}


def check_progress(progress: Any) -> None:
    """Refuse a report of progress that cannot be called."""
    wanted = "a function of a stage, the number done and the total"
    expect(progress, Callable | None, "progress", wanted)


def check_prior_probabilities(prior_probabilities: Sequence[float] | None, n_models: int) -> None:
    """Refuse prior probabilities that are not one positive number per model."""
    if prior_probabilities is None:
        return
    try:
        prior = np.asarray(prior_probabilities, dtype=float)
    except (TypeError, ValueError):
        prior = np.zeros(0)
    if prior.shape != (n_models,) or not (np.isfinite(prior).all() and (prior > 0).all()):
        raise DriftbayesError(
            f"prior_probabilities must be {n_models} positive numbers, one per model, "
            f"got {shown(prior_probabilities)}"
        )
