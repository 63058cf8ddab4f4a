"""The page: sections, panels, tables and numbers in one HTML file."""

__all__ = ["Report", "build_report", "write_report"]

import csv
import io
import json
from dataclasses import dataclass
from html import escape
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes._version import __version__
from driftbayes.errors import DriftbayesError
from driftbayes.plots.style import INK, colours_of
from driftbayes.report import content
from driftbayes.report.svg import Panel
from driftbayes.simulators import export, recommend
from driftbayes.storage import PathLike, atomic_path
from driftbayes.units import readable_time

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True)
class Report:
    """A report, and every number in it.

    Args:
        html: The page.
        records: Every plotted number.
    """

    html: str
    records: list[dict[str, Any]]


def write_report(scan: "xr.Dataset", path: PathLike, *, title: str | None = None) -> list[Path]:
    """Write the page, and beside it its numbers as CSV and JSON.

    Args:
        scan: Dataset of a scan.
        path: The HTML file.
        title: Of the page.
    """
    target = Path(path)
    if target.suffix.lower() not in (".html", ".htm"):
        msg = f"a report is an HTML file: expected a name ending in .html, got {target.name!r}"
        raise DriftbayesError(msg)
    report = build_report(scan, title=title, numbers=target.stem)
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, fieldnames=list(report.records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(report.records)
    texts = {
        target: report.html,
        target.with_suffix(".csv"): buffer.getvalue(),
        target.with_suffix(".json"): json.dumps(report.records, indent=1, allow_nan=False),
    }
    for file, text in texts.items():
        with atomic_path(file) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return list(texts)


def build_report(scan: "xr.Dataset", *, title: str | None = None, numbers: str = "") -> Report:
    """The page of a scan.

    Args:
        scan: Dataset of a scan.
        title: Of the page.
        numbers: Name, without its ending, of the files of numbers beside it.
    """
    panels = content.panels(scan)
    n_taus = scan.sizes["tau"]
    middle = n_taus // 2
    source = _source(scan)
    heading = title or f"How the particles of {source} disperse"
    body = [
        f"<h1>{escape(heading)}</h1>",
        f'<p class="subtitle">{escape(_subtitle(scan))}</p>',
        _section("verdict", "The verdict", _verdict(scan)),
        _controls(scan, middle),
        _section("panels", "Against the sampling time", _legend(scan) + _figures(panels)),
        _section("at", "At one sampling time", _tables_at(scan, middle)),
        _section("simulator", "Numbers for a simulator", _simulator(scan)),
        _section("data", "Data", _data(scan)),
        _section("provenance", "Where this comes from", _provenance(scan, numbers)),
        _section("methods", "Methods", _paragraphs(scan)),
    ]
    html = _static("page.html").format(
        title=escape(heading),
        style=_static("report.css") + _colours(scan),
        body="\n".join(body),
        numbers=_embedded(_numbers(scan, panels)),
        script=_static("report.js"),
    )
    return Report(html, content.every_number(scan))


def _static(name: str) -> str:
    return resources.files("driftbayes.report").joinpath("static", name).read_text(encoding="utf-8")


def _embedded(value: Any) -> str:
    # Nothing that a file brought along may end the script or begin another.
    return json.dumps(value, allow_nan=False).replace("<", "\\u003c")


def _section(name: str, title: str, inside: str) -> str:
    return f'<section id="{name}">\n<h2>{escape(title)}</h2>\n{inside}\n</section>'


def _verdict(scan: "xr.Dataset") -> str:
    lines = "".join(f"<p>{escape(sentence)}</p>" for sentence in content.verdict(scan))
    return f'<div class="verdict">{lines}</div>'


def _names(scan: "xr.Dataset") -> list[str]:
    return [str(name) for name in scan["model"].values]


def _colour_of(scan: "xr.Dataset") -> dict[str, str]:
    # The page may be dark: what is drawn in ink there must be the ink of the page.
    return {
        name: "var(--ink)" if colour == INK else colour
        for name, colour in colours_of(_names(scan)).items()
    }


def _colours(scan: "xr.Dataset") -> str:
    return "".join(
        f'\n[data-model="{escape(name)}"] {{ --colour: {colour}; }}'
        for name, colour in _colour_of(scan).items()
    )


def _legend(scan: "xr.Dataset") -> str:
    items = "".join(
        f'<li><span class="swatch" style="background:{colour}"></span> {escape(name)}</li>'
        for name, colour in _colour_of(scan).items()
    )
    note = "Median and central 68 %; heavier where a parameter is consistent in τ."
    return f'<ul class="legend">{items}<li class="note">{note}</li></ul>'


def _controls(scan: "xr.Dataset", middle: int) -> str:
    boxes = "".join(
        f'<label><input type="checkbox" value="{escape(name)}" checked>'
        f'<span class="swatch" style="background:{colour}"></span>{escape(name)}</label>'
        for name, colour in _colour_of(scan).items()
    )
    most = scan.sizes["tau"] - 1
    return (
        '<div class="controls" role="group" aria-label="What is shown">'
        f'<label for="tau">τ = <output id="tau-text"></output></label>'
        f'<input type="range" id="tau" min="0" max="{most}" step="1" value="{middle}" '
        f'aria-label="sampling time">{boxes}</div>'
    )


def _figures(panels: list[Panel]) -> str:
    parts = []
    for panel in panels:
        scales = panel.drawn_scales
        button = (
            f'<button type="button" title="change the scale of y">{scales[0]}</button>'
            if len(scales) > 1
            else ""
        )
        parts.append(
            f"<figure><h3>{escape(panel.title)}</h3>{button}{panel.svg()}"
            '<div class="readout" aria-live="polite"></div></figure>'
        )
    return f'<div class="panels">{"".join(parts)}</div>'


def _table(table: content.Table, name: str = "") -> str:
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in table.columns)
    rows = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in table.rows
    )
    mark = f' id="{name}"' if name else ""
    return (
        f'<div class="scroll"><table{mark}><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _tables_at(scan: "xr.Dataset", middle: int) -> str:
    models, parameters = content.table_at(scan, middle)
    unit = str(scan.attrs.get("time_unit", ""))
    every = []
    for i, tau in enumerate(scan["tau"].values):
        one, other = content.table_at(scan, i)
        every.append(f"<h3>τ = {escape(readable_time(float(tau), unit))}</h3>")
        every.append(_table(one) + _table(other))
    here = escape(readable_time(float(scan["tau"].values[middle]), unit))
    return (
        f'<p class="note">At τ = {here} unless the slider is moved.</p>'
        f"{_table(models, 'models-at')}{_table(parameters, 'parameters-at')}"
        f"<details><summary>All {scan.sizes['tau']} sampling times</summary>"
        f"{''.join(every)}</details>"
    )


def _simulator(scan: "xr.Dataset") -> str:
    try:
        recommendation = recommend(scan)
    except DriftbayesError as error:
        text = str(error)
        return f"<p>{escape(text[0].upper() + text[1:])}.</p>"
    rows = tuple(
        (name, f"{e.value:.5g} ± {e.sd:.2g}", e.unit, f"{e.low:.4g} … {e.high:.4g}")
        for name, e in recommendation.parameters.items()
    )
    columns = ("parameter", "value ± sd", "unit", "over the range")
    low, high = (readable_time(t, "s") for t in (recommendation.tau_min, recommendation.tau_max))
    text = (
        f"<p>{escape(recommendation.model.capitalize())} motion holds at sampling times from {low} "
        f"to {high}, with Var(Δx) = 2κt along each axis once it is diffusive.</p>"
        + _table(content.Table(columns, rows))
    )
    try:
        code = export(recommendation, "parcels")
    except DriftbayesError as error:
        return f"{text}<p>{escape(str(error))}.</p>"
    return (
        f"{text}<details><summary>For Parcels 4</summary><pre>{escape(code)}</pre></details>"
        '<p class="note">`driftbayes export` writes it for other simulators too.</p>'
    )


def _data(scan: "xr.Dataset") -> str:
    origin = content.parsed(scan.attrs.get("provenance"))
    unit = str(scan.attrs.get("time_unit", ""))
    rows = [
        ("source", _source(scan)),
        ("length unit", str(scan.attrs.get("length_unit") or "not given")),
        ("time unit", unit or "not given"),
        ("particles", _range(scan["n_particles"].values)),
        ("displacements", _range(scan["n_displacements"].values)),
        ("fingerprint", str(scan.attrs.get("data_fingerprint", ""))),
    ]
    for key, value in origin.items():
        if key not in ("source", "reader") and value not in (None, {}, []):
            rows.append((key, value if isinstance(value, str) else json.dumps(value)))
    lines = "".join(
        f'<tr><td>{escape(str(name))}</td><td class="wide">{escape(str(value))}</td></tr>'
        for name, value in rows
    )
    return f'<div class="scroll"><table><tbody>{lines}</tbody></table></div>'


def _range(values: np.ndarray) -> str:
    low, high = int(values.min()), int(values.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}, depending on τ"


def _provenance(scan: "xr.Dataset", numbers: str) -> str:
    files = (
        f'<p>Every number on this page: <a href="{escape(numbers)}.csv">{escape(numbers)}.csv</a>, '
        f'<a href="{escape(numbers)}.json">{escape(numbers)}.json</a>.</p>'
        if numbers
        else ""
    )
    priors = json.dumps(content.parsed(scan.attrs.get("priors")), indent=1, ensure_ascii=False)
    return (
        f"<p>driftbayes {escape(str(scan.attrs.get('driftbayes_version', '')))} made the scan, "
        f"{__version__} this page. The scan again:</p>"
        f"<pre>{escape(content.repeat_command(scan))}</pre>{files}"
        f"<details><summary>Priors</summary><pre>{escape(priors)}</pre></details>"
    )


def _paragraphs(scan: "xr.Dataset") -> str:
    method = str(scan.attrs.get("method", ""))
    texts = _static("methods.txt").strip().split("\n\n")
    return "".join(f"<p>{escape(text.format(method=method))}</p>" for text in texts)


def _subtitle(scan: "xr.Dataset") -> str:
    unit = str(scan.attrs.get("time_unit", ""))
    low, high = (readable_time(float(scan["tau"].values[i]), unit) for i in (0, -1))
    n = scan.sizes["tau"]
    return f"{', '.join(_names(scan))}; {n} sampling times from {low} to {high}"


def _source(scan: "xr.Dataset") -> str:
    return str(content.parsed(scan.attrs.get("provenance")).get("source") or "an unknown source")


def _numbers(scan: "xr.Dataset", panels: list[Panel]) -> dict[str, Any]:
    unit = str(scan.attrs.get("time_unit", ""))
    tables = []
    for i in range(scan.sizes["tau"]):
        models, parameters = content.table_at(scan, i)
        tables.append({"models": models.rows, "parameters": parameters.rows})
    return {
        "tau_text": [readable_time(float(tau), unit) for tau in scan["tau"].values],
        "panels": {
            panel.name: {
                "x": panel.x_places(),
                "curves": [
                    {
                        "label": curve.label,
                        "group": curve.group,
                        "y": [float(v) if np.isfinite(v) else None for v in curve.y],
                    }
                    for curve in panel.curves
                ],
            }
            for panel in panels
        },
        "tables": tables,
    }
