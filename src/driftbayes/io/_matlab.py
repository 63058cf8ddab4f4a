"""MATLAB .mat files: cells of trajectories from jLab, and arrays and structs of trackers.

All layouts are converted to a table with one row per observation and columns named after the
variables:

- cells, or an array of structs, with one vector per trajectory (`lon`, `lat`, `num` of jLab);
- vectors of one length, with or without ids;
- matrices (time, particle) or (particle, time) beside a vector of times;
- one matrix with one row per observation: x, y first, the frame and the id last, as in the
  programs of Crocker and Grier and their successors;
- `tracksFinal` of u-track.

Times called `num` or `datenum` are MATLAB date numbers, days since year 0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from driftbayes.data._trajectories import Trajectories
from driftbayes.errors import DriftbayesError
from driftbayes.io import _limits as limits
from driftbayes.io import _mat_file as mat_file
from driftbayes.io._frames import as_table
from driftbayes.io._reading import Contents, ReadOptions, reading_as
from driftbayes.io._tables import read_plain

# Date numbers of 1970-01-01, and of the years 1900 and 2100.
_EPOCH = 719529.0
_DAYS = (693962.0, 767011.0)
_DATENUMS = ("num", "datenum")
_UTRACK = "tracksFinal"
_IDS = ("id", "ids", "track_id", "trackid", "particle", "traj", "trajectory")
_ROLES = ("x", "y", "z", "t", "time", "lon", "lat", "longitude", "latitude", *_DATENUMS)
# Columns of u-track for each frame: x, y, z, amplitude and their standard deviations.
_PER_FRAME = 8


def describe(path: Path) -> dict[str, Any]:
    """Return the names of the variables, as a field of `Contents`."""
    names = mat_file.names(path)
    limits.check_names(path, len(names), "variables")
    return {"names": tuple(name for name in names if not name.startswith("__"))}


def _read(contents: Contents, options: ReadOptions) -> Trajectories:
    values = mat_file.load(contents.path, contents.names)
    notes: list[str] = []
    with reading_as(contents.path, "MATLAB"):
        columns = _make_table(contents, values, notes)
    columns, roles = _convert_dates(columns, options, notes)
    table = as_table(contents.path, pa.table({n: pa.array(v) for n, v in columns.items()}), "mat")
    return read_plain(table, replace(options, columns=roles), notes)


def _convert_dates(
    columns: Mapping[str, Any], options: ReadOptions, notes: list[str]
) -> tuple[dict[str, Any], Mapping[str, str | None] | None]:
    """Convert MATLAB date numbers to dates; return the columns and their roles."""
    roles = dict(options.columns or {})
    name = roles.get("time") or next((n for n in columns if n.lower() in _DATENUMS), None)
    if name not in columns or str(name).lower() not in _DATENUMS:
        return dict(columns), options.columns
    days = np.asarray(columns[str(name)], dtype=np.float64)
    known = days[np.isfinite(days)]
    if not len(known) or known.min() < _DAYS[0] or known.max() > _DAYS[1]:
        return dict(columns), {**roles, "time": str(name)}
    notes.append(f"times {name!r} are MATLAB date numbers, read as dates")
    # A float64 of this magnitude resolves microseconds.
    seconds = np.round((days - _EPOCH) * 86400e6).astype("datetime64[us]")
    others = {n: v for n, v in columns.items() if n != name}
    return {**others, "datenum": seconds}, {**roles, "time": "datenum"}


def _make_table(contents: Contents, values: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    """Convert the variables of a file to columns of one length."""
    values = {name: v for name, v in values.items() if v is not None}
    if _UTRACK in values:
        return _from_utrack(values[_UTRACK], notes)
    lists = {n: v for n, v in values.items() if isinstance(v, list)}
    cells = {n: v for n, v in lists.items() if not v or not all(isinstance(e, dict) for e in v)}
    structs = [n for n, v in values.items() if isinstance(v, dict) or n in lists.keys() - cells]
    if len(structs) == 1 and not lists.keys() - structs:
        inner = values[structs[0]]
        notes.append(f"read from the struct {structs[0]!r}")
        if isinstance(inner, dict):
            return _make_table(contents, inner, notes)
        return _from_cells({n: [row[n] for row in inner] for n in inner[0]}, contents)
    if cells:
        return _from_lists(cells, values, contents, notes)
    arrays = {
        n: v for n, v in values.items() if isinstance(v, np.ndarray) and v.dtype.kind in "iufb"
    }
    matrices = {n: v for n, v in arrays.items() if v.ndim == 2 and min(v.shape) > 1}
    vectors = {n: v.ravel() for n, v in arrays.items() if v.size == max(v.shape, default=0) > 1}
    if len(matrices) == 1:
        name, matrix = next(iter(matrices.items()))
        if 3 <= matrix.shape[1] < matrix.shape[0]:
            return _from_matrix(name, matrix, notes, contents)
    if matrices:
        return _from_grid(matrices, vectors, contents)
    sizes = {len(v) for v in vectors.values()}
    if len(sizes) > 1:
        # Vectors of other than the most common size are constants and axes.
        size = max(sizes, key=lambda n: sum(len(v) == n for v in vectors.values()))
        _refuse_ragged(contents, [n for n, v in vectors.items() if len(v) != size])
        vectors = {n: v for n, v in vectors.items() if len(v) == size}
    if not vectors:
        raise _unknown(contents)
    return vectors


def _unknown(contents: Contents) -> DriftbayesError:
    return DriftbayesError(
        f"{contents.source!r} has an unknown layout with {contents.shown or 'no variables'}; save "
        "x, y, t and id as vectors of one length"
    )


def _vector(value: Any) -> np.ndarray | None:
    is_numbers = isinstance(value, np.ndarray) and value.dtype.kind in "iufb"
    return value.ravel() if is_numbers and value.size == max(value.shape, default=0) else None


def _from_lists(
    cells: Mapping[str, list[Any]],
    values: Mapping[str, Any],
    contents: Contents,
    notes: list[str],
) -> dict[str, Any]:
    """Read cells with one vector or one matrix per trajectory."""
    if len(cells) == 1:
        name, tracks = next(iter(cells.items()))
        shapes = {t.shape[1] for t in tracks if isinstance(t, np.ndarray) and t.ndim == 2}
        if len(shapes) == 1 and min(shapes) > 1 and all(isinstance(t, np.ndarray) for t in tracks):
            return _from_matrices(name, tracks, notes, contents)
    per_track = {n: _vector(v) for n, v in values.items() if n not in cells}
    n_tracks = max(map(len, cells.values()))
    columns = {n: v for n, v in cells.items() if len(v) == n_tracks}
    columns |= {n: list(v) for n, v in per_track.items() if v is not None and len(v) == n_tracks}
    return _from_cells(columns, contents)


def _from_cells(columns: Mapping[str, Sequence[Any]], contents: Contents) -> dict[str, Any]:
    """Concatenate vectors or numbers given for each trajectory."""
    vectors: dict[str, list[np.ndarray]] = {}
    for name, parts in columns.items():
        converted = [
            p if np.ndim(p) == 0 and not isinstance(p, list | dict | None) else _vector(p)
            for p in parts
        ]
        if all(p is not None for p in converted):
            vectors[name] = [np.atleast_1d(np.asarray(p)) for p in converted]
    if not vectors:
        raise _unknown(contents)
    # A single number for a trajectory is repeated.
    n_tracks = len(next(iter(vectors.values())))
    sizes = [max(len(v[i]) for v in vectors.values()) for i in range(n_tracks)]
    table: dict[str, Any] = {}
    for name, parts in vectors.items():
        if all(len(p) == n for p, n in zip(parts, sizes, strict=True)):
            table[name] = np.concatenate(parts)
        elif all(len(p) == 1 for p in parts):
            table[name] = np.repeat(np.concatenate(parts), sizes)
        else:
            _refuse_ragged(contents, [name])
    if not any(name.lower() in _IDS for name in table):
        table["id"] = np.repeat(np.arange(n_tracks), sizes)
    return table


def _refuse_ragged(contents: Contents, names: Sequence[str]) -> None:
    """Refuse a coordinate or time with another length than the other variables."""
    for name in names:
        if name.lower() in _ROLES:
            raise DriftbayesError(
                f"{contents.source!r}: {name!r} differs in length from the other variables; the "
                "file is damaged, or does not hold trajectories"
            )


def _from_matrices(
    name: str, tracks: Sequence[np.ndarray], notes: list[str], contents: Contents
) -> dict[str, Any]:
    """Read one matrix per trajectory; the only column that always increases is the time."""
    width = tracks[0].shape[1]
    full = [t for t in tracks if len(t) > 1]
    rising = [i for i in range(width) if full and all((np.diff(t[:, i]) > 0).all() for t in full)]
    if len(rising) != 1 or width > 4:
        raise DriftbayesError(
            f"{contents.source!r}: the cells of {name!r} have {width} columns, of which "
            f"{len(rising)} increase in every trajectory; expected x, y and one such column, the "
            "time: save x, y, t and id as vectors of one length"
        )
    axes = [i for i in range(width) if i != rising[0]]
    order = ", ".join("t" if i == rising[0] else "xyz"[axes.index(i)] for i in range(width))
    notes.append(f"columns of {name!r} are taken as {order}: only the time always increases")
    whole = np.concatenate(tracks)
    return {
        "id": np.repeat(np.arange(len(tracks)), list(map(len, tracks))),
        "time": whole[:, rising[0]],
        **{axis: whole[:, i] for axis, i in zip("xyz", axes, strict=False)},
    }


def _from_matrix(
    name: str, matrix: np.ndarray, notes: list[str], contents: Contents
) -> dict[str, Any]:
    """Read a matrix with one row per observation: x, y, other properties, frame, id."""
    width = matrix.shape[1]
    if width < 4:
        raise DriftbayesError(
            f"{contents.source!r}: {name!r} has {width} columns, expected x, y, ..., frame, id; "
            "save x, y, t and id as vectors of one length"
        )
    time, ids = matrix[:, -2].astype(float), matrix[:, -1].astype(float)
    order = np.lexsort((time, ids))
    same = np.diff(ids[order]) == 0
    fits = (ids == np.round(ids)).all() and (np.diff(time[order])[same] > 0).all() and same.any()
    if not fits:
        raise DriftbayesError(
            f"{contents.source!r}: the last two of {width} columns of {name!r} are not frame and "
            "id (a whole number, with frames that increase for each id); save x, y, t and id as "
            "vectors of one length"
        )
    skipped = f", {width - 4} not read" if width > 4 else ""
    notes.append(f"columns of {name!r} are taken as x, y{skipped}, t, id, as written by trackers")
    return {"id": ids.astype(np.int64), "time": time, "x": matrix[:, 0], "y": matrix[:, 1]}


def _from_grid(
    matrices: Mapping[str, np.ndarray], vectors: Mapping[str, np.ndarray], contents: Contents
) -> dict[str, Any]:
    """Read matrices of time and particle; the length of the times identifies the time axis."""
    shape = max((m.shape for m in matrices.values()), key=lambda s: s[0] * s[1])
    same = {n: m for n, m in matrices.items() if m.shape == shape}
    times = {n: v for n, v in vectors.items() if n.lower() in ("t", "time", *_DATENUMS)}
    if shape[0] != shape[1] and len(times) == 1:
        name, time = next(iter(times.items()))
        if len(time) in shape:
            # One row for each trajectory.
            by_track = {n: m.T if len(time) == shape[0] else m for n, m in same.items()}
            n_tracks = shape[0] * shape[1] // len(time)
            ids = np.repeat(np.arange(n_tracks), len(time))
            table = {n: m.ravel() for n, m in by_track.items()}
            return {"id": ids, name: np.tile(time, n_tracks), **table}
    raise DriftbayesError(
        f"{contents.source!r} has matrices {', '.join(map(repr, list(same)[:4]))} of shape "
        f"{shape}, expected a vector of times t as long as one of their sides, not both"
    )


def _from_utrack(tracks: Any, notes: list[str]) -> dict[str, Any]:
    """Read compound tracks of u-track; each row is a trajectory, cut at merges and splits."""
    parts: list[np.ndarray] = []
    for number, track in enumerate([tracks] if isinstance(tracks, dict) else tracks):
        rows = np.atleast_2d(np.asarray(track["tracksCoordAmpCG"], dtype=float))
        first = int(np.asarray(track["seqOfEvents"])[:, 0].min())
        values = rows.reshape(len(rows), -1, _PER_FRAME)
        for segment, frames in enumerate(values):
            present = np.flatnonzero(np.isfinite(frames[:, 0]))
            ids = np.full((len(present), 2), [number, segment])
            sd = np.sqrt((frames[present, 4] ** 2 + frames[present, 5] ** 2) / 2)
            parts.append(np.column_stack([ids, first + present, frames[present, :2], sd]))
    whole = np.concatenate(parts)
    several = (whole[:, 1] > 0).any()
    names = [f"{a:.0f}/{b:.0f}" if several else f"{a:.0f}" for a, b in whole[:, :2]]
    notes.append("u-track: times are frames, positions pixels; a track is cut at merges and splits")
    table = dict(zip(("frame", "x_px", "y_px", "sd"), whole[:, 2:].T, strict=True))
    if not np.isfinite(table["sd"]).all():
        del table["sd"]
    return {"id": np.array(names), **table}


READERS = {"matlab": _read}
