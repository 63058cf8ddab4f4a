"""Columns of times: numbers, ISO dates, dates such as 17/05/2024 1:30 PM, and times of day.

Day and month are told apart by the whole column: a number above 12 is a day. A column in which no
number is above 12 is refused until the user gives the order.
"""

import re
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from driftbayes.io.cells import (
    in_memory,
    is_number,
    is_text,
    numbers,
    plain,
    refuse_nulls,
    stripped,
)
from driftbayes.io.ids import BadCellError, refuse_first
from driftbayes.typing import FloatArray, IntArray

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
_WHOLE = rf"^{_DATE}(?:[T,\s]+{_CLOCK})?{_ZONE}$"
_ALONE = rf"^\s*{_CLOCK}{_ZONE}$"
_PATTERN = re.compile(_WHOLE)
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
    """Whether a cell is a date that is not in the ISO form but can be read here."""
    # Nearly all times begin with a digit and go on without these.
    if not any(char in text for char in "/.- ") or is_number(text):
        return False
    match = _PATTERN.fullmatch(text.strip())
    return match is not None and 4 in (len(match["first"]), len(match["last"]))


def parse_times(column: Any, order: str | None = None) -> tuple[FloatArray, str]:
    """Read a column of times.

    Args:
        column: Arrow array of numbers, dates or text.
        order: "dmy" or "mdy" for the order of day and month, if the user gives it.

    Returns:
        Numbers as they are, dates as seconds since 1970-01-01 UTC (one without a zone is taken to
        be UTC); and how dates were written, empty for numbers.
    """
    column = plain(column)
    kind = column.type
    if is_text(kind):
        column = stripped(column)
        refuse_nulls(column, _NO_TIME)
        first = column[0].as_py() if len(column) else ""
        if not is_iso_date(first) and is_other_date(first):
            return _parse_dates(column, order)
        column = _parse_iso_dates(column)
    elif pa.types.is_duration(kind):
        column = column.cast(pa.duration("us"), safe=False)
    elif pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        # The zone only says how to print a moment; casting it away could move the moment.
        column = column.cast(pa.timestamp("us", getattr(kind, "tz", None)), safe=False)
    else:
        values = numbers(column)
        refuse_first(np.isnan(values), _NO_TIME)
        return values, ""
    refuse_nulls(column, _NO_TIME)
    # Microseconds: as fine as a float64 resolves today, and no year is out of range.
    return in_memory(column.cast(pa.int64())) / 1e6, "dates"


def _parse_iso_dates(text: Any) -> Any:
    column = text
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
            if not is_iso_date(value):
                msg = f"holds {value[:40]!r}, expected an ISO date like 2024-05-17T12:00:00Z"
                raise BadCellError(msg, row) from error
        msg = "holds dates that cannot be read, expected ISO dates like 2024-05-17T12:00:00Z"
        raise BadCellError(msg) from error


def _parse_dates(column: Any, order: str | None) -> tuple[FloatArray, str]:
    """Seconds since 1970 of text, and the order of day and month, or "dates" if it is clear."""
    parts = _matched(column, _WHOLE, _EXPECTED)
    first, last = _whole(parts["first"]), _whole(parts["last"])
    words = [text.casefold()[:3] for text in parts["second_part"]]
    named = np.array([not word.isdigit() for word in words], dtype=bool)
    middle = np.array([int(w) if w.isdigit() else _MONTH_NUMBERS.get(w, 0) for w in words])
    long_first, long_last = (np.char.str_len(parts[name]) == 4 for name in ("first", "last"))
    _refuse(~(long_first | long_last), column, "with a year of four digits, " + _EXPECTED)
    open_ = ~long_first & ~named
    found = order or _order(first[open_], middle[open_], parts["separator"][open_])
    swapped = open_ & (found == "mdy")
    year = np.where(long_first, first, last)
    month = np.where(swapped, first, middle)
    day = np.where(long_first, last, np.where(swapped, middle, first))
    good = (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31) & (year >= 1000)
    months = (np.where(good, year, 1970) - 1970) * 12 + np.where(good, month, 1) - 1
    start = months.astype("datetime64[M]")
    length = ((start + 1).astype("datetime64[D]") - start.astype("datetime64[D]")).astype(int)
    clock, is_clock = _clock(parts)
    _refuse(~good | (day > length) | ~is_clock, column, _EXPECTED)
    seconds = start.astype("datetime64[s]").astype(np.int64) + (day - 1) * 86400.0
    return seconds + clock, ORDERS[found] if open_.any() else "dates"


def parse_clocks(column: Any, name: str) -> FloatArray:
    """Seconds since midnight, of text like 13:30 or of numbers of hours.

    Args:
        column: Arrow array of text or numbers.
        name: Its name, which says whether numbers are hours.
    """
    if pa.types.is_time(column.type):
        return numbers(column.cast(pa.time64("us")).cast(pa.int64())) / 1e6
    if not is_text(column.type):
        hours = numbers(column)
    else:
        texts = [text or "" for text in column.to_pylist()]
        if any(":" in text for text in texts):
            seconds, good = _clock(_matched(column, _ALONE, _EXPECTED_CLOCK))
            _refuse(~good, column, _EXPECTED_CLOCK)
            return seconds
        try:
            hours = np.array([float((text or "nan").replace(",", ".")) for text in texts])
        except ValueError:
            hours = np.full(len(texts), np.nan)
    _refuse(~((hours >= 0) & (hours <= 24)), column, f"{_EXPECTED_CLOCK}, or hours")
    if "hour" not in name.casefold() and not re.search(r"[\[(_ ]h(r|rs)?[\])]?$", name.casefold()):
        raise BadCellError(
            "holds numbers beside a column of dates, and may be hours or something else; pass "
            "--columns time=NAME for the column of times, or call it 'hour'"
        )
    return np.asarray(hours * 3600.0)


def _matched(column: Any, pattern: str, expected: str) -> dict[str, np.ndarray]:
    """The named parts of each cell, as arrays of text."""
    found = pc.extract_regex(column, pattern=pattern)
    if found.null_count:
        _refuse(np.asarray(found.is_null()), column, expected)
    parts = found.combine_chunks().flatten()
    names = (field.name for field in found.type)
    return {n: np.array(p.to_pylist(), dtype=str) for n, p in zip(names, parts, strict=True)}


def _whole(texts: np.ndarray) -> IntArray:
    return np.array([int(text or 0) for text in texts], dtype=np.int64)


def _order(first: IntArray, second: IntArray, separators: np.ndarray) -> str:
    """Whether the day or the month comes first, from all dates of a column."""
    days_first, days_second = (first > 12).any(), (second > 12).any()
    if days_first and days_second:
        raise BadCellError("mixes day/month/year and month/day/year; write ISO dates")
    if days_first or days_second:
        return "dmy" if days_first else "mdy"
    # With points the day comes first wherever people write so.
    if (first == second).all() or (separators == ".").all():
        return "dmy"
    raise BadCellError(
        "holds dates of which no number is above 12, so that day and month cannot be told apart; "
        "pass --date-order dmy or --date-order mdy"
    )


def _clock(parts: dict[str, np.ndarray]) -> tuple[FloatArray, np.ndarray]:
    """Seconds since midnight, and which of them are times of day."""
    hour, minute = _whole(parts["hour"]), _whole(parts["minute"])
    second = np.array([float(text or 0) for text in parts["second"]])
    half = np.array([text[:1].lower() for text in parts["half"]], dtype=str)
    good = (hour <= 24) & (minute < 60) & (second < 61) & ((half == "") | (hour <= 12))
    hour = np.where(half != "", hour % 12 + 12 * (half == "p"), hour)
    return hour * 3600.0 + minute * 60.0 + second, good


def _refuse(bad: np.ndarray, column: Any, expected: str) -> None:
    if bad.any():
        row = int(np.argmax(bad))
        raise BadCellError(f"holds {str(column[row].as_py())[:40]!r}, {expected}", row)
