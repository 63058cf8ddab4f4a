"""Dates as people write them, 17/05/2024 1:30 PM or 17-May-2024, and times of day.

Day and month are told apart by the whole column: a number above 12 is a day. A column in which no
number is above 12 is refused until the user gives the order.
"""

import re
from typing import Any

import numpy as np

from driftbayes.io.cells import BadCellError, numbers, times, whole_text
from driftbayes.typing import FloatArray, IntArray

ORDERS = {"dmy": "day/month/year", "mdy": "month/day/year"}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
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


def looks_like_date(text: str) -> bool:
    """Whether a cell is a date that is not in the ISO form but can be read here."""
    match = _PATTERN.fullmatch(text.strip())
    return match is not None and 4 in (len(match["first"]), len(match["last"]))


def times_of(column: Any, order: str | None = None) -> tuple[FloatArray, str]:
    """As `cells.times`, of text that does not begin with an ISO date."""
    text = whole_text(column)
    if not looks_like_date(text[0].as_py()):
        return times(column)
    seconds, written = parse_dates(text, order)
    return seconds, written or "dates"


def parse_dates(column: Any, order: str | None = None) -> tuple[FloatArray, str]:
    """Seconds since 1970 of a column of text, and the order of day and month that was found.

    Args:
        column: Arrow array of text; null where a date is missing.
        order: "dmy" or "mdy", if the user says so.

    Raises:
        BadCellError: A cell is no date, or the order cannot be told.
    """
    parts = _matched(column, _WHOLE, _EXPECTED)
    first, last = _whole(parts["first"]), _whole(parts["last"])
    words = np.array([text.casefold()[:3] for text in parts["second_part"]], dtype=str)
    named = np.array([not text.isdigit() for text in words], dtype=bool)
    month_of = {name: number for number, name in enumerate(_MONTHS, 1)}
    middle = np.array(
        [month_of.get(w, 0) if n else int(w) for w, n in zip(words, named, strict=True)]
    )
    long_first = np.array([len(text) == 4 for text in parts["first"]], dtype=bool)
    long_last = np.array([len(text) == 4 for text in parts["last"]], dtype=bool)
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
    _refuse(~good | (day > length), column, _EXPECTED)
    seconds = start.astype("datetime64[s]").astype(np.int64) + (day - 1) * 86400.0
    clock, good = _clock(parts)
    _refuse(~good, column, _EXPECTED)
    return seconds + clock, ORDERS[found] if open_.any() else ""


def parse_clocks(column: Any, name: str) -> FloatArray:
    """Seconds since midnight, of text like 13:30 or of numbers of hours.

    Args:
        column: Arrow array of text or numbers.
        name: Its name, which says whether numbers are hours.
    """
    import pyarrow as pa

    if pa.types.is_time(column.type):
        return numbers(column.cast(pa.time64("us")).cast(pa.int64())) / 1e6
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        hours = numbers(column)
        texts = None
    else:
        texts = column.to_pylist()
        if any(":" in (text or "") for text in texts):
            seconds, good = _clock(_matched(column, _ALONE, "expected a time of day like 13:30"))
            _refuse(~good, column, "expected a time of day like 13:30")
            return seconds
        try:
            hours = np.array([float((text or "nan").replace(",", ".")) for text in texts])
        except ValueError:
            hours = np.full(len(texts), np.nan)
    _refuse(~((hours >= 0) & (hours <= 24)), column, "expected a time of day like 13:30, or hours")
    if "hour" not in name.casefold() and not re.search(r"[\[(_ ]h(r|rs)?[\])]?$", name.casefold()):
        raise BadCellError(
            "holds numbers beside a column of dates, and may be hours or something else; pass "
            "--columns time=NAME for the column of times, or call it 'hour'"
        )
    return np.asarray(hours * 3600.0)


def _matched(column: Any, pattern: str, expected: str) -> dict[str, np.ndarray]:
    """The named parts of each cell, as arrays of text."""
    import pyarrow.compute as pc

    found = pc.extract_regex(column, pattern=pattern)
    if found.null_count:
        _refuse(np.asarray(found.is_null()), column, expected)
    chunks = found.chunks if hasattr(found, "chunks") else [found]
    names = [chunks[0].type.field(i).name for i in range(chunks[0].type.num_fields)]
    return {
        name: np.array(
            [text for chunk in chunks for text in chunk.field(name).to_pylist()], dtype=str
        )
        for name in names
    }


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
