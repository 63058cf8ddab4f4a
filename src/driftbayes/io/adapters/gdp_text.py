"""Global Drifter Program, text: columns separated by spaces, without a header.

Two layouts are in use. Both go on with temperature, velocity, speed and variances, which are not
read: id, date, time, latitude, longitude; and id, month, day with its fraction, year, latitude,
longitude.
"""

__all__ = ["GDP_TEXT"]

import re
from dataclasses import replace

import numpy as np

from driftbayes.data.sphere import on_plane
from driftbayes.data.trajectories import Trajectories
from driftbayes.errors import DriftbayesError
from driftbayes.io.contents import Contents
from driftbayes.io.foreign_tables import Native, assemble
from driftbayes.io.reading import Format, ReadOptions
from driftbayes.io.tables import TIME_ORIGIN, read_columns
from driftbayes.typing import FloatArray

_NUMBER = r"[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?"
_DATED = re.compile(
    rf"\s*\d+\s+\d{{4}}-\d\d-\d\d\s+\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:\s+{_NUMBER}){{2,}}\s*"
)
_SPLIT = re.compile(rf"\s*\d+\s+\d{{1,2}}\s+\d{{1,2}}\.\d+\s+\d{{4}}(?:\s+{_NUMBER}){{2,}}\s*")
# What stands for a missing value.
_FILL = 999.0
_NOTES = (
    "smoothed product: interpolated upstream, at short times it favours models with smoother paths",
    "the first two numbers after the time are taken for latitude and longitude",
)


def _read(contents: Contents, options: ReadOptions) -> Trajectories:
    line = _line(contents)
    dated = bool(_DATED.fullmatch(line))
    if contents.layout is None or not (dated or _SPLIT.fullmatch(line)):
        msg = (
            f"{contents.path.name!r} is no text of the Global Drifter Program: expected lines like "
            "'44000 2005-01-02 00:00 26.41 -88.43 ...' or '44000 1 2.25 2005 26.41 271.57 ...'"
        )
        raise DriftbayesError(msg)
    if options.coordinates == "plane":
        msg = "this format is in degrees; leave out --coordinates plane"
        raise DriftbayesError(msg)
    names = ("id", "date", "clock") if dated else ("id", "month", "day", "year")
    known = (*names, "lat", "lon")
    spare = [f"column {i + 1}" for i in range(len(known), len(line.split()))]
    header = (*known, *spare)
    layout = replace(contents.layout, separator=" ", header=header, rows=(), own_header=False)
    # The two parts of a date are read as text, as ids are.
    keys = {"id:date": "date", "id:clock": "clock"} if dated else {n: n for n in names[1:]}
    table = read_columns(
        contents, {"id:0": "id", **keys, "lat": "lat", "lon": "lon"}, layout=layout
    )
    times = _dates(contents, table) if dated else _days(contents, table)
    degrees = [
        np.where(np.abs(table[name]) >= _FILL, np.nan, table[name]) for name in ("lon", "lat")
    ]
    gone = np.isnan(degrees[0]) | np.isnan(degrees[1])
    found = assemble(
        replace(contents, layout=layout),
        replace(options, length_unit=None, time_unit=None),
        reader="gdp-text",
        ids=[table["id:0"]],
        times=times,
        coordinates=[np.where(gone, np.nan, axis) for axis in degrees],
        native=Native("degrees", "s"),
        notes=_NOTES,
        time_origin=TIME_ORIGIN,
    )
    return on_plane(found, frame=options.frame)


def _dates(contents: Contents, table: dict[str, object]) -> FloatArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    from driftbayes.io import cells

    joined = pc.binary_join_element_wise(table["id:date"], table["id:clock"], "T")
    try:
        return cells.times(joined)[0]
    except (cells.BadCellError, pa.ArrowException) as error:
        row = getattr(error, "row", None)
        where = "" if row is None else f" row {row + 1}"
        msg = f"{contents.path.name!r}{where}: expected dates and times like 2005-01-02 00:00"
        raise DriftbayesError(msg) from error


def _days(contents: Contents, table: dict[str, FloatArray]) -> FloatArray:
    year, month, day = (table[name] for name in ("year", "month", "day"))
    good = (year >= 1900) & (year < 2200) & (month >= 1) & (month <= 12) & (day >= 1) & (day < 32)
    if not (good & (year == np.round(year)) & (month == np.round(month))).all():
        row = int(np.argmin(good)) + 1
        msg = f"{contents.path.name!r} row {row}: expected month, day and year, as in 1 2.25 2005"
        raise DriftbayesError(msg)
    months = (year.astype(int) - 1970) * 12 + month.astype(int) - 1
    start = months.astype("datetime64[M]").astype("datetime64[s]").astype(np.int64)
    # Days are written to a thousandth, a minute and a half; fixes are on whole minutes.
    return start + np.round((day - 1) * 1440) * 60.0


def _line(contents: Contents) -> str:
    return ",".join(contents.layout.header) if contents.layout is not None else ""


GDP_TEXT = Format(
    "gdp-text",
    "Global Drifter Program, interpolated, text separated by spaces; id, time, latitude, longitude",
    lambda contents: bool(_DATED.fullmatch(_line(contents)) or _SPLIT.fullmatch(_line(contents))),
    read=_read,
)
