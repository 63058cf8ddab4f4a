"""CF discrete sampling geometries: the four layouts of trajectories, in NetCDF or Zarr.

Coordinates are found by their standard names, then by axis, then by name; their units say whether
they are degrees or a length.
"""

__all__ = ["CF", "Extras", "assemble"]

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from driftbayes.data.sphere import on_plane
from driftbayes.data.trajectories import Trajectories
from driftbayes.data.units import is_degrees, is_length, length_factor
from driftbayes.errors import DriftbayesError
from driftbayes.io.contents import Contents
from driftbayes.io.datasets import foreign_provenance, time_origin
from driftbayes.io.layouts import Layout, find_layout
from driftbayes.io.observed import Observed, observed
from driftbayes.io.paths import begin_with_name
from driftbayes.io.reading import Format, ReadOptions
from driftbayes.typing import FloatArray

if TYPE_CHECKING:
    import xarray as xr

# What fills a unit's place where there is none.
_NO_UNIT = ("", "1", "-", "none", "nondim")


@dataclass(frozen=True)
class Extras:
    """What a source tells of its observations beside positions and times.

    Args:
        notes: What was assumed.
        sd: Standard deviation of the error of each position, in metres if positions are degrees.
        flags: What the file says of each observation.
        hidden: Observations that are not to be used.
    """

    notes: Sequence[str] = ()
    sd: FloatArray | None = None
    flags: Mapping[str, FloatArray] = field(default_factory=dict)
    hidden: np.ndarray | None = None


def assemble(
    dataset: "xr.Dataset",
    contents: Contents,
    options: ReadOptions,
    name: str,
    extras: Callable[[Observed, FloatArray, FloatArray], Extras] | None = None,
) -> Trajectories:
    """Trajectories from a dataset of any layout, with what one source has beside."""
    layout = find_layout(contents, options.columns)
    seen = observed(dataset, contents, layout, options.time_unit)
    degrees, unit, factor = _units(contents, layout, options)
    x, y = seen.values(layout.x), seen.values(layout.y) * factor
    more = Extras() if extras is None else extras(seen, x, y)
    notes, sd = list(more.notes), more.sd
    if (options.columns or {}).get("sd"):
        sd = _told_sd(seen, str((options.columns or {})["sd"]), "m" if degrees else unit)
    if more.hidden is not None:
        x = np.where(more.hidden, np.nan, x)
    if isinstance(seen.order, slice):
        notes.append("the file runs backwards in time; its order was turned round")
    if sd is not None:
        sd, said = complete_sd(sd, np.isfinite(x) & np.isfinite(y), seen.row_sizes)
        notes += said
    if degrees and dataset[layout.x].dtype == np.float32:
        step = np.spacing(np.float32(np.nanmax(np.abs(x), initial=0.0))) * 111e3
        notes.append(f"longitudes have 32 bits: they are rounded to {step:.1g} m at the equator")
    dated = time_origin(contents.variable_attributes.get(layout.time, {})) is not None
    origin = "1970-01-01T00:00:00" if dated and options.time_unit is None else None
    trajectories = seen.trajectories(
        [x, y],
        sd=sd,
        flags=more.flags,
        length_unit="" if degrees else unit,
        time_unit=seen.time_unit,
        provenance=foreign_provenance(contents, name, notes, options.columns, origin),
    )
    if degrees:
        with begin_with_name(contents.path):
            return on_plane(trajectories, frame=options.frame)
    return options.scale(trajectories)


def complete_sd(
    sd: FloatArray, there: np.ndarray, row_sizes: np.ndarray | None
) -> tuple[FloatArray | None, list[str]]:
    """Errors for all positions: where one is not known, the median of its trajectory stands in."""
    known = np.isfinite(sd) & (sd >= 0) & there
    if not known.any():
        return None, ["errors of positions are given, but not a single one is known"]
    if not (there & ~known).any():
        return np.where(known, sd, np.nan), []
    rows = (
        np.arange(sd.shape[0])[:, None] + np.zeros(sd.shape, dtype=np.int64)
        if row_sizes is None
        else np.repeat(np.arange(len(row_sizes)), row_sizes)
    )
    order = np.lexsort((sd[known], rows[known]))
    owners, values = rows[known][order], sd[known][order]
    ids, first, counts = np.unique(owners, return_index=True, return_counts=True)
    medians = np.zeros(int(rows.max()) + 1)
    medians[ids] = 0.5 * (values[first + (counts - 1) // 2] + values[first + counts // 2])
    filled = there & ~known
    alone = int(np.count_nonzero(medians[rows[filled]] == 0))
    notes = [
        f"{np.count_nonzero(filled):,} positions have no error of their own: they got the median "
        "of their trajectory" + (f", or 0 where it has none ({alone:,})" if alone else "")
    ]
    return np.where(known, sd, np.where(there, medians[rows], np.nan)), notes


def _told_sd(seen: Observed, name: str, unit: str) -> FloatArray:
    own = _unit(seen.contents, name)
    factor = length_factor(own, unit)[0] if is_length(own) and is_length(unit) else 1.0
    if is_degrees(own):
        msg = f"{seen.contents.path.name!r}: {name!r} is in degrees, expected a length"
        raise DriftbayesError(msg)
    return seen.values(name) * factor


def _units(contents: Contents, layout: Layout, options: ReadOptions) -> tuple[bool, str, float]:
    """Whether positions are degrees, their unit, and what makes y of the unit of x."""
    own, other = _unit(contents, layout.x), _unit(contents, layout.y)
    told = options.coordinates
    if told is None and (set(options.columns or {}) & {"lon", "lat"}):
        told = "degrees"
    if told is None and own.lower() in _NO_UNIT:
        standard = str(contents.variable_attributes.get(layout.x, {}).get("standard_name", ""))
        spherical = "lon" in layout.x.lower() or standard.strip() == "longitude"
        told = "degrees" if spherical else "plane"
        own = ""
    if told is None and not is_degrees(own) and not is_length(own):
        msg = (
            f"{contents.path.name!r}: {layout.x!r} is in {own[:40]!r}, expected degrees or a "
            "length; pass --coordinates degrees or --coordinates plane"
        )
        raise DriftbayesError(msg)
    if told == "degrees" or (told is None and is_degrees(own)):
        return True, "", 1.0
    factor = 1.0
    if is_length(own) and is_length(other):
        factor = length_factor(other, own)[0]
        own = length_factor(own, own)[1]
    return False, options.length_unit or ("" if is_degrees(own) else own), factor


def _unit(contents: Contents, name: str) -> str:
    unit = contents.variable_attributes.get(name, {}).get("units", "")
    return (unit.decode(errors="replace") if isinstance(unit, bytes) else str(unit)).strip()


CF = Format(
    "cf",
    "CF trajectories in NetCDF or Zarr: ragged, indexed, (trajectory, obs) or one alone",
    # The last resort of datasets: what it misses, it says, and --columns may tell.
    lambda contents: contents.container in ("netcdf", "zarr"),
    convert=partial(assemble, name="cf"),
)
