"""How a result shows itself: a few aligned lines in a terminal, a small table in a notebook."""

__all__ = ["Card", "Table", "amount", "html_of", "line_of", "plus_minus", "text_of"]

import math
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from textwrap import wrap
from typing import TypeVar
from unicodedata import east_asian_width

T = TypeVar("T")

# A name longer than this is cut: a card is for a glance.
_LONGEST = 160
_COLUMNS = 96
# No colours of our own: text and lines take that of the page, which may be light or dark.
_BOX = "font:14px/1.5 system-ui,sans-serif;color:inherit;max-width:64em;overflow-x:auto"
_CELL = "padding:.1em .8em .1em 0;border:0;background:none;color:inherit;vertical-align:top;"
_HEAD = _CELL + "font-weight:600;border-bottom:1px solid currentColor;"
_DOUBT = "margin:.3em 0;padding-left:.6em;border-left:3px solid currentColor"


@dataclass(frozen=True)
class Table:
    """Rows under named columns.

    Args:
        columns: Heads of the columns.
        rows: Cells, as text.
        sides: For each column "l" or "r": words stand on the left, numbers on the right.
        shares: For each row a number from 0 to 1, drawn as a bar behind it where one can be drawn.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    sides: str
    shares: tuple[float, ...] = ()


@dataclass(frozen=True)
class Card:
    """What there is to see of a thing.

    Args:
        kind: What it is: the name of its class.
        headline: The most important of it, in a line.
        facts: Names and values, one line each.
        sentences: What is to be said in words.
        tables: What comes in rows.
        doubts: What a reader should know before believing it.
    """

    kind: str
    headline: str
    facts: tuple[tuple[str, str], ...] = ()
    sentences: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    doubts: tuple[str, ...] = ()


def text_of(describe: Callable[[T], Card], thing: T) -> str:
    """Some lines for a terminal; never an error, whatever the thing is like.

    Args:
        describe: What there is to see of such a thing.
        thing: The thing.
    """
    try:
        return _text(describe(thing))
    except Exception as error:
        return _unseen(thing, error)


def html_of(describe: Callable[[T], Card], thing: T) -> str:
    """The same for a notebook: HTML without scripts, colours or links; never an error."""
    try:
        return _html(describe(thing))
    except Exception as error:
        return f"<pre>{escape(_unseen(thing, error))}</pre>"


def line_of(describe: Callable[[T], str], thing: T) -> str:
    """One line in angle brackets, for `repr`; never an error."""
    try:
        return f"<{type(thing).__name__}: {_plain(describe(thing), longest=1000)}>"
    except Exception as error:
        return _unseen(thing, error)


def amount(value: float, unit: str = "", digits: int = 5) -> str:
    """A number with its unit, if it has one."""
    return f"{value:.{digits}g} {unit}".rstrip()


def plus_minus(value: float, error: float) -> str:
    """A number and its error, to the digits that the error allows; no error if it is NaN."""
    if not (math.isfinite(error) and math.isfinite(value)) or error < 0:
        return f"{value:.4f}"
    # Two digits of the error, between the four that a reader wants and the twelve that are left.
    places = 4 if error == 0 else min(max(1 - math.floor(math.log10(error)), 0), 4)
    return f"{value:.{places}f} ± {error:.1g}"


def _unseen(thing: object, error: Exception) -> str:
    # A thing half made, or traced by JAX, still has to say what it is.
    return f"<{type(thing).__name__}: cannot be shown ({type(error).__name__})>"


def _plain(text: object, longest: int = _LONGEST) -> str:
    """Text on one line without control characters, which could move a terminal's cursor."""
    line = str(text)
    line = line if len(line) <= longest else f"{line[: longest - 1]}…"
    return "".join(char if char.isprintable() else "?" for char in line)


def _width(text: str) -> int:
    return sum(2 if east_asian_width(char) in "WF" else 1 for char in text)


def _padded(text: str, width: int, *, left: bool) -> str:
    space = " " * max(width - _width(text), 0)
    return text + space if left else space + text


def _text(card: Card) -> str:
    lines = [f"{card.kind}: {_plain(card.headline, longest=1000)}"]
    facts = [(_plain(name), _plain(value)) for name, value in card.facts]
    wide = max((_width(name) for name, _ in facts), default=0)
    lines += [f"  {_padded(name, wide, left=True)}  {value}" for name, value in facts]
    for table in card.tables:
        lines += ["", *_rows(table)]
    for said in (card.sentences, [f"warning: {doubt}" for doubt in card.doubts]):
        lines += [""] if said else []
        for sentence in said:
            wrapped = wrap(_plain(sentence, longest=1000), _COLUMNS, subsequent_indent="  ")
            lines += [f"  {line}" for line in wrapped]
    return "\n".join(lines)


def _rows(table: Table) -> list[str]:
    rows = [[_plain(cell) for cell in row] for row in (table.columns, *table.rows)]
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    return [
        "  "
        + "  ".join(
            _padded(cell, width, left=side == "l")
            for cell, width, side in zip(row, widths, table.sides, strict=True)
        ).rstrip()
        for row in rows
    ]


def _html(card: Card) -> str:
    title = f"<strong>{_safe(card.kind)}</strong>: {_safe(card.headline, longest=1000)}"
    parts = [f'<div class="driftbayes" style="{_BOX}"><div>{title}</div>']
    if card.facts:
        rows = "".join(
            f'<tr style="background:none"><th scope="row" style="{_CELL}text-align:left;'
            f'font-weight:normal;white-space:nowrap;opacity:.75">{_safe(name)}</th>'
            f'<td style="{_CELL}text-align:left">{_safe(value)}</td></tr>'
            for name, value in card.facts
        )
        parts.append(f'<table style="border-collapse:collapse;margin:.4em 0">{rows}</table>')
    parts += [_html_table(table) for table in card.tables]
    parts += [
        f'<p style="margin:.3em 0">{_safe(said, longest=1000)}</p>' for said in card.sentences
    ]
    parts += [f'<p style="{_DOUBT}">⚠ {_safe(doubt, longest=1000)}</p>' for doubt in card.doubts]
    return "".join([*parts, "</div>"])


def _html_table(table: Table) -> str:
    sides = ["left" if side == "l" else "right" for side in table.sides]
    head = "".join(
        f'<th scope="col" style="{_HEAD}text-align:{side}">{_safe(name)}</th>'
        for name, side in zip(table.columns, sides, strict=True)
    )
    body = []
    for i, row in enumerate(table.rows):
        cells = "".join(
            f'<td style="{_CELL}text-align:{side};font-variant-numeric:tabular-nums">'
            f"{_safe(cell)}</td>"
            for cell, side in zip(row, sides, strict=True)
        )
        bar = _bar(table.shares[i]) if table.shares else ""
        body.append(f'<tr style="background:none">{cells}{bar}</tr>')
    return (
        '<table style="border-collapse:collapse;margin:.6em 0">'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"
    )


def _bar(share: float) -> str:
    width = 6 * min(max(share, 0.0), 1.0) if math.isfinite(share) else 0.0
    return (
        f'<td aria-hidden="true" style="{_CELL}text-align:left"><span style="display:inline-block;'
        f'width:{width:.2f}em;height:.6em;background:currentColor;opacity:.4"></span></td>'
    )


def _safe(text: object, longest: int = _LONGEST) -> str:
    return escape(_plain(text, longest))
