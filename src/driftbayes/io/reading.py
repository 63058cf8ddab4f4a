"""Options of reading a file, what is known of it, where its data come from, errors that name it."""

__all__ = [
    "Contents",
    "CsvLayout",
    "ReadOptions",
    "begin_with_name",
    "check_schema_version",
    "describe_dataset",
    "existing_file",
    "extended",
    "from_json",
    "reading_as",
    "reason",
    "require",
    "to_json",
]

import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from driftbayes.data import schema
from driftbayes.data.units import length_factor, time_factor
from driftbayes.errors import DriftbayesError, nearest
from driftbayes.storage.outputs import PathLike
from driftbayes.typing import FloatArray

if TYPE_CHECKING:
    import xarray as xr

    from driftbayes.data.sphere import Frame
    from driftbayes.data.trajectories import Trajectories


@dataclass(frozen=True)
class ReadOptions:
    """Options of reading a file.

    Args:
        format: Name of the format; by default it is detected from the content.
        columns: Names in the file of these columns, where they differ: `{"x": "lon"}`. None, or
            empty text as the command line has it (`--columns z=`), leaves out a column:
            `{"z": None}`.
        length_unit: Name of the unit of positions, if not that in the file; nothing is converted.
        time_unit: Name of the unit of times, likewise.
        coordinates: Whether positions are "degrees" of longitude and latitude, which are laid on a
            plane in metres, or on a "plane" already; by default, as the file has it.
        frame: Axes for longitudes and latitudes; see `driftbayes.data.sphere.on_plane`.
        pixel_size: Length of a pixel and its unit, for positions in pixels.
        frame_interval: Time between frames and its unit, for times in frames.
        missing: Numbers that stand for a missing position or time, such as -999; if empty, every
            number is data. By default only NaN and what the file declares (`_FillValue`,
            `missing_value`); in tables also numbers such as -9999 far from all others.
        date_order: Order of day and month in dates such as 01/02/2024, "dmy" or "mdy"; by default
            as the whole column shows it.
    """

    format: str | None = None
    columns: Mapping[str, str | None] | None = None
    length_unit: str | None = None
    time_unit: str | None = None
    coordinates: Literal["degrees", "plane"] | None = None
    frame: "Frame" = "auto"
    pixel_size: tuple[float, str] | None = None
    frame_interval: tuple[float, str] | None = None
    missing: Sequence[float] | None = None
    date_order: Literal["dmy", "mdy"] | None = None

    def __post_init__(self) -> None:
        """Refuse an order that does not exist."""
        if self.date_order not in (None, "dmy", "mdy"):
            raise DriftbayesError(f"date_order must be 'dmy' or 'mdy', got {self.date_order!r}")

    @property
    def names(self) -> dict[str, str]:
        """The columns that are named, without those that are left out."""
        return {role: name for role, name in (self.columns or {}).items() if name}

    def without_missing(self, axes: Sequence[FloatArray]) -> list[FloatArray]:
        """Coordinates with NaN on all axes where one of them is what the user calls missing."""
        if not self.missing or len({axis.shape for axis in axes}) != 1:
            return list(axes)
        gone = np.any([np.isin(axis, list(self.missing)) for axis in axes], axis=0)
        return [np.where(gone, np.nan, axis) for axis in axes]

    def scale(self, trajectories: "Trajectories") -> "Trajectories":
        """Convert pixels to lengths and frames to times, where their sizes are given."""
        if self.pixel_size is not None:
            size, unit = self.pixel_size
            trajectories = trajectories.in_units(length=(size, length_factor(unit, unit)[1]))
        if self.frame_interval is not None:
            size, unit = self.frame_interval
            trajectories = trajectories.in_units(time=(size, time_factor(unit, unit)[1]))
        return trajectories

    def place(self, trajectories: "Trajectories", *, degrees: bool) -> "Trajectories":
        """Lay degrees on a plane in metres; scale other positions."""
        if not degrees:
            return self.scale(trajectories)
        from driftbayes.data.sphere import on_plane

        return on_plane(trajectories, frame=self.frame)


@dataclass(frozen=True)
class CsvLayout:
    """Layout of a table of text."""

    separator: str = ","  # between cells; a space stands for any number of them
    header: tuple[str, ...] = ()  # names of the columns, with the spaces around them
    rows: tuple[tuple[str, ...], ...] = ()  # the first few rows under the header
    comments: tuple[str, ...] = ()  # the lines before the header that begin with #, without it
    n_before: int = 0  # number of lines before the header
    # Whether the header is a line of the table, not of the comments, nor made up.
    own_header: bool = True
    n_skipped: int = 0  # rows under the header that hold no data
    point: str = "."  # before the decimals of a number


@dataclass(frozen=True)
class Contents:
    """Names and attributes in a file, by which its format is recognised."""

    path: Path  # the file, or the directory of a store
    # In what the data are kept: "csv", "parquet", "netcdf", "zarr", "xml", "npz", "mat", "rds",
    # "run", the directory of a turbulence run, or "frame", a table in memory.
    container: str
    names: tuple[str, ...] = ()  # columns or variables
    attributes: Mapping[str, Any] = field(default_factory=dict)  # of the whole
    # Dimensions of each variable, for containers that have them.
    dims: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # Attributes of each column or variable.
    variable_attributes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    # Type of each column of a Parquet file, as Arrow writes it.
    types: Mapping[str, str] = field(default_factory=dict)
    layout: CsvLayout | None = None  # of a table of text
    # To read only a part: the first and one past the last, along each dimension of a dataset (that
    # of trajectories first), or of the "rows" of a Parquet table.
    part: Mapping[str, tuple[int, int]] | None = None
    dataset: "xr.Dataset | None" = None  # the dataset, if it is in memory
    table: Any = None  # an Arrow table, likewise

    def has(self, *names: str) -> bool:
        """Whether all these columns or variables are there."""
        return set(names) <= set(self.names)

    def attribute(self, name: str, key: str) -> str:
        """An attribute of a variable as text; empty if there is none."""
        value = self.variable_attributes.get(name, {}).get(key, "")
        return (value.decode(errors="replace") if isinstance(value, bytes) else str(value)).strip()

    @property
    def source(self) -> str:
        """Name of the file, as messages quote it."""
        return self.path.name

    @property
    def shown(self) -> str:
        """The first names, for messages."""
        return ", ".join(repr(name[:40]) for name in self.names[:8])

    def provenance(
        self, reader: str, notes: Sequence[str], options: ReadOptions, origin: str | None = None
    ) -> dict[str, Any]:
        """Where data of another program come from, and what was assumed about them."""
        found = extended({}, self.path, reader, options.columns)
        if origin is not None:
            found["time_origin"] = origin
        return {**found, "notes": list(notes)} if notes else found


def describe_dataset(dataset: "xr.Dataset") -> dict[str, Any]:
    """Names, dimensions and attributes of a dataset, as fields of `Contents`."""
    variables = {str(name): variable for name, variable in dataset.variables.items()}
    return {
        "names": tuple(variables),
        "dims": {name: tuple(map(str, v.dims)) for name, v in variables.items()},
        "attributes": dict(dataset.attrs),
        "variable_attributes": {name: dict(v.attrs) for name, v in variables.items()},
    }


def to_json(provenance: Mapping[str, Any]) -> str:
    """Provenance as one line of JSON; what JSON does not know becomes its nearest relative."""
    return json.dumps(provenance, default=_plain)


def from_json(text: object, source: str) -> dict[str, Any]:
    """Provenance from JSON."""
    try:
        provenance = json.loads(str(text))
    except (ValueError, RecursionError):
        provenance = None
    if not isinstance(provenance, dict):
        msg = f"the provenance in {source!r} is not a JSON object; remove it, or write it again"
        raise DriftbayesError(msg)
    return provenance


def extended(
    stored: Mapping[str, Any], path: Path, reader: str, columns: Mapping[str, str | None] | None
) -> dict[str, Any]:
    """Stored provenance with the file just read on top and the ones before it in `earlier`.

    Only the name of the file is kept: its directories are nobody's business but the user's.
    """
    result = dict(stored)
    before = {key: result.pop(key) for key in ("source", "reader", "columns") if key in result}
    if before:
        earlier = result.get("earlier", [])
        result["earlier"] = [*(earlier if isinstance(earlier, list) else [earlier]), before]
    result |= {"source": path.name, "reader": reader}
    if columns:
        result["columns"] = {key: name or None for key, name in columns.items()}
    return result


def check_schema_version(version: object, source: str) -> None:
    """Refuse a file that a newer driftbayes wrote, rather than misread it."""
    if isinstance(version, str) or not str(version)[:40].isdigit():
        raise DriftbayesError(
            f"{source!r} has a schema version {version!r:.40} that is not a whole number; "
            "write it again"
        )
    if int(str(version)) > schema.SCHEMA_VERSION:
        raise DriftbayesError(
            f"{source!r} has schema version {str(version)[:40]}, this driftbayes knows "
            f"{schema.SCHEMA_VERSION}; upgrade driftbayes"
        )


def _plain(value: object) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, PurePath):
        return value.name
    return str(value)


def existing_file(path: PathLike) -> Path:
    """The path, if a file that is not empty is there."""
    name = os.fspath(path)
    found = Path(path)
    try:
        # Opening a pipe waits for somebody to write to it; a device may have no end.
        mode = found.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise DriftbayesError(
                f"{name!r} is a pipe, a socket or a device, expected an ordinary file; save what "
                "comes from it to a file first"
            )
        with found.open("rb") as stream:
            empty = stream.read(1) == b""
    except DriftbayesError:
        raise
    except IsADirectoryError as error:
        msg = f"{name!r} is a directory, expected a file; name one in it"
        raise DriftbayesError(msg) from error
    except FileNotFoundError as error:
        raise DriftbayesError(f"there is no file {name!r}; {_where_else(found)}") from error
    except (OSError, ValueError) as error:
        msg = f"{name!r} cannot be opened: {reason(error)}; check that you may read it"
        raise DriftbayesError(msg) from error
    if empty:
        raise DriftbayesError(f"{found.name!r} is empty; expected data in it")
    return found


def _where_else(path: Path) -> str:
    """What to do about a file that is not there: the one of nearly that name, if there is one."""
    try:
        there = sorted(entry.name for entry in os.scandir(path.parent))
    except (OSError, ValueError):
        there = []
    near = nearest(path.name, there)
    if near is None:
        return "check its name and its directory"
    return f"did you mean {str(path.with_name(near))!r}?"


@contextmanager
def begin_with_name(path: Path) -> Iterator[None]:
    """Errors in the block, which knows data but no file, begin with the name of the file."""
    try:
        yield
    except DriftbayesError as error:
        raise DriftbayesError(f"{path.name!r}: {error}") from error


@contextmanager
def reading_as(
    path: Path, kind: str, advice: str = "it may be damaged, cut short or of another format"
) -> Iterator[None]:
    """Turn any error of a library into one sentence: a damaged file may raise anything."""
    try:
        yield
    except DriftbayesError:
        raise
    except Exception as error:
        msg = f"{path.name!r} cannot be read as {kind} ({reason(error)}); {advice}"
        raise DriftbayesError(msg) from error


def reason(error: BaseException) -> str:
    """What a library had to say about a file, as the end of one sentence."""
    text = getattr(error, "strerror", None) or str(error)
    first_line = next((line for line in str(text).splitlines() if line.strip()), "")
    printable = "".join(char if char.isprintable() else "?" for char in first_line.strip())
    return printable[:120].rstrip(" .:;") or type(error).__name__


def require(what: str, *packages: str) -> None:
    """Refuse, with the command that helps, if a package cannot be imported."""
    for package in packages:
        try:
            import_module(package)
        except ModuleNotFoundError as error:
            # A package may be there and lack one that it needs itself.
            missing = (error.name or package).partition(".")[0]
            raise DriftbayesError(
                f"{what} need the package {missing}, which is not installed; "
                f"run: pip install {missing}"
            ) from error
        except ImportError as error:
            raise DriftbayesError(
                f"{what} need the package {package}, which is installed but broken "
                f"({reason(error)}); run: pip install --force-reinstall {package}"
            ) from error
