"""Tables that other programs write, rows in any order, to trajectories."""

__all__ = ["Native", "assemble", "read_long", "without_flat_z"]

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from driftbayes.data.trajectories import Trajectories
from driftbayes.errors import DriftbayesError
from driftbayes.io import cells, csv_text, schema
from driftbayes.io.contents import Contents
from driftbayes.io.datasets import foreign_provenance
from driftbayes.io.missing import without
from driftbayes.io.paths import begin_with_name
from driftbayes.io.reading import ReadOptions
from driftbayes.io.tables import TIME_ORIGIN, read_columns, separator_note, unique_names
from driftbayes.typing import FloatArray, IntArray, StrArray

PIXEL, FRAME = "px", "frame"
# What programs write where a spot belongs to no track.
_UNLINKED = ("", "nan", "NaN", "None", "null")


@dataclass(frozen=True)
class Native:
    """In what a program counts: empty if it does not say."""

    length: str = PIXEL
    time: str = FRAME


def read_long(
    contents: Contents,
    options: ReadOptions,
    *,
    reader: str,
    names: Mapping[str, str | tuple[str, ...]],
    native: Native | None = None,
    layout: csv_text.Layout | None = None,
    notes: Sequence[str] = (),
    unlinked: Sequence[str] = (),
) -> Trajectories:
    """Trajectories from a table with one row for each observation."""
    native = native or Native()
    told = options.columns or {}
    if "time" in told:
        native = replace(native, time="")
    if "x" in told:
        native = replace(native, length="")
    merged: dict[str, str | tuple[str, ...] | None] = {**names, **told}
    found = _column_names(contents, merged, layout)
    flat = {f"{c}:{i}": name for c, several in found.items() for i, name in enumerate(several)}
    table = read_columns(contents, flat, layout=layout)
    times, dates = table["time:0"]
    coordinates = [table[f"{axis}:0"] for axis in schema.COORDINATES if axis in found]
    sd = None
    if "sd" in found:
        axes = [table[f"sd:{i}"] for i in range(len(found["sd"]))]
        sd = axes[0] if len(axes) == 1 else _root_mean_square(axes)
    return assemble(
        contents,
        options,
        reader=reader,
        ids=[table[f"id:{i}"] for i in range(len(found["id"]))],
        times=times,
        coordinates=coordinates,
        sd=sd,
        native=Native(native.length, "s") if dates else native,
        notes=notes,
        unlinked=unlinked,
        time_origin=TIME_ORIGIN if dates else None,
    )


def _column_names(
    contents: Contents,
    names: Mapping[str, str | tuple[str, ...] | None],
    layout: csv_text.Layout | None = None,
) -> dict[str, tuple[str, ...]]:
    """The columns that are there for each canonical one; missing and doubled ones are refused."""
    present = unique_names(layout.header if layout else contents.names)
    single = {
        c: several[0] if isinstance(several, tuple) else several for c, several in names.items()
    }
    found = schema.file_names(present, single, source=contents.path.name)
    result = {}
    for canonical, name in found.items():
        several = names.get(canonical)
        result[canonical] = several if isinstance(several, tuple) else (name,)
    return result


def assemble(
    contents: Contents,
    options: ReadOptions,
    *,
    reader: str,
    ids: Sequence[Any],
    times: FloatArray,
    coordinates: Sequence[FloatArray],
    sd: FloatArray | None = None,
    native: Native | None = None,
    notes: Sequence[str] = (),
    unlinked: Sequence[str] = (),
    time_origin: str | None = None,
) -> Trajectories:
    """Trajectories from columns, sorted by time within each, in the units that the user asks for.

    Rows without an id are left out, and a note says how many.
    """
    native = native or Native()
    notes = list(notes)
    if contents.layout is not None and contents.layout.separator != ",":
        notes.append(separator_note(contents.layout))
    with begin_with_name(contents.path):
        try:
            codes, names, keep = _encode(ids, unlinked, text=contents.container == "csv")
        except cells.BadCellError as error:
            msg = f"the column of ids {error.what}"
            raise DriftbayesError(msg) from error
        if not keep.all():
            n_left = int((~keep).sum())
            notes.append(f"{n_left:,} of {len(keep):,} rows belong to no track and are left out")
        positions = np.column_stack(without(coordinates, options.missing))[keep]
        times = times[keep]
        sd = None if sd is None else sd[keep]
        if ((np.diff(codes) < 0) | (np.diff(codes) == 0) & (np.diff(times) < 0)).any():
            order = np.lexsort((times, codes))
            # By trajectory is how the array is laid out; by time is worth a word.
            gathered = np.argsort(codes, kind="stable")
            if not np.array_equal(order, gathered):
                notes.append("rows were not in order of time within a trajectory, and were sorted")
            positions, times = positions[order], times[order]
            sd = None if sd is None else sd[order]
        if sd is not None:
            sd = _known(sd, ~np.isnan(positions[:, 0]), notes)
        trajectories = Trajectories(
            positions=positions,
            times=times,
            row_sizes=np.bincount(codes, minlength=len(names)),
            ids=names,
            position_sd=sd,
            length_unit=options.length_unit or native.length,
            time_unit=options.time_unit or native.time,
        )
        trajectories = _in_units(trajectories, options, native, notes)
    told = foreign_provenance(contents, reader, notes, options.columns, time_origin)
    return replace(trajectories, provenance=told)


def without_flat_z(coordinates: Sequence[FloatArray], notes: list[str]) -> list[FloatArray]:
    """Coordinates without the third, if it is the same everywhere: images have no depth."""
    if len(coordinates) == 3 and (coordinates[2] == coordinates[2][:1]).all():
        notes.append("z is the same everywhere and is left out")
        return list(coordinates[:2])
    return list(coordinates)


def _root_mean_square(axes: Sequence[FloatArray]) -> FloatArray:
    """The error of a position from those of its axes; not known if one of them is not."""
    with np.errstate(over="ignore"):
        sd = np.sqrt(np.mean(np.square(axes), axis=0))
    sd[np.any(np.less(axes, 0), axis=0)] = np.nan
    return np.asarray(sd)


def _encode(
    columns: Sequence[Any], unlinked: Sequence[str], *, text: bool
) -> tuple[IntArray, StrArray, np.ndarray]:
    """Number of the trajectory of each row kept, the ids, and which rows are kept."""
    import pyarrow as pa
    import pyarrow.compute as pc

    none = pa.array([*_UNLINKED, *unlinked])
    keep = np.ones(len(columns[0]), dtype=bool)
    plain = []
    for column in columns:
        if text:
            # pandas writes 7.0 as soon as one id of the column is missing.
            trimmed = pc.utf8_trim_whitespace(column)
            column = pc.replace_substring_regex(trimmed, r"^(-?\d+)\.0+$", r"\1")
            keep &= ~np.asarray(pc.is_in(column, value_set=none), dtype=bool)
        else:
            keep &= ~np.asarray(pc.is_null(column, nan_is_null=True), dtype=bool)
        plain.append(column)
    if not keep.any():
        msg = "no row belongs to a track: every id is empty; link the positions to tracks first"
        raise DriftbayesError(msg)
    rows = pa.array(keep)
    encoded = [cells.encode_ids(column.filter(rows), text_holds_integers=text) for column in plain]
    if len(encoded) == 1:
        return *encoded[0], keep
    codes = encoded[0][0]
    for more, names in encoded[1:]:
        codes = codes * len(names) + more
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    # In order of first appearance, as all tables are read.
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    rows_of = np.sort(first)
    joined = ["/".join(str(names[c[row]]) for c, names in encoded) for row in rows_of]
    return rank[inverse], cells.id_array(joined), keep


def _known(sd: FloatArray, observed: np.ndarray, notes: list[str]) -> FloatArray | None:
    """Errors of positions with the unknown ones replaced, and a note."""
    wrong = observed & ~(np.isfinite(sd) & (sd >= 0))
    if not wrong.any():
        return sd
    if wrong.sum() == observed.sum():
        notes.append("no measurement error is a number of 0 or more; they are ignored")
        return None
    median = float(np.median(sd[observed & ~wrong]))
    notes.append(
        f"{int(wrong.sum()):,} of {int(observed.sum()):,} measurement errors are missing or "
        f"negative, and were set to the median of the others, {median:.4g} as the file counts; "
        "--columns sd= ignores them all"
    )
    return np.where(wrong, median, sd)


def _in_units(
    trajectories: Trajectories, options: ReadOptions, native: Native, notes: list[str]
) -> Trajectories:
    if options.pixel_size is not None and native.length not in (PIXEL, ""):
        msg = f"positions are in {native.length}, not in pixels; leave out --pixel-size"
        raise DriftbayesError(msg)
    if options.frame_interval is not None and native.time not in (FRAME, ""):
        msg = f"times are in {native.time}, not in frames; leave out --frame-interval"
        raise DriftbayesError(msg)
    trajectories = options.scale(trajectories)
    if trajectories.length_unit == PIXEL:
        notes.append("positions are in pixels; --pixel-size, as in 0.16um, makes them lengths")
    if trajectories.time_unit == FRAME:
        notes.append("times are in frames; --frame-interval, as in 7.48ms, makes them times")
    if not trajectories.length_unit:
        notes.append("the file does not say its unit of length; --length-unit names it")
    if not trajectories.time_unit:
        notes.append("the file does not say its unit of time; --time-unit names it")
    return trajectories
