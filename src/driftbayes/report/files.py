"""Files of a report: the page, and beside it every number of the page as CSV and JSON."""

__all__ = ["companions", "is_companion", "numbers_csv", "numbers_json", "report_id"]

import csv
import hashlib
import io
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from driftbayes._version import __version__
from driftbayes.io.cells import escape_cell

# Ours is recognised by these first characters, with the id of the report as first entry.
_CSV_START = re.compile(rb"report,tau,model,parameter,field,at,value\r?\n")
_JSON_START = re.compile(rb'\[\s*\{\s*"report": "[0-9a-f]{16}",')


def companions(path: Path) -> tuple[Path, Path]:
    """Names of the CSV and the JSON file of a page, which no data file has by chance.

    Args:
        path: The HTML file.
    """
    return path.with_name(f"{path.stem}.report.csv"), path.with_name(f"{path.stem}.report.json")


def is_companion(path: Path) -> bool:
    """Whether a file is the CSV or the JSON file of a report.

    Args:
        path: The file.
    """
    try:
        with path.open("rb") as stream:
            start = stream.read(256)
    except OSError:
        return False
    return bool(_CSV_START.match(start) or _JSON_START.match(start))


def report_id(heading: str, records: Sequence[Mapping[str, Any]]) -> str:
    """A text that is the same in the page and in its files of numbers, and only there.

    Args:
        heading: Of the page.
        records: Every number of it.
    """
    text = json.dumps([__version__, heading, list(records)], allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def numbers_csv(identity: str, records: Sequence[Mapping[str, Any]]) -> str:
    """The numbers as CSV, the id of the report in every row.

    Args:
        identity: From `report_id`.
        records: Every number.
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["report", *records[0]])
    for record in records:
        cells = (escape_cell(v) if isinstance(v, str) else v for v in record.values())
        writer.writerow([identity, *cells])
    return buffer.getvalue()


def numbers_json(identity: str, records: Sequence[Mapping[str, Any]]) -> str:
    """The numbers as JSON, the id of the report in every record.

    Args:
        identity: From `report_id`.
        records: Every number.
    """
    return json.dumps(
        [{"report": identity, **record} for record in records], indent=1, allow_nan=False
    )
