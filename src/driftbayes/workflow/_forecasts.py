"""Forecasts for a report: search areas, and scores of forecasts from earlier times."""

from dataclasses import replace
from typing import Any

from driftbayes.comparison import Scan
from driftbayes.comparison._describe_scan import uses_all_fixes
from driftbayes.data._units import times_in
from driftbayes.errors import DriftbayesError
from driftbayes.prediction._forecast import predict_particles
from driftbayes.prediction.regions import REGION_MEMBERS, search_regions
from driftbayes.report._examination import Examination
from driftbayes.workflow._backtests import backtest

# Few times of origin keep a report quick.
_N_ORIGINS = 5


def with_forecasts(
    examination: Examination, scan: Scan, horizons: Any, *, seed: int = 0, **options: Any
) -> Examination:
    """Forecast the particles of a report, from their last positions and from earlier times.

    Both use the models of the scan at its reference sampling time. A forecast that is not possible
    is skipped, with the reason.

    Args:
        examination: Results of `examine`.
        scan: The scan.
        horizons: Times ahead, also as text ("1d,3d").
        seed: Random seed of members and bootstrap.
        **options: Priors and method of the fits to earlier positions, as for `backtest`.
    """
    tracks = examination.trajectories
    times = sorted(set(times_in(horizons, tracks.units, "horizons")))
    tau = None if uses_all_fixes(scan) else float(scan.taus[examination.reference])
    made = dict[str, Any]()
    reasons = []
    try:
        found = predict_particles(
            examination.draws, tracks, times, tau=tau, n_members=REGION_MEMBERS, seed=seed
        )
        made["regions"] = search_regions(found)
    except DriftbayesError as error:
        reasons.append(str(error))
    options = {**options, "models": ",".join(scan.models), "seed": seed}
    try:
        made["backtest"] = backtest(tracks, tau or "all", times, origins=_N_ORIGINS, **options)
    except DriftbayesError as error:
        reasons.append(str(error))
    skipped = {"forecasts": "; ".join(dict.fromkeys(reasons))} if reasons else {}
    return replace(examination, skipped={**examination.skipped, **skipped}, **made)
