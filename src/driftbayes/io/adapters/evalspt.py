"""evalSPT: x, y, t and id, separated by tabs, with a header or without."""

__all__ = ["EVALSPT"]

from dataclasses import replace

from driftbayes.io import cells
from driftbayes.io.contents import Contents
from driftbayes.io.foreign_tables import Native, read_long
from driftbayes.io.reading import Format, ReadOptions
from driftbayes.trajectories import Trajectories

_NAMES = ("x", "y", "t", "id")


def _read(contents: Contents, options: ReadOptions) -> Trajectories:
    layout = contents.layout
    if layout is not None and all(map(cells.is_number, layout.header)):
        spare = [f"column {i + 1}" for i in range(len(_NAMES), len(layout.header))]
        header = (*_NAMES, *spare)[: len(layout.header)]
        layout = replace(layout, header=header, own_header=False)
    names = {"id": "id", "time": "t"}
    native = Native("", "")
    return read_long(contents, options, reader="evalspt", names=names, native=native, layout=layout)


EVALSPT = Format(
    "evalspt",
    "evalSPT: x, y, t, id separated by tabs; without a header by --format only",
    lambda contents: (
        contents.layout is not None
        and contents.layout.separator == "\t"
        and contents.has(*_NAMES)
        and not contents.has("time")
    ),
    read=_read,
)
