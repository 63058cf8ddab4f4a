"""TrackMate: its table of spots (CSV), its simple XML of tracks, and its own XML.

A track of the full XML is a graph, which may split where a cell divides and merge again. It is cut
there: every stretch without a fork is a trajectory of its own, named TRACK/1, TRACK/2, ... The spot
at which a track splits ends the stretch before it; that at which branches merge begins a new one.
"""

__all__ = ["TRACKMATE_CSV", "TRACKMATE_TRACKS", "TRACKMATE_XML"]

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes.data.trajectories import Trajectories
from driftbayes.data.units import length_factor, time_factor
from driftbayes.errors import DriftbayesError
from driftbayes.io import cells, xml_text
from driftbayes.io.contents import Contents
from driftbayes.io.foreign_tables import Native, assemble, read_long, without_flat_z
from driftbayes.io.paths import require
from driftbayes.io.reading import Format, ReadOptions
from driftbayes.io.tables import read_columns
from driftbayes.typing import FloatArray, IntArray

if TYPE_CHECKING:
    from driftbayes.io.csv_text import Layout

_PIXELS, _FRAMES = ("pixel", "pixels", "px"), ("frame", "frames")


def _unit(text: str, what: str) -> str:
    """The unit as we write it; one that is not known is kept as it is."""
    name = text.strip().strip("()").strip()
    if name.lower() in _PIXELS:
        return "px"
    if name.lower() in _FRAMES:
        return "frame"
    try:
        return (length_factor if what == "length" else time_factor)(name, name)[1]
    except DriftbayesError:
        return name[:40]


# The table of spots.


def _read_csv(contents: Contents, options: ReadOptions) -> Trajectories:
    layout = contents.layout
    time = "POSITION_T" if contents.has("POSITION_T") else "FRAME"
    native = Native("", "frame" if time == "FRAME" else "")
    notes: list[str] = []
    if layout is not None:
        # Under the keys there may be names, short names and units, none of them numbers.
        place = contents.names.index("POSITION_X") if contents.has("POSITION_X") else 0
        heads = _heads(layout, place)
        layout = replace(layout, n_skipped=len(heads))
        units = next((row for row in heads if row[place].strip().startswith("(")), None)
        if units is not None:
            length = _unit(units[place], "length")
            cell = contents.names.index(time) if contents.has(time) else 0
            found = _unit(units[cell], "time") if time == "POSITION_T" else "frame"
            native = Native(length, found)
    names: dict[str, str | tuple[str, ...]] = {"id": "TRACK_ID", "time": time}
    names |= {axis: f"POSITION_{axis.upper()}" for axis in ("x", "y")}
    told = options.columns or {}
    if "z" not in told and contents.has("POSITION_Z"):
        z = read_columns(contents, {"z": "POSITION_Z"}, layout=layout)["z"]
        if len(without_flat_z([z, z, z], notes)) == 3:
            names["z"] = "POSITION_Z"
    return read_long(
        contents,
        options,
        reader="trackmate",
        names=names,
        native=native,
        layout=layout,
        notes=notes,
    )


def _heads(layout: "Layout", place: int) -> list[tuple[str, ...]]:
    heads = []
    for row in layout.rows[:3]:
        if len(row) != len(layout.header) or cells.is_number(row[place]):
            break
        if cells.is_missing(row[place]):
            break
        heads.append(row)
    return heads


# The simple XML: tracks only, times are numbers of frames.


def _read_tracks(contents: Contents, options: ReadOptions) -> Trajectories:
    _refuse_other(contents, "Tracks")
    values = {name: array("d") for name in "txyz"}
    tracks = array("q")
    n_tracks = 0

    def see(path: tuple[str, ...], attributes: Mapping[str, str]) -> None:
        nonlocal n_tracks
        if path[1:] == ("particle",):
            n_tracks += 1
        elif path[1:] == ("particle", "detection"):
            tracks.append(n_tracks - 1)
            for name, column in values.items():
                column.append(
                    _number(contents, attributes, name, "detection", optional=name == "z")
                )

    xml_text.visit(contents.path, see)
    interval, unit = _interval(contents, options)
    notes = [f"times are frames of {interval:g} {unit}, as the file says"] if unit else []
    return _assemble(
        contents,
        options,
        ids=np.asarray(tracks, dtype=np.int64),
        times=np.asarray(values["t"]) * interval,
        coordinates=[np.asarray(values[axis]) for axis in "xyz"],
        native=Native(_unit(contents.attributes.get("spaceUnits", ""), "length"), unit or "frame"),
        notes=notes,
    )


def _interval(contents: Contents, options: ReadOptions) -> tuple[float, str]:
    """Time between frames and its unit, or 1 and nothing if times stay frames."""
    if options.frame_interval is not None:
        return 1.0, ""
    text = contents.attributes.get("frameInterval", "")
    unit = _unit(contents.attributes.get("timeUnits", ""), "time")
    if not cells.is_number(text) or not 0 < float(text) < float("inf") or unit == "frame":
        return 1.0, ""
    return float(text), unit


# The full XML: spots, and tracks as edges between them.


@dataclass
class _Graph:
    """Spots and edges as they come by, in arrays: no tree is kept."""

    spots: "array[int]" = field(default_factory=lambda: array("q"))
    values: "dict[str, array[float]]" = field(
        default_factory=lambda: {n: array("d") for n in "txyzf"}
    )
    edges: "array[int]" = field(default_factory=lambda: array("q"))
    edge_tracks: "array[int]" = field(default_factory=lambda: array("q"))
    filtered: set[int] = field(default_factory=set)
    is_filtered: bool = False
    track: int = -1
    length_unit: str = ""
    time_unit: str = ""


def _read_xml(contents: Contents, options: ReadOptions) -> Trajectories:
    _refuse_other(contents, "TrackMate")
    graph = _Graph()

    def see(path: tuple[str, ...], attributes: Mapping[str, str]) -> None:
        _see(graph, contents, path, attributes)

    xml_text.visit(contents.path, see)
    notes: list[str] = []
    times = np.asarray(graph.values["t"])
    if options.frame_interval is not None or np.isnan(times).any():
        times, graph.time_unit = np.asarray(graph.values["f"]), "frame"
    if len(times) == 0 or not len(graph.edges):
        msg = (
            f"{contents.path.name!r} has no tracks (spots {len(times):,}, edges 0); link the spots"
        )
        raise DriftbayesError(msg)
    rows, names = _trajectories(graph, contents, times, notes)
    return _assemble(
        contents,
        options,
        ids=names,
        times=times[rows],
        coordinates=[np.asarray(graph.values[axis])[rows] for axis in "xyz"],
        native=Native(graph.length_unit, graph.time_unit),
        notes=notes,
    )


def _see(
    graph: _Graph, contents: Contents, path: tuple[str, ...], attributes: Mapping[str, str]
) -> None:
    name = path[-1]
    if name == "Spot":
        graph.spots.append(_whole(contents, attributes, "ID", name))
        for axis in "xyz":
            value = _number(
                contents, attributes, f"POSITION_{axis.upper()}", name, optional=axis == "z"
            )
            graph.values[axis].append(value)
        graph.values["t"].append(_number(contents, attributes, "POSITION_T", name, optional=True))
        graph.values["f"].append(_number(contents, attributes, "FRAME", name, optional=True))
    elif name == "Edge":
        graph.edges.append(_whole(contents, attributes, "SPOT_SOURCE_ID", name))
        graph.edges.append(_whole(contents, attributes, "SPOT_TARGET_ID", name))
        graph.edge_tracks.append(graph.track)
    elif name == "Track":
        graph.track = _whole(contents, attributes, "TRACK_ID", name)
    elif name == "FilteredTracks":
        graph.is_filtered = True
    elif name == "TrackID":
        graph.filtered.add(_whole(contents, attributes, "TRACK_ID", name))
    elif name == "Model":
        graph.length_unit = _unit(attributes.get("spatialunits", ""), "length")
        graph.time_unit = _unit(attributes.get("timeunits", ""), "time")


def _trajectories(
    graph: _Graph, contents: Contents, times: FloatArray, notes: list[str]
) -> tuple[IntArray, np.ndarray]:
    """Row of each spot used, and the name of the trajectory it belongs to."""
    source = contents.path.name
    ids = np.asarray(graph.spots, dtype=np.int64)
    order = np.argsort(ids, kind="stable")
    if (np.diff(ids[order]) == 0).any():
        msg = f"{source!r} has two spots of one ID; the file is damaged"
        raise DriftbayesError(msg)
    ends = np.asarray(graph.edges, dtype=np.int64)
    place = np.minimum(np.searchsorted(ids[order], ends), len(ids) - 1)
    rows = order[place]
    if (ids[rows] != ends).any():
        missing = ends[np.argmax(ids[rows] != ends)]
        msg = f"{source!r} has an edge to spot {missing}, which it does not have; it is damaged"
        raise DriftbayesError(msg)
    tracks = np.asarray(graph.edge_tracks, dtype=np.int64)
    pairs = rows.reshape(-1, 2)
    if graph.is_filtered and graph.filtered:
        shown = np.isin(tracks, list(graph.filtered))
        n_hidden = len(np.unique(tracks[~shown]))
        if n_hidden:
            notes.append(f"{n_hidden:,} tracks were filtered out in TrackMate and are left out")
        if not shown.any():
            msg = f"{source!r} has no track left: all were filtered out in TrackMate; filter less"
            raise DriftbayesError(msg)
        pairs, tracks = pairs[shown], tracks[shown]
    backward = times[pairs[:, 0]] > times[pairs[:, 1]]
    pairs[backward] = pairs[backward][:, ::-1]
    same = times[pairs[:, 0]] == times[pairs[:, 1]]
    if same.any():
        msg = f"{source!r}: track {tracks[np.argmax(same)]} joins two spots of one time; edit it"
        raise DriftbayesError(msg)
    return _stretches(pairs, tracks, len(ids), notes)


def _stretches(
    pairs: IntArray, tracks: IntArray, n_spots: int, notes: list[str]
) -> tuple[IntArray, np.ndarray]:
    """Cut graphs where they split or merge."""
    n_out = np.bincount(pairs[:, 0], minlength=n_spots)
    n_in = np.bincount(pairs[:, 1], minlength=n_spots)
    alone = (n_out[pairs[:, 0]] == 1) & (n_in[pairs[:, 1]] == 1)
    after = np.full(n_spots, -1)
    after[pairs[alone, 0]] = pairs[alone, 1]
    track_of = np.full(n_spots, -1)
    track_of[pairs.ravel()] = np.repeat(tracks, 2)
    is_start = (track_of >= 0) | (n_in + n_out > 0)
    is_start[pairs[alone, 1]] = False
    # Track by track: a file may have its spots in any order.
    starts = np.flatnonzero(is_start)
    starts = starts[np.argsort(track_of[starts], kind="stable")]
    several = np.bincount(np.unique(track_of[starts], return_inverse=True)[1])
    forked = dict(zip(np.unique(track_of[starts]).tolist(), (several > 1).tolist(), strict=True))
    rows: list[int] = []
    names: list[str] = []
    counts: dict[int, int] = {}
    following = after.tolist()
    for start in starts.tolist():
        track = int(track_of[start])
        counts[track] = counts.get(track, 0) + 1
        name = f"{track}/{counts[track]}" if forked[track] else str(track)
        spot = start
        while spot >= 0:
            rows.append(spot)
            names.append(name)
            spot = following[spot]
    n_forked = sum(forked.values())
    if n_forked:
        n_parts = sum(counts[track] for track, is_cut in forked.items() if is_cut)
        notes.append(
            f"{n_forked:,} tracks split or merge: cut there into {n_parts:,} trajectories, named "
            "track/1, track/2, ..."
        )
    return np.array(rows, dtype=np.int64), np.array(names)


# Both.


def _assemble(
    contents: Contents,
    options: ReadOptions,
    *,
    ids: np.ndarray,
    times: FloatArray,
    coordinates: Sequence[FloatArray],
    native: Native,
    notes: list[str],
) -> Trajectories:
    require("TrackMate files", "pyarrow")
    import pyarrow as pa

    if options.columns:
        msg = "--columns is for tables; TrackMate's XML has no columns: leave it out"
        raise DriftbayesError(msg)
    if len(times) == 0:
        msg = f"{contents.path.name!r} has no detections; expected tracks with spots in them"
        raise DriftbayesError(msg)
    kinds: Any = ids.tolist()
    if ids.dtype.kind != "i" and all(name.lstrip("-").isdigit() for name in kinds):
        kinds = [int(name) for name in kinds]
    return assemble(
        contents,
        options,
        reader="trackmate",
        ids=[pa.chunked_array([pa.array(kinds)])],
        times=times,
        coordinates=without_flat_z(coordinates, notes),
        native=native,
        notes=notes,
    )


def _number(
    contents: Contents, attributes: Mapping[str, str], name: str, element: str, *, optional: bool
) -> float:
    text = attributes.get(name)
    if text is None and optional:
        return 0.0 if name.lower().endswith("z") else float("nan")
    if text is None or not cells.is_number(text):
        msg = (
            f"{contents.path.name!r}: <{element}> has {name}={str(text)[:40]!r}, expected a number"
        )
        raise DriftbayesError(msg)
    return float(text)


def _whole(contents: Contents, attributes: Mapping[str, str], name: str, element: str) -> int:
    value = _number(contents, attributes, name, element, optional=False)
    if not (abs(value) < 2**53 and value == int(value)):
        msg = f"{contents.path.name!r}: <{element}> has {name}={value:g}, expected a whole number"
        raise DriftbayesError(msg)
    return int(value)


def _refuse_other(contents: Contents, root: str) -> None:
    if contents.container != "xml" or contents.names != (root,):
        found = f"<{contents.names[0][:40]}>" if contents.container == "xml" else contents.container
        msg = f"{contents.path.name!r} is {found}, expected XML whose outermost element is <{root}>"
        raise DriftbayesError(msg)


TRACKMATE_CSV = Format(
    "trackmate-csv",
    "TrackMate's table of spots: TRACK_ID, POSITION_X, POSITION_Y, POSITION_T, with its units",
    lambda contents: (
        contents.container in ("csv", "parquet")
        and contents.has("TRACK_ID", "POSITION_X", "POSITION_Y")
        and (contents.has("POSITION_T") or contents.has("FRAME"))
    ),
    read=_read_csv,
)
TRACKMATE_TRACKS = Format(
    "trackmate-tracks",
    "TrackMate's simple XML of tracks, <Tracks>",
    lambda contents: contents.container == "xml" and contents.names == ("Tracks",),
    read=_read_tracks,
)
TRACKMATE_XML = Format(
    "trackmate-xml",
    "TrackMate's own XML, <TrackMate>; a track that splits or merges is cut there",
    lambda contents: contents.container == "xml" and contents.names == ("TrackMate",),
    read=_read_xml,
)
