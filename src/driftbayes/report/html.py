"""Pieces of the page: sections, tables, figures, and what makes text safe in it."""

__all__ = ["embedded", "facts", "figures", "section", "static", "table"]

import json
import math
from collections.abc import Iterable
from html import escape
from importlib import resources
from typing import Any

from driftbayes.report.content import Table
from driftbayes.report.svg import Panel


def static(name: str) -> str:
    """A file of `static/`."""
    return resources.files("driftbayes.report").joinpath("static", name).read_text(encoding="utf-8")


def embedded(value: Any) -> str:
    """JSON for a script element: nothing that a file brought along may end it."""
    return json.dumps(_finite(value), allow_nan=False).replace("<", "\\u003c")


def _finite(value: Any) -> Any:
    """The value with null for what is no number, which JSON cannot hold."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    return [_finite(part) for part in value] if isinstance(value, list | tuple) else value


def section(name: str, title: str, inside: str) -> str:
    """A section of the page with its heading."""
    return f'<section id="{name}">\n<h2>{escape(title)}</h2>\n{inside}\n</section>'


def table(content: Table, name: str = "") -> str:
    """A table with a head, that scrolls where the screen is narrow."""
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in content.columns)
    rows = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in content.rows
    )
    mark = f' id="{name}"' if name else ""
    return (
        f'<div class="scroll"><table{mark}><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def facts(rows: Iterable[tuple[str, str]]) -> str:
    """Names and what they are, in two columns."""
    lines = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td class="wide">{escape(value)}</td></tr>'
        for name, value in rows
    )
    return f'<div class="scroll"><table class="facts"><tbody>{lines}</tbody></table></div>'


def figures(panels: Iterable[Panel]) -> str:
    """Panels side by side, each with its heading, its switch of scales and its readout."""
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
