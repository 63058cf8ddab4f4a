"""Compare models at one sampling time, or at many."""

__all__ = ["compare", "compare_displacements", "scan", "suggested_taus", "warn_along_scan"]

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from driftbayes.comparison import (
    Comparison,
    HypothesisSet,
    Scan,
    compare_hypotheses,
    scan_hypotheses,
)
from driftbayes.data.sampling import Displacements, displacements
from driftbayes.data.trajectories import Trajectories
from driftbayes.diagnostics.survey import survey
from driftbayes.errors import DataWarning, DriftbayesError
from driftbayes.inference import Hypothesis, Method
from driftbayes.likelihood import SummedDisplacements
from driftbayes.precision import in_double_precision
from driftbayes.workflow.dependence import warn_if_dependent
from driftbayes.workflow.setup import Cut, Models, Priors, Scales, hypotheses_for

WHOLE = Cut()


@in_double_precision
def compare(
    tracks: Trajectories,
    tau: float | str,
    *,
    models: Models = "brownian, langevin",
    priors: Priors | None = None,
    scales: Scales | None = None,
    method: Method | str = "auto",
    cut: Cut = WHOLE,
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
        **options: `prior_probabilities` of the models, `sensitivity`, `seed` and `coords` of
            methods that have them, as for `compare_hypotheses`.

    Returns:
        The comparison. `sensitivity` is filled in by default where priors come from the data.

    Raises:
        DriftbayesError: No two positions are tau apart, or an option does not fit.
    """
    chosen = None if tau == "all" else float(tau)
    data = displacements(tracks, chosen, **cut.to_dict())
    if data.n_unused:
        what = "1 trajectory is" if data.n_unused == 1 else f"{data.n_unused} trajectories are"
        warnings.warn(f"{what} too short for this tau and not used", DataWarning, stacklevel=3)
    setup = hypotheses_for(models, tracks, priors=priors, scales=scales)
    result = compare_displacements(data, setup, method=method, **options)
    dependence = warn_if_dependent(tracks, [(result, data)], setup.hypotheses)
    return replace(result, dependence=dependence)


@in_double_precision
def compare_displacements(
    data: Displacements | SummedDisplacements,
    setup: HypothesisSet,
    *,
    sensitivity: bool | None = None,
    **options: Any,
) -> Comparison:
    """Compare hypotheses on displacements, or on their sums.

    Args:
        data: Displacements at one tau.
        setup: Hypotheses, from `hypotheses_for`.
        sensitivity: Whether to repeat the comparison with other prior scales; by default where the
            priors come from the data.
        **options: As for `compare`.
    """
    wanted = setup.from_data if sensitivity is None else sensitivity
    several = len(setup.hypotheses) > 1
    result = compare_hypotheses(setup.hypotheses, data, sensitivity=several and wanted, **options)
    return replace(result, priors_from_data=setup.from_data)


@in_double_precision
def scan(
    tracks: Trajectories,
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

    Args:
        tracks: Trajectories, as `read` gives them.
        taus: Sampling times; by default a dozen that suit the trajectories.
        models: As for `compare`.
        priors: As for `compare`.
        scales: As for `compare`.
        method: As for `compare`.
        cut: As for `compare`.
        **options: `prior_probabilities`, `seed`, `coords` and `progress`, as for
            `scan_hypotheses`.

    Raises:
        DriftbayesError: The times are irregular, or too few.
    """
    check_regular(tracks)
    wanted = suggested_taus(tracks) if taus is None else list(taus)
    setup = hypotheses_for(models, tracks, priors=priors, scales=scales)
    result = scan_hypotheses(
        tracks, setup.hypotheses, wanted, method=method, **cut.to_dict(), **options
    )
    warn_along_scan(result, tracks, setup.hypotheses, cut)
    return result


def warn_along_scan(
    result: Scan, tracks: Trajectories, hypotheses: Sequence[Hypothesis], cut: Cut = WHOLE
) -> None:
    """Warn if particles move together at the shortest, a middle or the longest sampling time."""
    places = {0, len(result.comparisons) // 2, len(result.comparisons) - 1}
    chosen = [result.comparisons[i] for i in sorted(places)]
    pairs = [(c, displacements(tracks, c.tau, **cut.to_dict())) for c in chosen]
    warn_if_dependent(tracks, pairs, hypotheses)


def suggested_taus(tracks: Trajectories) -> list[float]:
    """Sampling times that suit the trajectories, evenly spaced in their logarithm.

    Raises:
        DriftbayesError: The times are irregular, or too few.
    """
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
