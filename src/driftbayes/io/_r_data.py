"""R .rds and .rda files: data frames, and telemetry of ctmm. Needs the package rdata.

Nothing in a file is run: it is parsed into vectors, and other objects are ignored.
"""

import warnings
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes.data._trajectories import Trajectories
from driftbayes.errors import DriftbayesError
from driftbayes.io import _limits as limits
from driftbayes.io._frames import contents_in_frame
from driftbayes.io._reading import Contents, ReadOptions, reading_as
from driftbayes.io._tables import read_plain

if TYPE_CHECKING:
    import pandas as pd

_COMPRESSORS = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\xfd7zXZ\0": "lzma"}
# Attribute with the name of the animal, of a data frame made from a telemetry object.
_IDENTITY = "identity"
_CALENDAR = {"timestamp": "time", "longitude": "lon", "latitude": "lat"}
_METRES = {"t": "t_s", "x": "x_m", "y": "y_m"}


def describe(path: Path) -> dict[str, Any]:
    """Return no fields of `Contents`: they are unknown until the file is parsed."""
    return {}


def _read(contents: Contents, options: ReadOptions) -> Trajectories:
    try:
        import rdata
    except ImportError as error:
        raise DriftbayesError(
            f"{contents.source!r} is an R file, which needs the package rdata; run: pip install "
            "'driftbayes[r]', or save a table in R: write.csv(d, 'tracks.csv', row.names = FALSE)"
        ) from error
    frame, note = _find_frame(_parse(contents.path, rdata), contents.source)
    table = replace(contents_in_frame(frame), path=contents.path, container="r")
    return read_plain(table, options, [note])


def _parse(path: Path, rdata: Any) -> Any:
    """Parse a file into Python types, after a check of its size."""
    size = limits.stored_size(path)
    with path.open("rb") as stream:
        head = stream.read(6)
        stream.seek(0)
        for magic, compressor in _COMPRESSORS.items():
            if head.startswith(magic):
                limit = max(size * 1100, limits.MAX_UNCOUNTED)
                inflated = limits.inflated_size(stream, size, compressor, limit)
                if inflated > limit:
                    raise DriftbayesError(
                        f"{path.name!r} inflates to more than {limit:,} bytes; it is damaged or "
                        "malicious"
                    )
                size = inflated
    # The inflated data, the vectors, the table and the trajectories.
    limits.check_memory(5 * size, f"{path.name!r}")
    default = rdata.conversion.DEFAULT_CLASS_MAP
    classes = {
        **default,
        "POSIXct": lambda value, _: _moments(value, 1e6),
        "POSIXt": lambda value, _: _moments(value, 1e6),
        "Date": lambda value, _: _moments(value, 86400e6),
        "telemetry": _telemetry,
        # Data frames of other packages.
        **dict.fromkeys(("tbl_df", "data.table", "grouped_df"), default["data.frame"]),
    }
    stored = rdata.parser.DEFAULT_ALTREP_MAP
    bounded = {kind: partial(_bounded, make, path.name) for kind, make in stored.items()}
    with reading_as(path, "an R file"), warnings.catch_warnings():
        # Ignore warnings on unknown classes.
        warnings.simplefilter("ignore")
        parsed = rdata.parser.parse_file(path, altrep_constructor_dict=bounded)
        return rdata.conversion.convert(parsed, classes)


def _bounded(make: Any, name: str, state: Any) -> Any:
    """Make a vector stored as length and first value, if it fits into memory."""
    length = np.ravel(np.asarray(getattr(state, "value", 0), dtype=object))[:1]
    if len(length) and isinstance(length[0], int | float | np.number):
        limits.check_memory(int(5 * 8 * max(float(length[0]), 0.0)), f"{name!r}")
    return make(state)


def _moments(value: Any, microseconds: float) -> np.ndarray:
    """Convert R dates, in seconds or days since 1970."""
    ticks = np.asarray(value, dtype=np.float64) * microseconds
    missing = ~np.isfinite(ticks)
    dates = np.round(np.where(missing, 0.0, ticks)).astype("datetime64[us]")
    dates[missing] = np.datetime64("NaT")
    return dates


def _telemetry(value: Any, attributes: Mapping[str, Any]) -> Any:
    """Convert a ctmm telemetry object to a data frame, with the animal's name as an attribute."""
    import pandas as pd

    frame = pd.DataFrame({str(name): np.asarray(column) for name, column in dict(value).items()})
    info = attributes.get("info", {})
    identity = info.get(_IDENTITY) if isinstance(info, dict) else None
    frame.attrs[_IDENTITY] = str(np.ravel(identity)[0]) if identity is not None else ""
    return frame


def _find_frame(value: Any, source: str) -> "tuple[pd.DataFrame, str]":
    """Find the only data frame, or the telemetry of all animals, in the parsed file."""
    import pandas as pd

    if isinstance(value, pd.DataFrame):
        return (_joined({"": value}) if _IDENTITY in value.attrs else value), "read from R"
    values = dict(value) if isinstance(value, Mapping) else {}
    frames = {str(name): v for name, v in values.items() if isinstance(v, pd.DataFrame)}
    if frames and all(_IDENTITY in frame.attrs for frame in frames.values()):
        return _joined(frames), f"telemetry of ctmm, {len(frames)} animals"
    # A list of telemetry under the name of the variable.
    lists = [v for v in values.values() if isinstance(v, Mapping)]
    inner = [v for v in lists if v and all(isinstance(f, pd.DataFrame) for f in v.values())]
    if not frames and len(inner) == 1:
        return _find_frame(inner[0], source)
    if len(frames) != 1:
        shown = ", ".join(repr(str(name)[:40]) for name in (frames or values))
        raise DriftbayesError(
            f"{source!r} has {len(frames) or 'no'} data frames ({shown or 'nothing'}), expected "
            "one; in R: saveRDS(d, 'tracks.rds')"
        )
    name, frame = next(iter(frames.items()))
    return frame, f"read from the data frame {name!r}"


def _joined(frames: "Mapping[str, pd.DataFrame]") -> "pd.DataFrame":
    """Join the telemetry of several animals: degrees if available, else metres."""
    import pandas as pd

    parts = []
    for name, frame in frames.items():
        known = _CALENDAR if set(_CALENDAR) <= set(frame.columns) else _METRES
        part = frame[[c for c in known if c in frame.columns]].rename(columns=known)
        parts.append(part.assign(id=frame.attrs[_IDENTITY] or name or "1"))
    return pd.concat(parts, ignore_index=True)


READERS = {"r": _read}
