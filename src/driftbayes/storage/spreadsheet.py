"""Text in CSV files that a spreadsheet must not take for a formula.

Spreadsheets run a cell that begins with one of `= + - @`, a tab or a carriage return. An apostrophe
before it stops them. Text that begins with apostrophes before such a character gets one more, so
that taking one away always gives the text back.
"""

__all__ = ["escape_cell", "is_formula", "unescape_cell"]

import re

_FORMULA = re.compile(r"[=+\-@\t\r]")
_ESCAPABLE = re.compile(r"'*[=+\-@\t\r]")
_ESCAPED = re.compile(r"'+[=+\-@\t\r]")


def is_formula(text: str) -> bool:
    """Whether a spreadsheet would take a cell for a formula."""
    return _FORMULA.match(text) is not None


def escape_cell(text: str) -> str:
    """Text as it is written into a cell."""
    return f"'{text}" if _ESCAPABLE.match(text) else text


def unescape_cell(text: str) -> str:
    """Text as `escape_cell` was given it."""
    return text[1:] if _ESCAPED.match(text) else text
