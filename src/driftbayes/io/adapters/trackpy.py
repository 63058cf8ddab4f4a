"""Tracks in pixels and frames, one row for each spot: trackpy, saSPT, AnDi.

The three differ in the names of their columns, and in what they say of errors.
"""

__all__ = ["ANDI", "SASPT", "TRACKPY"]

import numpy as np

from driftbayes.io.contents import Contents
from driftbayes.io.foreign_tables import read_long
from driftbayes.io.reading import Format, ReadOptions
from driftbayes.io.tables import read_columns
from driftbayes.trajectories import Trajectories

_TABLES = ("csv", "parquet")


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
    names: dict[str, str | tuple[str, ...]] = {
        **{"id": "trajectory", "time": "frame", "x": f"x{end}", "y": f"y{end}"},
    }
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
    names = {"id": "traj_idx", "time": "frame"}
    return read_long(contents, options, reader="andi", names=names)


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
