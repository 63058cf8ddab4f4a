"""Parse columns of times: numbers, ISO dates, dates such as 17/05/2024 1:30 PM, times of day.

The order of day and month follows from the whole column: a number above 12 is a day. A column
without a number above 12 is refused unless the user gives the order.
"""

import re
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from driftbayes._typing import FloatArray, IntArray
from driftbayes.io._cells import (
    is_number,
    is_text,
    numbers,
    plain,
    refuse_nulls,
    strip_cells,
    to_numpy,
)
from driftbayes.io._ids import BadCellError, refuse_first

ORDERS = {"dmy": "day/month/year", "mdy": "month/day/year"}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH_NUMBERS = {name: number for number, name in enumerate(_MONTHS, 1)}
_ISO = re.compile(
    r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(\s?UTC|Z|[+-]\d\d(:?\d\d)?)?)?", re.ASCII
)
_CLOCK = (
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d{1,2}))?(?::(?P<second>\d{1,2}(?:\.\d+)?))?"
    r"\s*(?P<half>[AaPp]\.?[Mm]\.?)?"
)
_DATE = (
    r"\s*(?P<first>\d{1,4})(?P<separator>[/.\-\s])(?P<second_part>\d{1,2}|[A-Za-z]{3,9})[/.\-\s]"
    r"(?P<last>\d{1,4})"
)
_ZONE = r"\s*(?:Z|UTC|GMT)?\s*"
_DATE_TIME = rf"^{_DATE}(?:[T,\s]+{_CLOCK})?{_ZONE}$"
_TIME_OF_DAY = rf"^\s*{_CLOCK}{_ZONE}$"
_PATTERN = re.compile(_DATE_TIME)
_EXPECTED = "expected a date like 2024-05-17 12:00 or 17/05/2024 12:00"
_NO_TIME = "is empty; every row needs a time"
_EXPECTED_CLOCK = "expected a time of day like 13:30"


def is_iso_date(text: str) -> bool:
    """Whether a cell is an ISO date."""
    text = text.strip()
    if not _ISO.fullmatch(text):
        return False
    try:
        datetime.fromisoformat(re.sub(r"\s?UTC$", "Z", text))
    except ValueError:
        return False
    return True


def is_other_date(text: str) -> bool:
    """Whether a cell is a date in another supported format than ISO."""
    # A quick test that excludes nearly all times.
    if not any(char in text for char in "/.- ") or is_number(text):
        return False
    match = _PATTERN.fullmatch(text.strip())
    return match is not None and 4 in (len(match["first"]), len(match["last"]))


def parse_times(column: Any, order: str | None = None) -> tuple[FloatArray, str]:
    """Read a column of times.

    Args:
        column: Arrow array of numbers, dates or text.
        order: "dmy" or "mdy" for the order of day and month, if given by the user.

    Returns:
        Numbers unchanged, or dates as seconds since 1970-01-01 UTC (the default zone), and the
        date format, empty for numbers.
    """
    column = plain(column)
    kind = column.type
    if is_text(kind):
        column = strip_cells(column)
        refuse_nulls(column, _NO_TIME)
        first = column[0].as_py() if len(column) else ""
        if not is_iso_date(first) and is_other_date(first):
            return _parse_dates(column, order)
        column = _parse_iso_dates(column)
    elif pa.types.is_duration(kind):
        column = column.cast(pa.duration("us"), safe=False)
    elif pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        # The zone only affects printing, but removing it by a cast could shift the time.
        column = column.cast(pa.timestamp("us", getattr(kind, "tz", None)), safe=False)
    else:
        values = numbers(column)
        refuse_first(np.isnan(values), _NO_TIME)
        return values, ""
    refuse_nulls(column, _NO_TIME)
    # A float64 resolves microseconds today, and no year is out of range.
    return to_numpy(column.cast(pa.int64())) / 1e6, "dates"


def _parse_iso_dates(text: Any) -> Any:
    column = text
    # Arrow requires a zone in all dates or in none, and no more digits than its unit has.
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
            if not is_iso_date(value):
                msg = f"holds {value[:40]!r}, expected an ISO date like 2024-05-17T12:00:00Z"
                raise BadCellError(msg, row) from error
        msg = "holds dates that cannot be read, expected ISO dates like 2024-05-17T12:00:00Z"
        raise BadCellError(msg) from error


def _parse_dates(column: Any, order: str | None) -> tuple[FloatArray, str]:
    """Return seconds since 1970 and the order of day and month, or "dates" if unambiguous."""
    parts = _match_cells(column, _DATE_TIME, _EXPECTED)
    first, last = _to_integers(parts["first"]), _to_integers(parts["last"])
    words = [text.casefold()[:3] for text in parts["second_part"]]
    named = np.array([not word.isdigit() for word in words], dtype=bool)
    middle = np.array([int(w) if w.isdigit() else _MONTH_NUMBERS.get(w, 0) for w in words])
    long_first, long_last = (np.char.str_len(parts[name]) == 4 for name in ("first", "last"))
    _refuse(~(long_first | long_last), column, "with a year of four digits, " + _EXPECTED)
    ambiguous = ~long_first & ~named
    if order is None:
        order = _infer_order(first[ambiguous], middle[ambiguous], parts["separator"][ambiguous])
    swapped = ambiguous & (order == "mdy")
    year = np.where(long_first, first, last)
    month = np.where(swapped, first, middle)
    day = np.where(long_first, last, np.where(swapped, middle, first))
    valid = (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31) & (year >= 1000)
    months = (np.where(valid, year, 1970) - 1970) * 12 + np.where(valid, month, 1) - 1
    start = months.astype("datetime64[M]")
    length = (
        (start + np.timedelta64(1, "M")).astype("datetime64[D]") - start.astype("datetime64[D]")
    ).astype(int)
    clock, is_clock = _parse_clock(parts)
    _refuse(~valid | (day > length) | ~is_clock, column, _EXPECTED)
    seconds = start.astype("datetime64[s]").astype(np.int64) + (day - 1) * 86400.0
    return seconds + clock, ORDERS[order] if ambiguous.any() else "dates"


def parse_clocks(column: Any, name: str) -> FloatArray:
    """Convert text like 13:30, or hours, to seconds since midnight.

    Args:
        column: Arrow array of text or numbers.
        name: Name of the column; numbers are hours if it says so.
    """
    if pa.types.is_time(column.type):
        return numbers(column.cast(pa.time64("us")).cast(pa.int64())) / 1e6
    if not is_text(column.type):
        hours = numbers(column)
    else:
        texts = [text or "" for text in column.to_pylist()]
        if any(":" in text for text in texts):
            seconds, valid = _parse_clock(_match_cells(column, _TIME_OF_DAY, _EXPECTED_CLOCK))
            _refuse(~valid, column, _EXPECTED_CLOCK)
            return seconds
        try:
            hours = np.array([float((text or "nan").replace(",", ".")) for text in texts])
        except ValueError:
            hours = np.full(len(texts), np.nan)
    _refuse(~((hours >= 0) & (hours <= 24)), column, f"{_EXPECTED_CLOCK}, or hours")
    if "hour" not in name.casefold() and not re.search(r"[\[(_ ]h(r|rs)?[\])]?$", name.casefold()):
        raise BadCellError(
            "holds numbers beside a column of dates, which may or may not be hours; pass "
            "--columns time=NAME for the column of times, or rename it to 'hour'"
        )
    return np.asarray(hours * 3600.0)


def _match_cells(column: Any, pattern: str, expected: str) -> dict[str, np.ndarray]:
    """Return the named groups of each cell, as arrays of text."""
    groups = pc.extract_regex(column, pattern=pattern)
    if groups.null_count:
        _refuse(np.asarray(groups.is_null()), column, expected)
    parts = groups.combine_chunks().flatten()
    names = (field.name for field in groups.type)
    return {n: np.array(p.to_pylist(), dtype=str) for n, p in zip(names, parts, strict=True)}


def _to_integers(texts: np.ndarray) -> IntArray:
    return np.array([int(text or 0) for text in texts], dtype=np.int64)


def _infer_order(first: IntArray, second: IntArray, separators: np.ndarray) -> str:
    """Infer the order of day and month from all dates of a column."""
    days_first, days_second = (first > 12).any(), (second > 12).any()
    if days_first and days_second:
        raise BadCellError("mixes day/month/year and month/day/year; write ISO dates")
    if days_first or days_second:
        return "dmy" if days_first else "mdy"
    # With points the day always comes first.
    if (first == second).all() or (separators == ".").all():
        return "dmy"
    raise BadCellError(
        "holds ambiguous dates (no day or month is above 12); pass --date-order dmy or "
        "--date-order mdy"
    )


def _parse_clock(parts: dict[str, np.ndarray]) -> tuple[FloatArray, np.ndarray]:
    """Return seconds since midnight, and a mask of the valid times."""
    hour, minute = _to_integers(parts["hour"]), _to_integers(parts["minute"])
    second = np.array([float(text or 0) for text in parts["second"]])
    half = np.array([text[:1].lower() for text in parts["half"]], dtype=str)
    valid = (hour <= 24) & (minute < 60) & (second < 61) & ((half == "") | (hour <= 12))
    hour = np.where(half != "", hour % 12 + 12 * (half == "p"), hour)
    return hour * 3600.0 + minute * 60.0 + second, valid


def _refuse(bad: np.ndarray, column: Any, expected: str) -> None:
    if bad.any():
        row = int(np.argmax(bad))
        raise BadCellError(f"holds {str(column[row].as_py())[:40]!r}, {expected}", row)
