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
    "with_doubts",
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
from driftbayes.data.sampling import WHOLE, Cut, Displacements, snap_taus
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
# Correlations of successive steps that are worth a doubt, and the largest that blur can make.
_MIN_CORRELATION, _MAX_BLUR = 0.05, 0.25
# Trajectories from whose means a common drift can be told.
_MIN_DRIFTING = 5


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
    scaled_at = None if tau == "all" else float(tau)
    setup = hypotheses_for(models, tracks, priors=priors, scales=scales, tau=scaled_at)
    wanted = setup.from_data if sensitivity is None else sensitivity
    several = len(setup.hypotheses) > 1
    result = compare_hypotheses(
        setup.hypotheses, data, method=method, sensitivity=several and wanted, **options
    )
    result = replace(result, priors_from_data=setup.from_data)
    if not isinstance(data, Displacements):
        return result
    result = with_doubts(tracks, result, data, setup.hypotheses)
    warn_if_dependent([result])
    return result


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
        shortest = tally.spec.strides[0] * tally.recording_interval
        setup = hypotheses_for(models, tally.sample(), priors=priors, scales=scales, tau=shortest)
        return scan_tally(tally, setup.hypotheses, provenance=tracks.provenance, **options)
    check_regular(tracks)
    _warn_of_strays(tracks)
    wanted = suggested_taus(tracks) if taus is None else list(taus)
    shortest = float(snap_taus(tracks, wanted)[0])
    setup = hypotheses_for(models, tracks, priors=priors, scales=scales, tau=shortest)
    result = scan_hypotheses(tracks, setup.hypotheses, wanted, cut=cut, **options)
    # At the shortest, a middle and the longest sampling time.
    comparisons = list(result.comparisons)
    for i in {0, len(comparisons) // 2, len(comparisons) - 1}:
        data = cut(tracks, comparisons[i].tau)
        comparisons[i] = with_doubts(tracks, comparisons[i], data, setup.hypotheses)
    warn_if_dependent(comparisons)
    return replace(result, comparisons=tuple(comparisons))


def displacements_at(tracks: Trajectories, tau: float | str, cut: Cut) -> Displacements:
    """Displacements at one sampling time, or between all fixes; warns of unused trajectories."""
    data = cut(tracks, None if tau == "all" else float(tau))
    if tau != "all":
        _warn_of_strays(tracks)
    if data.n_unused:
        what = "1 trajectory is" if data.n_unused == 1 else f"{data.n_unused} trajectories are"
        warnings.warn(f"{what} too short for this tau and not used", DataWarning, stacklevel=4)
    return data


def _warn_of_strays(tracks: Trajectories) -> None:
    """Warn of intervals that are no multiple of the recording interval."""
    if tracks.stray_note:
        warnings.warn(tracks.stray_note, DataWarning, stacklevel=5)


def with_doubts(
    tracks: Trajectories,
    comparison: Comparison,
    data: Displacements,
    hypotheses: Sequence[Hypothesis],
) -> Comparison:
    """Add what is known to make a verdict doubtful.

    Args:
        tracks: The trajectories.
        comparison: Their comparison.
        data: The displacements that were compared.
        hypotheses: The hypotheses that were compared.
    """
    doubts = tuple(_other_explanations(tracks, comparison, data))
    found = quick_dependence(tracks, data.tau)
    if not found.is_serious:
        return replace(comparison, doubts=doubts)
    from driftbayes.comparison import thinned_log_bayes_factor

    factor = found.n_particles / found.n_effective
    scaled = thinned_log_bayes_factor(comparison, hypotheses, data, factor)
    known = {**found.to_json(), "scaled_log_bayes_factors": scaled}
    return replace(comparison, dependence=known, doubts=doubts)


def warn_if_dependent(comparisons: Sequence[Comparison]) -> None:
    """Warn if particles move together, where they do so most."""
    known = [(c, c.dependence) for c in comparisons if c.dependence is not None]
    if not known:
        return
    comparison, found = max(known, key=lambda pair: float(pair[1]["inflation"]))
    scaled, text = found["scaled_log_bayes_factors"], ""
    if scaled:
        pair = next(iter(scaled))
        text = (
            f"; corrected ln K({pair}) about {scaled[pair]:.3g}, not "
            f"{comparison.log_bayes_factors[pair]:.4g}"
        )
    at = f"at tau = {comparison.tau:g} {comparison.time_unit}".rstrip()
    warnings.warn(
        f"{at} {found['sentence']}{text} (see `driftbayes dependence`)",
        DependenceWarning,
        stacklevel=4,
    )


def _other_explanations(
    tracks: Trajectories, comparison: Comparison, data: Displacements
) -> Iterable[str]:
    """Noise, blur or drift that could explain the correlation of successive steps.

    Only what no model that was compared allows for. Blur and smoothing of the positions correlate
    steps over one recording interval by up to a quarter.
    """
    options = {option for name in comparison.evidences for option in name.split("+")[1:]}
    is_last = np.zeros(len(data.dx), dtype=bool)
    is_last[np.cumsum(data.row_sizes) - 1] = True
    first = np.flatnonzero(~is_last)
    variance = float(np.mean(data.dx**2))
    if not data.is_regular or len(first) == 0 or variance == 0:
        return
    correlation = float(np.mean(data.dx[first] * data.dx[first + 1])) / variance
    error = 1 / np.sqrt(first.size * data.n_dim)
    if abs(correlation) < max(_MIN_CORRELATION, 4 * error):
        return
    what = f"could explain the correlation {correlation:+.2f} of successive steps"
    if correlation < 0:
        if "noise" not in options:
            yield f"measurement error {what}: compare with brownian+noise"
        return
    if comparison.best.partition("+")[0] == "brownian":
        return
    if "mean" not in options and "linear" not in options and _drifts(data, correlation * variance):
        yield f"a mean flow {what}: compare with brownian+mean"
    dt = tracks.recording_interval
    is_finest = dt is not None and data.tau < 1.5 * dt
    if "blur" not in options and is_finest and correlation < _MAX_BLUR + 4 * error:
        yield f"motion blur or smoothing {what}: compare at a longer tau, or with brownian+blur"


def _drifts(data: Displacements, covariance: float) -> bool:
    """Whether a mean displacement, the same for all trajectories, makes up most of a covariance."""
    owner = np.repeat(data.trajectory, data.row_sizes)
    count = np.bincount(owner)
    sums = np.stack([np.bincount(owner, column) for column in data.dx.T], axis=1)
    means = sums[count > 0] / count[count > 0, None]
    if len(means) < _MIN_DRIFTING:
        return False
    error = means.std(axis=0, ddof=1) / np.sqrt(len(means))
    is_sure = bool(np.any(np.abs(means.mean(axis=0)) > 4 * error))
    return is_sure and float(np.mean(data.dx.mean(axis=0) ** 2)) > 0.5 * covariance


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
    tau: float | None = None,
) -> HypothesisSet:
    """Hypotheses for an analysis, with a warning where their priors come from the data.

    Args:
        models: Names, separated by commas or in a list, "all", hypotheses, models with priors in
            place of their parameters, or a set of hypotheses.
        tracks: Where to take scales from if they are not given.
        priors: Priors by parameter name, or as text ("exponential:2").
        scales: Scales of the motion, for priors that are not given.
        tau: Sampling time at which scales are taken from the data, the shortest of a scan; by
            default the recording interval.

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
    made = make_hypotheses(names, tracks, priors=given, u_rms=u_rms, timescale=time, tau=tau)
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
