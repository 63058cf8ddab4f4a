"""Tables of tracking programs, one row for each spot: trackpy, saSPT, AnDi, SFI, evalSPT, MyPTV.

They differ in the names of their columns, in what they count, and in what they say of errors.
evalSPT may have no header. MyPTV has none and is known by --format only: `trajectories` has id, x,
y, z, one column for each camera, the error and the frame; `smoothed_trajectories` id, x, y, z,
velocity, acceleration and the frame. With five cameras both have eleven columns, which is why the
two have names of their own.
"""

__all__ = ["ANDI", "EVALSPT", "MYPTV", "MYPTV_SMOOTHED", "SASPT", "SFI", "TRACKPY"]

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from driftbayes.data.trajectories import Trajectories
from driftbayes.errors import DriftbayesError
from driftbayes.io import cells
from driftbayes.io.contents import Contents
from driftbayes.io.foreign_tables import Native, read_long
from driftbayes.io.reading import Format, ReadOptions
from driftbayes.io.tables import read_columns

_TABLES = ("csv", "parquet")
# One line `dt: 0.01` is all that is wanted of the YAML in the comments of SFI.
_DT = re.compile(r"\s*[\"']?(?:dt|time_step_size|delta_t)[\"']?\s*[:=]\s*([^#\s]+)", re.IGNORECASE)
_EVALSPT = ("x", "y", "t", "id")
_SMOOTHED = ("vx", "vy", "vz", "ax", "ay", "az")
_SMOOTHED_NOTE = (
    "smoothed product: at short times it favours models with smoother paths; read `trajectories` "
    "if you can"
)


def _read_trackpy(contents: Contents, options: ReadOptions) -> Trajectories:
    names: dict[str, str | tuple[str, ...]] = {"id": "particle", "time": "frame"}
    axes = tuple(name for name in ("ep_x", "ep_y", "ep_z") if contents.has(name))
    # `ep` is the static error of a position; with a mask that is not round there is one per axis.
    if contents.has("ep"):
        names["sd"] = "ep"
    elif axes:
        names["sd"] = axes
    notes = ["measurement errors are trackpy's ep, the static error"] if "sd" in names else []
    return read_long(contents, options, reader="trackpy", names=names, notes=notes)


def _read_saspt(contents: Contents, options: ReadOptions) -> Trajectories:
    end = "" if contents.has("x", "y") else "_px"
    names: dict[str, str | tuple[str, ...]] = {"id": "trajectory", "time": "frame"}
    names |= {"x": f"x{end}", "y": f"y{end}"}
    notes = []
    if contents.has("region"):
        names["id"] = ("region", "trajectory")
        notes.append("trajectories are numbered anew in each region: ids are region/trajectory")
    errors = (f"x_err{end}", f"y_err{end}")
    if contents.has(*errors):
        names["sd"] = errors
        notes.append("measurement errors are the root mean square of those of x and y")
    if contents.has("error_flag"):
        flags = read_columns(contents, {"flag": "error_flag"})["flag"]
        n_flagged = int(np.sum(flags > 0))
        if n_flagged:
            notes.append(f"{n_flagged:,} of {len(flags):,} positions have an error_flag; kept")
    return read_long(contents, options, reader="saspt", names=names, notes=notes)


def _read_andi(contents: Contents, options: ReadOptions) -> Trajectories:
    return read_long(contents, options, reader="andi", names={"id": "traj_idx", "time": "frame"})


def _read_sfi(contents: Contents, options: ReadOptions) -> Trajectories:
    names = {"id": "particle_id", "time": "time_step", "x": "x0", "y": "x1", "z": "x2"}
    names = {canonical: name for canonical, name in names.items() if contents.has(name)}
    if contents.has("x3") and not options.columns:
        msg = (
            f"{contents.path.name!r} has more than three coordinates, x0 to x3 and on; say which "
            "are x, y, z with --columns"
        )
        raise DriftbayesError(msg)
    dt = None if options.frame_interval else _interval(contents)
    trajectories = read_long(
        contents,
        options,
        reader="sfi",
        names=names,
        native=Native("", "frame" if dt is None else ""),
        notes=[] if dt is None else [f"the time between steps is dt = {dt:g}, as its header says"],
    )
    if dt is None or "time" in (options.columns or {}):
        return trajectories
    return trajectories.in_units(time=(dt, trajectories.time_unit))


def _interval(contents: Contents) -> float | None:
    comments = contents.layout.comments if contents.layout else ()
    for line in comments:
        match = _DT.fullmatch(line.split(" #")[0].rstrip())
        if match and cells.is_number(match[1]) and 0 < float(match[1]) < float("inf"):
            return float(match[1])
    return None


def _read_evalspt(contents: Contents, options: ReadOptions) -> Trajectories:
    layout = contents.layout
    if layout is not None and all(map(cells.is_number, layout.header)):
        spare = [f"column {i + 1}" for i in range(len(_EVALSPT), len(layout.header))]
        header = (*_EVALSPT, *spare)[: len(layout.header)]
        layout = replace(layout, header=header, own_header=False)
    names, native = {"id": "id", "time": "t"}, Native("", "")
    return read_long(contents, options, reader="evalspt", names=names, native=native, layout=layout)


def _read_myptv(contents: Contents, options: ReadOptions) -> Trajectories:
    n_columns = len(contents.names)
    if n_columns < 6:
        raise _unexpected(contents, "id, x, y, z, one per camera, error, frame: 7 or more")
    cameras = [f"camera {i}" for i in range(n_columns - 6)]
    return _read_unnamed(contents, options, [*cameras, "e"])


def _read_myptv_smoothed(contents: Contents, options: ReadOptions) -> Trajectories:
    if len(contents.names) != 5 + len(_SMOOTHED):
        raise _unexpected(contents, "id, x, y, z, velocity, acceleration, frame: 11")
    return _read_unnamed(contents, options, _SMOOTHED, [_SMOOTHED_NOTE])


def _read_unnamed(
    contents: Contents, options: ReadOptions, between: Sequence[str], notes: Sequence[str] = ()
) -> Trajectories:
    """A table of MyPTV, given the names of the columns between z and the frame."""
    header = ("id", "x", "y", "z", *between, "frame")
    return read_long(
        contents,
        options,
        reader="myptv",
        names={"time": "frame"},
        native=Native("mm", "frame"),
        layout=contents.layout and replace(contents.layout, header=header, own_header=False),
        notes=notes,
        unlinked=["-1"],
    )


def _unexpected(contents: Contents, expected: str) -> DriftbayesError:
    msg = (
        f"{contents.path.name!r} has {len(contents.names)} columns, expected those of MyPTV, "
        f"separated by tabs: {expected}"
    )
    return DriftbayesError(msg)


TRACKPY = Format(
    "trackpy",
    "trackpy: particle, frame, x, y, z, ep in pixels and frames, CSV or Parquet",
    lambda contents: contents.container in _TABLES and contents.has("particle", "frame", "x", "y"),
    read=_read_trackpy,
)
SASPT = Format(
    "saspt",
    "saSPT: trajectory, frame, x, y or x_px, y_px in pixels, with region and errors if there",
    lambda contents: (
        contents.container in _TABLES
        and contents.has("trajectory", "frame")
        and (contents.has("x", "y") or contents.has("x_px", "y_px"))
    ),
    read=_read_saspt,
)
ANDI = Format(
    "andi",
    "AnDi challenge: traj_idx, frame, x, y in pixels and frames",
    lambda contents: contents.container in _TABLES and contents.has("traj_idx", "frame", "x", "y"),
    read=_read_andi,
)
SFI = Format(
    "sfi",
    "StochasticForceInference: particle_id, time_step, x0, x1, ...; dt from the header",
    lambda contents: (
        contents.container in _TABLES and contents.has("particle_id", "time_step", "x0")
    ),
    read=_read_sfi,
)
EVALSPT = Format(
    "evalspt",
    "evalSPT: x, y, t, id separated by tabs; without a header by --format only",
    lambda contents: (
        contents.layout is not None
        and contents.layout.separator == "\t"
        and contents.has(*_EVALSPT)
        and not contents.has("time")
    ),
    read=_read_evalspt,
)
MYPTV = Format(
    "myptv",
    "MyPTV trajectories: id, x, y, z in mm, cameras, error, frame; no header, by --format only",
    lambda _: False,
    read=_read_myptv,
)
MYPTV_SMOOTHED = Format(
    "myptv-smoothed",
    "MyPTV smoothed_trajectories: id, x, y, z in mm, velocity, acceleration, frame; by --format",
    lambda _: False,
    read=_read_myptv_smoothed,
)
