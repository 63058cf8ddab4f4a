"""Cells and columns of a table, as Arrow arrays, to the NumPy arrays of trajectories and back.

Spreadsheets run a cell that begins with one of `= + - @`, a tab or a carriage return. An apostrophe
before it stops them. Text that begins with apostrophes before such a character gets one more, so
that taking one away always gives the text back.
"""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from driftbayes.io.ids import BadCellError, id_array, refuse_first
from driftbayes.typing import FloatArray, IntArray, StrArray

# What R, pandas, Excel and C print for a missing number.
MISSING = ("", "NA", "N/A", "NaN", "nan", "-nan", "NAN", "null", "NULL", "None")
_MAX_DIGITS = 20
_NO_ID = "is empty; every row needs the id of its trajectory"
# Numbers that stand for none, whatever their sign.
_FILLS = (
    *(999.0, 9999.0, 99999.0, 999999.0, 9999999.0, 999.9, 999.99, 999.999, 9999.9, 9999.99),
    *(9999.999, 32767.0, 32768.0, 2147483647.0, 2147483648.0),
    *(1e20, 1e30, 1e34, 1e35, 1e36, 1e37, 1e38, 9.96921e36, 9.969209968386869e36),
)
_TRUTHS = {
    **dict.fromkeys(("1", "1.0", "true", "t", "yes", "y", "on"), 1.0),
    **dict.fromkeys(("0", "0.0", "false", "f", "no", "n", "off"), 0.0),
}
_FORMULA, _ESCAPABLE, _ESCAPED = (re.compile(rf"{p}[=+\-@\t\r]") for p in ("", "'*", "'+"))
_WHOLE = re.compile(r"0|-?[1-9][0-9]*")


def escape_cell(text: str) -> str:
    """Text as it is written into a cell of a CSV file."""
    return f"'{text}" if _ESCAPABLE.match(text) else text


def is_missing(text: str) -> bool:
    """Whether a cell stands for a missing value."""
    return text.strip() in MISSING


def is_number(text: str) -> bool:
    """Whether a cell is a number as Arrow reads it, which knows no 1_000 and no ١."""
    try:
        float(text)
    except ValueError:
        return False
    return text.isascii() and "_" not in text


def numbers(column: Any) -> FloatArray:
    """A column of numbers; missing ones become NaN, always the same NaN."""
    kind = column.type
    numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    # A column without a single value may have any type at all.
    if not (numeric or pa.types.is_null(kind)):
        raise BadCellError(f"holds {kind}, expected numbers")
    values = in_memory(column.cast(pa.float64(), safe=False))
    if not values.flags.writeable:
        values = values.copy()
    # NaN has many bit patterns, and a fingerprint would tell them apart.
    missing = np.isnan(values)
    if missing.any():
        values[missing] = np.nan
    return values


def in_memory(column: Any) -> np.ndarray:
    """A chunked Arrow array of numbers as a NumPy array; missing ones become NaN."""
    if column.null_count or not column.num_chunks:
        return np.asarray(column.to_numpy())
    # Arrow's own conversion imports pandas, a fifth of a second that most files can do without.
    return np.concatenate([np.from_dlpack(chunk) for chunk in column.chunks])


def parse_numbers(column: Any, point: str = ".") -> Any:
    """Text to numbers, as an Arrow array; raises `pyarrow.ArrowInvalid` if there is other text.

    Args:
        column: Arrow array of text.
        point: What stands before the decimals.
    """
    text = stripped(column)
    if point != ".":
        # A point would be something else there: a separator of thousands.
        text = pc.replace_substring(text, ".", "?")
        text = pc.replace_substring(text, point, ".", max_replacements=1)
    return text.cast(pa.float64())


def encode_ids(column: Any, *, text_holds_integers: bool) -> tuple[IntArray, StrArray]:
    """Number of the trajectory of each row, and the ids, in order of first appearance.

    In text, ids that are all whole numbers are meant as such, and spaces around them mean nothing.
    """
    column = plain(column)
    kind = column.type
    if text_holds_integers:
        # Columns are often padded, and " 7" next to "7" is not another particle.
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
    """Rows in which a coordinate is a number such as -9999 that programs write for none.

    It must stand away from the other values by more than their range.
    """
    found = np.zeros(len(axes[0]), dtype=bool)
    for axis in axes:
        suspects = np.isin(np.abs(axis), _FILLS)
        if not suspects.any():
            continue
        data = axis[np.isfinite(axis) & ~suspects]
        if len(data):
            low, high = float(data.min()), float(data.max())
            far = (axis < low - (high - low)) | (axis > high + (high - low))
            found |= suspects & far
    return found


def truths(column: Any) -> FloatArray | None:
    """A column of 0 and 1, true and false or yes and no, as numbers; None if it holds others."""
    values = plain(column)
    if not is_text(values.type):
        kind = pa.int8() if pa.types.is_boolean(values.type) else pa.float64()
        found = np.asarray(values.cast(kind).to_numpy(), dtype=np.float64)
        return found if np.isin(found[np.isfinite(found)], (0.0, 1.0)).all() else None
    encoded = stripped(values).combine_chunks().dictionary_encode()
    known = [
        None if text is None else _TRUTHS.get(text.casefold())
        for text in encoded.dictionary.to_pylist()
    ]
    if None in known:
        return None
    codes = encoded.indices.fill_null(len(known)).to_numpy(zero_copy_only=False)
    return np.array([*known, np.nan])[codes]


def refuse_nulls(column: Any, what: str) -> None:
    """Refuse a column with a null, with the row of the first."""
    if column.null_count:
        refuse_first(np.asarray(column.is_null()), what)


def plain(column: Any) -> Any:
    """The column without the encodings that say nothing about its values."""
    if pa.types.is_dictionary(column.type):
        # A dictionary need not be in order of appearance, and may repeat itself.
        column = column.cast(column.type.value_type)
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    return column


def is_text(kind: Any) -> bool:
    """Whether an Arrow type is text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _whole(column: Any) -> Any:
    # pandas turns whole numbers into floats as soon as one of them is missing.
    values = numbers(column)
    refuse_first(np.isnan(values), _NO_ID)
    refuse_first(
        (values != np.round(values)) | (np.abs(values) >= 2**53),
        "is not a whole number; use text or whole numbers as ids",
    )
    return pa.chunked_array([pa.array(values.astype(np.int64))])


def _unescaped(values: list[str]) -> list[str]:
    """Ids without the apostrophe that `write_csv` puts before what looks like a formula."""
    # Where one looks like a formula, the file is not ours and its apostrophes mean themselves.
    if any(map(_FORMULA.match, values)):
        return values
    return [value[1:] if _ESCAPED.match(value) else value for value in values]


def _as_integers(values: list[str]) -> list[Any]:
    # "007" is text: as a number it would come back as 7.
    # Python itself refuses to read numbers of thousands of digits.
    if not all(len(value) <= _MAX_DIGITS and _WHOLE.fullmatch(value) for value in values):
        return list(values)
    integers = [int(value) for value in values]
    fits = all(-(2**63) <= integer < 2**63 for integer in integers)
    return integers if fits else list(values)


def stripped(column: Any) -> Any:
    """Text without spaces around it; what stands for a missing value becomes null."""
    text = pc.utf8_trim_whitespace(column)
    missing = pc.is_in(text, value_set=pa.array(MISSING, text.type))
    return pc.if_else(missing, pa.scalar(None, text.type), text)
