"""CSV as text: its header, and the line on which something is wrong."""

__all__ = ["first_problem", "peek", "read_columns"]

import csv
import gzip
import io
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from driftbayes.errors import DriftbayesError
from driftbayes.io.cells import MISSING, is_missing, parse_numbers
from driftbayes.io.paths import reason
from driftbayes.io.schema import ID, TIME


def peek(path: Path) -> tuple[list[str], list[str]]:
    """The header, and the first row under it.

    Args:
        path: A CSV file, compressed if its name ends in .gz.
    """
    with _lines(path) as lines:
        records = (record for _, record in lines)
        header, first = next(records, []), next(records, [])
    if not header:
        msg = f"{path.name!r} is empty; expected a header like id,time,x,y and rows"
        raise DriftbayesError(msg)
    for separator, called in ((";", "semicolons"), ("\t", "tabs")):
        if len(header) == 1 and separator in header[0]:
            msg = f"{path.name!r} is separated by {called}, expected commas; save it with commas"
            raise DriftbayesError(msg)
    # Undecodable bytes were replaced by U+FFFD.
    if any(char == "\ufffd" or not char.isprintable() for name in header for char in name.strip()):
        msg = f"{path.name!r} is not a table in plain text; save it as comma-separated UTF-8"
        raise DriftbayesError(msg)
    if not first:
        msg = f"{path.name!r} has a header but no rows; expected one row per observation"
        raise DriftbayesError(msg)
    return header, first


def read_columns(file: Path, in_file: Mapping[str, str], text: set[str]) -> dict[str, Any]:
    """The columns as Arrow arrays, numbers except for those in `text`.

    Arrow, not pandas: it reads every float to its last bit in all versions, and a line that was
    cut short is an error where pandas fills the rest of it with NaN.

    Args:
        file: A CSV file.
        in_file: Name in the file of each canonical column, with the spaces around it.
        text: The canonical columns to leave as text.
    """
    import pyarrow as pa
    import pyarrow.csv as pacsv

    def read(kinds: Mapping[str, Any]) -> dict[str, Any]:
        options = pacsv.ConvertOptions(
            column_types=kinds,
            include_columns=list(kinds),
            null_values=list(MISSING),
            strings_can_be_null=False,
        )
        layout = pacsv.ParseOptions(newlines_in_values=True)
        with _open_stream(file) as stream:
            table = pacsv.read_csv(stream, parse_options=layout, convert_options=options)
        return {canonical: table[name] for canonical, name in in_file.items()}

    try:
        return read(
            {name: pa.string() if c in text else pa.float64() for c, name in in_file.items()}
        )
    except pa.ArrowInvalid:
        # Slower, with all cells as text: Arrow finds no missing value in a cell of spaces.
        columns = read(dict.fromkeys(in_file.values(), pa.string()))
        return {c: v if c in text else parse_numbers(v) for c, v in columns.items()}


def first_problem(
    path: Path,
    found: Mapping[str, str],
    checks: Mapping[str, tuple[Callable[[str], bool], str]],
) -> str | None:
    """A sentence about the first line that cannot be used, or None if there is none.

    Slow, one Python step per row: called only when the fast reader has already refused the file,
    which says what is wrong but not where.

    Args:
        path: A CSV file.
        found: Name in the file of each canonical column, without the spaces around it.
        checks: For each canonical column, what a number in it must pass and what that is called.
    """
    with _lines(path) as lines:
        _, header = next(lines)
        names = [name.strip() for name in header]
        cells = {canonical: names.index(name) for canonical, name in found.items()}
        for line, record in lines:
            if len(record) != len(header):
                n_cells = "1 cell" if len(record) == 1 else f"{len(record)} cells"
                return (
                    f"{path.name!r} line {line} has {n_cells} where the header has "
                    f"{len(header)}; complete or remove the line"
                )
            for canonical, cell in cells.items():
                wrong = _wrong(canonical, record[cell], *checks[canonical])
                if wrong:
                    return f"{path.name!r} line {line}: column {found[canonical]!r} {wrong}"
    return None


def _wrong(canonical: str, text: str, accepts: Callable[[str], bool], expected: str) -> str | None:
    if canonical == ID:
        if not text.strip():
            return "is empty; every row needs the id of its trajectory"
        if "\ufffd" in text:
            return "holds text that is not UTF-8; save the file as UTF-8"
        return None
    if canonical == TIME and is_missing(text):
        return "is empty; every row needs a time"
    # In this order, as nearly all cells pass the first test and files are long.
    if accepts(text) or is_missing(text):
        return None
    blank = "" if canonical == TIME else ", or empty it if the value is missing"
    return f"holds {text[:40]!r}, expected {expected}; correct the cell{blank}"


def _open_stream(path: Path) -> Any:
    """The file as an Arrow stream, decompressed if its name ends in .gz."""
    import pyarrow as pa

    return pa.input_stream(str(path), compression="gzip" if _is_gzip(path) else None)


def _is_gzip(path: Path) -> bool:
    return path.name.lower().endswith(".gz")


@contextmanager
def _lines(path: Path) -> Iterator[Iterator[tuple[int, list[str]]]]:
    """Records that are not blank, each with the number of the line it starts on."""
    try:
        with gzip.open(path, "rb") if _is_gzip(path) else path.open("rb") as raw:
            text = io.TextIOWrapper(raw, encoding="utf-8-sig", errors="replace", newline="")
            yield _numbered(csv.reader(text))
    except csv.Error as error:
        msg = f"{path.name!r} is not a comma-separated table: {reason(error)}"
        raise DriftbayesError(msg) from error
    except (OSError, EOFError, zlib.error) as error:
        msg = f"{path.name!r} cannot be read ({reason(error)}); it may be damaged or cut short"
        raise DriftbayesError(msg) from error


def _numbered(reader: Any) -> Iterator[tuple[int, list[str]]]:
    line = 1
    for record in reader:
        if record:
            yield line, record
        # A quoted cell may hold line breaks: the next record starts after its last line.
        line = reader.line_num + 1
