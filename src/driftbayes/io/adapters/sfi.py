"""StochasticForceInference: particle_id, time_step, x0, x1, ... under comments in YAML."""

__all__ = ["SFI"]

import re

from driftbayes.errors import DriftbayesError
from driftbayes.io import cells
from driftbayes.io.contents import Contents
from driftbayes.io.foreign_tables import Native, read_long
from driftbayes.io.reading import Format, ReadOptions
from driftbayes.trajectories import Trajectories

# One line `dt: 0.01` is all that is wanted of the YAML.
_DT = re.compile(r"\s*[\"']?(?:dt|time_step_size|delta_t)[\"']?\s*[:=]\s*([^#\s]+)", re.IGNORECASE)


def _read(contents: Contents, options: ReadOptions) -> Trajectories:
    names = {"id": "particle_id", "time": "time_step", "x": "x0", "y": "x1", "z": "x2"}
    names = {canonical: name for canonical, name in names.items() if contents.has(name)}
    if contents.has("x3") and not options.columns:
        msg = (
            f"{contents.path.name!r} has more than three coordinates, x0 to x3 and on; say which "
            "are x, y, z with --columns"
        )
        raise DriftbayesError(msg)
    dt = None if options.frame_interval else _interval(contents)
    trajectories = read_long(
        contents,
        options,
        reader="sfi",
        names=names,
        native=Native("", "frame" if dt is None else ""),
        notes=[] if dt is None else [f"the time between steps is dt = {dt:g}, as its header says"],
    )
    if dt is None or "time" in (options.columns or {}):
        return trajectories
    return trajectories.in_units(time=(dt, trajectories.time_unit))


def _interval(contents: Contents) -> float | None:
    comments = contents.layout.comments if contents.layout else ()
    for line in comments:
        match = _DT.fullmatch(line.split(" #")[0].rstrip())
        if match and cells.is_number(match[1]) and 0 < float(match[1]) < float("inf"):
            return float(match[1])
    return None


SFI = Format(
    "sfi",
    "StochasticForceInference: particle_id, time_step, x0, x1, ...; dt from the header",
    lambda contents: (
        contents.container in ("csv", "parquet") and contents.has("particle_id", "time_step", "x0")
    ),
    read=_read,
)
