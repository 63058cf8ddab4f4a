"""TrackMate XML: the simple file of tracks, and the full file.

XML is read as a stream of elements, without building a tree or resolving entities. A track of the
full XML is a graph, which may split where a cell divides, and merge. It is cut there: every segment
without a fork is a trajectory, named TRACK/1, TRACK/2, ... The spot at which a track splits ends
the segment before it; the spot at which branches merge begins a new segment.
"""

from array import array
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias
from xml.parsers import expat

import numpy as np
import pyarrow as pa

from driftbayes._typing import FloatArray, IntArray
from driftbayes.data._trajectories import Trajectories
from driftbayes.errors import DriftbayesError
from driftbayes.io import _cells as cells
from driftbayes.io._limits import Clock
from driftbayes.io._reading import Contents, ReadOptions, reading_as
from driftbayes.io._table_formats import trackmate_unit
from driftbayes.io._tables import Columns, TableSpec, assemble, without_flat_z

# Called at the start of an element with the path of element names and the attributes.
_Visit: TypeAlias = Callable[[tuple[str, ...], Mapping[str, str]], None]

_BLOCK = 2**18
# Trajectories need six levels; a file with more than this is malicious.
_MAX_DEPTH = 64
_MAX_ELEMENT = 2**22


class _StopVisit(BaseException):
    """Raised to stop at the root element."""


def describe(path: Path) -> dict[str, Any]:
    """Return name and attributes of the root element, as fields of `Contents`."""
    fields: dict[str, Any] = {}

    def visit(names: tuple[str, ...], attributes: Mapping[str, str]) -> None:
        fields.update(names=names, attributes=dict(attributes))
        raise _StopVisit

    _visit_elements(path, visit)
    return fields


def _visit_elements(path: Path, visit: _Visit) -> None:
    """Visit all elements in the order in which they start.

    A document type declaration is refused: its entities could make a small file grow without bound
    or read other files, and no program writes one for trajectories.
    """
    names: list[str] = []

    def start(name: str, attributes: dict[str, str]) -> None:
        names.append(name)
        if len(names) > _MAX_DEPTH:
            raise DriftbayesError(
                f"{path.name!r} has elements nested more than {_MAX_DEPTH} levels deep; expected "
                "tracks"
            )
        visit(tuple(names), attributes)

    def end(_: str) -> None:
        names.pop()

    def refuse(name: str, *_: object) -> None:
        if name.lower() == "html":
            raise DriftbayesError(f"{path.name!r} is a web page, expected trajectories")
        raise DriftbayesError(
            f"{path.name!r} has a document type declaration (DOCTYPE), which may define entities "
            "and is not read; remove it"
        )

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    isfinal = True
    clock = Clock(path.name, path.stat().st_size)
    with (
        suppress(_StopVisit),
        reading_as(path, "XML", "it may be damaged or truncated"),
        path.open("rb") as stream,
    ):
        n_read = 0
        while block := stream.read(_BLOCK):
            n_read += len(block)
            parser.Parse(block)
            # The parser restarts at the beginning of an incomplete element.
            if n_read - parser.CurrentByteIndex > _MAX_ELEMENT:
                raise DriftbayesError(
                    f"{path.name!r} has a tag of more than {_MAX_ELEMENT:,} bytes; expected tracks"
                )
            clock.check()
        parser.Parse(b"", isfinal)


# The simple XML: tracks only, with times as frame numbers.


def _read_tracks(contents: Contents, options: ReadOptions) -> Trajectories:
    _refuse_other(contents, "Tracks")
    values = {name: array("d") for name in "txyz"}
    tracks = array("q")
    n_tracks = 0

    def visit(path: tuple[str, ...], attributes: Mapping[str, str]) -> None:
        nonlocal n_tracks
        if path[1:] == ("particle",):
            n_tracks += 1
        elif path[1:] == ("particle", "detection"):
            tracks.append(n_tracks - 1)
            for name, column in values.items():
                column.append(
                    _number(contents, attributes, name, "detection", optional=name == "z")
                )

    _visit_elements(contents.path, visit)
    interval, unit = _frame_interval(contents, options)
    notes = [f"times are frames of {interval:g} {unit}, as given in the file"] if unit else []
    length = trackmate_unit(contents.attributes.get("spaceUnits", ""), "length")
    return _assemble(
        contents,
        options,
        TableSpec("trackmate", {}, length, unit or "frame", notes),
        np.asarray(tracks, dtype=np.int64),
        np.asarray(values["t"]) * interval,
        [np.asarray(values[axis]) for axis in "xyz"],
    )


def _frame_interval(contents: Contents, options: ReadOptions) -> tuple[float, str]:
    """Return the time between frames and its unit, or 1 and no unit to keep frame numbers."""
    if options.frame_interval is not None:
        return 1.0, ""
    text = contents.attributes.get("frameInterval", "")
    unit = trackmate_unit(contents.attributes.get("timeUnits", ""), "time")
    if not cells.is_number(text) or not 0 < float(text) < float("inf") or unit == "frame":
        return 1.0, ""
    return float(text), unit


# The full XML: spots, and tracks as edges between them.


@dataclass
class _Graph:
    """Spots and edges, in arrays."""

    contents: Contents
    spots: "array[int]" = field(default_factory=lambda: array("q"))
    values: "dict[str, array[float]]" = field(
        default_factory=lambda: {n: array("d") for n in "xyztf"}
    )
    edges: "array[int]" = field(default_factory=lambda: array("q"))
    edge_tracks: "array[int]" = field(default_factory=lambda: array("q"))
    filtered: set[int] = field(default_factory=set)
    is_filtered: bool = False
    track: int = -1
    length_unit: str = ""
    time_unit: str = ""

    def visit(self, path: tuple[str, ...], attributes: Mapping[str, str]) -> None:
        """Store the attributes of an element."""
        name = path[-1]

        def number(key: str) -> float:
            is_optional = key not in ("POSITION_X", "POSITION_Y")
            return _number(self.contents, attributes, key, name, optional=is_optional)

        def whole(key: str) -> int:
            return _whole(self.contents, attributes, key, name)

        if name == "Spot":
            self.spots.append(whole("ID"))
            for key, values in self.values.items():
                values.append(number("FRAME" if key == "f" else f"POSITION_{key.upper()}"))
        elif name == "Edge":
            self.edges.extend(map(whole, ("SPOT_SOURCE_ID", "SPOT_TARGET_ID")))
            self.edge_tracks.append(self.track)
        elif name == "Track":
            self.track = whole("TRACK_ID")
        elif name == "FilteredTracks":
            self.is_filtered = True
        elif name == "TrackID":
            self.filtered.add(whole("TRACK_ID"))
        elif name == "Model":
            self.length_unit = trackmate_unit(attributes.get("spatialunits", ""), "length")
            self.time_unit = trackmate_unit(attributes.get("timeunits", ""), "time")


def _read_xml(contents: Contents, options: ReadOptions) -> Trajectories:
    _refuse_other(contents, "TrackMate")
    graph = _Graph(contents)
    _visit_elements(contents.path, graph.visit)
    notes: list[str] = []
    times = np.asarray(graph.values["t"])
    if options.frame_interval is not None or np.isnan(times).any():
        times, graph.time_unit = np.asarray(graph.values["f"]), "frame"
    if len(times) == 0 or not len(graph.edges):
        msg = f"{contents.source!r} has no tracks ({len(times):,} spots, no edges); link the spots"
        raise DriftbayesError(msg)
    rows, names = _split_tracks(graph, contents, times, notes)
    return _assemble(
        contents,
        options,
        TableSpec("trackmate", {}, graph.length_unit, graph.time_unit, notes),
        names,
        times[rows],
        [np.asarray(graph.values[axis])[rows] for axis in "xyz"],
    )


def _split_tracks(
    graph: _Graph, contents: Contents, times: FloatArray, notes: list[str]
) -> tuple[IntArray, np.ndarray]:
    """Return the row of each spot used, and the name of its trajectory."""
    source = contents.source
    ids = np.asarray(graph.spots, dtype=np.int64)
    order = np.argsort(ids, kind="stable")
    if (np.diff(ids[order]) == 0).any():
        raise DriftbayesError(f"{source!r} has two spots with the same ID; the file is damaged")
    ends = np.asarray(graph.edges, dtype=np.int64)
    rows = order[np.minimum(np.searchsorted(ids[order], ends), len(ids) - 1)]
    if (ids[rows] != ends).any():
        missing = ends[np.argmax(ids[rows] != ends)]
        msg = f"{source!r} has an edge to the missing spot {missing}; the file is damaged"
        raise DriftbayesError(msg)
    tracks = np.asarray(graph.edge_tracks, dtype=np.int64)
    pairs = rows.reshape(-1, 2)
    if graph.is_filtered and graph.filtered:
        shown = np.isin(tracks, list(graph.filtered))
        n_hidden = len(np.unique(tracks[~shown]))
        if n_hidden:
            notes.append(f"{n_hidden:,} tracks were filtered out in TrackMate and are left out")
        if not shown.any():
            msg = f"{source!r} has no tracks: all were filtered out in TrackMate; relax the filters"
            raise DriftbayesError(msg)
        pairs, tracks = pairs[shown], tracks[shown]
    backward = times[pairs[:, 0]] > times[pairs[:, 1]]
    pairs[backward] = pairs[backward][:, ::-1]
    same = times[pairs[:, 0]] == times[pairs[:, 1]]
    if same.any():
        track = tracks[np.argmax(same)]
        raise DriftbayesError(f"{source!r}: track {track} links two spots at one time; edit it")
    return _cut_at_forks(pairs, tracks, len(ids), notes)


def _cut_at_forks(
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
    # Sort by track: the spots in a file may have any order.
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
            f"{n_forked:,} tracks split or merge; they are cut there into {n_parts:,} trajectories "
            "named track/1, track/2, ..."
        )
    return np.array(rows, dtype=np.int64), np.array(names)


# Both.


def _assemble(
    contents: Contents,
    options: ReadOptions,
    spec: TableSpec,
    ids: np.ndarray,
    times: FloatArray,
    coordinates: Sequence[FloatArray],
) -> Trajectories:
    if options.columns:
        raise DriftbayesError("TrackMate XML has no columns; leave out --columns")
    if len(times) == 0:
        msg = f"{contents.source!r} has no detections; expected tracks with spots in them"
        raise DriftbayesError(msg)
    values: Any = ids.tolist()
    if ids.dtype.kind != "i" and all(name.lstrip("-").isdigit() for name in values):
        values = [int(name) for name in values]
    notes = list(spec.notes)
    coordinates = without_flat_z(coordinates, notes)
    columns = Columns([pa.chunked_array([pa.array(values)])], times, coordinates)
    return assemble(contents, options, replace(spec, notes=notes), columns)


def _number(
    contents: Contents, attributes: Mapping[str, str], name: str, element: str, *, optional: bool
) -> float:
    text = attributes.get(name)
    if text is None and optional:
        return 0.0 if name.lower().endswith("z") else float("nan")
    if text is None or not cells.is_number(text):
        msg = f"{contents.source!r}: <{element}> has {name}={str(text)[:40]!r}, expected a number"
        raise DriftbayesError(msg)
    return float(text)


def _whole(contents: Contents, attributes: Mapping[str, str], name: str, element: str) -> int:
    value = _number(contents, attributes, name, element, optional=False)
    if not (abs(value) < 2**53 and value == int(value)):
        msg = f"{contents.source!r}: <{element}> has {name}={value:g}, expected a whole number"
        raise DriftbayesError(msg)
    return int(value)


def _refuse_other(contents: Contents, root: str) -> None:
    if contents.names != (root,):
        got = f"<{contents.names[0][:40]}>"
        msg = f"{contents.source!r} has the root element {got}, expected <{root}>"
        raise DriftbayesError(f"{msg}; choose another --format")


READERS = {"trackmate-tracks": _read_tracks, "trackmate-xml": _read_xml}
