"""OpenDrift: `trajectory × time` with one axis of time for all, from seeding to deactivation."""

__all__ = ["OPENDRIFT"]

from typing import TYPE_CHECKING

import numpy as np

from driftbayes.io.adapters.cf import Extras, assemble
from driftbayes.io.contents import Contents
from driftbayes.io.layouts import has_layout
from driftbayes.io.observed import Observed
from driftbayes.io.reading import Format, ReadOptions
from driftbayes.trajectories import Trajectories
from driftbayes.typing import FloatArray

if TYPE_CHECKING:
    import xarray as xr


def _convert(dataset: "xr.Dataset", contents: Contents, options: ReadOptions) -> Trajectories:
    return assemble(dataset, contents, options, "opendrift", _active)


def _active(seen: Observed, x: FloatArray, y: FloatArray) -> Extras:
    """Only what moved freely: an element that has stranded is where the coast put it."""
    if not seen.contents.has("status"):
        return Extras()
    status = seen.values("status")
    there = np.isfinite(x) & np.isfinite(y)
    hidden = there & np.isfinite(status) & (status != 0)
    if not hidden.any() or not (there & ~hidden).any():
        return Extras()
    note = (
        f"{np.count_nonzero(hidden):,} positions at which an element was no longer active "
        "(status) are left out"
    )
    return Extras([note], hidden=hidden)


OPENDRIFT = Format(
    "opendrift",
    "output of OpenDrift, NetCDF",
    lambda contents: (
        contents.container in ("netcdf", "zarr")
        and any(key.startswith("opendrift_") for key in contents.attributes)
        and has_layout(contents)
    ),
    convert=_convert,
)
