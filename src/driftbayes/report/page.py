"""Write a report: one self-contained HTML page, with all its numbers as CSV and JSON."""

import csv
import hashlib
import io
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes._version import __version__
from driftbayes.checks.describe import check_table, fit_panels
from driftbayes.comparison import Scan
from driftbayes.comparison.bayes import NOT_TESTED
from driftbayes.comparison.describe import (
    as_scan,
    scan_command,
    scan_panels,
    scan_tables,
    scan_verdict,
    sensitivity_panel,
    shared_motion_command,
    stored,
    uses_all_fixes,
)
from driftbayes.comparison.scan import is_consistent
from driftbayes.data.units import readable_time
from driftbayes.errors import DriftbayesError
from driftbayes.inference.describe import MODEL_FIELDS, evidence_rows, posterior_panels
from driftbayes.io.cells import escape_cell
from driftbayes.report.examination import (
    Examination,
    data_facts,
    quality_findings,
    reference_tau_index,
)
from driftbayes.report.forecasts import forecast_panels, forecast_tables, region_records
from driftbayes.report.svg import page_colours, panel_svg, x_places
from driftbayes.report.tracks import trajectories_svg
from driftbayes.representation import Panel, describe, number, render
from driftbayes.simulators import export, recommend
from driftbayes.storage import PathLike, atomic_paths

if TYPE_CHECKING:
    import xarray as xr

# Numbers of a parameter in the files beside the page.
_FIELDS = ("map", "posterior_mean", "posterior_sd", "contraction")
# Spaces at which a line may not end.
_PAIRS = re.compile(r"(?<=\d) (?=(?:[nµmk]?m|[nµm]?s|min|h|d)\b)|(?<=\w) (?==)|(?<==) (?=\S)")
# A file of numbers is recognised by these first characters, with the id of the report first.
_CSV_START = re.compile(rb"report,tau,model,parameter,field,at,value\r?\n")
_JSON_START = re.compile(rb'\[\s*\{\s*"report": "[0-9a-f]{16}",')


@dataclass(frozen=True)
class Report:
    """A report, and every number in it.

    Args:
        html: The page.
        records: Every plotted number.
        id: Identifier of the report, on the page and in its files of numbers.
    """

    html: str
    records: list[dict[str, Any]]
    id: str


def write_report(
    scan: "Scan | xr.Dataset",
    path: PathLike,
    *,
    title: str | None = None,
    examination: Examination | None = None,
) -> list[Path]:
    """Write the page, and beside it its numbers as CSV and JSON.

    For `tracks.html` these are `tracks.report.csv` and `tracks.report.json`. The three are replaced
    together and hold the same id.

    Args:
        scan: A scan, or its dataset.
        path: HTML file.
        title: Title of the page.
        examination: Results of `examine`, to be included.
    """
    target = Path(path)
    if target.suffix.lower() not in (".html", ".htm"):
        msg = f"a report is an HTML file: expected a name ending in .html, got {target.name!r}"
        raise DriftbayesError(msg)
    stem = f"{target.stem}.report"
    report = build_report(scan, title=title, numbers=stem, examination=examination)
    table, numbers = companions(target)
    records = [{"report": report.id, **record} for record in report.records]
    texts = {
        table: _csv(records),
        numbers: json.dumps(records, indent=1, allow_nan=False),
        target: report.html,
    }
    # The page last: where there is a new page, its numbers are there too.
    with atomic_paths(list(texts)) as temporaries:
        for temporary, text in zip(temporaries, texts.values(), strict=True):
            temporary.write_text(text, encoding="utf-8")
    return [target, table, numbers]


def default_path(source: PathLike) -> Path:
    """Return the name of the report of a file, in the working directory.

    Example:
        >>> default_path("runs/tracks.csv.gz").name
        'tracks.html'
    """
    name = Path(source).resolve().name
    for packed in (".gz", ".bz2", ".xz", ".zip"):
        name = name.removesuffix(packed)
    return Path(f"{Path(name).stem or 'report'}.html")


def companions(path: Path) -> tuple[Path, Path]:
    """Return the names of the CSV and the JSON file of a page."""
    return path.with_name(f"{path.stem}.report.csv"), path.with_name(f"{path.stem}.report.json")


def is_companion(path: Path) -> bool:
    """Return whether a file is the CSV or the JSON file of a report."""
    try:
        with path.open("rb") as stream:
            start = stream.read(256)
    except OSError:
        return False
    return bool(_CSV_START.match(start) or _JSON_START.match(start))


def build_report(
    scan: "Scan | xr.Dataset",
    *,
    title: str | None = None,
    numbers: str = "",
    examination: Examination | None = None,
) -> Report:
    """Build the page of a scan.

    Args:
        scan: A scan, or its dataset.
        title: Title of the page.
        numbers: Name, without suffix, of the files of numbers beside it.
        examination: Results of `examine`, to be included.
    """
    scan = as_scan(scan)
    scan = _with_fit(scan, examination)
    first, origin = scan.comparisons[0], stored(scan, "provenance")
    source = str(origin.get("source") or "an unknown source")
    heading = title or f"Dispersion in {source}"
    is_all = uses_all_fixes(scan)
    # A curve needs more than one sampling time.
    panels = scan_panels(scan) if len(scan.comparisons) > 1 else []
    sections = {} if examination is None else _examined_panels(scan, examination)
    more = [panel for section in sections.values() for panel in section]
    records = [*_scan_records(scan), *(r for panel in more for r in _panel_records(panel))]
    if examination is not None:
        tau = float(scan.taus[examination.reference])
        for particle, field, horizon, area in region_records(examination.regions):
            records.append(_record(tau, "", particle, field, area, at=horizon))
    text = json.dumps([__version__, heading, records], allow_nan=False)
    identity = hashlib.sha256(text.encode()).hexdigest()[:16]

    def time(tau: float) -> str:
        return readable_time(float(tau), first.time_unit)

    taus = [time(tau) for tau in scan.taus]
    if is_all:
        taus = [f"the interval of each fix, {taus[0]} on average"]
    tables = [scan_tables(scan, i) for i in range(len(taus))]
    embedded = {
        "tau_text": taus,
        "panels": {panel.name: _panel_numbers(panel) for panel in [*panels, *more]},
        "tables": [{"models": m.rows, "parameters": p.rows} for m, p in tables],
    }
    static = resources.files("driftbayes.report").joinpath("static")
    page = render(
        "driftbayes.report",
        "report.html",
        **{"heading": heading, "source": source, "origin": origin, "scan": scan, "first": first},
        **{"taus": taus, "tables": tables, "panels": panels, "sections": sections, "time": time},
        n_particles=[comparison.n_particles for comparison in scan.comparisons],
        n_displacements=[comparison.n_displacements for comparison in scan.comparisons],
        seconds=lambda value: readable_time(value, "s"),
        place=reference_tau_index(scan),
        verdict=verdict(scan, examination),
        bound=_bound,
        colours=page_colours(scan.models),
        **_examined_tables(examination),
        **_recommended(scan),
        **{"command": scan_command(scan), "shared": shared_motion_command(scan)},
        **{"numbers": numbers, "identity": identity, "version": __version__, "svg": panel_svg},
        seed=stored(scan, "options").get("seed", 0),
        embedded=json.dumps(embedded, allow_nan=False).replace("<", "\\u003c"),
        style=static.joinpath("report.css").read_text(encoding="utf-8"),
        script=static.joinpath("report.js").read_text(encoding="utf-8"),
    )
    return Report(page, records, identity)


def _bound(text: str) -> str:
    """A text in which no line ends between a number and its unit, or beside an equals sign."""
    return _PAIRS.sub("\u00a0", text)


def _with_fit(scan: Scan, examination: Examination | None) -> Scan:
    """The scan with the goodness of fit that was found at the reference time."""
    if examination is None or examination.check is None:
        return scan
    comparisons, here = list(scan.comparisons), examination.reference
    found = examination.check.comparison.fit_p_values
    comparisons[here] = replace(comparisons[here], fit_p_values=found)
    return replace(scan, comparisons=tuple(comparisons))


def verdict(scan: Scan, examination: Examination | None = None) -> list[str]:
    """Return the verdict of a report: the favoured model, its range, and what speaks against it.

    Args:
        scan: The scan.
        examination: Results of `examine`, if there are any.
    """
    scan = _with_fit(scan, examination)
    sentences = scan_verdict(scan)
    check = None if examination is None else examination.check
    if check is None and not any(NOT_TESTED in c.doubts for c in scan.comparisons):
        sentences.append(
            "This compares these models only; run `driftbayes check` to test whether the best of "
            "them explains the data."
        )
    if examination is None:
        return sentences
    unit = scan.comparisons[0].time_unit
    at = "" if uses_all_fixes(scan) else " at τ = {}"
    if check is not None:
        best = check.comparison.best
        where = at.format(readable_time(check.comparison.tau, unit))
        sentences.append(f"Goodness of fit of {best}{where}: {check.models[best].verdict}.")
    for place, found in examination.dependence.items():
        # What a comparison knows of it is in its sentence; models with shared motion allow for it.
        at_tau = scan.comparisons[place]
        are_shared = all(e.hypothesis.model.shares_motion for e in at_tau.evidences.values())
        if found.is_serious and at_tau.dependence is None and not are_shared:
            text, where = found.sentence, at.format(readable_time(found.tau, unit))
            sentences.append(f"{text[0].upper()}{text[1:]}{where}; the evidences are overstated.")
    if examination.pairs is not None:
        from driftbayes.relative.describe import pair_sentences

        sentences += [f"Pairs of particles: {text}" for text in pair_sentences(examination.pairs)]
    if examination.backtest is not None:
        sentences.append(f"Forecasts from earlier times: {examination.backtest.verdict}.")
    for prior in examination.sensitivity.values():
        where = at.format(readable_time(prior.tau, unit))
        for pair in prior.log_bayes_factors:
            if prior.verdict_changes(pair):
                sentences.append(f"The sign of ln K({pair}){where} depends on the priors.")
    return sentences


def _examined_panels(scan: Scan, examination: Examination) -> dict[str, list[Panel]]:
    """Panels of posteriors, goodness of fit and prior sensitivity."""
    from driftbayes.relative.describe import pair_scan_panels

    first, check = scan.comparisons[0], examination.check
    tau, units = float(scan.taus[examination.reference]), (first.length_unit, first.time_unit)
    return {
        "posteriors": [
            p for draws in examination.draws for p in posterior_panels(draws, tau, units)
        ],
        "fit": [] if check is None else fit_panels(check),
        "priors": [
            sensitivity_panel(found, f"prior_sensitivity_{place}", first.time_unit)
            for place, found in examination.sensitivity.items()
        ],
        "pairs": [] if examination.pairs is None else pair_scan_panels(examination.pairs),
        "forecasts": forecast_panels(examination, tau),
    }


def _examined_tables(examination: Examination | None) -> dict[str, Any]:
    """Facts, tables and the drawing of an examination."""
    if examination is None:
        nothing = dict.fromkeys(("examination", "check", "pairs", "forecasts", "search_areas"))
        return {**nothing, "pair_colours": {}, "forecast_colours": {}}
    tracks, found, check = examination.trajectories, examination.survey, examination.check
    dependence: dict[str, list[str]] = {}
    for one in examination.dependence.values():
        dependence.setdefault(one.sentence, []).append(readable_time(one.tau, tracks.time_unit))
    return {
        "examination": examination,
        "check": check,
        "p_values": None if check is None else check_table(check),
        "facts_of_data": data_facts(tracks, found),
        "dependence": {sentence: ", ".join(taus) for sentence, taus in dependence.items()},
        "quality": quality_findings(found, examination.quality),
        "drawing": trajectories_svg(tracks, examination.regions),
        **_paired(examination),
        **forecast_tables(examination),
    }


def _paired(examination: Examination) -> dict[str, Any]:
    """Sentences, colours and tables of laws of relative dispersion."""
    found = examination.pairs
    if found is None:
        return {"pairs": None, "pair_colours": {}}
    from driftbayes.relative.describe import pair_sentences

    first = found.results[0]
    return {
        "pairs": describe(found),
        "pair_colours": page_colours(list(first.comparison.evidences)),
        "pair_sentences": pair_sentences(found),
        "pair_tau": readable_time(first.data.tau, first.data.time_unit),
    }


def _recommended(scan: Scan) -> dict[str, Any]:
    """Parameters for simulators, as code too, or the reason why there are none."""
    recommended, code, reason = None, "", ""
    try:
        recommended = recommend(scan.to_dataset())
        code = export(recommended, "parcels")
    except DriftbayesError as error:
        reason = str(error)
    return {"recommended": recommended, "code": code, "reason": reason}


# Numbers


def _scan_records(scan: Scan) -> list[dict[str, Any]]:
    """One record for each sampling time and tabulated or plotted quantity, or left out."""
    records = [
        _record(tau, "", "", f"left out: {why}", math.nan) for tau, why in scan.skipped.items()
    ]
    for i, comparison in enumerate(scan.comparisons):
        for model, e in comparison.evidences.items():
            values = {field: getattr(e, field) for field in MODEL_FIELDS}
            values["probability"] = comparison.probabilities[model]
            records += [_record(e.tau, model, "", field, v) for field, v in values.items()]
            for row in evidence_rows(e):
                name = row["parameter"]
                values = {f: v for f, v in row.items() if f in _FIELDS or f.startswith("quantile")}
                values["consistent"] = is_consistent(scan, model, name)[i]
                records += [_record(e.tau, model, name, field, v) for field, v in values.items()]
    return records


def _panel_records(panel: Panel) -> list[dict[str, Any]]:
    """Every value of a panel at one sampling time."""
    return [
        _record(panel.at_tau, curve.group, "", f"{panel.name}: {curve.label}{end}", value, at=x)
        for curve in panel.curves
        for end, array in {"": curve.y, " low": curve.low, " high": curve.high}.items()
        if array is not None and np.isfinite(array).any()
        for x, value in zip(panel.x.tolist(), array, strict=True)
    ]


def _record(
    tau: float | None, model: str, parameter: str, field: str, value: float, at: float | None = None
) -> dict[str, Any]:
    """One number; `at` is its place along its panel, if that is not the sampling time."""
    names = {"tau": tau, "model": model, "parameter": parameter, "field": field, "at": at}
    return {**names, "value": float(value) if math.isfinite(value) else None}


def _panel_numbers(panel: Panel) -> dict[str, Any]:
    """What the script of the page reads out."""
    curves = [
        {
            "label": curve.label,
            "group": curve.group,
            "y": [float(v) if np.isfinite(v) else None for v in curve.y],
        }
        for curve in panel.curves
        if np.isfinite(curve.y).any()
    ]
    along = {} if panel.at_tau is None else {"at": [number(x) for x in panel.x]}
    return {"x": x_places(panel), "curves": curves, **along}


def _csv(records: Sequence[dict[str, Any]]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(records[0])
    for record in records:
        writer.writerow(escape_cell(v) if isinstance(v, str) else v for v in record.values())
    return buffer.getvalue()
