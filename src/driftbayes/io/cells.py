"""Cells and columns of a table, as Arrow arrays, to the NumPy arrays of trajectories and back.

Spreadsheets run a cell that begins with one of `= + - @`, a tab or a carriage return. An apostrophe
before it stops them. Text that begins with apostrophes before such a character gets one more, so
that taking one away always gives the text back.
"""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np

from driftbayes.errors import DriftbayesError
from driftbayes.io.limits import MAX_ID_LENGTH
from driftbayes.typing import FloatArray, IntArray, StrArray

# What R, pandas, Excel and C print for a missing number.
MISSING = ("", "NA", "N/A", "NaN", "nan", "-nan", "NAN", "null", "NULL", "None")
_MAX_DIGITS = 20
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
_DATE = re.compile(
    r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(\s?UTC|Z|[+-]\d\d(:?\d\d)?)?)?", re.ASCII
)


class BadCellError(Exception):
    """A column that cannot be used; the caller knows how to name the place in its file.

    Args:
        what: What is wrong and what was expected, to follow the name of the column.
        row: Row of the first bad cell, counted from 0, or None if it is the whole column.
    """

    def __init__(self, what: str, row: int | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.row = row


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


def is_date(text: str) -> bool:
    """Whether a cell is an ISO date that `times` can read."""
    text = text.strip()
    if not _DATE.fullmatch(text):
        return False
    try:
        datetime.fromisoformat(re.sub(r"\s?UTC$", "Z", text))
    except ValueError:
        return False
    return True


def numbers(column: Any) -> FloatArray:
    """A column of numbers; missing ones become NaN, always the same NaN."""
    import pyarrow as pa

    kind = column.type
    numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    # A column without a single value may have any type at all.
    if not (numeric or pa.types.is_null(kind)):
        raise BadCellError(f"holds {kind}, expected numbers")
    values = _in_memory(column.cast(pa.float64(), safe=False))
    if not values.flags.writeable:
        values = values.copy()
    # NaN has many bit patterns, and a fingerprint would tell them apart.
    missing = np.isnan(values)
    if missing.any():
        values[missing] = np.nan
    return values


def _in_memory(column: Any) -> np.ndarray:
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
    import pyarrow as pa
    import pyarrow.compute as pc

    text = _stripped(column)
    if point != ".":
        # A point would be something else there: a separator of thousands.
        text = pc.replace_substring(text, ".", "?")
        text = pc.replace_substring(text, point, ".", max_replacements=1)
    return text.cast(pa.float64())


def has_other_dates(column: Any) -> bool:
    """Whether a column is text that does not begin with an ISO date."""
    column = _plain(column)
    if not _is_text(column.type):
        return False
    head = column.slice(0, 1000).to_pylist()
    first = next((text for text in head if text and not is_missing(text)), "")
    return bool(first) and not is_date(first)


def whole_text(column: Any) -> Any:
    """A column of text without spaces around it, none of it missing."""
    column = _stripped(_plain(column))
    _refuse_first(_nulls(column), "is empty; every row needs a time")
    return column


def times(column: Any) -> tuple[FloatArray, str]:
    """A column of times, and how its dates were written; empty if these are numbers.

    Dates become seconds since 1970-01-01 UTC; one without a zone is taken to be UTC.
    """
    import pyarrow as pa

    column = _plain(column)
    kind = column.type
    if _is_text(kind):
        column = _parse_dates(column)
    elif pa.types.is_duration(kind):
        column = column.cast(pa.duration("us"), safe=False)
    elif pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        # The zone only says how to print a moment; casting it away could move the moment.
        zone = getattr(kind, "tz", None)
        column = column.cast(pa.timestamp("us", zone), safe=False)
    else:
        values = numbers(column)
        _refuse_first(np.isnan(values), "is empty; every row needs a time")
        return values, ""
    _refuse_first(_nulls(column), "is empty; every row needs a time")
    # Microseconds: as fine as a float64 resolves today, and no year is out of range.
    return _in_memory(column.cast(pa.int64())) / 1e6, "dates"


def encode_ids(column: Any, *, text_holds_integers: bool) -> tuple[IntArray, StrArray]:
    """Number of the trajectory of each row, and the ids, in order of first appearance.

    In text, ids that are all whole numbers are meant as such, and spaces around them mean nothing.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    column = _plain(column)
    kind = column.type
    if text_holds_integers:
        # Columns are often padded, and " 7" next to "7" is not another particle.
        column = pc.utf8_trim_whitespace(column)
    if pa.types.is_floating(kind):
        column = _whole(column)
    elif not (_is_text(kind) or pa.types.is_integer(kind) or pa.types.is_null(kind)):
        raise BadCellError(f"holds {kind}, expected text or whole numbers")
    _refuse_first(_nulls(column), "is empty; every row needs the id of its trajectory")
    encoded = column.dictionary_encode().unify_dictionaries()
    codes = np.concatenate([np.from_dlpack(chunk.indices) for chunk in encoded.chunks])
    values = encoded.chunk(0).dictionary.to_pylist()
    if text_holds_integers:
        blank = [code for code, value in enumerate(values) if not value]
        _refuse_first(np.isin(codes, blank), "is empty; every row needs the id of its trajectory")
        values = _as_integers(_unescaped(values))
    return codes.astype(np.int64), id_array(values)


def id_array(values: list[Any]) -> StrArray:
    """Ids as trajectories hold them: an array of text, or of 64-bit integers."""
    if not values or isinstance(values[0], str):
        if max(map(len, values), default=0) > MAX_ID_LENGTH:
            msg = f"holds an id of more than {MAX_ID_LENGTH} characters; use shorter ones"
            raise BadCellError(msg)
        return np.array(values, dtype=str)
    try:
        return np.array(values, dtype=np.int64)
    except OverflowError as error:
        raise BadCellError("holds a whole number beyond 64 bits; use text") from error


def id_values(ids: StrArray) -> StrArray:
    """Ids as a file can hold them: an array of 64-bit integers, or of text."""
    if ids.ndim == 1 and ids.dtype.kind in "iu" and (ids <= np.iinfo(np.int64).max).all():
        return ids.astype(np.int64)
    values = ids.tolist()
    if ids.ndim == 1 and all(isinstance(value, str) for value in values):
        # NetCDF ends a text at its first null, and no encoding has half of a surrogate pair.
        bad = [value for value in values if re.search("[\0\ud800-\udfff]", value)]
        if bad:
            msg = f"the id {bad[0]!r} has a character that no file can hold; rename it"
            raise DriftbayesError(msg)
        if max(map(len, values), default=0) > MAX_ID_LENGTH:
            msg = f"an id has more than {MAX_ID_LENGTH} characters; use shorter ones"
            raise DriftbayesError(msg)
        return np.array(values, dtype=object)
    msg = f"ids must be text or 64-bit whole numbers to be written, got {ids.dtype}; convert them"
    raise DriftbayesError(msg)


def without(axes: Sequence[FloatArray], missing: Sequence[float] | None) -> list[FloatArray]:
    """Coordinates with NaN on all axes where one of them is what the user calls missing."""
    if not missing or len({axis.shape for axis in axes}) != 1:
        return list(axes)
    gone = np.any([np.isin(axis, list(missing)) for axis in axes], axis=0)
    return [np.where(gone, np.nan, axis) for axis in axes]


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
    import pyarrow as pa

    values = _plain(column)
    if not _is_text(values.type):
        kind = pa.int8() if pa.types.is_boolean(values.type) else pa.float64()
        found = np.asarray(values.cast(kind).to_numpy(), dtype=np.float64)
        return found if np.isin(found[np.isfinite(found)], (0.0, 1.0)).all() else None
    encoded = _stripped(values).combine_chunks().dictionary_encode()
    known = [
        None if text is None else _TRUTHS.get(text.casefold())
        for text in encoded.dictionary.to_pylist()
    ]
    if None in known:
        return None
    codes = encoded.indices.fill_null(len(known)).to_numpy(zero_copy_only=False)
    return np.array([*known, np.nan])[codes]


def _plain(column: Any) -> Any:
    """The column without the encodings that say nothing about its values."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        # A dictionary need not be in order of appearance, and may repeat itself.
        column = column.cast(column.type.value_type)
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    return column


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _nulls(column: Any) -> np.ndarray:
    if column.null_count == 0:
        return np.zeros(len(column), dtype=bool)
    return np.asarray(column.is_null())


def _refuse_first(bad: np.ndarray, what: str) -> None:
    if bad.any():
        raise BadCellError(what, int(np.argmax(bad)))


def _whole(column: Any) -> Any:
    # pandas turns whole numbers into floats as soon as one of them is missing.
    import pyarrow as pa

    values = numbers(column)
    _refuse_first(np.isnan(values), "is empty; every row needs the id of its trajectory")
    _refuse_first(
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


def _stripped(column: Any) -> Any:
    """Text without spaces around it; what stands for a missing value becomes null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    text = pc.utf8_trim_whitespace(column)
    missing = pc.is_in(text, value_set=pa.array(MISSING, text.type))
    return pc.if_else(missing, pa.scalar(None, text.type), text)


def _parse_dates(column: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    text = _stripped(column)
    # Arrow wants a zone on all or on none, and no more digits than its unit holds.
    for pattern, replacement in (
        (r"\s?UTC$", "Z"),
        (r"(\.\d{6})\d+", r"\1"),
        (r"^(\d{4}-\d\d-\d\d)$", r"\1T00:00:00Z"),
        (r"^(\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?)$", r"\1Z"),
    ):
        text = pc.replace_substring_regex(text, pattern, replacement)
    try:
        return text.cast(pa.timestamp("us", "UTC"))
    except pa.ArrowInvalid as error:
        for row, value in enumerate(column.to_pylist()):
            if value is not None and not is_missing(value) and not is_date(value):
                msg = f"holds {value[:40]!r}, expected an ISO date like 2024-05-17T12:00:00Z"
                raise BadCellError(msg, row) from error
        msg = "holds dates that cannot be read, expected ISO dates like 2024-05-17T12:00:00Z"
        raise BadCellError(msg) from error
