"""Reading options, descriptions of file contents, provenance and error messages."""

import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from driftbayes._storage.outputs import PathLike
from driftbayes._typing import FloatArray
from driftbayes.data import _schema as schema
from driftbayes.data._units import length_factor, time_factor
from driftbayes.errors import DriftbayesError, nearest

if TYPE_CHECKING:
    import xarray as xr

    from driftbayes.data._trajectories import Trajectories
    from driftbayes.data.sphere import Frame


@dataclass(frozen=True)
class ReadOptions:
    """Options for reading a file.

    Args:
        format: Name of the format; by default it is detected from the content.
        columns: Column names that differ from the standard ones: `{"x": "lon"}`. None, or an empty
            string as on the command line (`--columns z=`), excludes a column: `{"z": None}`.
        length_unit: Unit of positions, if different from the one in the file; nothing is converted.
        time_unit: Unit of times, likewise.
        coordinates: "degrees" for longitude and latitude, which are projected onto a plane in
            metres, or "plane"; by default taken from the file.
        frame: Axes for longitudes and latitudes; see `driftbayes.data.sphere.on_plane`.
        pixel_size: Length of a pixel and its unit, for positions in pixels.
        frame_interval: Time between frames and its unit, for times in frames.
        missing: Numbers that mark a missing position or time, such as -999; if empty, every number
            is data. By default NaN and the fill values declared in the file (`_FillValue`,
            `missing_value`); in tables also numbers such as -9999 far from all others.
        date_order: Order of day and month in dates such as 01/02/2024, "dmy" or "mdy"; by default
            inferred from the whole column.
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
        """Check the date order."""
        if self.date_order not in (None, "dmy", "mdy"):
            raise DriftbayesError(f"date_order must be 'dmy' or 'mdy', got {self.date_order!r}")

    @property
    def names(self) -> dict[str, str]:
        """Column names given by the user, without excluded columns."""
        return {role: name for role, name in (self.columns or {}).items() if name}

    def without_missing(self, axes: Sequence[FloatArray]) -> list[FloatArray]:
        """Replace positions with a value in `missing` on any axis by NaN."""
        if not self.missing or len({axis.shape for axis in axes}) != 1:
            return list(axes)
        is_missing = np.any([np.isin(axis, list(self.missing)) for axis in axes], axis=0)
        return [np.where(is_missing, np.nan, axis) for axis in axes]

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
        """Project degrees onto a plane in metres; scale other positions."""
        if not degrees:
            return self.scale(trajectories)
        for name in ("pixel_size", "frame_interval"):
            if getattr(self, name) is not None:
                raise DriftbayesError(
                    "positions are longitudes and latitudes, not those of a camera; leave out "
                    f"--{name.replace('_', '-')}"
                )
        from driftbayes.data.sphere import on_plane

        return on_plane(trajectories, frame=self.frame)

    def check_frame(self, trajectories: "Trajectories") -> None:
        """Refuse a frame that was not used, because positions are on a plane already."""
        plane = trajectories.provenance.get("plane")
        used = plane.get("frame") if isinstance(plane, dict) else None
        if self.frame not in ("auto", used):
            where = "on a plane" if used is None else f"projected with the frame {used!r}"
            raise DriftbayesError(
                f"frame {self.frame!r} (--frame) is for longitudes and latitudes, but positions "
                f"are {where} already; omit it"
            )


@dataclass(frozen=True)
class CsvLayout:
    """Layout of a text table."""

    separator: str = ","  # cell separator; a space stands for any number of spaces
    header: tuple[str, ...] = ()  # column names, including surrounding spaces
    rows: tuple[tuple[str, ...], ...] = ()  # first few rows below the header
    comments: tuple[str, ...] = ()  # lines above the header that start with #, without the #
    n_before: int = 0  # number of lines above the header
    own_header: bool = True  # whether the header is a line of the table, not a comment or generated
    n_skipped: int = 0  # number of rows below the header without data
    point: str = "."  # decimal separator


@dataclass(frozen=True)
class Contents:
    """Names and attributes in a file, used to detect its format."""

    path: Path  # the file, or the directory of a store
    # "csv", "parquet", "netcdf", "zarr", "xml", "npz", "mat", "rds", "run" (the directory of a
    # turbulence run) or "frame" (a table in memory).
    container: str
    names: tuple[str, ...] = ()  # columns or variables
    attributes: Mapping[str, Any] = field(default_factory=dict)  # global attributes
    # Dimensions of each variable, for containers that have them.
    dims: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # Attributes of each column or variable.
    variable_attributes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    # Arrow type of each column of a Parquet file.
    types: Mapping[str, str] = field(default_factory=dict)
    layout: CsvLayout | None = None  # layout of a text table
    # Part to read, (start, stop) along each dimension of a dataset (trajectories first) or along
    # the "rows" of a Parquet table.
    part: Mapping[str, tuple[int, int]] | None = None
    # Opens the dataset, if it is in memory or its file is open; a file is then closed with it.
    dataset: "Callable[[], AbstractContextManager[xr.Dataset]] | None" = None
    table: Any = None  # the Arrow table, if it is in memory

    def has(self, *names: str) -> bool:
        """Whether all these columns or variables exist."""
        return set(names) <= set(self.names)

    def attribute(self, name: str, key: str) -> str:
        """Return an attribute of a variable as text; empty if it does not exist."""
        value = self.variable_attributes.get(name, {}).get(key, "")
        return (value.decode(errors="replace") if isinstance(value, bytes) else str(value)).strip()

    @property
    def source(self) -> str:
        """Name of the file, for messages."""
        return self.path.name

    @property
    def shown(self) -> str:
        """The first names, for messages."""
        return ", ".join(repr(name[:40]) for name in self.names[:8])

    def provenance(
        self, reader: str, notes: Sequence[str], options: ReadOptions, origin: str | None = None
    ) -> dict[str, Any]:
        """Return the provenance of data from another program, with the assumptions made."""
        record = extend_provenance({}, self.path, reader, options.columns)
        if origin is not None:
            record["time_origin"] = origin
        return {**record, "notes": list(notes)} if notes else record


def describe_dataset(dataset: "xr.Dataset") -> dict[str, Any]:
    """Return names, dimensions and attributes of a dataset, as fields of `Contents`."""
    variables = {str(name): variable for name, variable in dataset.variables.items()}
    return {
        "names": tuple(variables),
        "dims": {name: tuple(map(str, v.dims)) for name, v in variables.items()},
        "attributes": dict(dataset.attrs),
        "variable_attributes": {name: dict(v.attrs) for name, v in variables.items()},
    }


def to_json(provenance: Mapping[str, Any]) -> str:
    """Encode provenance as one line of JSON, converting arrays, paths and other objects."""
    return json.dumps(provenance, default=_plain)


def from_json(text: object, source: str) -> dict[str, Any]:
    """Decode provenance from JSON."""
    try:
        provenance = json.loads(str(text))
    except (ValueError, RecursionError):
        provenance = None
    if not isinstance(provenance, dict):
        msg = f"the provenance in {source!r} is not a JSON object; remove it, or rewrite the file"
        raise DriftbayesError(msg)
    return provenance


def extend_provenance(
    stored: Mapping[str, Any], path: Path, reader: str, columns: Mapping[str, str | None] | None
) -> dict[str, Any]:
    """Add the file just read to stored provenance, and move earlier files to `earlier`.

    Only the name of the file is kept: its directories are private to the user.
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
            f"{source!r} has schema version {version!r:.40}, expected a whole number; rewrite it"
        )
    if int(str(version)) > schema.SCHEMA_VERSION:
        raise DriftbayesError(
            f"{source!r} has schema version {str(version)[:40]}, this driftbayes supports "
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
    """Return the path of a non-empty regular file; refuse anything else."""
    name = os.fspath(path)
    file = Path(path)
    try:
        # Opening a pipe blocks until something writes to it; a device may have no end.
        mode = file.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise DriftbayesError(
                f"{name!r} is a pipe, a socket or a device, expected a regular file; save its "
                "output to a file first"
            )
        with file.open("rb") as stream:
            empty = stream.read(1) == b""
    except DriftbayesError:
        raise
    except IsADirectoryError as error:
        raise DriftbayesError(f"{name!r} is a directory; give a file in it") from error
    except FileNotFoundError as error:
        raise DriftbayesError(f"there is no file {name!r}; {_suggest_path(file)}") from error
    except (OSError, ValueError) as error:
        msg = f"{name!r} cannot be opened: {reason(error)}; check its permissions"
        raise DriftbayesError(msg) from error
    if empty:
        raise DriftbayesError(f"{file.name!r} is empty; expected data in it")
    return file


def _suggest_path(path: Path) -> str:
    """Suggest the file with the most similar name in the same directory."""
    try:
        near = nearest(path.name, sorted(entry.name for entry in os.scandir(path.parent)))
    except (OSError, ValueError):
        near = None
    if near is None:
        return "check its name and its directory"
    return f"did you mean {str(path.with_name(near))!r}?"


@contextmanager
def prefix_errors(path: Path) -> Iterator[None]:
    """Prefix errors raised in the block with the name of the file."""
    try:
        yield
    except DriftbayesError as error:
        raise DriftbayesError(f"{path.name!r}: {error}") from error


@contextmanager
def reading_as(
    path: Path, kind: str, advice: str = "it may be damaged, truncated or in another format"
) -> Iterator[None]:
    """Convert any library error into one sentence: a damaged file may raise anything."""
    try:
        yield
    except DriftbayesError:
        raise
    except Exception as error:
        msg = f"{path.name!r} cannot be read as {kind} ({reason(error)}); {advice}"
        raise DriftbayesError(msg) from error


def reason(error: BaseException) -> str:
    """Return the first line of an error of a library, shortened, to be part of a message."""
    text = getattr(error, "strerror", None) or str(error)
    first_line = next((line for line in str(text).splitlines() if line.strip()), "")
    printable = "".join(char if char.isprintable() else "?" for char in first_line.strip())
    return printable[:120].rstrip(" .:;") or type(error).__name__


def require(what: str, *packages: str) -> None:
    """Raise an error with the installation command if a package cannot be imported."""
    for package in packages:
        try:
            import_module(package)
        except ModuleNotFoundError as error:
            # An installed package may lack one of its own dependencies.
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
