"""The page: sections, panels, tables and numbers in one HTML file."""

__all__ = ["Report", "build_report", "write_report"]

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes.data.units import readable_time
from driftbayes.errors import DriftbayesError
from driftbayes.report import content, files, html, sections
from driftbayes.report.examination import Examination, main_place
from driftbayes.report.svg import Panel
from driftbayes.storage import PathLike, atomic_paths

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True)
class Report:
    """A report, and every number in it.

    Args:
        html: The page.
        records: Every plotted number.
        id: Names this report on the page and in its files of numbers.
    """

    html: str
    records: list[dict[str, Any]]
    id: str


def write_report(
    scan: "xr.Dataset",
    path: PathLike,
    *,
    title: str | None = None,
    examination: Examination | None = None,
) -> list[Path]:
    """Write the page, and beside it its numbers as CSV and JSON.

    For `tracks.html` these are `tracks.report.csv` and `tracks.report.json`. The three take their
    places together and hold the same id.

    Args:
        scan: Dataset of a scan.
        path: The HTML file.
        title: Of the page.
        examination: What the trajectories add to it, from `examine`.
    """
    target = Path(path)
    if target.suffix.lower() not in (".html", ".htm"):
        msg = f"a report is an HTML file: expected a name ending in .html, got {target.name!r}"
        raise DriftbayesError(msg)
    report = build_report(
        scan, title=title, numbers=f"{target.stem}.report", examination=examination
    )
    table, numbers = files.companions(target)
    texts = {
        table: files.numbers_csv(report.id, report.records),
        numbers: files.numbers_json(report.id, report.records),
        target: report.html,
    }
    # The page last: where there is a new page, its numbers are there too.
    with atomic_paths(list(texts)) as temporaries:
        for temporary, text in zip(temporaries, texts.values(), strict=True):
            temporary.write_text(text, encoding="utf-8")
    return [target, table, numbers]


def build_report(
    scan: "xr.Dataset",
    *,
    title: str | None = None,
    numbers: str = "",
    examination: Examination | None = None,
) -> Report:
    """The page of a scan.

    Args:
        scan: Dataset of a scan.
        title: Of the page.
        numbers: Name, without its ending, of the files of numbers beside it.
        examination: What the trajectories add to it, from `examine`.
    """
    panels = content.panels(scan)
    place = main_place(scan)
    heading = title or f"How the particles of {sections.source(scan)} disperse"
    is_checked = examination is not None and examination.check is not None
    sentences = content.verdict(scan, is_checked=is_checked)
    more: list[Panel] = []
    about_data, asides = sections.data(scan), ""
    if examination is not None:
        about_data, asides, more, added = _examined(scan, examination)
        sentences += added
    records = [*content.every_number(scan), *_of_panels(more)]
    identity = files.report_id(heading, records)
    body = [
        f"<h1>{escape(heading)}</h1>",
        f'<p class="subtitle">{escape(sections.subtitle(scan))}</p>',
        html.section("verdict", "The verdict", sections.verdict(sentences)),
        html.section("data", "Data" if examination is None else "Data and quality", about_data),
        sections.controls(scan, place),
        html.section(
            "panels", "Against the sampling time", sections.legend(scan) + html.figures(panels)
        ),
        html.section("at", "At one sampling time", sections.at_one_tau(scan, place)),
        asides,
        html.section("simulator", "Numbers for a simulator", sections.simulator(scan)),
        html.section(
            "provenance", "Where this comes from", sections.provenance(scan, numbers, identity)
        ),
        html.section("methods", "Methods", sections.methods(scan)),
    ]
    page = html.static("page.html").format(
        title=escape(heading),
        style=html.static("report.css") + sections.colours(scan),
        body="\n".join(body),
        numbers=html.embedded(_numbers(scan, [*panels, *more])),
        script=html.static("report.js"),
    )
    return Report(page, records, identity)


def _examined(scan: "xr.Dataset", found: Examination) -> tuple[str, str, list[Panel], list[str]]:
    """Data and quality, the sections that follow the tables, their panels, and sentences."""
    from driftbayes.report import examined

    units = str(scan.attrs["length_unit"]), str(scan.attrs["time_unit"])
    tau = float(scan["tau"].values[found.main])
    posterior = examined.posterior_panels(found, tau, units)
    fit, prior = examined.fit_panels(found), examined.prior_panels(found)
    at = readable_time(tau, units[1])
    failed = [text for name, text in found.left_out.items() if name.startswith("the posterior")]
    notes = "".join(f'<p class="note">Left out: {escape(text)}.</p>' for text in failed)
    parts = [
        html.section(
            "posteriors",
            "Posteriors",
            f'<p class="note">At τ = {escape(at)}; priors dashed.</p>'
            f"{html.figures(posterior)}{notes}",
        ),
        html.section("fit", "Goodness of fit", examined.fit(found, html.figures(fit))),
    ]
    if scan.sizes["model"] > 1:
        inside = examined.priors(found, html.figures(prior))
        parts.append(html.section("priors", "Sensitivity to the priors", inside))
    about = examined.quality(found) + (
        f"<details><summary>Where the data come from</summary>{sections.data(scan)}</details>"
    )
    return about, "\n".join(parts), [*posterior, *fit, *prior], examined.verdict(found)


def _of_panels(panels: Sequence[Panel]) -> list[dict[str, Any]]:
    """Every value that is drawn at one sampling time, as records."""
    records: list[dict[str, Any]] = []
    for panel in panels:
        if panel.at_tau is None:
            continue
        for curve in panel.curves:
            values = {"": curve.y, " low": curve.low, " high": curve.high}
            for end, array in values.items():
                if array is None or not np.isfinite(array).any():
                    continue
                field = f"{panel.name}: {curve.label}{end}"
                records += [
                    content.record(panel.at_tau, curve.group, "", field, float(value), at=float(x))
                    for x, value in zip(panel.x, array, strict=True)
                ]
    return records


def _numbers(scan: "xr.Dataset", panels: Sequence[Panel]) -> dict[str, Any]:
    unit = str(scan.attrs.get("time_unit", ""))
    tables = []
    for i in range(scan.sizes["tau"]):
        models, parameters = content.table_at(scan, i)
        tables.append({"models": models.rows, "parameters": parameters.rows})
    return {
        "tau_text": [readable_time(float(tau), unit) for tau in scan["tau"].values],
        "panels": {panel.name: _panel_numbers(panel) for panel in panels},
        "tables": tables,
    }


def _panel_numbers(panel: Panel) -> dict[str, Any]:
    about: dict[str, Any] = {
        "x": panel.x_places(),
        "curves": [
            {
                "label": curve.label,
                "group": curve.group,
                "y": [float(v) if np.isfinite(v) else None for v in curve.y],
            }
            for curve in panel.curves
            if np.isfinite(curve.y).any()
        ],
    }
    if panel.at_tau is not None:
        about["at"] = [f"{x:.4g}" for x in panel.x]
    return about
