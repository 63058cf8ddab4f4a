"""Report on trajectories or on a scan."""

from collections.abc import Iterable
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from driftbayes._representation import Card, Described, describe, summarise
from driftbayes._storage import PathLike
from driftbayes.comparison._describe_scan import as_scan
from driftbayes.comparison._scan import Scan
from driftbayes.data._trajectories import Trajectories, check_tracks
from driftbayes.data._units import times_in
from driftbayes.errors import DataWarning, DriftbayesError, did_you_mean, warn
from driftbayes.inference._methods import METHOD_OPTIONS
from driftbayes.report import Examination, examine
from driftbayes.report import write_report as write_page
from driftbayes.report._page import verdict
from driftbayes.workflow._analyses import scan as scan_tracks

if TYPE_CHECKING:
    import xarray as xr

# Options of `examine`; the others are those of the scan.
_EXAMINED = ("n_replicas", "pairs", "within")


@dataclass(frozen=True, eq=False, repr=False)
class WrittenReport(Described):
    """A written report.

    Args:
        paths: The page, and its numbers as CSV and JSON.
        scan: The scan.
        examination: Results beyond the scan, if trajectories were given.

    Example:
        >>> import driftbayes as db
        >>> tracks = db.simulate("brownian", {"kappa": 1.0}, tau=0.5, n_particles=10, n_steps=20)
        >>> scan = tracks.scan([0.5, 1.0], scales=db.Scales(u_rms=1.4, time=1.0))
        >>> scan.report("scan.html")
        <WrittenReport: scan.html>
    """

    paths: tuple[Path, ...]
    scan: Scan
    examination: Examination | None = None

    @property
    def sentences(self) -> list[str]:
        """The verdict of the report."""
        return verdict(self.scan, self.examination)


@summarise.register
def _(report: WrittenReport) -> str:
    return str(report.paths[0])


@describe.register
def _(report: WrittenReport) -> Card:
    return Card("Report", summarise(report), sentences=tuple(report.sentences))


def write_report(
    source: "Trajectories | Scan | xr.Dataset",
    path: PathLike,
    *,
    tracks: Trajectories | None = None,
    title: str | None = None,
    forecast: Any = None,
    brief: bool = False,
    **options: Any,
) -> WrittenReport:
    """Write a self-contained HTML report, and its numbers as CSV and JSON.

    Trajectories are scanned first; irregular times are compared without a scan. With trajectories
    the report includes data quality, posteriors, goodness of fit and prior sensitivity.

    Args:
        source: Trajectories, or a scan.
        path: HTML file. The numbers of `tracks.html` are in `tracks.report.csv` and
            `tracks.report.json`.
        tracks: Trajectories of the scan, if `source` is a scan.
        title: Title of the page.
        forecast: Times after the last positions at which to draw search regions, and to score
            forecasts from five earlier origins, also as text ("6h,1d").
        brief: Whether to report only the scan.
        **options: `n_replicas` of each model for the goodness of fit (0 for none), `pairs` to
            compare laws of relative dispersion and `within`, the distance at which pairs begin;
            `progress`; and options of `scan`: `taus`, `models`, `priors`, `scales`, `method`,
            `cut`, `seed`, `prior_probabilities`.

    Raises:
        DriftbayesError: The trajectories are not those of the scan, or an option does not fit.

    Example:
        >>> import driftbayes as db
        >>> tracks = db.simulate("brownian", {"kappa": 1.0}, tau=0.5, n_particles=10, n_steps=20)
        >>> how = {"taus": [0.5, 1.0], "scales": db.Scales(u_rms=1.4, time=1.0)}
        >>> found = db.write_report(tracks, "report.html", brief=True, **how)
        >>> [path.name for path in found.paths]
        ['report.html', 'report.report.csv', 'report.report.json']
    """
    wanted = {name: options.pop(name) for name in _EXAMINED if name in options}
    extra = "forecast" if forecast is not None else "pairs" if wanted.get("pairs") else ""
    if brief and (extra or tracks is not None):
        raise DriftbayesError(f"brief and {extra or 'tracks'} exclude each other; give one of them")
    if wanted.get("within") is not None and not wanted.get("pairs"):
        raise DriftbayesError("within is the distance of pairs; add pairs=True")
    progress = {name: options[name] for name in ("progress",) if name in options}
    if isinstance(source, Trajectories):
        if tracks is not None:
            raise DriftbayesError("tracks are those of a scan; omit them, or give the scan")
        tracks = None if brief else source
        if forecast is not None:
            times_in(forecast, source.units, "forecast")
        if options.get("taus") is None and _is_irregular(source):
            warn(
                "times are irregular: the report compares the models on every fix at its own "
                "interval, without a scan over tau",
                DataWarning,
            )
            options["taus"] = "all"
        scan = scan_tracks(source, **options)
        options.pop("taus", None)
    else:
        scan = as_scan(source)
        if tracks is not None:
            check_tracks(tracks)
        _check_names(options)
    if extra and tracks is None:
        raise DriftbayesError(f"{extra} needs the trajectories of the scan; pass tracks")
    examination = None
    if tracks is not None:
        examination = examine(tracks, scan, **wanted, **progress)
        if forecast is not None:
            from driftbayes.workflow._forecasts import with_forecasts

            examination = with_forecasts(examination, scan, forecast, **options)
    paths = write_page(scan, path, title=title, examination=examination)
    return WrittenReport(tuple(paths), scan, examination)


def _check_names(options: Iterable[str]) -> None:
    """Refuse options that neither a report nor a scan has."""
    names = [*signature(write_report).parameters, *signature(scan_tracks).parameters]
    further = ("progress", "seed", "prior_probabilities", *METHOD_OPTIONS)
    known = (*(name for name in names if name != "options"), *_EXAMINED, *further)
    for name in options:
        if name not in known:
            near = did_you_mean(name, known)
            raise DriftbayesError(f"write_report has no option {name!r}{near}")


def _is_irregular(tracks: Trajectories) -> bool:
    return tracks.recording_interval is None and len(tracks.intervals) > 0
