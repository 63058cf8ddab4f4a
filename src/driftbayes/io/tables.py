"""Tables with one row per observation, CSV or Parquet, of ours and of other programs."""

import re
import warnings
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from driftbayes.data import schema
from driftbayes.data.trajectories import Trajectories
from driftbayes.errors import ColumnsError, DataWarning, DriftbayesError
from driftbayes.io import cells, csv_text, reading
from driftbayes.io.dates import is_iso_date, is_other_date, parse_clocks, parse_times
from driftbayes.io.ids import BadCellError, id_array
from driftbayes.io.reading import Contents, CsvLayout, ReadOptions
from driftbayes.typing import FloatArray, IntArray, StrArray

PIXEL, FRAME = "px", "frame"
_SEPARATORS = {"\t": "tabs", ";": "semicolons", " ": "spaces"}
_NUMBER = (cells.is_number, "a number")
_COMMA_NUMBER = (
    lambda text: "." not in text and cells.is_number(text.replace(",", ".", 1)),
    "a number with a decimal comma",
)
_TEXT = (lambda _: True, "text")
_ANY_DATE = (lambda text: is_other_date(text) or is_iso_date(text), "a date")
_DATE = (is_iso_date, "an ISO date like 2024-05-17T12:00:00Z")
_EITHER = (cells.is_number, "a number or an ISO date like 2024-05-17T12:00:00Z")
_ADVICE = {
    PIXEL: "positions are in pixels; --pixel-size, as in 0.16um, makes them lengths",
    FRAME: "times are in frames; --frame-interval, as in 7.48ms, makes them times",
}
# Columns that are read as they are and become something else.
_APART = ("date", "clock", "drogued")
# What programs write where a spot belongs to no track.
_UNLINKED = ("", "nan", "NaN", "None", "null")


@dataclass(frozen=True)
class TableSpec:
    """What a program's table means."""

    reader: str  # name of the program, for the provenance
    # Name in the file of each canonical column; several for `id` are one together, several for `sd`
    # are those of the axes.
    names: Mapping[str, str | tuple[str, ...] | None] = field(default_factory=dict)
    length: str = PIXEL  # unit of positions; empty if the program does not say
    time: str = FRAME  # unit of times, likewise
    notes: Sequence[str] = ()  # what was assumed
    layout: CsvLayout | None = None  # of a table of text, if not as found
    unlinked: Sequence[str] = ()  # ids that stand for none


@dataclass(frozen=True)
class Columns:
    """Columns of a table, as numbers."""

    ids: Sequence[Any]  # one or more Arrow arrays, together the id
    times: FloatArray  # of the rows
    coordinates: Sequence[FloatArray]  # one array for each axis
    # Standard deviation of the error of each position; NaN where it is not known.
    sd: FloatArray | None = None
    are_dates: bool = False  # whether times were dates, and are now seconds since 1970


def read_plain(contents: Contents, options: ReadOptions) -> Trajectories:
    """Read a table with canonical columns or the user's; rows of trajectories may be mixed."""
    path, meaning = contents.path, _meaning(contents, options)
    columns = dict(meaning.columns)
    lonlat = [columns.pop(axis, None) for axis in schema.LONLAT]
    if all(lonlat):
        columns |= {"x": lonlat[0], "y": lonlat[1], "z": None}
        if options.coordinates is None:
            options = replace(options, coordinates="degrees")
    apart = {key: str(name) for key in _APART if (name := columns.pop(key, None))}
    needed = tuple(key for key in (schema.ID, schema.TIME) if columns.get(key))
    if schema.ID not in needed:
        columns.pop(schema.ID, None)
    free = [name for name in contents.names if name not in apart.values()]
    # Canonical names are found as they are.
    named = {c: n for c, n in columns.items() if n != c or c in (options.columns or {})}
    found = schema.file_names(free, named, source=path.name, required=(*needed, "x"))
    found |= schema.extras_in(contents.names, {**found, **apart}, options.columns)
    is_ours = schema.METADATA_KEY in contents.attributes
    header = _read_metadata(contents.attributes[schema.METADATA_KEY], path.name) if is_ours else {}
    earlier: dict[str, Any] = header.get("provenance", {})
    notes = _separator_note(contents)
    values = read_columns(contents, {**found, **apart}, date_order=options.date_order)
    if "date" in apart:
        times, written = values.pop("date")
        times, written = times + values.pop("clock"), written or "dates"
    else:
        times, written = values.pop(schema.TIME)
    if "drogued" in apart:
        _flag_drogued(values, apart["drogued"], notes)
    if schema.ID not in needed:
        codes, ids = _one_track(contents, set(found.values()) | set(apart.values()), times, options)
        notes.append("all rows are one trajectory; --columns id=NAME names a column of ids")
    else:
        codes, ids = values.pop(schema.ID)
    axes = [axis for axis in schema.COORDINATES if axis in values]
    present = options.without_missing([values[axis] for axis in axes])
    # What we wrote ourselves has NaN where a position is missing.
    if options.missing is None and not is_ours:
        present = _without_fills(contents, present, notes)
    if len(axes) == 3 and "z" in meaning.guessed:
        present = without_flat_z(present, notes)
        values.pop("z", None)
    values |= zip(axes, present, strict=False)
    time_unit = header.get("time_unit") if options.time_unit is None else options.time_unit
    if written and time_unit not in (None, "", "s"):
        raise DriftbayesError(
            f"the times in {path.name!r} are dates, read as seconds; leave out time_unit, "
            f"got {time_unit!r}"
        )
    if written.startswith(("day", "month")):
        notes.append(f"dates are read as {written}")
    times, values = _sorted_rows(codes, times, values, notes)
    length_unit = header.get("length_unit") if options.length_unit is None else options.length_unit
    degrees = options.coordinates == "degrees"
    if not degrees:
        _check_scales(options, meaning.length, meaning.time)
        scales = ((meaning.length, options.pixel_size), (meaning.time, options.frame_interval))
        notes += [_ADVICE[unit] for unit, size in scales if size is None and unit in _ADVICE]
    if meaning.text:
        earlier = {**earlier, "guessed": meaning.text}
    if notes:
        earlier = {**earlier, "notes": [*earlier.get("notes", []), *notes]}
    provenance = reading.extended(earlier, path, contents.container, options.columns)
    if written:
        provenance["time_origin"] = schema.TIME_ORIGIN
    with reading.begin_with_name(path):
        trajectories = Trajectories(
            **schema.fields_of(values),
            times=times,
            row_sizes=np.bincount(codes),
            ids=ids,
            length_unit=length_unit or ("" if degrees else meaning.length),
            time_unit="s" if written else time_unit or meaning.time,
            provenance=provenance,
        )
    return options.place(trajectories, degrees=degrees)


def _meaning(contents: Contents, options: ReadOptions) -> schema.Meaning:
    """What the columns are: as the user names them, else by their names."""
    usual = (schema.ID, schema.TIME, "x", "y")
    others = " ".join(set(contents.names) - set(usual)).lower()
    if not options.columns and contents.has(*usual) and not re.search("date|drogue", others):
        return schema.Meaning({name: name for name in usual})
    from driftbayes.data.columns import guess

    return guess(contents.names, options.columns, source=contents.source)


def _flag_drogued(values: dict[str, Any], name: str, notes: list[str]) -> None:
    """Keep a column that says whether a drogue was attached as the flag that `--qc` uses."""
    status = cells.truths(values.pop("drogued"))
    if status is None:
        notes.append(f"column {name!r} is not 0 and 1 throughout, and is not used as the drogue")
        return
    values[f"{schema.FLAG}drogued"] = status
    n_without = int((status == 0).sum())
    notes.append(
        f"{name!r} says that {n_without:,} of {len(status):,} positions have no drogue; "
        "--qc drogued leaves them out"
    )


def _one_track(
    contents: Contents, taken: Collection[str], times: FloatArray, options: ReadOptions
) -> tuple[IntArray, StrArray]:
    """Number of the only trajectory for each row, and its id, the name of the file."""
    others = [name for name in unique_names(contents.names) if name not in taken]
    is_told = schema.ID in (options.columns or {})
    like = _like_ids(contents, others) if others and not is_told else None
    if like is not None or (not is_told and (np.diff(times) <= 0).any()):
        why = "its times do not increase throughout"
        if like is not None:
            why = f"column {like[:40]!r} changes from one stretch of rows to the next"
        raise ColumnsError(
            f"{contents.source!r} has no column of ids that is known by its name, and {why}",
            {"id": like or (others[0] if others else "")},
            "for one trajectory alone pass --columns id=; else ",
        )
    return np.zeros(len(times), dtype=np.int64), np.array([contents.path.stem[:200] or "0"])


def _like_ids(contents: Contents, names: Sequence[str]) -> str | None:
    """The column whose values come in stretches of several rows each, as ids do; None if none."""
    # A calendar has stretches too.
    tried = [n for n in names if not re.search("year|month|day|date|season", n.casefold())][:20]
    table = read_columns(contents, {f"id:{i}": name for i, name in enumerate(tried)})
    for name, column in zip(tried, table.values(), strict=True):
        try:
            codes, values = cells.encode_ids(column, text_holds_integers=False)
        except BadCellError:
            # Not whole, or empty in places.
            continue
        if values.dtype.kind == "U" and all(cells.is_number(v) and "." in v for v in values):
            continue
        changes = int(np.count_nonzero(np.diff(codes)))
        if 1 <= changes == len(values) - 1 and np.bincount(codes).min() > 1:
            return name
    return None


def _without_fills(
    contents: Contents, axes: list[FloatArray], notes: list[str]
) -> list[FloatArray]:
    """Coordinates with NaN where a number such as -9999 stands for none, and a warning."""
    gone = cells.find_fills(axes)
    if not gone.any() or gone.all():
        return axes
    row = int(np.argmax(gone))
    # The number that stands furthest from the others.
    value = max((float(axis[row]) for axis in axes), key=abs)
    where = f"row {row + 1}"
    if contents.container == "csv" and contents.layout is not None:
        where = f"line {csv_text.line_of(contents.path, row, contents.layout)}"
    n_gone = np.count_nonzero(gone)
    what = "1 position is" if n_gone == 1 else f"{n_gone:,} positions are"
    at = f" at {where}" if contents.part is None else ""
    note = (
        f"{what} a fill value, the first {value:g}{at}, and left out; "
        "--missing none keeps every number"
    )
    warnings.warn(f"{contents.source!r}: {note}", DataWarning, stacklevel=2)
    notes.append(note)
    return [np.where(gone, np.nan, axis) for axis in axes]


def _sorted_rows(
    codes: IntArray, times: FloatArray, values: dict[str, Any], notes: list[str]
) -> tuple[FloatArray, dict[str, Any]]:
    """Times and other columns in the order of trajectories and times."""
    if not ((np.diff(codes) < 0) | (np.diff(codes) == 0) & (np.diff(times) < 0)).any():
        return times, values
    order = np.lexsort((times, codes))
    # By trajectory is how the array is laid out; by time is worth a word.
    if not np.array_equal(order, np.argsort(codes, kind="stable")):
        notes.append("rows were not in order of time within a trajectory, and were sorted")
    return times[order], {name: array[order] for name, array in values.items()}


def _separator_note(contents: Contents) -> list[str]:
    separator = "," if contents.layout is None else contents.layout.separator
    notes = [] if separator == "," else [f"cells are separated by {_SEPARATORS[separator]}"]
    if contents.layout is not None and contents.layout.point == ",":
        notes.append("numbers have decimal commas")
    return notes


def _read_metadata(stored: str, source: str) -> dict[str, Any]:
    header = reading.from_json(stored, source)
    reading.check_schema_version(header.get("schema"), source)
    for key, kind in (("length_unit", str), ("time_unit", str), ("provenance", dict)):
        if not isinstance(header.get(key, kind()), kind):
            msg = f"the metadata of {source!r} has a {key} of the wrong kind; write the file again"
            raise DriftbayesError(msg)
    return header


def read_foreign(contents: Contents, options: ReadOptions, spec: TableSpec) -> Trajectories:
    """Read a table of another program; columns that the user names replace those of the program."""
    told = options.columns or {}
    spec = replace(
        spec,
        names={**spec.names, **told},
        time="" if "time" in told else spec.time,
        length="" if "x" in told else spec.length,
    )
    present = unique_names(spec.layout.header if spec.layout else contents.names)
    several = {c: n if isinstance(n, tuple) else (n,) for c, n in spec.names.items()}
    found = schema.file_names(
        present, {c: n[0] for c, n in several.items()}, source=contents.source
    )
    names = {c: several[c] if len(several.get(c, ())) > 1 else (n,) for c, n in found.items()}
    flat = {f"{c}:{i}": str(name) for c, many in names.items() for i, name in enumerate(many)}
    table = read_columns(contents, flat, layout=spec.layout)
    seconds, are_dates = table["time:0"]
    errors = [table[f"sd:{i}"] for i in range(len(names.get("sd", ())))]
    columns = Columns(
        ids=[table[f"id:{i}"] for i in range(len(names["id"]))],
        times=seconds,
        coordinates=[table[f"{axis}:0"] for axis in schema.COORDINATES if axis in names],
        sd=_root_mean_square(errors) if len(errors) > 1 else next(iter(errors), None),
        are_dates=bool(are_dates),
    )
    return assemble(contents, options, replace(spec, time="s") if are_dates else spec, columns)


def assemble(
    contents: Contents, options: ReadOptions, spec: TableSpec, columns: Columns
) -> Trajectories:
    """Make trajectories from columns, sorted by time, in the units that the user asks for.

    Rows without an id are left out, and a note says how many.
    """
    notes = [*spec.notes, *_separator_note(contents)]
    with reading.begin_with_name(contents.path):
        try:
            is_text = contents.container == "csv"
            codes, names, keep = _encode(columns.ids, spec.unlinked, text=is_text)
        except BadCellError as error:
            raise DriftbayesError(f"the column of ids {error.what}") from error
        if not keep.all():
            n_left = int((~keep).sum())
            notes.append(f"{n_left:,} of {len(keep):,} rows belong to no track and are left out")
        coordinates = options.without_missing(columns.coordinates)
        values = {"positions": np.column_stack(coordinates)[keep]}
        if columns.sd is not None:
            values["position_sd"] = columns.sd[keep]
        times, values = _sorted_rows(codes, columns.times[keep], values, notes)
        if columns.sd is not None:
            is_there = ~np.isnan(values["positions"][:, 0])
            values["position_sd"] = _known(values["position_sd"], is_there, notes)
        trajectories = Trajectories(
            **values,
            times=times,
            row_sizes=np.bincount(codes, minlength=len(names)),
            ids=names,
            length_unit=options.length_unit or spec.length,
            time_unit=options.time_unit or spec.time,
        )
        _check_scales(options, spec.length, spec.time)
        trajectories = options.scale(trajectories)
    for what, unit in zip(("length", "time"), trajectories.units, strict=True):
        if not unit:
            notes.append(f"the file does not say its unit of {what}; --{what}-unit names it")
        elif unit in _ADVICE:
            notes.append(_ADVICE[unit])
    origin = schema.TIME_ORIGIN if columns.are_dates else None
    told = contents.provenance(spec.reader, notes, options, origin)
    return replace(trajectories, provenance=told)


def without_flat_z(coordinates: Sequence[FloatArray], notes: list[str]) -> list[FloatArray]:
    """Coordinates without the third, if it is the same everywhere: images have no depth."""
    if len(coordinates) == 3 and (coordinates[2] == coordinates[2][:1]).all():
        notes.append("z is the same everywhere and is left out")
        return list(coordinates[:2])
    return list(coordinates)


def read_columns(
    contents: Contents,
    names: Mapping[str, str],
    *,
    layout: CsvLayout | None = None,
    date_order: str | None = None,
) -> dict[str, Any]:
    """Read columns of a table as numbers, or name the first cell that cannot be used.

    A key of `names` is a canonical name, with `:` and a word behind it where several columns have
    one role. For `id` the result is the number of the trajectory of each row and the ids, for
    `id:...` and `drogued` the Arrow array as it is, for `time` and `date` the times and how their
    dates were written, for `clock` seconds since midnight, else an array of numbers.
    """
    if contents.container != "csv":
        return _from_parquet(contents, names, date_order)
    return _from_csv(contents, names, layout or contents.layout or CsvLayout(), date_order)


def unique_names(names: Sequence[str]) -> tuple[str, ...]:
    """Names without spaces around them, second and later ones of a kind with a number."""
    seen: Counter[str] = Counter()
    result = []
    for name in map(str.strip, names):
        seen[name] += 1
        result.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
    return tuple(result)


def _from_csv(
    contents: Contents, names: Mapping[str, str], layout: CsvLayout, date_order: str | None
) -> dict[str, Any]:
    path, unique = contents.path, unique_names(layout.header)
    places = {key: unique.index(name) for key, name in names.items()}
    roles = {key: key.partition(":")[0] for key in names}
    texts = {key for key, role in roles.items() if role in (schema.ID, *_APART)}
    checks = dict.fromkeys(names, _NUMBER if layout.point == "." else _COMMA_NUMBER)
    checks |= dict.fromkeys(_APART, _TEXT)
    for key in (key for key, role in roles.items() if role in (schema.TIME, "date")):
        # The first row decides whether times are dates: it needs a time anyhow.
        first = [row[places[key]] for row in layout.rows if places[key] < len(row)]
        cell = first[min(layout.n_skipped, len(first) - 1)] if first else ""
        if is_iso_date(cell) or is_other_date(cell):
            texts.add(key)
            checks[key] = _DATE if is_iso_date(cell) else _ANY_DATE
        elif not checks[key][0](cell):
            checks[key] = _EITHER
    doubled = any(layout.header.count(layout.header[place]) > 1 for place in places.values())
    if layout.own_header and (doubled or layout.n_skipped):
        # A column may come twice, as frame does in trackpy's tables: the first is taken.
        layout = replace(layout, header=unique, own_header=False, n_skipped=layout.n_skipped + 1)
    in_file = {key: layout.header[place] for key, place in places.items()}
    column = ""
    try:
        columns = csv_text.read_columns(path, in_file, texts, layout)
        if not any(map(len, columns.values())):
            msg = f"{path.name!r} has a header but no rows; expected one row per observation"
            raise DriftbayesError(msg)
        result = {}
        for key, values in columns.items():
            column = names[key]
            result[key] = _values(key, values, column, date_order, is_csv=True)
        return result
    except (pa.ArrowException, OSError, BadCellError) as error:
        # Rows without an id are left out where `id:...` is asked for.
        shown = {key: name for key, name in names.items() if not key.startswith("id:")}
        problem = csv_text.first_problem(path, shown, checks, layout)
        if problem is None and isinstance(error, BadCellError):
            row = error.row
            line = "" if row is None else f" line {csv_text.line_of(path, row, layout)}"
            problem = f"{path.name!r}{line}: column {column!r} {error.what}"
        raise DriftbayesError(
            problem
            or f"{path.name!r} cannot be read as a table: {reading.reason(error)}; it may be "
            "damaged or cut short"
        ) from error


def _from_parquet(
    contents: Contents, names: Mapping[str, str], date_order: str | None
) -> dict[str, Any]:
    # Tables of text do without Arrow's reader of Parquet.
    from driftbayes.io.parquet import read_table

    for name in names.values():
        if contents.names.count(name) > 1:
            msg = f"{contents.source!r} has more than one column {name!r}; rename one of them"
            raise DriftbayesError(msg)
    table = read_table(contents, list(dict.fromkeys(names.values())))
    result = {}
    for key, name in names.items():
        try:
            result[key] = _values(key, table[name], name, date_order, is_csv=False)
        except BadCellError as error:
            first = 1 + (contents.part or {}).get("rows", (0, 0))[0]
            row = "" if error.row is None else f" row {first + error.row}"
            msg = f"{contents.source!r}{row}: column {name!r} {error.what}"
            raise DriftbayesError(msg) from error
    return result


def _values(key: str, column: Any, name: str, date_order: str | None, *, is_csv: bool) -> Any:
    """What `read_columns` returns for a column."""
    role = key.partition(":")[0]
    if key == schema.ID:
        return cells.encode_ids(column, text_holds_integers=is_csv)
    if role in (schema.ID, "drogued"):
        return column
    if role == "clock":
        return parse_clocks(column, name)
    if role in (schema.TIME, "date"):
        return parse_times(column, date_order)
    return cells.numbers(column)


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
    joined = ["/".join(str(names[c[row]]) for c, names in encoded) for row in np.sort(first)]
    return rank[inverse], id_array(joined), keep


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
        f"negative, and were set to the median of the others, {median:.4g} in units of the file; "
        "--columns sd= ignores them all"
    )
    return np.where(wrong, median, sd)


def _check_scales(options: ReadOptions, length: str, time: str) -> None:
    """Refuse the size of a pixel or a frame where the file has other units."""
    if options.pixel_size is not None and length not in (PIXEL, ""):
        raise DriftbayesError(f"positions are in {length}, not in pixels; leave out --pixel-size")
    if options.frame_interval is not None and time not in (FRAME, ""):
        raise DriftbayesError(f"times are in {time}, not in frames; leave out --frame-interval")


READERS = {"table": read_plain}
