"""Write a report: one self-contained HTML page, with all its numbers as CSV and JSON."""

__all__ = ["Report", "build_report", "companions", "is_companion", "write_report"]

import csv
import hashlib
import io
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes._version import __version__
from driftbayes.checks.describe import check_table, fit_panels
from driftbayes.comparison import Scan
from driftbayes.comparison.describe import (
    as_scan,
    scan_command,
    scan_panels,
    scan_tables,
    scan_verdict,
    sensitivity_panel,
    stored,
)
from driftbayes.comparison.scan import is_consistent
from driftbayes.data.units import readable_time
from driftbayes.errors import DriftbayesError
from driftbayes.inference.describe import MODEL_FIELDS, evidence_rows, posterior_panels
from driftbayes.report.examination import (
    Examination,
    data_facts,
    quality_findings,
    reference_tau_index,
)
from driftbayes.report.svg import page_colours, panel_svg, trajectories_svg, x_places
from driftbayes.representation import Panel, Table, number, render, with_error
from driftbayes.simulators import export, recommend
from driftbayes.storage import PathLike, atomic_paths
from driftbayes.storage.spreadsheet import escape_cell

if TYPE_CHECKING:
    import xarray as xr

# Numbers of a parameter in the files beside the page.
_FIELDS = ("map", "posterior_mean", "posterior_sd", "contraction")
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
    origin = stored(scan, "provenance")
    source = str(origin.get("source") or "an unknown source")
    heading = title or f"Dispersion in {source}"
    panels = scan_panels(scan)
    sections = {} if examination is None else _examined(scan, examination)
    more: list[Panel] = [panel for section in sections.values() for panel in section["panels"]]
    records = [*_scan_records(scan), *(r for panel in more for r in _panel_records(panel))]
    text = json.dumps([__version__, heading, records], allow_nan=False)
    identity = hashlib.sha256(text.encode()).hexdigest()[:16]
    place = reference_tau_index(scan)
    first = scan.comparisons[0]
    taus = [readable_time(float(tau), first.time_unit) for tau in scan.taus]
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
        heading=heading,
        verdict=[*scan_verdict(scan), *_caveats(examination)],
        colours=page_colours(scan.models),
        source=_source_facts(scan, source, origin),
        data=None if examination is None else _data(examination),
        taus=taus,
        place=place,
        panels=panels,
        tables=tables,
        sections=sections,
        simulator=_simulator(scan),
        command=scan_command(scan),
        numbers=numbers,
        identity=identity,
        priors={name: e.priors for name, e in first.evidences.items()},
        seed=stored(scan, "options").get("seed", 0),
        method=first.method,
        version=__version__,
        svg=panel_svg,
        embedded=json.dumps(embedded, allow_nan=False).replace("<", "\\u003c"),
        style=static.joinpath("report.css").read_text(encoding="utf-8"),
        script=static.joinpath("report.js").read_text(encoding="utf-8"),
    )
    return Report(page, records, identity)


def _caveats(examination: Examination | None) -> list[str]:
    """Sentences on goodness of fit, dependence and priors."""
    sentences = []
    check = None if examination is None else examination.check
    if check is None:
        sentences.append(
            "This compares these models only; run `driftbayes check` to test whether the best of "
            "them explains the data."
        )
    else:
        about, best = check.comparison, check.comparison.best
        tau = readable_time(about.tau, about.time_unit)
        sentences.append(f"Goodness of fit of {best} at τ = {tau}: {check.models[best].verdict}.")
    if examination is None:
        return sentences
    worst = max(examination.dependence.values(), key=lambda d: d.inflation, default=None)
    if worst is not None and worst.is_serious:
        tau = readable_time(worst.tau, worst.time_unit)
        text = worst.sentence[0].upper() + worst.sentence[1:]
        sentences.append(f"{text} (τ = {tau}), so the evidences are overstated.")
    for found in examination.sensitivity.values():
        for pair in found.log_bayes_factors:
            if found.verdict_changes(pair):
                tau = readable_time(found.tau, examination.trajectories.time_unit)
                sentences.append(f"The sign of ln K({pair}) at τ = {tau} depends on the priors.")
                return sentences
    return sentences


def _source_facts(scan: Scan, source: str, origin: dict[str, Any]) -> list[tuple[str, str]]:
    first = scan.comparisons[0]
    facts = [
        ("source", source),
        ("length unit", first.length_unit or "not given"),
        ("time unit", first.time_unit or "not given"),
        ("particles", _range([c.n_particles for c in scan.comparisons])),
        ("displacements", _range([c.n_displacements for c in scan.comparisons])),
        ("fingerprint", str(scan.attributes.get("data_fingerprint", ""))),
    ]
    for key, value in origin.items():
        if key not in ("source", "reader") and value not in (None, {}, []):
            facts.append((key, value if isinstance(value, str) else json.dumps(value)))
    return facts


def _range(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}, depending on τ"


def _data(examination: Examination) -> dict[str, Any]:
    facts = data_facts(examination.trajectories, examination.survey)
    findings = quality_findings(examination.survey, examination.quality)
    facts += [("quality", text) for text in findings or ["no problems found"]]
    for found in examination.dependence.values():
        tau = readable_time(found.tau, found.time_unit)
        facts.append((f"Effective number of particles (τ = {tau})", found.sentence))
    return {
        "facts": facts,
        "drawing": trajectories_svg(examination.trajectories),
        "skipped": examination.skipped.get("dependence"),
    }


def _examined(scan: Scan, examination: Examination) -> dict[str, dict[str, Any]]:
    """Panels and tables of posteriors, goodness of fit and prior sensitivity."""
    first, skipped, check = scan.comparisons[0], examination.skipped, examination.check
    tau = float(scan.taus[examination.reference])
    posteriors = [
        panel
        for draws in examination.draws
        for panel in posterior_panels(draws, tau, (first.length_unit, first.time_unit))
    ]
    sections: dict[str, dict[str, Any]] = {
        "posteriors": {
            "tau": readable_time(tau, first.time_unit),
            "panels": posteriors,
            "skipped": [v for k, v in skipped.items() if k.startswith("the posterior")],
        },
        "fit": {
            "check": check,
            "tau": readable_time(tau, first.time_unit),
            "panels": [] if check is None else fit_panels(check),
            "table": None if check is None else check_table(check),
            "skipped": skipped.get("check"),
        },
    }
    if len(scan.models) > 1:
        found = list(examination.sensitivity.values())
        sections["priors"] = {
            "panels": [
                sensitivity_panel(s, f"prior_sensitivity_{place}", first.time_unit)
                for place, s in examination.sensitivity.items()
            ],
            "table": _sensitivity_table(examination) if found else None,
            "factors": [number(f, 3) for f in found[0].factors[[0, -1]]] if found else [],
            "fixed": found[0].unmoved if found else (),
            "skipped": skipped.get("sensitivity"),
        }
    return sections


def _sensitivity_table(examination: Examination) -> Table:
    rows = []
    for found in examination.sensitivity.values():
        tau = readable_time(found.tau, examination.trajectories.time_unit)
        for pair, values in found.log_bayes_factors.items():
            given = number(values[0, len(found.factors) // 2])
            span = f"{number(values.min())} … {number(values.max())}"
            sign = "changes" if found.verdict_changes(pair) else "unchanged"
            rows.append((tau, f"ln K({pair})", given, span, sign))
    columns = ("τ", "Bayes factor", "priors as given", "range", "sign")
    return Table(columns, (*rows,), "llrrl")


def _simulator(scan: Scan) -> dict[str, Any]:
    """Numbers to use in a simulator, with their errors and the range over which they hold."""
    try:
        found = recommend(scan.to_dataset())
    except DriftbayesError as error:
        return {"table": None, "error": str(error)}
    rows = tuple(
        (name, with_error(e.value, e.sd), e.unit, f"{number(e.low)} … {number(e.high)}")
        for name, e in found.parameters.items()
    )
    low, high = (readable_time(t, "s") for t in (found.tau_min, found.tau_max))
    answer = {
        "model": found.model,
        "range": (low, high),
        "table": Table(("parameter", "mean ± sd", "unit", "range over τ"), rows, "lrlr"),
        "error": None,
        "code": None,
    }
    try:
        answer["code"] = export(found, "parcels")
    except DriftbayesError as error:
        answer["error"] = str(error)
    return answer


# Numbers


def _scan_records(scan: Scan) -> list[dict[str, Any]]:
    """One record for each sampling time and tabulated or plotted quantity."""
    records = []
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
