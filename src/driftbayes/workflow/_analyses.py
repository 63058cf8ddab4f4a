"""Comparison of models at one or many sampling times."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes._magnitudes import whole
from driftbayes._precision import in_double_precision
from driftbayes.comparison._bayes import NOT_TESTED, Comparison, compare_hypotheses
from driftbayes.comparison._dependence import quick_dependence
from driftbayes.comparison._hypotheses import HypothesisSet, check_progress, make_hypotheses
from driftbayes.data._sampling import WHOLE, Cut, Displacements, snap_taus
from driftbayes.data._trajectories import Trajectories, check_tracks
from driftbayes.data._units import SPEED, TIME, Dimension, in_units, readable, times_in
from driftbayes.diagnostics._scales import lag_one_doubts
from driftbayes.errors import (
    DataWarning,
    DependenceWarning,
    DriftbayesError,
    PriorWarning,
    did_you_mean,
    expect,
    warn,
)
from driftbayes.inference import Hypothesis, Method
from driftbayes.inference._methods import METHOD_OPTIONS
from driftbayes.likelihood import SummedDisplacements
from driftbayes.models import MODELS, AbstractModel, model_named
from driftbayes.priors import AbstractPrior, parse_prior
from driftbayes.workflow._reading import FileInBlocks

if TYPE_CHECKING:
    from driftbayes.comparison._scan import Scan

_Model = str | Hypothesis | AbstractModel
Models = _Model | Sequence[_Model] | HypothesisSet
Priors = Mapping[str, AbstractPrior | str]


@dataclass(frozen=True)
class Scales:
    """Scales of the motion, for default priors.

    Args:
        u_rms: Root mean square speed, in the units of the data or with its own ("0.2m/s").
        time: Time scale of the velocity, for example the eddy turnover time, in the unit of the
            data or with its own ("2d").

    Example:
        >>> import driftbayes as db
        >>> tracks = db.simulate("brownian", {"kappa": 1.0}, tau=0.5, n_particles=10, n_steps=20)
        >>> result = db.compare(tracks, 0.5, scales=db.Scales(u_rms=2.0, time=0.5))
        >>> result["langevin"].priors
        {'gamma': 'exponential:2', 'k': 'exponential:2'}
    """

    u_rms: float | str
    time: float | str


# Arguments that the functions of this package pass on.
_PASSED_ON = (
    *("seed", "prior_probabilities", "progress", "n_replicas", "factors", "n_folds", "training"),
    *("n_draws", "depth", "split", "n_tau", "seasons", "min_windows", "n_replicates", "units"),
    "block_steps",
)


def check_options(function: Callable[..., Any], options: Mapping[str, Any]) -> None:
    """Refuse further options that are misspelt or of a wrong type, before anything is computed.

    Args:
        function: The function; misspelt arguments of it would be taken as options of the method.
        options: The options, by name.
    """
    own = (name for name in signature(function).parameters if name not in ("tracks", "options"))
    known = (*own, *_PASSED_ON, *METHOD_OPTIONS)
    for name in options:
        if name not in known and (near := did_you_mean(name, known)):
            raise DriftbayesError(f"{function.__name__} has no argument {name!r}{near}")
    check_progress(options.get("progress"))
    if "seed" in options:
        whole(options["seed"], "seed")


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
        tracks: Trajectories, as returned by `read`.
        tau: Sampling time, a multiple of the recording interval, in the unit of the data or with
            its own ("6h"); "all" uses every fix at its own interval.
        models: Names, separated by commas or in a list, "all", or hypotheses.
        priors: Priors by parameter name, also as text with units ("exponential:0.5/d").
        scales: Scales of the motion for default priors; by default estimated from the data.
        method: Method of the evidence; "auto" integrates exactly if possible.
        cut: How trajectories are cut into displacements.
        sensitivity: Whether to repeat the comparison with other prior scales; by default if the
            priors come from the data.
        **options: `seed` of sampling methods, `prior_probabilities` of the models and `progress`,
            as for `compare_hypotheses`.

    Returns:
        The comparison.

    Raises:
        DriftbayesError: No two positions are tau apart, or an option does not fit.

    Example:
        >>> import driftbayes as db
        >>> tracks = db.simulate("brownian", {"kappa": 1.0}, tau=0.5, n_particles=10, n_steps=20)
        >>> db.compare(tracks, 0.5, scales=db.Scales(u_rms=1.4, time=1.0)).best
        'brownian'
    """
    check_options(compare, options)
    data: Displacements | SummedDisplacements
    if isinstance(tracks, FileInBlocks):
        if tau == "all":
            raise DriftbayesError(
                "--tau all needs every displacement, but a large file is reduced to sums; give a "
                "sampling time, or a file that fits in memory"
            )
        tally = tracks.tally(partial(named_models, models), [tau], cut, snap=False)
        found, skipped = tally.displacements()
        if not found:
            raise DriftbayesError(next(iter(skipped.values())))
        data, tracks = found[0], tally.sample()
        setup = hypotheses_for(models, tracks, priors=priors, scales=scales, tau=data.tau)
    else:
        data, setup = data_and_hypotheses(tracks, tau, cut, models, priors, scales)
    wanted = setup.from_data if sensitivity is None else sensitivity
    several = len(setup.hypotheses) > 1
    result = compare_hypotheses(
        setup.hypotheses, data, method=method, sensitivity=several and wanted, **options
    )
    result = replace(result, priors_from_data=setup.from_data)
    if not isinstance(data, Displacements):
        return replace(result, doubts=(NOT_TESTED,))
    result = with_doubts(tracks, result, data, setup.hypotheses)
    warn_if_dependent([result])
    return result


@in_double_precision
def scan(
    tracks: Trajectories | FileInBlocks,
    taus: Iterable[float | str] | str | None = None,
    *,
    models: Models = "brownian, langevin",
    priors: Priors | None = None,
    scales: Scales | None = None,
    method: Method | str = "auto",
    cut: Cut = WHOLE,
    **options: Any,
) -> "Scan":
    """Compare models at many sampling times.

    `taus`: sampling times, also as text ("1h,6h,1d", "1h:10d:12log"); by default up to a dozen
    suggested ones; "all" for a single comparison that uses every position at its own interval.
    `models`, `priors`, `scales`, `method`, `cut` are as for `compare`. Further options: `seed`,
    `prior_probabilities` and `progress`, as for `scan_hypotheses`.

    Raises:
        DriftbayesError: The times are irregular, or too few.

    Example:
        >>> import driftbayes as db
        >>> tracks = db.simulate("brownian", {"kappa": 1.0}, tau=0.5, n_particles=10, n_steps=20)
        >>> found = db.scan(tracks, [0.5, 1.0], scales=db.Scales(u_rms=1.4, time=1.0))
        >>> found.models, found.taus.tolist()
        (('brownian', 'langevin'), [0.5, 1.0])
    """
    from driftbayes.comparison._scan import scan_hypotheses

    check_options(scan, options)
    options["method"] = method
    if isinstance(tracks, FileInBlocks):
        from driftbayes.streaming import scan_tally

        if taus is None or (isinstance(taus, str) and taus == "all"):
            raise DriftbayesError("a file read in blocks needs sampling times; pass taus (--taus)")
        tally = tracks.tally(partial(named_models, models), taus, cut, snap=True)
        shortest = tally.spec.strides[0] * tally.recording_interval
        setup = hypotheses_for(models, tally.sample(), priors=priors, scales=scales, tau=shortest)
        found = scan_tally(tally, setup.hypotheses, provenance=tracks.provenance, **options)
        untested = tuple(replace(c, doubts=(NOT_TESTED,)) for c in found.comparisons)
        return replace(found, comparisons=untested)
    is_all = isinstance(taus, str) and taus == "all"
    wanted: Iterable[float] | str = "all"
    finest: float | None = None
    if not is_all:
        check_regular(tracks)
        _warn_of_strays(tracks)
        wanted = suggested_taus(tracks) if taus is None else times_in(taus, tracks.units, "taus")
        finest = float(snap_taus(tracks, wanted)[0])
    setup = hypotheses_for(models, tracks, priors=priors, scales=scales, tau=finest)
    result = scan_hypotheses(tracks, setup.hypotheses, wanted, cut=cut, **options)
    # At the shortest, a middle and the longest sampling time.
    comparisons, tested = list(result.comparisons), []
    for i in sorted({0, len(comparisons) // 2, len(comparisons) - 1}):
        data = cut(tracks, None if is_all else comparisons[i].tau)
        comparisons[i] = with_doubts(tracks, comparisons[i], data, setup.hypotheses)
        tested.append(data)
    _warn_of_dropped(tested, cut)
    warn_if_dependent(comparisons)
    return replace(result, comparisons=tuple(comparisons))


def _displacements_at(tracks: Trajectories, tau: float | str, cut: Cut) -> Displacements:
    """Compute displacements at one sampling time, or of all fixes; warn of unused trajectories."""
    expect(cut, Cut, "cut", "a Cut, for example Cut(n_tau=10)")
    chosen = as_tau(tau, tracks)
    data = cut(tracks, chosen)
    if chosen is not None:
        _warn_of_strays(tracks)
    if data.n_unused:
        what = "1 trajectory is" if data.n_unused == 1 else f"{data.n_unused} trajectories are"
        warn(f"{what} too short for this tau and not used", DataWarning)
    _warn_of_dropped([data], cut)
    return data


def _warn_of_dropped(many: Sequence[Displacements], cut: Cut) -> None:
    """Warn of steps left over after cutting windows, unless only first windows are used."""
    if cut.n_tau is None or cut.windows != "all":
        return
    shares = [f"{d.n_dropped:,} of {len(d.dx) + d.n_dropped:,}" for d in many if d.n_dropped]
    if not shares:
        return
    taus = ", ".join(readable(d.tau, d.time_unit) for d in many if d.n_dropped)
    warn(
        f"{'; '.join(shares)} steps fill no window of {cut.n_tau} steps (tau = {taus}) and are "
        "not used; omit --n-tau to use all",
        DataWarning,
    )


def as_tau(tau: Any, tracks: Trajectories) -> float | None:
    """Return a sampling time in the unit of the trajectories; None for "all"."""
    check_tracks(tracks)
    if isinstance(tau, str) and tau == "all":
        return None
    if isinstance(tau, list | tuple | np.ndarray) and np.size(tau) != 1:
        raise DriftbayesError(
            f"tau must be one sampling time, for example 0.5 or '6h', or 'all', got {len(tau)}; "
            "use scan to compare models at several"
        )
    return in_units(tau, TIME, tracks.units, "tau")


def _warn_of_strays(tracks: Trajectories) -> None:
    """Warn of intervals that are not multiples of the recording interval."""
    if tracks.stray_note:
        warn(tracks.stray_note, DataWarning)


def with_doubts(
    tracks: Trajectories,
    comparison: Comparison,
    data: Displacements,
    hypotheses: Sequence[Hypothesis],
) -> Comparison:
    """Add caveats to a comparison: noise, blur, drift, and dependence between particles.

    Args:
        tracks: The trajectories.
        comparison: Their comparison.
        data: Displacements of the comparison.
        hypotheses: Hypotheses of the comparison.
    """
    doubts = tuple(_lag_one_clauses(tracks, comparison, data))
    found = quick_dependence(tracks, data.tau)
    are_shared = all(hypothesis.model.shares_motion for hypothesis in hypotheses)
    if are_shared or not found.is_serious:
        return replace(comparison, doubts=doubts)
    from driftbayes.comparison import thinned_log_bayes_factor

    factor = found.n_particles / found.n_effective
    scaled = thinned_log_bayes_factor(comparison, hypotheses, data, factor)
    from driftbayes.workflow._sharing import models_with_shared_motion

    alone = [
        h.name
        for h in hypotheses
        if not h.model.shares_motion and h.name not in comparison.without_evidence
    ]
    # The two best models for independent particles.
    best = sorted(alone, key=lambda name: -comparison[name].log_evidence)[:2]
    models = models_with_shared_motion([n for n in alone if n in best], data, found.options)
    known = {**found.to_json(), "scaled_log_bayes_factors": scaled, "models": models}
    return replace(comparison, dependence=known, doubts=doubts)


def warn_if_dependent(comparisons: Sequence[Comparison]) -> None:
    """Warn of dependence between particles, at the sampling time where it is strongest."""
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
    at = f"at tau = {readable(comparison.tau, comparison.time_unit)}"
    missing = ", ".join(comparison.missing_models)
    remedy = f"; {missing} model the shared motion" if missing else ""
    warn(f"{at} {found['sentence']}{text}{remedy}; see `driftbayes dependence`", DependenceWarning)


def _lag_one_clauses(
    tracks: Trajectories, comparison: Comparison, data: Displacements
) -> Iterator[str]:
    """Yield clauses on noise, blur or drift that no model describes, and warn of each."""
    options = {o for e in comparison.evidences.values() for o in e.hypothesis.model.options}
    dt = tracks.recording_interval
    is_every_fix = dt is not None and data.tau < 1.5 * dt
    is_brownian = comparison[comparison.best].hypothesis.model.core.name == "brownian"
    at = f"at tau = {readable(data.tau, data.time_unit)}"
    for clause, sentence in lag_one_doubts(data, options, is_every_fix=is_every_fix):
        warn(f"{at} {sentence}", DataWarning)
        # Blur and drift matter only if a model with memory is favoured.
        if not is_brownian or clause.startswith("measurement"):
            yield clause


def suggested_taus(tracks: Trajectories) -> list[float]:
    """Suggest sampling times, evenly spaced in their logarithm.

    Raises:
        DriftbayesError: The times are irregular, or too few.

    Example:
        >>> import driftbayes as db
        >>> tracks = db.simulate("brownian", {"kappa": 1.0}, tau=0.5, n_particles=10, n_steps=20)
        >>> len(suggested_taus(tracks))
        4
    """
    from driftbayes.diagnostics.survey import survey

    check_regular(tracks)
    found = survey(tracks)
    if found.tau_low is None or found.tau_high is None:
        raise DriftbayesError("too few positions to suggest sampling times; give taus (--taus)")
    return [float(t) for t in np.geomspace(found.tau_low, found.tau_high, found.n_taus)]


def check_regular(tracks: Trajectories) -> None:
    """Refuse trajectories at irregular times, which cannot be scanned."""
    check_tracks(tracks)
    intervals = tracks.intervals
    if tracks.recording_interval is None and len(intervals):
        raise DriftbayesError(
            "a scan over tau needs regular times, these have intervals from "
            f"{readable(intervals.min(), tracks.time_unit)} to "
            f"{readable(intervals.max(), tracks.time_unit)}; compare with tau='all' (--tau all) to "
            "use every position at its own interval"
        )


def data_and_hypotheses(
    tracks: Trajectories,
    tau: float | str,
    cut: Cut,
    models: Models,
    priors: Priors | None,
    scales: Scales | None,
) -> tuple[Displacements, HypothesisSet]:
    """Return displacements at one sampling time, and hypotheses with priors at that time.

    Arguments are those of `compare`.
    """
    data = _displacements_at(tracks, tau, cut)
    at = None if tau == "all" else data.tau
    return data, hypotheses_for(models, tracks, priors=priors, scales=scales, tau=at)


def hypotheses_for(
    models: Models,
    tracks: Trajectories,
    *,
    priors: Priors | None = None,
    scales: Scales | None = None,
    tau: float | None = None,
) -> HypothesisSet:
    """Make hypotheses for an analysis, with a warning if their priors come from the data.

    Args:
        models: Names, separated by commas or in a list, "all", hypotheses, models with priors in
            place of their parameters, or a set of hypotheses.
        tracks: Data from which scales are estimated if not given.
        priors: Priors by parameter name, or as text ("exponential:2").
        scales: Scales of the motion for default priors.
        tau: Sampling time at which scales are estimated, the shortest of a scan; by default the
            recording interval.

    Raises:
        DriftbayesError: A model or a parameter is unknown, or a prior is missing.
    """
    if isinstance(models, HypothesisSet):
        return models
    about = "priors by parameter, for example {'k': 'exponential:1'}"
    expect(priors, Mapping | None, "priors", about)
    wanted = _listed(models)
    check_tracks(tracks)
    ready = [model for model in wanted if isinstance(model, Hypothesis)]
    names = [model for model in wanted if not isinstance(model, Hypothesis)]
    if ready and (priors or scales) and not names:
        raise DriftbayesError("hypotheses already have priors; omit priors and scales")
    if not names and ready:
        _warn_of_double_error(ready, tracks)
        return HypothesisSet(tuple(ready), from_data=False, note="priors as given")
    given = _given_priors(priors or {}, names, tracks)
    u_rms, time = None, None
    if scales is not None:
        expect(scales, Scales, "scales", "Scales, for example Scales(u_rms='0.2m/s', time='2d')")
        u_rms = in_units(scales.u_rms, SPEED, tracks.units, "u_rms")
        time = in_units(scales.time, TIME, tracks.units, "timescale")
    made = make_hypotheses(names, tracks, priors=given, u_rms=u_rms, timescale=time, tau=tau)
    if made.from_data:
        warn(made.note, PriorWarning)
    by_name = dict(zip(names, made.hypotheses, strict=True))
    every = [model if isinstance(model, Hypothesis) else by_name[model] for model in wanted]
    _warn_of_double_error(every, tracks)
    return HypothesisSet(tuple(every), made.from_data, made.note)


def _warn_of_double_error(hypotheses: Sequence[Hypothesis], tracks: Trajectories) -> None:
    """Warn of a known sigma of `+noise` that adds to errors which the data already have."""
    if tracks.position_sd is None or not np.any(tracks.position_sd > 0):
        return
    for hypothesis in hypotheses:
        if "noise" not in hypothesis.model.options:
            continue
        # Classes of a mixture have errors of their own, sigma_2 and so on.
        known = [v for n, v in hypothesis.fixed.items() if n.partition("_")[0] == "sigma" and v]
        if known:
            values = ", ".join(readable(value, tracks.length_unit) for value in known)
            warn(
                f"{hypothesis.name} adds a fixed sigma of {values} to the position errors of the "
                "data, which are already taken into account; omit one of them if they are the "
                "same error",
                DataWarning,
            )


def _given_priors(
    priors: Priors, models: Sequence[str], tracks: Trajectories
) -> dict[str, AbstractPrior]:
    """Parse given priors, and convert them to the units of the trajectories."""
    for name, prior in priors.items():
        wanted = "a prior, for example Exponential(mean=1.0) or 'exponential:1'"
        expect(prior, str | AbstractPrior, f"the prior of {name}", wanted)
    texts = {name: prior for name, prior in priors.items() if isinstance(prior, str)}
    known = {
        name: about
        for model in (named_models(models, tracks.n_dim) if texts else ())
        for name, about in model.parameters.items()
    }
    found = {name: prior for name, prior in priors.items() if not isinstance(prior, str)}
    for name, text in texts.items():
        convert: Callable[[str], float] = float
        if name in known:
            powers = known[name].length_power, known[name].time_power
            what = Dimension(known[name].unit(), *powers, f"1 {known[name].unit('m', 's')}")
            convert = partial(in_units, what=what, units=tracks.units, name=f"the prior of {name}")
        found[name] = parse_prior(text, convert)
    return {name: found[name] for name in priors}


def named_models(models: Models, n_dim: int) -> list[AbstractModel]:
    """Return the models, for a number of dimensions."""
    wanted = models.hypotheses if isinstance(models, HypothesisSet) else _listed(models)
    return [
        model.model if isinstance(model, Hypothesis) else model_named(model, MODELS, n_dim)
        for model in wanted
    ]


def _listed(models: _Model | Sequence[_Model]) -> list[str | Hypothesis]:
    if isinstance(models, Hypothesis | AbstractModel):
        models = [models]
    wanted = "names such as 'brownian, langevin', a list of them, or hypotheses"
    expect(models, str | Sequence, "models", wanted)
    for model in models:
        expect(model, str | Hypothesis | AbstractModel, "models", wanted)
    if not isinstance(models, str):
        return [Hypothesis(m) if isinstance(m, AbstractModel) else m for m in models]
    names = [name.strip() for name in models.split(",") if name.strip()]
    return list(MODELS) if names == ["all"] else list(names)
