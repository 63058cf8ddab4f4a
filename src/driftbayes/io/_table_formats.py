"""Tables of other programs with one row per observation: column names and units.

evalSPT may have no header. MyPTV has none and is selected by --format only: `trajectories` has id,
x, y, z, one column for each camera, the error and the frame; `smoothed_trajectories` has id, x, y,
z, velocity, acceleration and the frame. With five cameras both have eleven columns, so that each
needs its own format name. Text of the Global Drifter Program has no header either; its columns of
temperature, velocity, speed and variances are not read.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from driftbayes._typing import FloatArray
from driftbayes.data._trajectories import Trajectories
from driftbayes.data._units import length_factor, time_factor
from driftbayes.data.sphere import on_plane
from driftbayes.errors import DriftbayesError
from driftbayes.io import _cells as cells
from driftbayes.io._csv_text import GDP_DATED, GDP_SPLIT
from driftbayes.io._dates import parse_times
from driftbayes.io._ids import BadCellError
from driftbayes.io._reading import Contents, CsvLayout, ReadOptions
from driftbayes.io._tables import (
    Columns,
    TableSpec,
    assemble,
    read_columns,
    read_foreign,
    read_plain,
    without_flat_z,
)

# Only the line `dt: 0.01` is read from the YAML in the comments of SFI.
_DT = re.compile(r"\s*[\"']?(?:dt|time_step_size|delta_t)[\"']?\s*[:=]\s*([^#\s]+)", re.IGNORECASE)
_EVALSPT = ("x", "y", "t", "id")
_MYPTV_SMOOTHED = ("vx", "vy", "vz", "ax", "ay", "az")
_MYPTV_NOTE = (
    "smoothed product: at short times it favours models with smoother paths; read `trajectories` "
    "if you can"
)
# Fill value in text of the GDP.
_GDP_FILL = 999.0
_GDP_NOTES = (
    "smoothed product: interpolated upstream, at short times it favours models with smoother paths",
    "the first two numbers after the time are taken for latitude and longitude",
)


def _trackpy(contents: Contents) -> TableSpec:
    names: dict[str, Any] = {"id": "particle", "time": "frame"}
    axes = tuple(name for name in ("ep_x", "ep_y", "ep_z") if contents.has(name))
    # `ep` is the static position error; with a mask that is not circular there is one per axis.
    if contents.has("ep") or axes:
        names["sd"] = "ep" if contents.has("ep") else axes
    notes = ["measurement errors are trackpy's ep, the static error"] if "sd" in names else []
    return TableSpec("trackpy", names, notes=notes)


def _saspt(contents: Contents) -> TableSpec:
    end = "" if contents.has("x", "y") else "_px"
    names: dict[str, Any] = {"id": "trajectory", "time": "frame", "x": f"x{end}", "y": f"y{end}"}
    notes = []
    if contents.has("region"):
        names["id"] = ("region", "trajectory")
        notes.append("trajectories are numbered per region; ids are region/trajectory")
    errors = (f"x_err{end}", f"y_err{end}")
    if contents.has(*errors):
        names["sd"] = errors
        notes.append("measurement errors are the root mean square of the errors of x and y")
    if contents.has("error_flag"):
        flags = read_columns(contents, {"flag": "error_flag"})["flag"]
        n_flagged = int(np.sum(flags > 0))
        if n_flagged:
            notes.append(f"{n_flagged:,} of {len(flags):,} positions have an error_flag (kept)")
    return TableSpec("saspt", names, notes=notes)


def _read_sfi(contents: Contents, options: ReadOptions) -> Trajectories:
    names = {"id": "particle_id", "time": "time_step", "x": "x0", "y": "x1", "z": "x2"}
    names = {canonical: name for canonical, name in names.items() if contents.has(name)}
    if contents.has("x3") and not options.columns:
        raise DriftbayesError(
            f"{contents.source!r} has more than three coordinates (x0 to x3 or more); select x, y "
            "and z with --columns"
        )
    comments = contents.layout.comments if contents.layout and not options.frame_interval else ()
    matches = (_DT.fullmatch(line.split(" #")[0].rstrip()) for line in comments)
    texts = (match[1] for match in matches if match and cells.is_number(match[1]))
    dt = next((float(text) for text in texts if 0 < float(text) < np.inf), None)
    notes = [] if dt is None else [f"the time step is dt = {dt:g}, from the header"]
    spec = TableSpec("sfi", names, "", "frame" if dt is None else "", notes)
    trajectories = read_foreign(contents, options, spec)
    if dt is None or "time" in (options.columns or {}):
        return trajectories
    return trajectories.in_units(time=(dt, trajectories.time_unit))


def _evalspt(contents: Contents) -> TableSpec:
    layout = contents.layout
    if layout is not None and all(map(cells.is_number, layout.header)):
        layout = _named(layout, _EVALSPT)
    return TableSpec("evalspt", {"id": "id", "time": "t"}, "", "", layout=layout)


def _named(layout: CsvLayout, names: Sequence[str], n_columns: int | None = None) -> CsvLayout:
    """Add a header to a layout without one; further columns are named by their numbers."""
    n_columns = n_columns or len(layout.header)
    spare = [f"column {i + 1}" for i in range(len(names), n_columns)]
    return replace(layout, header=(*names, *spare)[:n_columns], own_header=False)


def _myptv(contents: Contents, *, smoothed: bool) -> TableSpec:
    n_columns = len(contents.names)
    between = _MYPTV_SMOOTHED if smoothed else [f"camera {i}" for i in range(n_columns - 6)]
    header = ("id", "x", "y", "z", *between, *(() if smoothed else ("e",)), "frame")
    if len(header) != n_columns:
        expected = "velocity, acceleration, frame: 11"
        if not smoothed:
            expected = "one per camera, error, frame: 7 or more"
        raise DriftbayesError(
            f"{contents.source!r} has {n_columns} columns, expected those of MyPTV, separated by "
            f"tabs: id, x, y, z, {expected}"
        )
    layout = contents.layout and _named(contents.layout, header)
    notes = [_MYPTV_NOTE] if smoothed else []
    return TableSpec("myptv", {"time": "frame"}, "mm", "frame", notes, layout, ["-1"])


def trackmate_unit(text: str, what: str) -> str:
    """Convert a unit of TrackMate to its standard name; keep an unknown unit."""
    name = text.strip().strip("()").strip()
    if name.lower() in ("pixel", "pixels", "px"):
        return "px"
    if name.lower() in ("frame", "frames"):
        return "frame"
    try:
        return (length_factor if what == "length" else time_factor)(name, name)[1]
    except DriftbayesError:
        return name[:40]


def _read_trackmate(contents: Contents, options: ReadOptions) -> Trajectories:
    layout = contents.layout
    time = "POSITION_T" if contents.has("POSITION_T") else "FRAME"
    length, unit = "", "frame" if time == "FRAME" else ""
    notes: list[str] = []
    if layout is not None:
        # Rows of names, short names and units may follow the header.
        index = contents.names.index("POSITION_X") if contents.has("POSITION_X") else 0
        heads = _header_rows(layout, index)
        layout = replace(layout, n_skipped=len(heads))
        units = next((row for row in heads if row[index].strip().startswith("(")), None)
        if units is not None:
            length = trackmate_unit(units[index], "length")
            if contents.has(time) and time == "POSITION_T":
                unit = trackmate_unit(units[contents.names.index(time)], "time")
    names = {"id": "TRACK_ID", "time": time, "x": "POSITION_X", "y": "POSITION_Y"}
    if "z" not in (options.columns or {}) and contents.has("POSITION_Z"):
        z = read_columns(contents, {"z": "POSITION_Z"}, layout=layout)["z"]
        if len(without_flat_z([z, z, z], notes)) == 3:
            names["z"] = "POSITION_Z"
    spec = TableSpec("trackmate", names, length, unit, notes, layout)
    return read_foreign(contents, options, spec)


def _header_rows(layout: CsvLayout, index: int) -> list[tuple[str, ...]]:
    rows = []
    for row in layout.rows[:3]:
        is_short = len(row) != len(layout.header)
        if is_short or cells.is_number(row[index]) or cells.is_missing(row[index]):
            break
        rows.append(row)
    return rows


def _read_parcels(contents: Contents, options: ReadOptions) -> Trajectories:
    from driftbayes.io._dataset_formats import mesh_of
    from driftbayes.io._datasets import parse_time_unit, time_origin

    degrees, radius, note = mesh_of(contents, options)
    time = "t" if contents.has("t") else "time"
    x, y = ("x", "y") if contents.has("x", "y") else ("lon", "lat")
    attributes = contents.variable_attributes.get(time, {})
    factor, unit = parse_time_unit(attributes.get("units", "seconds"), contents.source)
    plain_options = replace(
        options,
        columns={"id": "particle_id", "time": time, "x": x, "y": y, "z": None},
        length_unit=options.length_unit or "m",
        time_unit=options.time_unit or unit,
        coordinates="plane",
        pixel_size=None,
        frame_interval=None,
    )
    table = read_plain(contents, plain_options)
    table = table.in_units(time=(factor, table.time_unit))
    provenance = contents.provenance("parcels", [note], options, time_origin(attributes))
    trajectories = replace(table, provenance=provenance)
    return on_plane(trajectories, frame=options.frame, radius=radius) if degrees else trajectories


def _read_gdp_text(contents: Contents, options: ReadOptions) -> Trajectories:
    line = ",".join(contents.layout.header) if contents.layout is not None else ""
    dated = bool(GDP_DATED.fullmatch(line))
    if contents.layout is None or not (dated or GDP_SPLIT.fullmatch(line)):
        raise DriftbayesError(
            f"{contents.source!r} is not text of the Global Drifter Program: expected lines like "
            "'44000 2005-01-02 00:00 26.41 -88.43 ...' or '44000 1 2.25 2005 26.41 271.57 ...'"
        )
    if options.coordinates == "plane":
        raise DriftbayesError("this format is in degrees; omit --coordinates plane")
    names = ("id", "date", "clock") if dated else ("id", "month", "day", "year")
    layout = _named(contents.layout, (*names, "lat", "lon"), len(line.split()))
    layout = replace(layout, separator=" ", rows=())
    # The two parts of a date are read as text, like ids.
    keys = {"id:date": "date", "id:clock": "clock"} if dated else {n: n for n in names[1:]}
    table = read_columns(
        contents, {"id:0": "id", **keys, "lat": "lat", "lon": "lon"}, layout=layout
    )
    times = _gdp_dates(contents, table) if dated else _gdp_days(contents, table)
    # False for NaN as well.
    present = (np.abs(table["lon"]) < _GDP_FILL) & (np.abs(table["lat"]) < _GDP_FILL)
    trajectories = assemble(
        replace(contents, layout=layout),
        replace(options, length_unit=None, time_unit=None),
        TableSpec("gdp-text", {}, "degrees", "s", _GDP_NOTES),
        Columns(
            ids=[table["id:0"]],
            times=times,
            coordinates=[np.where(present, table[axis], np.nan) for axis in ("lon", "lat")],
            are_dates=True,
        ),
    )
    return on_plane(trajectories, frame=options.frame)


def _gdp_dates(contents: Contents, table: dict[str, Any]) -> FloatArray:
    joined = pc.binary_join_element_wise(table["id:date"], table["id:clock"], "T")
    try:
        return parse_times(joined)[0]
    except (BadCellError, pa.ArrowException) as error:
        row = getattr(error, "row", None)
        where = "" if row is None else f" row {row + 1}"
        msg = f"{contents.source!r}{where}: expected dates and times like 2005-01-02 00:00"
        raise DriftbayesError(msg) from error


def _gdp_days(contents: Contents, table: dict[str, FloatArray]) -> FloatArray:
    year, month, day = (table[name] for name in ("year", "month", "day"))
    good = (year >= 1900) & (year < 2200) & (month >= 1) & (month <= 12) & (day >= 1) & (day < 32)
    if not (good & (year == np.round(year)) & (month == np.round(month))).all():
        row = int(np.argmin(good)) + 1
        msg = f"{contents.source!r} row {row}: expected month, day and year, as in 1 2.25 2005"
        raise DriftbayesError(msg)
    months = (year.astype(int) - 1970) * 12 + month.astype(int) - 1
    start = months.astype("datetime64[M]").astype("datetime64[s]").astype(np.int64)
    # Days have three decimals (a minute and a half); fixes are on whole minutes.
    return start + np.round((day - 1) * 1440) * 60.0


_ANDI = TableSpec("andi", {"id": "traj_idx", "time": "frame"})
READERS: dict[str, Callable[[Contents, ReadOptions], Trajectories]] = {
    "trackpy": lambda c, o: read_foreign(c, o, _trackpy(c)),
    "saspt": lambda c, o: read_foreign(c, o, _saspt(c)),
    "andi": lambda c, o: read_foreign(c, o, _ANDI),
    "sfi": _read_sfi,
    "evalspt": lambda c, o: read_foreign(c, o, _evalspt(c)),
    "myptv": lambda c, o: read_foreign(c, o, _myptv(c, smoothed=False)),
    "myptv-smoothed": lambda c, o: read_foreign(c, o, _myptv(c, smoothed=True)),
    "trackmate-csv": _read_trackmate,
    "parcels-parquet": _read_parcels,
    "gdp-text": _read_gdp_text,
}
