"""Describe a result once, as plain records, for the terminal, notebooks, pages and figures.

A record (`Evidence`, `Scan`, …) inherits from `Described`. The module `_describe` of its package
registers a function with `describe`, which returns a `Card`, and one with `summarise`, which
returns a line; `_frames` registers conversions to tables. They are imported on first use.
"""

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, singledispatch
from importlib import import_module
from importlib.util import find_spec
from textwrap import wrap
from typing import Any, Literal
from unicodedata import east_asian_width

import numpy as np

from driftbayes._typing import FloatArray

Scale = Literal["linear", "log", "symlog"]

# Maximum length of a name in a table, and of a sentence.
_MAX_NAME, _MAX_SENTENCE = 160, 1000
_COLUMNS = 80
# Minimum width of a column of text in a table that can be split.
_MIN_TEXT = 24
# Smaller numbers have lost digits: they are zero to the precision of a double.
_TINY = 1e-99

# From the palette of Okabe and Ito, which is safe for colour-blind readers. A model has the same
# colour in every figure.
COLOURS = {"brownian": "#D55E00", "langevin": "#0072B2"}
MORE_COLOURS = ("#009E73", "#CC79A7", "#E69F00", "#56B4E9")
INK, GUIDE = "#1A1A1A", "#767676"


def colours_of(models: Sequence[str]) -> dict[str, str]:
    """Return a colour for each model of a figure: its own, or the next of the palette.

    A model with options has the colour of the plain model if no other model of the figure has it.
    """
    found = {name: COLOURS[name] for name in models if name in COLOURS}
    for name in models:
        plain_model = re.split(r"[+*]", name)[0]
        if plain_model in COLOURS and COLOURS[plain_model] not in found.values():
            found[name] = COLOURS[plain_model]
    free = [colour for colour in COLOURS.values() if colour not in found.values()]
    palette = [*free, *MORE_COLOURS, GUIDE, INK]
    others = [name for name in models if name not in found]
    cycle = {name: palette[i % len(palette)] for i, name in enumerate(others)}
    return {name: found.get(name) or cycle[name] for name in models}


@dataclass(frozen=True)
class Table:
    """Rows under named columns.

    Args:
        columns: Headings of the columns.
        rows: Cells, as text.
        sides: For each column "l" for text, which may be folded, or "r" for numbers.
        shares: For each row a number from 0 to 1, drawn as a bar in HTML.
        title: Printed above the table.
        keys: Number of first columns that are repeated if the table is split.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    sides: str
    shares: tuple[float, ...] = ()
    title: str = ""
    keys: int = 1


@dataclass(frozen=True)
class Card:
    """Description of a result.

    Args:
        kind: Kind of the result, in words.
        headline: The result in one line.
        facts: Names and values, one line each.
        sentences: Statements in words.
        tables: Tables of numbers.
        warnings: Reasons to doubt the result.
    """

    kind: str
    headline: str
    facts: tuple[tuple[str, str], ...] = ()
    sentences: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Curve:
    """A curve in a panel.

    Args:
        label: Name of the curve.
        group: Model of the curve, which sets its colour; "data" for observations.
        y: Values; NaN leaves a gap.
        low: Lower edge of the band, if any.
        high: Upper edge of the band.
        strong: Where the line is heavier.
        kind: A line with dots, a line without dots (plain or dashed), or only points.
    """

    label: str
    group: str
    y: FloatArray
    low: FloatArray | None = None
    high: FloatArray | None = None
    strong: np.ndarray | None = None
    kind: Literal["line", "plain", "dashed", "points"] = "line"


@dataclass(frozen=True)
class Panel:
    """Curves against a common x.

    Args:
        name: Name of the panel in files of numbers.
        title: Printed above the panel.
        x: Increasing x values of the curves.
        x_label: Label of the horizontal axis, with its unit.
        y_label: Label of the vertical axis, with its unit.
        curves: The curves.
        scales: Scales of y, the default first; "log" is omitted if a value is not positive.
        reference: Values of y at which to draw a thin line.
        description: The panel in words, for screen readers.
        x_scale: Scale of x.
        at_tau: Sampling time of the panel; None if x is the sampling time.
    """

    name: str
    title: str
    x: FloatArray
    x_label: str
    y_label: str
    curves: Sequence[Curve]
    scales: Sequence[Scale] = ("linear",)
    reference: Sequence[float] = ()
    description: str = ""
    x_scale: Scale = "log"
    at_tau: float | None = None

    @property
    def values(self) -> FloatArray:
        """All finite values of the curves and their bands."""
        arrays = [a for c in self.curves for a in (c.y, c.low, c.high) if a is not None]
        values = np.concatenate([np.ravel(array) for array in arrays])
        return np.asarray(values[np.isfinite(values)])

    @property
    def drawn_scales(self) -> list[Scale]:
        """The scales on which the values can be drawn."""
        values = self.values
        positive = values.size > 0 and values.min() > 0
        return [scale for scale in self.scales if scale != "log" or positive] or ["linear"]


def plain(value: Any) -> Any:
    """Convert records and arrays to numbers, text, lists and dicts for JSON; NaN becomes None.

    Args:
        value: A record (dataclass), an array, a mapping, a sequence or a plain value.

    Example:
        >>> plain({"a": np.array([1.0, np.nan])})
        {'a': [1.0, None]}
    """
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@singledispatch
def describe(record: Any) -> Card:
    """Describe a record; each type registers its own function."""
    return _registered(describe, record)(record)


@singledispatch
def summarise(record: Any) -> str:
    """Summarise a record in one line, by default by the headline of its card."""
    found = _registered(summarise, record, required=False)
    return describe(record).headline if found is None else found(record)


def _registered(function: Any, record: Any, *, required: bool = True) -> Any:
    """Import the modules that describe a record until one registers a function for its type.

    For a record of `package._name` these are `_describe_name`, `_describe` and `_frames`.
    """
    package, _, name = type(record).__module__.rpartition(".")
    for module in (f"_describe{name}", "_describe", "_frames"):
        if package.startswith("driftbayes.") and find_spec(f"{package}.{module}") is not None:
            import_module(f"{package}.{module}")
            found = function.dispatch(type(record))
            if found is not function.dispatch(object):
                return found
    if required:
        raise TypeError(f"{function.__name__} has no {type(record).__name__}")
    return None


class Described:
    """A record printed by its description; printing never raises an error."""

    def __repr__(self) -> str:
        try:
            return f"<{type(self).__name__}: {_plain(summarise(self), _MAX_SENTENCE)}>"
        except Exception as error:
            return _unknown(self, error)

    def __str__(self) -> str:
        try:
            return card_text(describe(self))
        except Exception as error:
            return _unknown(self, error)

    def _repr_html_(self) -> str:
        try:
            return card_html(describe(self))
        except Exception as error:
            return render("driftbayes", "failure.html", text=_unknown(self, error))


@singledispatch
def to_dataframe(record: Any) -> Any:
    """Convert the numbers of a record to a pandas DataFrame."""
    return _registered(to_dataframe, record)(record)


@singledispatch
def to_dataset(record: Any) -> Any:
    """Convert the numbers of a record to an xarray Dataset."""
    return _registered(to_dataset, record)(record)


@singledispatch
def to_datatree(record: Any) -> Any:
    """Convert the numbers of a record to an xarray DataTree, in the ArviZ schema."""
    return _registered(to_datatree, record)(record)


# Numbers


def number(value: float, digits: int = 4) -> str:
    """Format a number to significant digits, with an exponent only if it is extreme.

    Example:
        >>> number(123456.0), number(1.9599999999999997), number(1.5e-9)
        ('123500', '1.96', '1.5e-9')
    """
    if not math.isfinite(value):
        return f"{value:g}"
    if abs(value) < _TINY:
        return "0"
    rounded = float(f"{value:.{digits - 1}e}")
    if 1e-4 <= abs(rounded) < 1e7:
        return f"{rounded:.15g}"
    mantissa, _, power = f"{value:.{digits - 1}e}".partition("e")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return f"{mantissa}e{int(power)}"


def amount(value: float, unit: str = "", digits: int = 5) -> str:
    """Format a number with its unit, if any."""
    return number(value, digits) if unit == "1" else f"{number(value, digits)} {unit}".rstrip()


def estimate_cell(value: float, error: float, factor: float = 1.0) -> str:
    """Format an estimate for a table; "-" without a value.

    Args:
        value: The value.
        error: Standard error; omitted if not finite.
        factor: Factor to the unit of the table.

    Example:
        >>> estimate_cell(1.44391, 0.0371), estimate_cell(float("nan"), 1.0)
        ('1.444 ± 0.037', '-')
    """
    if not math.isfinite(value):
        return "-"
    if not math.isfinite(error):
        return number(value * factor, 3)
    return with_error(value * factor, error * factor)


def with_error(value: float, error: float, max_places: int | None = None) -> str:
    """Format a value with its standard error to two digits: "1.444 ± 0.037".

    Args:
        value: The value.
        error: Standard error; not shown if it is zero or not finite.
        max_places: Maximum number of decimal places; a smaller error is omitted.

    Example:
        >>> with_error(1.44391, 0.0371), with_error(-10.0, 1e-9, 4)
        ('1.444 ± 0.037', '-10.0000')
    """
    if not (math.isfinite(value) and math.isfinite(error) and error > 0):
        return f"{value:.{max_places}f}" if max_places else number(value, 5)
    places = 1 - math.floor(math.log10(float(f"{error:.1e}")))
    if max_places is not None and places > max_places + 1:
        return f"{value:.{max_places}f}"
    if max_places is None and error < 1e-9 * abs(value):
        return number(value, 10)
    power = math.floor(math.log10(max(abs(value), error)))
    if max_places is None and not -4 <= power < 7:
        scale, places = 10.0**power, places + power
        return f"({value / scale:.{places}f} ± {error / scale:.{places}f})e{power}"
    places = places if max_places is None else min(places, max_places)
    shown = max(places, 0)
    return f"{round(value, places):.{shown}f} ± {round(error, places):.{shown}f}"


def matched(value: float, error: float) -> str:
    """Round a number to a hundredth of its standard error.

    Example:
        >>> matched(9.2e-12, 0.0023), matched(1506.5831, 50.0)
        ('0', '1506.6')
    """
    if not (math.isfinite(value) and math.isfinite(error) and error > 0):
        return number(value, 5)
    places = 2 - math.floor(math.log10(error))
    return number(round(value, places), 5)


def counted(n: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun, in the plural unless it is 1; by default with an s.

    Example:
        >>> counted(1, "particle"), counted(1200, "step")
        ('1 particle', '1,200 steps')
    """
    return f"{n:,} {noun if n == 1 else plural or f'{noun}s'}"


def with_unit(words: str, unit: str) -> str:
    """Label an axis by words and unit, if any."""
    return words if unit in ("", "1") else f"{words} ({unit})"


def repeat_command(
    command: str, source: str | Sequence[str], options: Mapping[str, Any], output: str | None = None
) -> str:
    """Return the command line that repeats a result.

    Args:
        command: Name of the command.
        source: Input file, or the file and its reading options.
        options: Options by name with their values; a list repeats the option, "" is a flag, and
            None omits it.
        output: Output file, if any.

    Example:
        >>> repeat_command("compare", "tracks.csv", {"tau": 0.5, "n_tau": None})
        'driftbayes compare tracks.csv --tau 0.5'
    """
    if isinstance(source, str):
        # A name that begins with a minus would be read as an option.
        source = [f"./{source}" if source.startswith("-") else source]
    words = ["driftbayes", command, *source]
    for name, value in options.items():
        for item in value if isinstance(value, list) else [value]:
            if item is not None:
                words += [f"--{name.replace('_', '-')}", *([str(item)] if item != "" else [])]
    return shlex.join([*words, *(() if output is None else ("-o", output))])


# Text


def card_text(card: Card, width: int = _COLUMNS) -> str:
    """Format a card for a terminal of the given width."""
    title = f"{card.kind}: {_plain(card.headline, _MAX_SENTENCE)}"
    # Sentences are easier to read in lines of at most 80 characters.
    text_width = min(width, _COLUMNS)
    lines = wrap(title, text_width, subsequent_indent="    ")
    facts = [(_plain(name), _plain(value)) for name, value in card.facts]
    indent = max((_width(name) for name, _ in facts), default=0)
    for name, value in facts:
        lines += [
            f"  {line}" for line in _folded([name, value], [indent, width - indent - 4], "ll")
        ]
    for table in card.tables:
        lines += ["", *(f"  {line}" for line in table_text(table, width - 2))]
    for texts in (card.sentences, [f"warning: {text}" for text in card.warnings]):
        lines += [""] if texts else []
        for text in texts:
            folded = wrap(_plain(text, _MAX_SENTENCE), text_width - 2, subsequent_indent="  ")
            lines += [f"  {line}" for line in folded]
    return "\n".join(line.rstrip() for line in lines)


def table_text(table: Table, width: int) -> list[str]:
    """Format a table; a wide table is split and its text wrapped, but no number is cut.

    Args:
        table: The table.
        width: Characters in a line.
    """
    # Text after the first column may be a sentence.
    max_lengths = [
        _MAX_SENTENCE if i and side == "l" else _MAX_NAME for i, side in enumerate(table.sides)
    ]
    rows = [
        [_plain(*cell) for cell in zip(row, max_lengths, strict=True)]
        for row in (table.columns, *table.rows)
    ]
    columns = list(zip(*rows, strict=True))
    whole = [max(map(_width, column)) for column in columns]
    # Minimum width of each column: its numbers, or the longest word of text.
    words = [
        max(max(map(_width, cell.split()), default=0) for cell in column)
        if side == "l"
        else max(max(map(_width, column[1:]), default=0), *map(_width, _pieces(column[0])), 0)
        for column, side in zip(columns, table.sides, strict=True)
    ]
    lines = wrap(table.title, width, break_on_hyphens=False)
    for n_group, chosen in enumerate(_column_groups(table, whole, words, width)):
        lines += [""] if n_group else []
        sides = [table.sides[i] for i in chosen]
        # Narrow the widest columns together, none below its longest word.
        space, cap = width - 2 * (len(chosen) - 1), max(whole)
        least = dict(enumerate(words))
        if sum(words[i] for i in chosen) > space:
            # Break long names if necessary.
            least |= {i: _longest_piece(columns[i]) for i in chosen if table.sides[i] == "l"}
        while cap and sum(max(least[i], min(whole[i], cap)) for i in chosen) > space:
            cap -= 1
        widths = {i: max(least[i], min(whole[i], cap)) for i in chosen}
        for n, row in enumerate(rows):
            if n or any(table.columns):
                cells = [row[i] for i in chosen]
                lines += _folded(cells, list(widths.values()), sides, is_head=n == 0)
            if n == 0 and any(table.columns):
                lines.append("─" * (sum(widths.values()) + 2 * (len(chosen) - 1)))
    return lines


def _column_groups(
    table: Table, whole: Sequence[int], words: Sequence[int], width: int
) -> list[list[int]]:
    """Split columns into tables that fit the width; each begins with the key columns."""
    least = [
        max(words[i], min(whole[i], _MIN_TEXT)) if side == "l" else words[i]
        for i, side in enumerate(table.sides)
    ]
    keys = list(range(table.keys))
    groups = [keys]
    for i in range(table.keys, len(least)):
        together = [*groups[-1], i]
        too_wide = sum(least[j] for j in together) + 2 * (len(together) - 1) > width
        if too_wide and len(groups[-1]) > table.keys:
            groups.append(keys)
        groups[-1] = [*groups[-1], i]
    return groups


def _folded(
    cells: Sequence[str], widths: Sequence[int], sides: Sequence[str], *, is_head: bool = False
) -> list[str]:
    """Wrap a row into lines: text between words, and a heading also within a long name."""
    parts = []
    for cell, width, side in zip(cells, widths, sides, strict=True):
        if _width(cell) <= width or (side == "r" and not is_head):
            parts.append([cell])
        elif (is_head and side == "r") or max(map(_width, cell.split()), default=0) > width:
            parts.append(_joined(_pieces(cell), width))
        else:
            text = wrap(cell, max(width, 1), break_long_words=False, break_on_hyphens=False)
            parts.append(text or [""])
    return [
        "  ".join(
            _padded(part[i] if i < len(part) else "", width, side)
            for part, width, side in zip(parts, widths, sides, strict=True)
        ).rstrip()
        for i in range(max(map(len, parts)))
    ]


def _pieces(heading: str) -> list[str]:
    """Split a heading where it may be wrapped, such as "langevin+" and "noise"."""
    return [piece for piece in re.split(r"(?<=[ :+])|(?<=K\()", heading) if piece]


def _longest_piece(cells: Sequence[str]) -> int:
    return max(_width(piece.strip()) for cell in cells for piece in _pieces(cell) or [""])


def _joined(pieces: Sequence[str], width: int) -> list[str]:
    """Join as many pieces in a line as fit."""
    lines = [""]
    for piece in pieces:
        if lines[-1] and _width(f"{lines[-1]}{piece}".rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return [line.strip() for line in lines]


def _plain(text: object, max_length: int = _MAX_NAME) -> str:
    """Convert to one line without control characters, which could move the terminal's cursor."""
    line = str(text)
    line = line if len(line) <= max_length else f"{line[: max_length - 1]}…"
    return "".join(char if char.isprintable() else "?" for char in line)


def _width(text: str) -> int:
    return sum(2 if east_asian_width(char) in "WF" else 1 for char in text)


def _padded(text: str, width: int, side: str) -> str:
    space = " " * max(width - _width(text), 0)
    return text + space if side == "l" else space + text


def _unknown(record: object, error: Exception) -> str:
    # The record may be incomplete.
    return f"<{type(record).__name__}: cannot be shown ({type(error).__name__})>"


# HTML


def card_html(card: Card) -> str:
    """Format a card as HTML for a notebook, without scripts, colours or links."""
    return render("driftbayes", "card.html", card=card)


def render(package: str, template: str, **values: Any) -> str:
    """Fill in a template of a package; values are escaped.

    Args:
        package: Package with the template in its folder `templates`.
        template: File name.
        **values: Variables of the template.
    """
    return str(_environment(package).get_template(template).render(**values))


@cache
def _environment(package: str) -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"plain": _plain, "share": _share, "number": number}
    environment.filters["with_error"] = with_error
    return environment


def _share(value: float) -> float:
    """Limit a share to the range from 0 to 1."""
    return min(max(value, 0.0), 1.0) if math.isfinite(value) else 0.0
