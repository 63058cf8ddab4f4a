"""MyPTV: tables of numbers without a header, separated by tabs; known by --format only.

`trajectories` has id, x, y, z, one column for each camera, the error and the frame;
`smoothed_trajectories` id, x, y, z, velocity, acceleration and the frame. Positions are in mm. With
five cameras both have eleven columns, which is why the two have names of their own.
"""

__all__ = ["MYPTV", "MYPTV_SMOOTHED"]

from dataclasses import replace

from driftbayes.errors import DriftbayesError
from driftbayes.io.contents import Contents
from driftbayes.io.foreign_tables import Native, read_long
from driftbayes.io.reading import Format, ReadOptions
from driftbayes.trajectories import Trajectories

_SMOOTHED = ("vx", "vy", "vz", "ax", "ay", "az")
_NOTE = (
    "smoothed product: at short times it favours models with smoother paths; read `trajectories` "
    "if you can"
)


def _read(contents: Contents, options: ReadOptions) -> Trajectories:
    n_columns = len(contents.names)
    if n_columns < 6:
        msg = _unexpected(contents, "id, x, y, z, one per camera, error, frame: 7 or more")
        raise DriftbayesError(msg)
    return _read_columns(contents, options, [f"camera {i}" for i in range(n_columns - 6)] + ["e"])


def _read_smoothed(contents: Contents, options: ReadOptions) -> Trajectories:
    if len(contents.names) != 5 + len(_SMOOTHED):
        msg = _unexpected(contents, "id, x, y, z, velocity, acceleration, frame: 11")
        raise DriftbayesError(msg)
    return _read_columns(contents, options, _SMOOTHED, [_NOTE])


def _read_columns(
    contents: Contents,
    options: ReadOptions,
    between: "list[str] | tuple[str, ...]",
    notes: "list[str] | tuple[str, ...]" = (),
) -> Trajectories:
    header = ("id", "x", "y", "z", *between, "frame")
    layout = contents.layout and replace(contents.layout, header=header, own_header=False)
    return read_long(
        contents,
        options,
        reader="myptv",
        names={"time": "frame"},
        native=Native("mm", "frame"),
        layout=layout,
        notes=notes,
        unlinked=["-1"],
    )


def _unexpected(contents: Contents, expected: str) -> str:
    return (
        f"{contents.path.name!r} has {len(contents.names)} columns, expected those of MyPTV, "
        f"separated by tabs: {expected}"
    )


MYPTV = Format(
    "myptv",
    "MyPTV trajectories: id, x, y, z in mm, cameras, error, frame; no header, by --format only",
    lambda _: False,
    read=_read,
)
MYPTV_SMOOTHED = Format(
    "myptv-smoothed",
    "MyPTV smoothed_trajectories: id, x, y, z in mm, velocity, acceleration, frame; by --format",
    lambda _: False,
    read=_read_smoothed,
)
