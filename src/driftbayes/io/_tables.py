"""Read tables with one row per observation, CSV or Parquet, of driftbayes or other programs."""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from driftbayes._typing import FloatArray, IntArray, StrArray
from driftbayes.data import _schema as schema
from driftbayes.data._trajectories import Trajectories
from driftbayes.errors import ColumnsError, DataWarning, DriftbayesError, warn
from driftbayes.io import _cells as cells
from driftbayes.io import _csv_text as csv_text
from driftbayes.io import _reading as reading
from driftbayes.io._dates import is_iso_date, is_other_date, parse_clocks, parse_times
from driftbayes.io._ids import BadCellError, id_array
from driftbayes.io._reading import Contents, CsvLayout, ReadOptions

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
    PIXEL: "positions are in pixels; convert them with --pixel-size, such as 0.16um",
    FRAME: "times are in frames; convert them with --frame-interval, such as 7.48ms",
}
# Columns that are read as text and converted later.
_CONVERTED = ("date", "clock", "drogued")
# Ids of spots that belong to no track.
_UNLINKED = ("", "nan", "NaN", "None", "null")


@dataclass(frozen=True)
class TableSpec:
    """Columns and units of the tables of a program."""

    reader: str  # name of the program, for the provenance
    # Name in the file of each canonical column; several names for `id` are joined to one id,
    # several for `sd` are the errors of the axes.
    names: Mapping[str, str | tuple[str, ...] | None] = field(default_factory=dict)
    length: str = PIXEL  # unit of positions; empty if unknown
    time: str = FRAME  # unit of times; empty if unknown
    notes: Sequence[str] = ()  # assumptions made
    layout: CsvLayout | None = None  # layout of a text table, if different from the detected one
    unlinked: Sequence[str] = ()  # ids that mean no track


@dataclass(frozen=True)
class Columns:
    """Columns of a table, as numbers."""

    ids: Sequence[Any]  # one or more Arrow arrays, joined to one id
    times: FloatArray  # time of each row
    coordinates: Sequence[FloatArray]  # one array for each axis
    sd: FloatArray | None = None  # standard deviation of each position error; NaN if unknown
    are_dates: bool = False  # whether times are dates, as seconds since 1970


def read_plain(contents: Contents, options: ReadOptions, found: Sequence[str] = ()) -> Trajectories:
    """Read a table with standard or given columns; rows of trajectories may be mixed.

    Args:
        contents: The table.
        options: Reading options.
        found: Notes on how the table was made from a file.
    """
    path, meaning = contents.path, _infer_meaning(contents, options)
    columns = dict(meaning.columns)
    lonlat = [columns.pop(axis, None) for axis in schema.LONLAT]
    if all(lonlat):
        columns |= {"x": lonlat[0], "y": lonlat[1], "z": None}
        if options.coordinates is None:
            options = replace(options, coordinates="degrees")
    converted = {key: str(name) for key in _CONVERTED if (name := columns.pop(key, None))}
    required = tuple(key for key in (schema.ID, schema.TIME) if columns.get(key))
    if schema.ID not in required:
        columns.pop(schema.ID, None)
    others = [name for name in contents.names if name not in converted.values()]
    # Canonical names need no mapping.
    mapped = {c: n for c, n in columns.items() if n != c or c in (options.columns or {})}
    names = schema.file_names(others, mapped, source=path.name, required=(*required, "x"))
    names |= schema.extras_in(contents.names, {**names, **converted}, options.columns)
    is_ours = schema.METADATA_KEY in contents.attributes
    header = _read_metadata(contents.attributes[schema.METADATA_KEY], path.name) if is_ours else {}
    earlier: dict[str, Any] = header.get("provenance", {})
    notes = [*found, *_separator_note(contents)]
    values = read_columns(contents, {**names, **converted}, date_order=options.date_order)
    if "date" in converted:
        times, written = values.pop("date")
        times, written = times + values.pop("clock"), written or "dates"
    else:
        times, written = values.pop(schema.TIME)
    if "drogued" in converted:
        _flag_drogued(values, converted["drogued"], notes)
    if schema.ID not in required:
        used = {*names.values(), *converted.values()}
        codes, ids = _single_trajectory(contents, used, times, options)
        notes.append("all rows are one trajectory; select a column of ids with --columns id=NAME")
    else:
        codes, ids = values.pop(schema.ID)
    axes = [axis for axis in schema.COORDINATES if axis in values]
    present = options.without_missing([values[axis] for axis in axes])
    # Files of driftbayes have NaN for a missing position.
    if options.missing is None and not is_ours:
        present = _without_fills(contents, present, notes)
    if len(axes) == 3 and "z" in meaning.guessed:
        present = without_flat_z(present, notes)
        values.pop("z", None)
    values |= zip(axes, present, strict=False)
    time_unit = header.get("time_unit") if options.time_unit is None else options.time_unit
    if written and time_unit not in (None, "", "s"):
        raise DriftbayesError(
            f"the times in {path.name!r} are dates, read as seconds; got time_unit {time_unit!r}: "
            "omit it"
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
    provenance = reading.extend_provenance(earlier, path, contents.container, options.columns)
    if written:  # times are dates
        provenance["time_origin"] = schema.TIME_ORIGIN
    with reading.prefix_errors(path):
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


def _infer_meaning(contents: Contents, options: ReadOptions) -> schema.Meaning:
    """Infer the role of each column from the user's options, else from the column names."""
    usual = (schema.ID, schema.TIME, "x", "y")
    others = " ".join(set(contents.names) - set(usual)).lower()
    if not options.columns and contents.has(*usual) and not re.search("date|drogue", others):
        return schema.Meaning({name: name for name in usual})
    from driftbayes.data._columns import guess

    return guess(contents.names, options.columns, source=contents.source)


def _flag_drogued(values: dict[str, Any], name: str, notes: list[str]) -> None:
    """Store a column with the drogue status as the flag that `--qc` uses."""
    status = cells.booleans(values.pop("drogued"))
    if status is None:
        notes.append(f"column {name!r} has values other than 0 and 1; drogue status not used")
        return
    values[f"{schema.FLAG}drogued"] = status
    n_without = int((status == 0).sum())
    notes.append(
        f"{n_without:,} of {len(status):,} positions have no drogue (column {name!r}); exclude "
        "them with --qc drogued"
    )


def _single_trajectory(
    contents: Contents, used: Collection[str], times: FloatArray, options: ReadOptions
) -> tuple[IntArray, StrArray]:
    """Assign all rows to one trajectory, named after the file."""
    others = [name for name in unique_names(contents.names) if name not in used]
    is_given = schema.ID in (options.columns or {})
    candidate = _find_id_column(contents, others) if others and not is_given else None
    if candidate is not None or (not is_given and (np.diff(times) <= 0).any()):
        why = "its times do not always increase"
        if candidate is not None:
            why = f"column {candidate[:40]!r} has constant values in blocks of rows"
        raise ColumnsError(
            f"{contents.source!r} has no column with a known name for ids, but {why}",
            {"id": candidate or (others[0] if others else "")},
            "for a single trajectory pass --columns id=; else ",
        )
    return np.zeros(len(times), dtype=np.int64), np.array([contents.path.stem[:200] or "0"])


def _find_id_column(contents: Contents, names: Sequence[str]) -> str | None:
    """Find the column with constant values in blocks of rows, as ids have."""
    # Columns of a calendar have such blocks too.
    tried = [n for n in names if not re.search("year|month|day|date|season", n.casefold())][:20]
    table = read_columns(contents, {f"id:{i}": name for i, name in enumerate(tried)})
    for name, column in zip(tried, table.values(), strict=True):
        try:
            codes, values = cells.encode_ids(column, text_holds_integers=False)
        except BadCellError:
            # Fractions or missing values.
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
    """Replace fill values such as -9999 by NaN, with a warning."""
    is_fill = cells.find_fills(axes)
    if not is_fill.any() or is_fill.all():
        return axes
    row = int(np.argmax(is_fill))
    # The fill value is the coordinate of largest magnitude.
    value = max((float(axis[row]) for axis in axes), key=abs)
    where = f"row {row + 1}"
    if contents.container == "csv" and contents.layout is not None:
        where = f"line {csv_text.line_of(contents.path, row, contents.layout)}"
    count = np.count_nonzero(is_fill)
    what = "1 position is" if count == 1 else f"{count:,} positions are"
    at = f" at {where}" if contents.part is None else ""
    note = (
        f"{what} a fill value (the first {value:g}{at}) and treated as missing; "
        "--missing none keeps every number"
    )
    warn(f"{contents.source!r}: {note}", DataWarning)
    notes.append(note)
    return [np.where(is_fill, np.nan, axis) for axis in axes]


def _sorted_rows(
    codes: IntArray, times: FloatArray, values: dict[str, Any], notes: list[str]
) -> tuple[FloatArray, dict[str, Any]]:
    """Sort times and other columns by trajectory and time."""
    if not ((np.diff(codes) < 0) | (np.diff(codes) == 0) & (np.diff(times) < 0)).any():
        return times, values
    order = np.lexsort((times, codes))
    # Mixed trajectories are normal; only unsorted times are reported.
    if not np.array_equal(order, np.argsort(codes, kind="stable")):
        notes.append("rows were sorted by time within each trajectory")
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
            msg = f"the metadata of {source!r} has a {key} of the wrong type; rewrite the file"
            raise DriftbayesError(msg)
    return header


def read_foreign(contents: Contents, options: ReadOptions, spec: TableSpec) -> Trajectories:
    """Read a table of another program; columns given by the user replace those of the program."""
    given = options.columns or {}
    spec = replace(
        spec,
        names={**spec.names, **given},
        time="" if "time" in given else spec.time,
        length="" if "x" in given else spec.length,
    )
    present = unique_names(spec.layout.header if spec.layout else contents.names)
    several = {c: n if isinstance(n, tuple) else (n,) for c, n in spec.names.items()}
    firsts = {c: n[0] for c, n in several.items()}
    mapped = schema.file_names(present, firsts, source=contents.source)
    names = {c: several[c] if len(several.get(c, ())) > 1 else (n,) for c, n in mapped.items()}
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
    """Make trajectories from columns, sorted by time, in the units requested by the user.

    Rows without an id are left out; a note gives their number.
    """
    notes = [*spec.notes, *_separator_note(contents)]
    with reading.prefix_errors(contents.path):
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
            observed = ~np.isnan(values["positions"][:, 0])
            values["position_sd"] = _fill_errors(values["position_sd"], observed, notes)
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
            notes.append(f"the file gives no unit of {what}; set it with --{what}-unit")
        elif unit in _ADVICE:
            notes.append(_ADVICE[unit])
    origin = schema.TIME_ORIGIN if columns.are_dates else None
    provenance = contents.provenance(spec.reader, notes, options, origin)
    return replace(trajectories, provenance=provenance)


def without_flat_z(coordinates: Sequence[FloatArray], notes: list[str]) -> list[FloatArray]:
    """Drop a constant third coordinate: images have no depth."""
    if len(coordinates) == 3 and (coordinates[2] == coordinates[2][:1]).all():
        notes.append("z is constant and is left out")
        return list(coordinates[:2])
    return list(coordinates)


def read_columns(
    contents: Contents,
    names: Mapping[str, str],
    *,
    layout: CsvLayout | None = None,
    date_order: str | None = None,
) -> dict[str, Any]:
    """Read columns of a table as numbers, or report the first invalid cell.

    A key of `names` is a canonical name, followed by `:` and a word if several columns have one
    role. The result for `id` is the trajectory number of each row and the ids, for `id:...` and
    `drogued` the Arrow array, for `time` and `date` the times and their date format, for `clock`
    seconds since midnight, else an array of numbers.
    """
    if contents.container != "csv":
        return _from_parquet(contents, names, date_order)
    return _from_csv(contents, names, layout or contents.layout or CsvLayout(), date_order)


def unique_names(names: Sequence[str]) -> tuple[str, ...]:
    """Strip names, and number the second and later occurrences of a name."""
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
    indices = {key: unique.index(name) for key, name in names.items()}
    roles = {key: key.partition(":")[0] for key in names}
    texts = {key for key, role in roles.items() if role in (schema.ID, *_CONVERTED)}
    checks = dict.fromkeys(names, _NUMBER if layout.point == "." else _COMMA_NUMBER)
    checks |= dict.fromkeys(_CONVERTED, _TEXT)
    for key in (key for key, role in roles.items() if role in (schema.TIME, "date")):
        # The first row, which must have a time, decides whether times are dates.
        first = [row[indices[key]] for row in layout.rows if indices[key] < len(row)]
        cell = first[min(layout.n_skipped, len(first) - 1)] if first else ""
        if is_iso_date(cell) or is_other_date(cell):
            texts.add(key)
            checks[key] = _DATE if is_iso_date(cell) else _ANY_DATE
        elif not checks[key][0](cell):
            checks[key] = _EITHER
    doubled = any(layout.header.count(layout.header[index]) > 1 for index in indices.values())
    if layout.own_header and (doubled or layout.n_skipped):
        # A column may occur twice, like frame in tables of trackpy: the first is used.
        layout = replace(layout, header=unique, own_header=False, n_skipped=layout.n_skipped + 1)
    in_file = {key: layout.header[index] for key, index in indices.items()}
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
        # Rows without an id are left out if the key is `id:...`.
        shown = {key: name for key, name in names.items() if not key.startswith("id:")}
        problem = csv_text.first_problem(path, shown, checks, layout)
        if problem is None and isinstance(error, BadCellError):
            row = error.row
            line = "" if row is None else f" line {csv_text.line_of(path, row, layout)}"
            problem = f"{path.name!r}{line}: column {column!r} {error.what}"
        raise DriftbayesError(
            problem
            or f"{path.name!r} cannot be read as a table: {reading.reason(error)}; it may be "
            "damaged or truncated"
        ) from error


def _from_parquet(
    contents: Contents, names: Mapping[str, str], date_order: str | None
) -> dict[str, Any]:
    # Text tables do not need Arrow's Parquet reader.
    from driftbayes.io._parquet import read_table

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
    """Convert a column as described in `read_columns`."""
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
    """Combine the errors of the axes; the result is NaN if one of them is unknown."""
    with np.errstate(over="ignore"):
        sd = np.sqrt(np.mean(np.square(axes), axis=0))
    sd[np.any(np.less(axes, 0), axis=0)] = np.nan
    return np.asarray(sd)


def _encode(
    columns: Sequence[Any], unlinked: Sequence[str], *, text: bool
) -> tuple[IntArray, StrArray, np.ndarray]:
    """Return the trajectory number of each row kept, the ids, and a mask of the rows kept."""
    unlinked_ids = pa.array([*_UNLINKED, *unlinked])
    keep = np.ones(len(columns[0]), dtype=bool)
    plain = []
    for column in columns:
        if text:
            # pandas writes 7.0 if any id of the column is missing.
            trimmed = pc.utf8_trim_whitespace(column)
            column = pc.replace_substring_regex(trimmed, r"^(-?\d+)\.0+$", r"\1")
            keep &= ~np.asarray(pc.is_in(column, value_set=unlinked_ids), dtype=bool)
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
    for next_codes, names in encoded[1:]:
        codes = codes * len(names) + next_codes
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    # In order of first appearance, as in all tables.
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    joined = ["/".join(str(names[c[row]]) for c, names in encoded) for row in np.sort(first)]
    return rank[inverse], id_array(joined), keep


def _fill_errors(sd: FloatArray, observed: np.ndarray, notes: list[str]) -> FloatArray | None:
    """Replace invalid position errors by the median of the others."""
    invalid = observed & ~(np.isfinite(sd) & (sd >= 0))
    if not invalid.any():
        return sd
    if invalid.sum() == observed.sum():
        notes.append("all measurement errors are missing or negative; they are ignored")
        return None
    median = float(np.median(sd[observed & ~invalid]))
    notes.append(
        f"{int(invalid.sum()):,} of {int(observed.sum()):,} measurement errors are missing or "
        f"negative, and were set to the median of the others, {median:.4g} in units of the file; "
        "--columns sd= ignores them all"
    )
    return np.where(invalid, median, sd)


def _check_scales(options: ReadOptions, length: str, time: str) -> None:
    """Refuse a pixel size or frame interval if the file has other units."""
    if options.pixel_size is not None and length not in (PIXEL, ""):
        raise DriftbayesError(f"positions are in {length}, not in pixels; leave out --pixel-size")
    if options.frame_interval is not None and time not in (FRAME, ""):
        raise DriftbayesError(f"times are in {time}, not in frames; leave out --frame-interval")


READERS = {"table": read_plain}
