"""Supported formats and their detection."""

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from driftbayes.data import _schema as schema
from driftbayes.errors import DriftbayesError, did_you_mean
from driftbayes.io._files import files_of
from driftbayes.io._reading import Contents, ReadOptions, existing_file, reading_as, require

if TYPE_CHECKING:
    from driftbayes.data._trajectories import Trajectories


@dataclass(frozen=True)
class Format:
    """A file format of trajectories."""

    name: str  # as in `--format`
    summary: str  # short description
    containers: tuple[str, ...]  # containers of the format, such as "csv"
    module: str  # module of `driftbayes.io` whose `READERS` has the reader
    detect: Callable[[Contents], bool]  # whether the contents of such a container have this format


# Positions on a grid have a dimension of trajectories and one of times.
_GRID_DIMS = 2


def _is_ours(contents: Contents) -> bool:
    return schema.SCHEMA_ATTRIBUTE in contents.attributes


def _has_flat_positions(contents: Contents) -> bool:
    """Whether a dataset has our names, with one trajectory after the other."""
    return contents.has("id", "time", "x") and len(contents.dims.get("x", ())) < _GRID_DIMS


def _layout_kind(contents: Contents) -> str:
    """Return the kind of layout of a dataset; empty if none is found."""
    from driftbayes.io._layouts import COUNTS, find_layout

    try:
        layout = find_layout(contents)
    except DriftbayesError:
        return ""
    is_count = str(layout.counter).lower() in COUNTS
    return "clouddrift" if layout.kind == "contiguous" and is_count else layout.kind


def _has(*groups: str, attribute: str = "", laid_out: bool = False) -> Callable[[Contents], bool]:
    """Detect all names of one group, a prefix of an attribute and a layout of trajectories."""

    def detect(contents: Contents) -> bool:
        named = any(contents.has(*group.split()) for group in groups)
        marked = not attribute or any(key.startswith(attribute) for key in contents.attributes)
        return named and marked and (not laid_out or bool(_layout_kind(contents)))

    return detect


def _is_gdp_text(contents: Contents) -> bool:
    from driftbayes.io._csv_text import GDP_DATED, GDP_SPLIT

    line = ",".join(contents.layout.header) if contents.layout is not None else ""
    return bool(GDP_DATED.fullmatch(line) or GDP_SPLIT.fullmatch(line))


def _is_evalspt(contents: Contents) -> bool:
    tabs = contents.layout is not None and contents.layout.separator == "\t"
    return tabs and contents.has("x", "y", "t", "id") and not contents.has("time")


# Containers of formats, and the module that reads them.
_DATASET = (("netcdf", "zarr"), "dataset_formats")
_TABLE, _PARQUET, _TEXT = (
    (containers, "table_formats")
    for containers in (("csv", "parquet", "frame"), ("parquet",), ("csv",))
)
_XML = (("xml",), "trackmate")
_SPOT = "TRACK_ID POSITION_X POSITION_Y"
_SUMMARIES = {
    "run": "directory of a turbulence run",
    "zarr": "Zarr of driftbayes: id, time, x, y, z, sd in the CF contiguous ragged layout",
    "parcels-zarr": "particle file of Parcels 3, a Zarr store",
    "parcels-parquet": "particle file of Parcels 4, a Parquet table",
    "opendrift": "output of OpenDrift, NetCDF",
    "netcdf": "NetCDF of driftbayes: id, time, x, y, z, sd in the CF contiguous ragged layout",
    "gdp": "drifters of the Global Drifter Program, hourly or 6-hourly, NetCDF or Zarr",
    "glad": "drifters of the GLAD and LASER experiments, NetCDF or Zarr",
    "clouddrift": "ragged arrays of clouddrift, NetCDF or Zarr",
    "clouddrift-parquet": "ragged arrays of clouddrift, the Parquet of awkward arrays",
    "cf": "CF trajectories in NetCDF or Zarr: ragged, indexed, (trajectory, obs) or one alone",
    "trackpy": "trackpy: particle, frame, x, y, z, ep in pixels and frames, CSV or Parquet",
    "saspt": "saSPT: trajectory, frame, x, y or x_px, y_px in pixels, with region and errors if "
    "there",
    "andi": "AnDi challenge: traj_idx, frame, x, y in pixels and frames",
    "sfi": "StochasticForceInference: particle_id, time_step, x0, x1, ...; dt from the header",
    "evalspt": "evalSPT: x, y, t, id separated by tabs; without a header by --format only",
    "trackmate-csv": "TrackMate's table of spots: TRACK_ID, POSITION_X, POSITION_Y, POSITION_T, "
    "with its units",
    "trackmate-tracks": "TrackMate's simple XML of tracks, <Tracks>",
    "trackmate-xml": "TrackMate's own XML, <TrackMate>; a track that splits or merges is cut there",
    "myptv": "MyPTV trajectories: id, x, y, z in mm, cameras, error, frame; no header, by "
    "--format only",
    "myptv-smoothed": "MyPTV smoothed_trajectories: id, x, y, z in mm, velocity, "
    "acceleration, frame; by --format",
    "gdp-text": "Global Drifter Program, interpolated, text separated by spaces; id, time, "
    "latitude, longitude",
    "numpy": "NumPy's .npz or .npy: x (particle, time, dim) or x, y, z (particle, time), and t; "
    "--columns",
    "matlab": "MATLAB's .mat: jLab's cells of lon, lat, num; tracks as [x y ... t id], as structs "
    "or of u-track",
    "r": "R's .rds or .rda: a data frame, or telemetry of ctmm; needs the package rdata",
    "table": "CSV or Parquet, one row for each observation: id, time and x, y, z or lon, lat; "
    "--columns",
}


def _format(
    name: str,
    stored: tuple[tuple[str, ...], str],
    detect: Callable[[Contents], bool] = lambda _: True,
) -> Format:
    return Format(name, _SUMMARIES[name], *stored, detect)


# In the order of detection: specific formats before general ones. CF comes last of the datasets;
# its errors say what is missing, and --columns supplies it.
FORMATS: tuple[Format, ...] = (
    _format("run", (("run",), "dataset_formats")),
    _format("zarr", _DATASET, lambda c: c.container == "zarr" and _is_ours(c)),
    _format("parcels-zarr", _DATASET, _has("lon lat time trajectory", attribute="parcels_")),
    _format("parcels-parquet", _PARQUET, _has("particle_id", attribute="parcels_")),
    _format("opendrift", _DATASET, _has("", attribute="opendrift_", laid_out=True)),
    _format(
        "netcdf",
        _DATASET,
        lambda c: c.container == "netcdf" and (_is_ours(c) or _has_flat_positions(c)),
    ),
    _format("gdp", _DATASET, _has("err_lon err_lat", "drogue_status ve vn", laid_out=True)),
    _format("glad", _DATASET, _has("position_error", laid_out=True)),
    _format("clouddrift", _DATASET, lambda c: _layout_kind(c) == "clouddrift"),
    _format(
        "clouddrift-parquet",
        (("parquet",), "parquet"),
        lambda c: c.types.get("obs", "").startswith("struct<"),
    ),
    _format("cf", _DATASET),
    _format("trackpy", _TABLE, _has("particle frame x y")),
    _format("saspt", _TABLE, _has("x y trajectory frame", "x_px y_px trajectory frame")),
    _format("andi", _TABLE, _has("traj_idx frame x y")),
    _format("sfi", _TABLE, _has("particle_id time_step x0")),
    _format("evalspt", _TABLE, _is_evalspt),
    _format("trackmate-csv", _TABLE, _has(f"POSITION_T {_SPOT}", f"FRAME {_SPOT}")),
    _format("trackmate-tracks", _XML, lambda c: c.names == ("Tracks",)),
    _format("trackmate-xml", _XML, lambda c: c.names == ("TrackMate",)),
    _format("myptv", _TABLE, lambda _: False),
    _format("myptv-smoothed", _TABLE, lambda _: False),
    _format("gdp-text", _TEXT, _is_gdp_text),
    _format("numpy", (("npz",), "numpy_arrays"), lambda c: bool(c.names)),
    _format("matlab", (("mat",), "matlab")),
    _format("r", (("rds",), "r_data")),
    _format("table", (("csv", "parquet", "frame"), "tables")),
)
# First bytes of each container, and suffixes for containers without a signature.
_SIGNATURES = {
    "parquet": (b"PAR1",),
    "netcdf": (b"\x89HDF\r\n\x1a\n", b"CDF"),
    "xml": (b"<?xml", b"<!DOCTYPE", b"<Track"),
    "mat": (b"MATLAB 5.0 MAT-file", b"MATLAB 7.3 MAT-file"),
    "rds": (b"RDX2", b"RDX3", b"RDA2", b"RDA3", b"X\n\0\0", b"A\n2", b"A\n3"),
    "npz": (b"PK\x03\x04", b"\x93NUMPY"),
}
_SUFFIXES = {".nc": "netcdf", ".nc4": "netcdf", ".cdf": "netcdf", ".parquet": "parquet"}
_SUFFIXES |= {".pq": "parquet", ".mat": "mat", ".rda": "rds", ".rdata": "rds", ".rds": "rds"}
# Containers for which the suffix overrides the signature.
_BY_SUFFIX = ("mat", "rds")
# Modules whose `describe` returns the fields of `Contents`.
_DESCRIBERS = {
    **{"parquet": "parquet", "xml": "trackmate", "npz": "numpy_arrays"},
    **{"csv": "csv_text", "mat": "matlab", "rds": "r_data"},
}


def contents_of(path: Any, stack: ExitStack | None = None) -> Contents:
    """Inspect a file, a Zarr store, the directory of a run or a dataset in memory.

    Only the first of several files is inspected.

    Args:
        path: The file, or the dataset.
        stack: Keeps a dataset open until it is read or the stack ends; by default it is closed, and
            opened again to be read.
    """
    several = files_of(path)
    if several is not None:
        return contents_of(several[0], stack)
    if not isinstance(path, str | os.PathLike):
        if hasattr(path, "columns"):
            require("tables", "pyarrow")
            from driftbayes.io._frames import contents_in_frame

            return contents_in_frame(path)
        from driftbayes.io._datasets import contents_in

        return contents_in(path)
    file = Path(path)
    if file.is_dir():
        from driftbayes.io._zarr_store import is_foreign_store

        if not is_foreign_store(file):
            return Contents(file, "run")
        container = "zarr"
    else:
        with existing_file(path).open("rb") as stream:
            head = stream.read(512)
        text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
        container = _SUFFIXES.get(file.suffix.lower(), "csv")
        for known, starts in _SIGNATURES.items():
            matches = (text if known == "xml" else head).startswith(starts)
            if matches and container not in _BY_SUFFIX:
                container = known
    if container in _DATASET[0]:
        from driftbayes.io._datasets import contents_of_file

        return contents_of_file(file, container, stack)
    require("tables", "pyarrow")
    described = import_module(f"driftbayes.io._{_DESCRIBERS[container]}").describe(file)
    return Contents(file, container, **described)


def estimated_points(contents: Contents) -> int:
    """Estimate the number of observations of a file without reading it."""
    if contents.container == "parquet":
        from driftbayes.io._parquet import open_parquet

        with reading_as(contents.path, "Parquet"), open_parquet(contents.path) as parquet:
            return int(parquet.metadata.num_rows)
    if contents.container in ("netcdf", "zarr"):
        from driftbayes.io._datasets import open_dataset

        with open_dataset(contents) as dataset:
            return max((int(variable.size) for variable in dataset.variables.values()), default=0)
    if contents.container == "csv":
        # About 36 bytes for id, time, x and y in text, and a third of that when compressed.
        n_bytes = contents.path.stat().st_size
        return n_bytes // (12 if contents.path.suffix == ".gz" else 36)
    return 0


def format_named(name: str) -> Format:
    """Return the format with a name."""
    for known in FORMATS:
        if known.name == name:
            return known
    names = [known.name for known in FORMATS]
    msg = f"unknown format {name!r}; known formats: {', '.join(names)}{did_you_mean(name, names)}"
    raise DriftbayesError(msg)


def choose(contents: Contents, name: str | None = None) -> Format:
    """Return the named format, or detect the format of a file."""
    if name is not None:
        return format_named(name)
    for known in FORMATS:
        if contents.container in known.containers and known.detect(contents):
            return known
    shown = f" ({contents.container} with {contents.shown})" if contents.names else ""
    raise DriftbayesError(
        f"unrecognised file format: {contents.source!r}{shown}; pass --format NAME, see "
        "`driftbayes formats`, or --columns"
    )


def read_as(chosen: Format, contents: Contents, options: ReadOptions) -> "Trajectories":
    """Read trajectories from a file of a known format."""
    if contents.container not in chosen.containers:
        raise DriftbayesError(
            f"{contents.source!r} is a {contents.container} file, but format {chosen.name!r} needs "
            f"{' or '.join(chosen.containers)}; choose another with --format"
        )
    # Imported on demand: a table does not need the modules for datasets.
    readers = import_module(f"driftbayes.io._{chosen.module}").READERS
    trajectories: Trajectories = readers[chosen.name](contents, options)
    return trajectories
