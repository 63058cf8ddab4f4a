"""Compare models at one sampling time, or at many."""

__all__ = [
    "Cut",
    "Models",
    "Priors",
    "Scales",
    "compare",
    "displacements_at",
    "hypotheses_for",
    "scan",
    "suggested_taus",
    "warn_if_dependent",
]

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from driftbayes.comparison.bayes import Comparison, compare_hypotheses
from driftbayes.comparison.dependence import quick_dependence
from driftbayes.comparison.hypotheses import HypothesisSet, make_hypotheses
from driftbayes.comparison.scan import Scan, scan_hypotheses
from driftbayes.data.sampling import WHOLE, Cut, Displacements
from driftbayes.data.trajectories import Trajectories
from driftbayes.errors import DataWarning, DependenceWarning, DriftbayesError, PriorWarning
from driftbayes.inference import Hypothesis, Method
from driftbayes.likelihood import SummedDisplacements
from driftbayes.models import MODELS, AbstractModel, model_named
from driftbayes.precision import in_double_precision
from driftbayes.priors import AbstractPrior, parse_prior
from driftbayes.workflow.reading import FileInBlocks

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


@in_double_precision
def compare(
    tracks: Trajectories | FileInBlocks,
    tau: float | str,
    *,
    models: Models = "brownian, langevin",
    priors: Priors | None = None,
    scales: Scales | None = None,
    method: Method | str = "auto",
    cut: Cut = WHOLE,
    sensitivity: bool | None = None,
    **options: Any,
) -> Comparison:
    """Compare models at one sampling time.

    Args:
        tracks: Trajectories, as `read` gives them.
        tau: Sampling time, a multiple of the recording interval; "all" uses every fix at its own
            interval.
        models: Names, separated by commas or in a list, "all", or hypotheses.
        priors: Priors by parameter name.
        scales: Scales of the motion, for priors that are not given; by default those of the data.
        method: Method of the evidence; "auto" integrates exactly where it can.
        cut: How trajectories are cut into displacements.
        sensitivity: Whether to repeat the comparison with other prior scales; by default where the
            priors come from the data.
        **options: `seed` of a method that samples and `prior_probabilities` of the models, as for
            `compare_hypotheses`.

    Returns:
        The comparison.

    Raises:
        DriftbayesError: No two positions are tau apart, or an option does not fit.
    """
    data: Displacements | SummedDisplacements
    if isinstance(tracks, FileInBlocks):
        if tau == "all":
            msg = (
                "--tau all needs every displacement, but a large file is reduced to sums; give a "
                "sampling time, or a file that fits in memory"
            )
            raise DriftbayesError(msg)
        tally = tracks.tally(partial(named_models, models), [float(tau)], cut, snap=False)
        found, skipped = tally.displacements()
        if not found:
            raise DriftbayesError(next(iter(skipped.values())))
        data, tracks = found[0], tally.sample()
    else:
        data = displacements_at(tracks, tau, cut)
    setup = hypotheses_for(models, tracks, priors=priors, scales=scales)
    wanted = setup.from_data if sensitivity is None else sensitivity
    several = len(setup.hypotheses) > 1
    result = compare_hypotheses(
        setup.hypotheses, data, method=method, sensitivity=several and wanted, **options
    )
    result = replace(result, priors_from_data=setup.from_data)
    if not isinstance(data, Displacements):
        return result
    return replace(result, dependence=warn_if_dependent(tracks, [(result, data)], setup.hypotheses))


@in_double_precision
def scan(
    tracks: Trajectories | FileInBlocks,
    taus: Iterable[float] | None = None,
    *,
    models: Models = "brownian, langevin",
    priors: Priors | None = None,
    scales: Scales | None = None,
    method: Method | str = "auto",
    cut: Cut = WHOLE,
    **options: Any,
) -> Scan:
    """Compare models at many sampling times.

    `taus`: sampling times; by default a dozen that suit the trajectories. `models`, `priors`,
    `scales`, `method`, `cut` are as for `compare`. Further options: `seed`,
    `prior_probabilities` and `progress`, as for `scan_hypotheses`.

    Raises:
        DriftbayesError: The times are irregular, or too few.
    """
    options["method"] = method
    if isinstance(tracks, FileInBlocks):
        from driftbayes.streaming import scan_tally

        if taus is None:
            msg = "a file that is read in blocks needs given sampling times; pass taus (--taus)"
            raise DriftbayesError(msg)
        tally = tracks.tally(partial(named_models, models), taus, cut, snap=True)
        setup = hypotheses_for(models, tally.sample(), priors=priors, scales=scales)
        return scan_tally(tally, setup.hypotheses, provenance=tracks.provenance, **options)
    check_regular(tracks)
    wanted = suggested_taus(tracks) if taus is None else list(taus)
    setup = hypotheses_for(models, tracks, priors=priors, scales=scales)
    result = scan_hypotheses(tracks, setup.hypotheses, wanted, cut=cut, **options)
    # At the shortest, a middle and the longest sampling time.
    places = {0, len(result.comparisons) // 2, len(result.comparisons) - 1}
    chosen = [result.comparisons[i] for i in sorted(places)]
    warn_if_dependent(tracks, [(c, cut(tracks, c.tau)) for c in chosen], setup.hypotheses)
    return result


def displacements_at(tracks: Trajectories, tau: float | str, cut: Cut) -> Displacements:
    """Displacements at one sampling time, or between all fixes; warns of unused trajectories."""
    data = cut(tracks, None if tau == "all" else float(tau))
    if data.n_unused:
        what = "1 trajectory is" if data.n_unused == 1 else f"{data.n_unused} trajectories are"
        warnings.warn(f"{what} too short for this tau and not used", DataWarning, stacklevel=4)
    return data


def warn_if_dependent(
    tracks: Trajectories,
    pairs: Sequence[tuple[Comparison, Displacements]],
    hypotheses: Sequence[Hypothesis],
) -> dict[str, Any] | None:
    """Warn if particles move together.

    Returns:
        What is known of the dependence, or None if there is none to speak of.
    """
    worst = None
    if all(hypothesis.model.shares_motion for hypothesis in hypotheses):
        return None
    for comparison, data in pairs:
        found = quick_dependence(tracks, data.tau)
        if found.is_serious and (worst is None or found.inflation > worst[0].inflation):
            worst = found, comparison, data
    if worst is None:
        return None
    from driftbayes.comparison import thinned_log_bayes_factor

    found, comparison, data = worst
    factor = found.n_particles / found.n_effective
    scaled = thinned_log_bayes_factor(comparison, hypotheses, data, factor)
    text = ""
    if scaled:
        pair = next(iter(scaled))
        text = (
            f"; corrected ln K({pair}) about {scaled[pair]:.3g}, not "
            f"{comparison.log_bayes_factors[pair]:.4g}"
        )
    at = f"at tau = {found.tau:g} {found.time_unit}".rstrip()
    warnings.warn(
        f"{at} {found.sentence}{text} (see `driftbayes dependence`)",
        DependenceWarning,
        stacklevel=4,
    )
    return {**found.to_json(), "scaled_log_bayes_factors": scaled}


def suggested_taus(tracks: Trajectories) -> list[float]:
    """Sampling times that suit the trajectories, evenly spaced in their logarithm.

    Raises:
        DriftbayesError: The times are irregular, or too few.
    """
    from driftbayes.diagnostics.survey import survey

    check_regular(tracks)
    found = survey(tracks)
    if found.tau_low is None or found.tau_high is None:
        msg = "there are too few positions to choose sampling times from; give taus (--taus)"
        raise DriftbayesError(msg)
    return [float(t) for t in np.geomspace(found.tau_low, found.tau_high, found.n_taus)]


def check_regular(tracks: Trajectories) -> None:
    """Refuse trajectories at irregular times, of which no scan can be made."""
    intervals = tracks.intervals
    if tracks.recording_interval is None and len(intervals):
        msg = (
            "a scan over tau needs regular times, these have intervals from "
            f"{intervals.min():g} to {intervals.max():g}; compare with tau='all' (--tau all) to "
            "use every fix at its own interval"
        )
        raise DriftbayesError(msg)


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
