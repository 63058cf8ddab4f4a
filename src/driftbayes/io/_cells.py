"""Convert cells and columns of a table between Arrow arrays and NumPy arrays.

Spreadsheets run a cell that begins with one of `= + - @`, a tab or a carriage return. A leading
apostrophe prevents that. Text that begins with apostrophes and such a character gets one more, so
that removing one always restores the text.
"""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from driftbayes._typing import FloatArray, IntArray, StrArray
from driftbayes.io._ids import BadCellError, id_array, refuse_first

# How R, pandas, Excel and C print a missing number.
MISSING = ("", "NA", "N/A", "NaN", "nan", "-nan", "NAN", "null", "NULL", "None")
_MAX_DIGITS = 20
_NO_ID = "is empty; every row needs the id of its trajectory"
# Common fill values, of either sign.
_FILLS = (
    *(999.0, 9999.0, 99999.0, 999999.0, 9999999.0, 999.9, 999.99, 999.999, 9999.9, 9999.99),
    *(9999.999, 32767.0, 32768.0, 2147483647.0, 2147483648.0),
    *(1e20, 1e30, 1e34, 1e35, 1e36, 1e37, 1e38, 9.96921e36, 9.969209968386869e36),
)
_BOOLEANS = {
    **dict.fromkeys(("1", "1.0", "true", "t", "yes", "y", "on"), 1.0),
    **dict.fromkeys(("0", "0.0", "false", "f", "no", "n", "off"), 0.0),
}
_FORMULA, _ESCAPABLE, _ESCAPED = (re.compile(rf"{p}[=+\-@\t\r]") for p in ("", "'*", "'+"))
_WHOLE = re.compile(r"0|-?[1-9][0-9]*")


def escape_cell(text: str) -> str:
    """Escape text for a cell of a CSV file."""
    return f"'{text}" if _ESCAPABLE.match(text) else text


def is_missing(text: str) -> bool:
    """Whether a cell means a missing value."""
    return text.strip() in MISSING


def is_number(text: str) -> bool:
    """Whether a cell is a number for Arrow, which does not accept 1_000 or ١."""
    try:
        float(text)
    except ValueError:
        return False
    return text.isascii() and "_" not in text


def numbers(column: Any) -> FloatArray:
    """Convert a column to floats; missing values become NaN with one bit pattern."""
    kind = column.type
    numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    # A column without any value has the type null.
    if not (numeric or pa.types.is_null(kind)):
        raise BadCellError(f"holds {kind}, expected numbers")
    values = to_numpy(column.cast(pa.float64(), safe=False))
    if not values.flags.writeable:
        values = values.copy()
    # NaN has many bit patterns, which fingerprints distinguish.
    missing = np.isnan(values)
    if missing.any():
        values[missing] = np.nan
    return values


def to_numpy(column: Any) -> np.ndarray:
    """Convert a chunked Arrow array of numbers to NumPy; missing values become NaN."""
    if column.null_count or not column.num_chunks:
        return np.asarray(column.to_numpy())
    # Arrow's conversion imports pandas, which takes 0.2 s.
    return np.concatenate([np.from_dlpack(chunk) for chunk in column.chunks])


def parse_numbers(column: Any, point: str = ".") -> Any:
    """Convert text to numbers, as an Arrow array.

    Args:
        column: Arrow array of text.
        point: Decimal separator.

    Raises:
        pyarrow.ArrowInvalid: If a cell is not a number.
    """
    text = strip_cells(column)
    if point != ".":
        # A point would be a thousands separator.
        text = pc.replace_substring(text, ".", "?")
        text = pc.replace_substring(text, point, ".", max_replacements=1)
    return text.cast(pa.float64())


def encode_ids(column: Any, *, text_holds_integers: bool) -> tuple[IntArray, StrArray]:
    """Return the trajectory number of each row, and the ids in order of first appearance.

    With `text_holds_integers`, text ids that are all whole numbers become numbers, and surrounding
    spaces are ignored.
    """
    column = plain(column)
    kind = column.type
    if text_holds_integers:
        # Columns are often padded: " 7" and "7" are the same particle.
        column = pc.utf8_trim_whitespace(column)
    if pa.types.is_floating(kind):
        column = _whole(column)
    elif not (is_text(kind) or pa.types.is_integer(kind) or pa.types.is_null(kind)):
        raise BadCellError(f"holds {kind}, expected text or whole numbers")
    refuse_nulls(column, _NO_ID)
    encoded = column.dictionary_encode().unify_dictionaries()
    codes = np.concatenate([np.from_dlpack(chunk.indices) for chunk in encoded.chunks])
    values = encoded.chunk(0).dictionary.to_pylist()
    if text_holds_integers:
        blank = [code for code, value in enumerate(values) if not value]
        refuse_first(np.isin(codes, blank), _NO_ID)
        values = _as_integers(_unescaped(values))
    return codes.astype(np.int64), id_array(values)


def find_fills(axes: Sequence[FloatArray]) -> np.ndarray:
    """Find rows in which a coordinate is a common fill value such as -9999.

    The value must differ from all others by more than their range.
    """
    is_fill = np.zeros(len(axes[0]), dtype=bool)
    for axis in axes:
        suspects = np.isin(np.abs(axis), _FILLS)
        if not suspects.any():
            continue
        data = axis[np.isfinite(axis) & ~suspects]
        if len(data):
            low, high = float(data.min()), float(data.max())
            far = (axis < low - (high - low)) | (axis > high + (high - low))
            is_fill |= suspects & far
    return is_fill


def booleans(column: Any) -> FloatArray | None:
    """Convert 0 and 1, true and false or yes and no to numbers; None if there are other values."""
    values = plain(column)
    if not is_text(values.type):
        kind = pa.int8() if pa.types.is_boolean(values.type) else pa.float64()
        numeric = np.asarray(values.cast(kind).to_numpy(), dtype=np.float64)
        return numeric if np.isin(numeric[np.isfinite(numeric)], (0.0, 1.0)).all() else None
    encoded = strip_cells(values).combine_chunks().dictionary_encode()
    known = [
        None if text is None else _BOOLEANS.get(text.casefold())
        for text in encoded.dictionary.to_pylist()
    ]
    if None in known:
        return None
    codes = encoded.indices.fill_null(len(known)).to_numpy(zero_copy_only=False)
    return np.array([*known, np.nan])[codes]


def refuse_nulls(column: Any, what: str) -> None:
    """Refuse a column with nulls, giving the row of the first."""
    if column.null_count:
        refuse_first(np.asarray(column.is_null()), what)


def plain(column: Any) -> Any:
    """Decode dictionary and string-view columns."""
    if pa.types.is_dictionary(column.type):
        # A dictionary may be in any order and have duplicates.
        column = column.cast(column.type.value_type)
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    return column


def is_text(kind: Any) -> bool:
    """Whether an Arrow type is text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _whole(column: Any) -> Any:
    # pandas converts whole numbers to floats if any of them is missing.
    values = numbers(column)
    refuse_first(np.isnan(values), _NO_ID)
    refuse_first(
        (values != np.round(values)) | (np.abs(values) >= 2**53),
        "is not a whole number; use text or whole numbers as ids",
    )
    return pa.chunked_array([pa.array(values.astype(np.int64))])


def _unescaped(values: list[str]) -> list[str]:
    """Remove the apostrophe that `write_csv` puts before ids that look like formulas."""
    # A file with an unescaped formula is not from driftbayes: its apostrophes are data.
    if any(map(_FORMULA.match, values)):
        return values
    return [value[1:] if _ESCAPED.match(value) else value for value in values]


def _as_integers(values: list[str]) -> list[Any]:
    # "007" stays text: as a number it would become 7. Python refuses numbers of 5000 digits.
    if not all(len(value) <= _MAX_DIGITS and _WHOLE.fullmatch(value) for value in values):
        return list(values)
    integers = [int(value) for value in values]
    fits = all(-(2**63) <= integer < 2**63 for integer in integers)
    return integers if fits else list(values)


def strip_cells(column: Any) -> Any:
    """Strip spaces from text, and replace missing values by null."""
    text = pc.utf8_trim_whitespace(column)
    missing = pc.is_in(text, value_set=pa.array(MISSING, text.type))
    return pc.if_else(missing, pa.scalar(None, text.type), text)
