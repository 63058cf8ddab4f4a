"""Report as a self-contained HTML page, with all its numbers as CSV and JSON."""

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
from markupsafe import Markup, escape

from driftbayes._representation import Panel, describe, number, render
from driftbayes._storage import PathLike, atomic_paths
from driftbayes._version import __version__
from driftbayes.checks._describe import check_table, fit_panels
from driftbayes.comparison import Scan
from driftbayes.comparison._bayes import NOT_TESTED
from driftbayes.comparison._describe_scan import (
    PARAMETER_NOTE,
    as_scan,
    scan_command,
    scan_panels,
    scan_tables,
    scan_verdict,
    shared_motion_command,
    stored,
    uses_all_fixes,
)
from driftbayes.comparison._describe_sensitivity import sensitivity_panel, sensitivity_table
from driftbayes.comparison._scan import is_consistent
from driftbayes.data._describe import origin_facts
from driftbayes.data._units import readable_time
from driftbayes.errors import DriftbayesError, expect
from driftbayes.inference._describe import MODEL_FIELDS, evidence_rows, posterior_panels
from driftbayes.io._cells import escape_cell
from driftbayes.report._examination import (
    Examination,
    data_facts,
    quality_findings,
    reference_tau_index,
)
from driftbayes.report._forecasts import forecast_panels, forecast_tables, region_records
from driftbayes.report._svg import page_colours, panel_svg, x_places
from driftbayes.report._tracks import trajectories_svg
from driftbayes.simulators import export, recommend

if TYPE_CHECKING:
    import xarray as xr

# Fields of a parameter in the files of numbers.
_FIELDS = ("map", "posterior_mean", "posterior_sd", "contraction")
# Spaces at which a line must not break.
_PAIRS = re.compile(
    r"(?<=\d) (?=(?:[nµmk]?m|[nµm]?s|min|h|d)\b)|(?<=\w) (?=[=<>])|(?<=[=<>]) (?=\S)"
)
# Numbers and dates with a hyphen, at which a line must not break.
_WHOLE = re.compile(r"(?<![\d.])\d[\d.]{0,8}e-\d+|\d{4}-\d\d-\d\d(T[\d:]+)?")
_NBSP = "\u00a0"
# First characters by which a file of numbers is recognised.
_CSV_START = re.compile(rb"report,tau,model,parameter,field,at,value\r?\n")
_JSON_START = re.compile(rb'\[\s*\{\s*"report": "[0-9a-f]{16}",')


@dataclass(frozen=True)
class Report:
    """Report with all its numbers.

    Args:
        html: The page.
        records: All plotted numbers.
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
    """Write a self-contained HTML report, and its numbers as CSV and JSON.

    The numbers of `tracks.html` are in `tracks.report.csv` and `tracks.report.json`. The three
    files are replaced together and have the same id.

    Args:
        scan: A scan, or its dataset.
        path: HTML file.
        title: Title of the page.
        examination: Results of `examine` to include.

    Example:
        >>> import driftbayes as db
        >>> from driftbayes.report import write_report
        >>> tracks = db.simulate("brownian", {"kappa": 1.0}, tau=0.5, n_particles=10, n_steps=20)
        >>> scan = tracks.scan([0.5, 1.0], scales=db.Scales(u_rms=1.4, time=1.0))
        >>> [path.name for path in write_report(scan, "report.html")]
        ['report.html', 'report.report.csv', 'report.report.json']
    """
    expect(path, str | Path, "path", "the name of a file")
    target = Path(path)
    if target.suffix.lower() not in (".html", ".htm"):
        raise DriftbayesError(f"the name of a report must end in .html, got {target.name!r}")
    stem = f"{target.stem}.report"
    report = build_report(scan, title=title, numbers=stem, examination=examination)
    table, numbers = companions(target)
    records = [{"report": report.id, **record} for record in report.records]
    texts = {
        table: _csv(records),
        numbers: json.dumps(records, indent=1, allow_nan=False),
        target: report.html,
    }
    # The page last, so that a new page always has its numbers.
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
        numbers: Name, without suffix, of the files of numbers.
        examination: Results of `examine` to include.
    """
    scan = _with_fit(as_scan(scan), examination)
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
        **{"heading": heading, "source": source, "origin": origin_facts(origin)},
        **{"scan": scan, "first": first},
        **{"taus": taus, "tables": tables, "panels": panels, "sections": sections},
        n_particles=[comparison.n_particles for comparison in scan.comparisons],
        n_displacements=[comparison.n_displacements for comparison in scan.comparisons],
        seconds=lambda value: readable_time(value, "s"),
        place=reference_tau_index(scan),
        verdict=verdict(scan, examination),
        bound=_bound,
        colours=page_colours(scan.models),
        **_examined_tables(examination, scan.models),
        **_recommended(scan),
        **{"command": scan_command(scan), "shared": shared_motion_command(scan)},
        parameter_note=PARAMETER_NOTE,
        repeated="comparison" if is_all else "scan",
        **{"numbers": numbers, "identity": identity, "version": __version__, "svg": panel_svg},
        seed=stored(scan, "options").get("seed", 0),
        embedded=json.dumps(embedded, allow_nan=False).replace("<", "\\u003c"),
        style=static.joinpath("report.css").read_text(encoding="utf-8"),
        script=static.joinpath("report.js").read_text(encoding="utf-8"),
    )
    return Report(page, records, identity)


def _bound(text: str) -> Markup:
    """Prevent line breaks in numbers and dates, between number and unit, and beside =, <, >."""
    escaped = str(escape(_PAIRS.sub(_NBSP, text)))
    return Markup(_WHOLE.sub(r'<span class="whole">\g<0></span>', escaped))


def _with_fit(scan: Scan, examination: Examination | None) -> Scan:
    """Add the goodness of fit at the reference sampling time to a scan."""
    if examination is None or examination.check is None:
        return scan
    comparisons, here = list(scan.comparisons), examination.reference
    found = examination.check.comparison.fit_p_values
    comparisons[here] = replace(comparisons[here], fit_p_values=found)
    return replace(scan, comparisons=tuple(comparisons))


def verdict(scan: Scan, examination: Examination | None = None) -> list[str]:
    """Return the verdict of a report: the favoured model, its range, and caveats.

    Args:
        scan: The scan.
        examination: Results of `examine`, if any.
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
        # The sentence of a comparison may include it; models of shared motion allow for it.
        at_tau = scan.comparisons[place]
        are_shared = all(e.hypothesis.model.shares_motion for e in at_tau.evidences.values())
        if found.is_serious and at_tau.dependence is None and not are_shared:
            text, where = found.sentence, at.format(readable_time(found.tau, unit))
            sentences.append(f"{text[0].upper()}{text[1:]}{where}; the evidences are overstated.")
    if examination.pairs is not None:
        from driftbayes.relative._describe import pair_sentences

        sentences.append(f"Pairs of particles: {' '.join(pair_sentences(examination.pairs))}")
    if examination.backtest is not None:
        sentences.append(f"Forecasts from earlier times: {examination.backtest.verdict}.")
    if "pairs" in examination.skipped:
        sentences.append(f"Pairs of particles were not compared: {examination.skipped['pairs']}.")
    if "forecasts" in examination.skipped:
        words = "Forecasts were not computed"
        if examination.backtest is not None:
            words = "Search areas were not computed"
        elif examination.regions is not None:
            words = "Forecasts from earlier times were not scored"
        sentences.append(f"{words}: {examination.skipped['forecasts']}.")
    for prior in examination.sensitivity.values():
        pairs = [f"ln K({p})" for p in prior.log_bayes_factors if prior.verdict_changes(p)]
        if pairs:
            where = at.format(readable_time(prior.tau, unit))
            start, verb = ("sign", "depends") if len(pairs) == 1 else ("signs", "depend")
            named = " and ".join([", ".join(pairs[:-1]), pairs[-1]]).removeprefix(" and ")
            sentences.append(f"The {start} of {named}{where} {verb} on the priors.")
    return sentences


def _examined_panels(scan: Scan, examination: Examination) -> dict[str, list[Panel]]:
    """Return panels of posteriors, goodness of fit, prior sensitivity, pairs and forecasts."""
    from driftbayes.relative._describe import pair_scan_panels

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


def _examined_tables(examination: Examination | None, models: Sequence[str]) -> dict[str, Any]:
    """Return facts, tables and the drawing of an examination of models."""
    if examination is None:
        nothing = dict.fromkeys(("examination", "check", "pairs", "forecasts", "search_areas"))
        return {**nothing, "pair_colours": {}, "forecast_colours": {}}
    tracks, found, check = examination.trajectories, examination.survey, examination.check
    dependence: dict[str, list[str]] = {}
    for at in examination.dependence.values():
        dependence.setdefault(at.sentence, []).append(readable_time(at.tau, tracks.time_unit))
    return {
        "examination": examination,
        "check": check,
        "p_values": None if check is None else check_table(check),
        "prior_table": sensitivity_table(examination.sensitivity.values(), tracks.time_unit),
        "facts_of_data": data_facts(tracks, found),
        "dependence": {sentence: ", ".join(taus) for sentence, taus in dependence.items()},
        "quality": quality_findings(found, examination.quality),
        "drawing": trajectories_svg(tracks, examination.regions),
        **_paired(examination),
        **forecast_tables(examination, models),
    }


def _paired(examination: Examination) -> dict[str, Any]:
    """Return sentences, colours and tables of laws of relative dispersion."""
    found = examination.pairs
    if found is None:
        return {"pairs": None, "pair_colours": {}}
    from driftbayes.relative._describe import pair_sentences

    first = found.results[0]
    return {
        "pairs": describe(found),
        "pair_colours": page_colours(list(first.comparison.evidences)),
        "pair_sentences": pair_sentences(found),
        "pair_tau": readable_time(first.data.tau, first.data.time_unit),
    }


def _recommended(scan: Scan) -> dict[str, Any]:
    """Return parameters and code for simulators, or the reason why there are none."""
    recommended, code, reason = None, "", ""
    if uses_all_fixes(scan):
        reason = (
            "irregular times cannot be scanned over τ, so the consistency of the parameters is not "
            "known; run `driftbayes recommend FILE --tau all --horizon T`, where T is the time "
            "scale of your simulation"
        )
        return {"recommended": None, "code": "", "reason": reason}
    try:
        recommended = recommend(scan.to_dataset())
        code = export(recommended, "parcels")
    except DriftbayesError as error:
        reason = str(error)
    return {"recommended": recommended, "code": code, "reason": reason}


# Numbers


def _scan_records(scan: Scan) -> list[dict[str, Any]]:
    """Return a record for each sampling time and quantity, and for omitted sampling times."""
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
    """Return all values of a panel at one sampling time."""
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
    """Return the record of a number; `at` is its x in a panel not against sampling time."""
    names = {"tau": tau, "model": model, "parameter": parameter, "field": field, "at": at}
    return {**names, "value": float(value) if math.isfinite(value) else None}


def _panel_numbers(panel: Panel) -> dict[str, Any]:
    """Return the numbers of a panel that the script of the page displays."""
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
