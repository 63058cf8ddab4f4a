"""Sections of the page that a scan fills by itself."""

__all__ = [
    "at_one_tau",
    "colours",
    "controls",
    "data",
    "legend",
    "methods",
    "provenance",
    "simulator",
    "source",
    "subtitle",
    "verdict",
]

import json
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING
from urllib.parse import quote

import numpy as np

from driftbayes._version import __version__
from driftbayes.data.units import readable_time
from driftbayes.errors import DriftbayesError
from driftbayes.plots.style import INK, colours_of
from driftbayes.report import content, html
from driftbayes.simulators import export, recommend

if TYPE_CHECKING:
    import xarray as xr


def subtitle(scan: "xr.Dataset") -> str:
    """Which models, which sampling times."""
    unit = str(scan.attrs.get("time_unit", ""))
    low, high = (readable_time(float(scan["tau"].values[i]), unit) for i in (0, -1))
    n = scan.sizes["tau"]
    return f"{', '.join(_names(scan))}; {n} sampling times from {low} to {high}"


def source(scan: "xr.Dataset") -> str:
    """Name of the file that the trajectories came from."""
    return str(content.parsed(scan.attrs.get("provenance")).get("source") or "an unknown source")


def verdict(sentences: Sequence[str]) -> str:
    """The answer in words."""
    lines = "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)
    return f'<div class="verdict">{lines}</div>'


def colours(scan: "xr.Dataset") -> str:
    """Style that gives each model its colour."""
    return "".join(
        f'\n[data-model="{escape(name)}"] {{ --colour: {colour}; }}'
        for name, colour in _colour_of(scan).items()
    )


def legend(scan: "xr.Dataset") -> str:
    """Colours of the models, and what bands and heavy lines mean."""
    items = "".join(
        f'<li><span class="swatch" style="background:{colour}"></span> {escape(name)}</li>'
        for name, colour in _colour_of(scan).items()
    )
    note = "Median and central 68 %; heavier where a parameter is consistent in τ."
    return f'<ul class="legend">{items}<li class="note">{note}</li></ul>'


def controls(scan: "xr.Dataset", place: int) -> str:
    """The slider of τ and a box for each model."""
    boxes = "".join(
        f'<label><input type="checkbox" value="{escape(name)}" checked>'
        f'<span class="swatch" style="background:{colour}"></span>{escape(name)}</label>'
        for name, colour in _colour_of(scan).items()
    )
    most = scan.sizes["tau"] - 1
    return (
        '<div class="controls" role="group" aria-label="What is shown">'
        f'<label for="tau">τ = <output id="tau-text"></output></label>'
        f'<input type="range" id="tau" min="0" max="{most}" step="1" value="{place}" '
        f'aria-label="sampling time">{boxes}</div>'
    )


def at_one_tau(scan: "xr.Dataset", place: int) -> str:
    """Tables at the slider's sampling time, and those of all others folded away."""
    models, parameters = content.table_at(scan, place)
    unit = str(scan.attrs.get("time_unit", ""))
    every = []
    for i, tau in enumerate(scan["tau"].values):
        one, other = content.table_at(scan, i)
        every.append(f"<h3>τ = {escape(readable_time(float(tau), unit))}</h3>")
        every.append(html.table(one) + html.table(other))
    here = escape(readable_time(float(scan["tau"].values[place]), unit))
    return (
        f'<p class="note">At τ = {here} unless the slider is moved.</p>'
        f"{html.table(models, 'models-at')}{html.table(parameters, 'parameters-at')}"
        f"<details><summary>All {scan.sizes['tau']} sampling times</summary>"
        f"{''.join(every)}</details>"
    )


def simulator(scan: "xr.Dataset") -> str:
    """Which numbers to use, with their errors, and where they hold."""
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
        + html.table(content.Table(columns, rows))
    )
    try:
        code = export(recommendation, "parcels")
    except DriftbayesError as error:
        return f"{text}<p>{escape(str(error))}.</p>"
    return (
        f"{text}<details><summary>For Parcels 4</summary><pre>{escape(code)}</pre></details>"
        '<p class="note">`driftbayes export` writes it for other simulators too.</p>'
    )


def data(scan: "xr.Dataset") -> str:
    """What the scan knows of its data."""
    unit = str(scan.attrs.get("time_unit", ""))
    rows = [
        ("source", source(scan)),
        ("length unit", str(scan.attrs.get("length_unit") or "not given")),
        ("time unit", unit or "not given"),
        ("particles", _range(scan["n_particles"].values)),
        ("displacements", _range(scan["n_displacements"].values)),
        ("fingerprint", str(scan.attrs.get("data_fingerprint", ""))),
    ]
    for key, value in content.parsed(scan.attrs.get("provenance")).items():
        if key not in ("source", "reader") and value not in (None, {}, []):
            rows.append((key, value if isinstance(value, str) else json.dumps(value)))
    return html.facts(rows)


def provenance(scan: "xr.Dataset", numbers: str, identity: str) -> str:
    """Versions, the command that repeats the scan, and the files of numbers."""
    files = (
        f'<p>Every number on this page: <a href="{quote(numbers)}.csv">{escape(numbers)}.csv</a>, '
        f'<a href="{quote(numbers)}.json">{escape(numbers)}.json</a>; both hold the id of this '
        f"report, {identity}.</p>"
        if numbers
        else ""
    )
    priors = json.dumps(content.parsed(scan.attrs.get("priors")), indent=1, ensure_ascii=False)
    seed = content.parsed(scan.attrs.get("options")).get("seed", 0)
    return (
        f"<p>driftbayes {escape(str(scan.attrs.get('driftbayes_version', '')))} made the scan "
        f"(seed {escape(str(seed))}), {__version__} this page. To repeat this scan:</p>"
        f"<pre>{escape(content.repeat_command(scan))}</pre>{files}"
        f"<details><summary>Priors</summary><pre>{escape(priors)}</pre></details>"
    )


def methods(scan: "xr.Dataset") -> str:
    """The method in two paragraphs."""
    method = str(scan.attrs.get("method", ""))
    texts = html.static("methods.txt").strip().split("\n\n")
    return "".join(f"<p>{escape(text.format(method=method))}</p>" for text in texts)


def _names(scan: "xr.Dataset") -> list[str]:
    return [str(name) for name in scan["model"].values]


def _colour_of(scan: "xr.Dataset") -> dict[str, str]:
    # The page may be dark: what is drawn in ink there must be the ink of the page.
    return {
        name: "var(--ink)" if colour == INK else colour
        for name, colour in colours_of(_names(scan)).items()
    }


def _range(values: np.ndarray) -> str:
    low, high = int(values.min()), int(values.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}, depending on τ"
