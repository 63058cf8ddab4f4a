"""Text tables: layout, header and the line of an error."""

import csv
import gzip
import io
import itertools
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv

from driftbayes.data._schema import ID, TIME
from driftbayes.errors import DriftbayesError
from driftbayes.io import _limits as limits
from driftbayes.io._cells import MISSING, is_missing, is_number, parse_numbers
from driftbayes.io._reading import CsvLayout, reason

_NUMBER = r"[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?"
# Text of the Global Drifter Program: id, then a date and a time, or month, day with its fraction
# and year; then latitude and longitude.
GDP_DATED = re.compile(
    rf"\s*\d+\s+\d{{4}}-\d\d-\d\d\s+\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:\s+{_NUMBER}){{2,}}\s*"
)
GDP_SPLIT = re.compile(rf"\s*\d+\s+\d{{1,2}}\s+\d{{1,2}}\.\d+\s+\d{{4}}(?:\s+{_NUMBER}){{2,}}\s*")
# A number between other separators.
_DECIMAL_COMMA = re.compile(
    r"[;\t\n] {0,20}\"?[-+]?\d{1,40},\d{1,40}(?:[eE][-+]?\d{1,4})?\"? {0,20}(?:[;\t\r\n]|$)"
)
_COMMENT = "#"
# Enough for the header rows that programs write.
_MAX_ROWS, _MAX_COMMENTS = 4, 200
# Bytes of memory per byte of text: the table, the numbers and the trajectories.
_MEMORY_PER_BYTE = 3
# Text of numbers is compressed to between 1/3 and 1/30 of its length.
_MAX_PER_COMPRESSED_BYTE = 200


def describe(path: Path) -> dict[str, Any]:
    """Return column names and layout, as fields of `Contents`."""
    layout = find_layout(path)
    return {"names": tuple(map(str.strip, layout.header)), "layout": layout}


def find_layout(path: Path) -> CsvLayout:
    """Detect the layout of a table: comments, separator, header, first rows."""
    comments: list[str] = []
    n_before = 0
    text = _read_start(path)
    for line in itertools.islice(io.StringIO(text, newline=""), _MAX_COMMENTS):
        if line.startswith(_COMMENT):
            comments.append(line.removeprefix(_COMMENT).rstrip("\r\n"))
        elif line.strip():
            break
        n_before = n_before + 1
    if not comments:
        # Arrow skips blank lines.
        n_before = 0
    separator, records = ",", _head(text, path, ",", n_before)
    header = records[0] if records else []
    # Commas, unless another separator gives as many cells in the first row as in the header.
    if len(header) < 2 or (len(records) > 1 and len(records[1]) != len(header)):
        for other in ("\t", ";"):
            if header and other in header[0]:
                cut = _head(text, path, other, n_before)
                fits = len(cut) > 1 and len(cut[1]) == len(cut[0])
                if len(cut[0]) > 1 and (fits or len(header) < 2):
                    separator, records = other, cut
                    break
    if not records:
        msg = f"{path.name!r} is empty; expected a header like id,time,x,y and rows"
        raise DriftbayesError(msg)
    own_header = True
    if comments and all(is_number(cell) for cell in records[0]):
        # NumPy's savetxt writes the header as a comment.
        names = next(csv.reader([comments[-1]], delimiter=separator), [])
        if len(names) == len(records[0]):
            own_header, records = False, [names, *records]
    header = records[0]
    limits.check_names(path, len(header), "columns")
    # Undecodable bytes were replaced by U+FFFD.
    if any(char == "\ufffd" or not char.isprintable() for name in header for char in name.strip()):
        msg = f"{path.name!r} is not a table in plain text; save it as comma-separated UTF-8"
        raise DriftbayesError(msg)
    if len(records) < 2:
        msg = f"{path.name!r} has a header but no rows; expected one row per observation"
        raise DriftbayesError(msg)
    rows = tuple(tuple(record) for record in records[1:])
    layout = CsvLayout(separator, tuple(header), rows, tuple(comments), n_before, own_header)
    has_commas = separator != "," and _DECIMAL_COMMA.search(text, text.find("\n"))
    return replace(layout, point=",") if has_commas else layout


def read_columns(
    file: Path, in_file: Mapping[str, str], text: set[str], layout: CsvLayout
) -> dict[str, Any]:
    """Read columns as Arrow arrays of numbers, or of text for keys in `text`.

    Unlike pandas, Arrow reads every float to its last bit in all versions, and reports a truncated
    line as an error instead of filling it with NaN.
    """
    limits.check_memory(check_size(file) * _MEMORY_PER_BYTE, f"the table {file.name!r}")
    names = None if layout.own_header else list(layout.header)
    rows = pacsv.ReadOptions(
        skip_rows=layout.n_before, column_names=names, skip_rows_after_names=layout.n_skipped
    )

    def read(kinds: Mapping[str, Any]) -> dict[str, Any]:
        options = pacsv.ConvertOptions(
            column_types=kinds,
            include_columns=list(kinds),
            null_values=list(MISSING),
            strings_can_be_null=False,
            decimal_point=layout.point,
        )
        parse = pacsv.ParseOptions(newlines_in_values=True, delimiter=layout.separator)
        with open_stream(file, squeezed=layout.separator == " ") as stream:
            table = pacsv.read_csv(stream, rows, parse, options)
        return {canonical: table[name] for canonical, name in in_file.items()}

    try:
        return read(
            {name: pa.string() if c in text else pa.float64() for c, name in in_file.items()}
        )
    except pa.ArrowInvalid:
        # Slower, with all cells as text: Arrow does not read a cell of spaces as missing.
        columns = read(dict.fromkeys(in_file.values(), pa.string()))
        return {c: v if c in text else parse_numbers(v, layout.point) for c, v in columns.items()}


def first_problem(
    path: Path,
    columns: Mapping[str, str],
    checks: Mapping[str, tuple[Callable[[str], bool], str]],
    layout: CsvLayout,
) -> str | None:
    """Describe the first invalid line; None if there is none.

    This loops over the rows in Python. It is called only after the fast reader has refused the
    file, which does not report the line.
    """
    names = [name.strip() for name in layout.header]
    cells = {canonical: names.index(name) for canonical, name in columns.items()}
    with _rows(path, layout) as lines:
        header = next(lines)[1] if layout.own_header else names
        for line, record in itertools.islice(lines, layout.n_skipped, None):
            if len(record) != len(header):
                n_cells = "1 cell" if len(record) == 1 else f"{len(record)} cells"
                return (
                    f"{path.name!r} line {line} has {n_cells} where the header has "
                    f"{len(header)}; complete or remove the line"
                )
            for canonical, cell in cells.items():
                role = canonical.partition(":")[0]
                problem = _check_cell(role, record[cell], *checks[canonical])
                if problem:
                    return f"{path.name!r} line {line}: column {columns[canonical]!r} {problem}"
    return None


@contextmanager
def _rows(path: Path, layout: CsvLayout) -> Iterator[Iterator[tuple[int, list[str]]]]:
    """Open the non-blank rows of the file, each with the number of its first line."""
    with (
        _readable(path),
        _raw(path) as raw,
        io.TextIOWrapper(raw, encoding="utf-8-sig", errors="replace", newline="") as text,
    ):
        yield _numbered_rows(_bounded(text, path), layout)


def line_of(path: Path, row: int, layout: CsvLayout) -> int:
    """Return the number of the line on which a row of data starts."""
    with _rows(path, layout) as lines:
        above = layout.n_skipped + (1 if layout.own_header else 0)
        return next(itertools.islice(lines, above + row, None))[0]


def _check_cell(
    canonical: str, text: str, accepts: Callable[[str], bool], expected: str
) -> str | None:
    if canonical == ID:
        if not text.strip():
            return "is empty; every row needs the id of its trajectory"
        if "\ufffd" in text:
            return "holds text that is not UTF-8; save the file as UTF-8"
        return None
    if canonical == TIME and is_missing(text):
        return "is empty; every row needs a time"
    # In this order for speed: nearly all cells pass the first test.
    if accepts(text) or is_missing(text):
        return None
    blank = "" if canonical == TIME else ", or empty it if the value is missing"
    return f"holds {text[:40]!r}, expected {expected}; correct the cell{blank}"


def check_size(path: Path) -> int:
    """Return the size of a text table in bytes; refuse a small file that inflates to a huge one."""
    n_bytes = limits.stored_size(path)
    if not _is_gzip(path):
        return n_bytes
    max_size = max(n_bytes * _MAX_PER_COMPRESSED_BYTE, limits.MAX_UNCOUNTED)
    if n_bytes * limits.MAX_INFLATION["gzip"] <= limits.MAX_UNCOUNTED:
        return n_bytes * 10
    with _readable(path), path.open("rb") as stream:
        size = limits.inflated_size(stream, n_bytes, "gzip", max_size)
    if size > max_size:
        raise DriftbayesError(
            f"{path.name!r} inflates to more than {_MAX_PER_COMPRESSED_BYTE} times its "
            f"{n_bytes:,} bytes, unlike any table of measurements; decompress it first if you "
            "trust it"
        )
    return size


def open_stream(path: Path, *, squeezed: bool = False) -> Any:
    """Open the file as an Arrow stream, decompressed if its name ends in .gz."""
    if squeezed:
        with _raw(path) as raw:
            return pa.BufferReader(b"\n".join(b" ".join(line.split()) for line in raw))
    return pa.input_stream(limits.WatchedFile(path), compression="gzip" if _is_gzip(path) else None)


def _is_gzip(path: Path) -> bool:
    return path.name.lower().endswith(".gz")


def _raw(path: Path) -> Any:
    return gzip.open(path, "rb") if _is_gzip(path) else path.open("rb")


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Convert errors of a damaged file."""
    try:
        yield
    except csv.Error as error:
        msg = f"{path.name!r} is not a comma-separated table: {reason(error)}; save it as CSV"
        raise DriftbayesError(msg) from error
    except (OSError, EOFError, zlib.error) as error:
        msg = f"{path.name!r} cannot be read ({reason(error)}); it may be damaged or truncated"
        raise DriftbayesError(msg) from error


def _read_start(path: Path) -> str:
    """Read whole lines from the start of a file, enough for its first rows."""
    with _readable(path), _raw(path) as raw:
        data = raw.read(limits.MAX_HEAD + 1)
    if len(data) > limits.MAX_HEAD:
        end = max(data.rfind(b"\n"), data.rfind(b"\r"))
        if end < 0:
            raise DriftbayesError(
                f"{path.name!r} has a first line of more than {limits.MAX_HEAD:,} bytes; expected "
                "a header like id,time,x,y and one row per observation"
            )
        data = data[: end + 1]
    return data.decode("utf-8-sig", errors="replace")


def _head(text: str, path: Path, separator: str, n_before: int) -> list[list[str]]:
    below: Iterable[str] = itertools.islice(io.StringIO(text, newline=""), n_before, None)
    with _readable(path):
        records = (record for record in csv.reader(below, delimiter=separator) if record)
        return list(itertools.islice(records, 1 + _MAX_ROWS))


def _numbered_rows(lines: Iterable[str], layout: CsvLayout) -> Iterator[tuple[int, list[str]]]:
    """Yield the non-blank rows, each with the number of its first line."""
    below: Iterable[str] = itertools.islice(lines, layout.n_before, None)
    if layout.separator == " ":
        below = (" ".join(line.split()) for line in below)
    reader = csv.reader(below, delimiter=layout.separator)
    line = 1
    for record in reader:
        if record:
            yield layout.n_before + line, record
        # A quoted cell may hold line breaks: the next record starts after its last line.
        line = reader.line_num + 1


def _bounded(text: io.TextIOBase, path: Path) -> Iterator[str]:
    """Yield the lines of a file; refuse a line that is too long."""
    clock = limits.Clock(path.name, path.stat().st_size)
    for number in itertools.count(1):
        line = text.readline(limits.MAX_HEAD)
        if not line:
            return
        if len(line) >= limits.MAX_HEAD:
            msg = f"{path.name!r} line {number} has more than {limits.MAX_HEAD:,} characters"
            raise DriftbayesError(f"{msg}; expected one row per line")
        if number % 4096 == 0:
            clock.check()
        yield line
