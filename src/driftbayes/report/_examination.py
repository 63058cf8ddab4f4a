"""Examination of trajectories beyond a scan: quality, goodness of fit, posteriors, priors."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes._representation import describe
from driftbayes.checks import FitCheck, check_fit
from driftbayes.checks._check import check_replicas
from driftbayes.comparison import Dependence, PriorSensitivity, Scan, dependence, prior_sensitivity
from driftbayes.comparison._describe_scan import as_scan, stored, uses_all_fixes
from driftbayes.comparison._scan import is_consistent
from driftbayes.data._sampling import Displacements, displacements
from driftbayes.data._trajectories import Trajectories
from driftbayes.data._units import readable_time
from driftbayes.diagnostics.survey import Survey, survey
from driftbayes.errors import DriftbayesError
from driftbayes.inference import PosteriorDraws, posterior_draws
from driftbayes.quality import QualityReport, inspect

if TYPE_CHECKING:
    import xarray as xr

    from driftbayes.prediction.regions import SearchRegions
    from driftbayes.relative import PairScan
    from driftbayes.verification import EnsembleScores

Progress = Callable[[str, int, int], None]

_N_DRAWS = 1000
# Maximum number of particles whose dependence is examined.
_MAX_PARTICLES = 500
# Factors on the scales of the priors.
_FACTORS = np.geomspace(1 / 16, 16, 9)
# With more displacements, replicas would take longer than the scan.
_MAX_DISPLACEMENTS = 400_000


@dataclass(frozen=True, eq=False)
class Examination:
    """Results beyond the scan.

    Args:
        trajectories: Trajectories of the scan.
        survey: Their sampling and rounding.
        quality: Suspicious observations.
        reference: Index of the sampling time of posteriors and goodness of fit.
        dependence: Dependence between particles, by index of the sampling time.
        check: Goodness of fit at the reference sampling time.
        draws: Posterior draws of each model at the reference sampling time.
        sensitivity: Sensitivity of ln K to the priors, by index of the sampling time.
        pairs: Laws of relative dispersion along the sampling time, if requested.
        regions: Search regions of the particles after their last positions.
        backtest: Scores of forecasts from earlier times.
        skipped: Parts that could not be computed, with the reason.
    """

    trajectories: Trajectories
    survey: Survey
    quality: QualityReport
    reference: int
    dependence: dict[int, Dependence] = field(default_factory=dict)
    check: FitCheck | None = None
    draws: tuple[PosteriorDraws, ...] = ()
    sensitivity: dict[int, PriorSensitivity] = field(default_factory=dict)
    pairs: "PairScan | None" = None
    regions: "SearchRegions | None" = None
    backtest: "EnsembleScores | None" = None
    skipped: dict[str, str] = field(default_factory=dict)


def examine(
    trajectories: Trajectories,
    scan: "Scan | xr.Dataset",
    *,
    n_replicas: int = 200,
    pairs: bool = False,
    within: float | str | None = None,
    progress: Progress | None = None,
) -> Examination:
    """Examine the trajectories of a scan beyond it.

    Dependence and prior sensitivity are computed at three sampling times: the shortest, the longest
    and the reference, or one in the middle. Goodness of fit and posteriors, which take longer, are
    computed at the reference sampling time.

    Args:
        trajectories: Trajectories of the scan.
        scan: The scan, or its dataset.
        n_replicas: Replicas of each model, 100 or more; 0 omits the goodness of fit.
        pairs: Whether to compare laws of relative dispersion too.
        within: Distance at which pairs begin; None for any.
        progress: Called with a stage, the number done, and the total.
    """
    scan = as_scan(scan)
    if n_replicas != 0:
        check_replicas(n_replicas)
    fingerprint = str(scan.attributes.get("data_fingerprint", ""))
    if fingerprint != trajectories.fingerprint:
        raise DriftbayesError(
            f"these trajectories are not those of the scan: expected fingerprint {fingerprint!r}, "
            f"got {trajectories.fingerprint!r}; read the same file with the same options, or scan "
            "it again"
        )
    options = stored(scan, "options")
    records = list(scan.comparisons[0].evidences.values())
    hypotheses = tuple(record.hypothesis for record in records)
    how: dict[str, Any] = {
        "method": "auto" if records[0].method == "exact" else records[0].method,
        "coords": options.get("coords", "natural"),
        "seed": int(options.get("seed", 0)),
    }
    reference, last = reference_tau_index(scan), len(scan.comparisons) - 1
    middle = last // 2 if reference in (0, last) else reference
    places = sorted({0, middle, last, reference})
    skipped: dict[str, str] = {}
    dependences: dict[int, Dependence] = {}
    sensitivities: dict[int, PriorSensitivity] = {}
    check, draws = None, []

    def attempt(part: str, function: Callable[..., Any], *args: Any, **more: Any) -> Any:
        # If one part cannot be computed, others may.
        try:
            return function(*args, **more)
        except DriftbayesError as error:
            skipped.setdefault(part, str(error))
            return None

    cut = {name: options[name] for name in ("n_tau", "gaps", "windows") if name in options}
    for i, place in enumerate(places):
        tau = None if uses_all_fixes(scan) else float(scan.taus[place])
        data = displacements(trajectories, tau, **cut)
        dependences[place] = attempt(
            "dependence", dependence, trajectories, data.tau, max_particles=_MAX_PARTICLES
        )
        sensitivities[place] = attempt(
            "sensitivity", prior_sensitivity, hypotheses, data, factors=_FACTORS, **how
        )
        if place == reference:
            if n_replicas != 0:
                how_check = {**how, "prior_probabilities": options.get("prior_probabilities")}
                check = attempt(
                    *("check", _check, trajectories, data, hypotheses),
                    n_replicas=n_replicas,
                    **how_check,
                )
            for hypothesis in hypotheses:
                part = f"the posterior of {hypothesis.name}"
                draws.append(
                    attempt(part, posterior_draws, hypothesis, data, n_draws=_N_DRAWS, **how)
                )
        if progress is not None:
            progress("examining", i + 1, len(places))
    pair_scan = None
    if pairs:
        from driftbayes.relative import scan_pairs

        # `scan_pairs` omits sampling times with too few steps.
        taus = scan.taus.tolist()
        pair_scan = attempt(
            "pairs", scan_pairs, trajectories, taus, within=within, seed=how["seed"]
        )
    return Examination(
        trajectories,
        survey(trajectories),
        inspect(trajectories),
        reference,
        dependence={place: d for place, d in dependences.items() if d is not None},
        check=check,
        draws=tuple(found for found in draws if found is not None),
        sensitivity={place: s for place, s in sensitivities.items() if s is not None},
        pairs=pair_scan,
        skipped=skipped,
    )


def reference_tau_index(scan: Scan) -> int:
    """Return the index of the reference sampling time.

    It is the shortest at which all parameters of the best model are consistent, or the middle one.
    """
    for i, comparison in enumerate(scan.comparisons):
        best = comparison.best
        if all(is_consistent(scan, best, name)[i] for name in scan.consistency[best]):
            return i
    return len(scan.comparisons) // 2


def _check(
    trajectories: Trajectories, data: Displacements, hypotheses: Any, **options: Any
) -> FitCheck:
    if len(data.dx) > _MAX_DISPLACEMENTS:
        raise DriftbayesError(
            f"{len(data.dx):,} displacements exceed the limit of {_MAX_DISPLACEMENTS:,} for "
            f"replicas in a report; run `driftbayes check FILE --tau {data.tau:g}`"
        )
    start_times = trajectories.times[data.start_row]
    return check_fit(hypotheses, data, start_times=start_times, **options)


def data_facts(trajectories: Trajectories, found: Survey) -> list[tuple[str, str]]:
    """Describe sizes, times, intervals, ranges, units and errors of trajectories.

    Args:
        trajectories: The trajectories.
        found: Their survey.
    """
    length, time = trajectories.length_unit or "not given", trajectories.time_unit or "not given"
    card = describe(trajectories)
    facts = [
        ("trajectories", card.headline),
        *(fact for fact in card.facts if fact[0] != "suggested"),
        ("units", f"length {length}, time {time}"),
    ]
    if found.interval is not None and trajectories.recording_interval is None:
        typical = readable_time(found.interval, trajectories.time_unit)
        facts.append(("typical interval", f"{typical}, {found.share:.0%} of the intervals"))
    if found.n_gaps and "gaps" not in dict(facts):
        longest = readable_time(found.longest_gap or 0.0, trajectories.time_unit)
        facts.append(("gaps", f"{found.n_gaps:,}, the longest {longest}"))
    return [*facts, ("fingerprint", trajectories.fingerprint)]


def quality_findings(found: Survey, quality: QualityReport) -> list[str]:
    """Return suspected errors in trajectories, one sentence each."""
    sentences = [finding.sentence for finding in quality.findings if finding.n_observations]
    for axis, n_jumps in found.jumps.items():
        steps = "1 step" if n_jumps == 1 else f"{n_jumps:,} steps"
        sentences.append(
            f"{steps} of more than half the range of {axis}; if the domain is periodic, read the "
            "file with --period"
        )
    return sentences
