"""Probability of presence where dispersion varies in space."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from driftbayes._storage.outputs import PathLike
from driftbayes.data._fixes import last_rows
from driftbayes.data._trajectories import Trajectories, check_tracks
from driftbayes.data._units import cell_side, times_in
from driftbayes.data.tangent import last_fixes
from driftbayes.errors import DriftbayesError

if TYPE_CHECKING:
    from driftbayes.prediction import PresenceMap


def presence(
    tracks: Trajectories,
    horizons: ArrayLike | str,
    space: PathLike,
    *,
    model: str | None = None,
    cell: float | str | None = None,
) -> "PresenceMap":
    """Predict the positions of particles from a map or field in a file.

    Probability is transported from the last position of each particle by the Fokker–Planck
    equation; the edges of the map reflect. For a field, it is averaged over draws from the
    posterior; for a map, the posterior means of diffusivity and flow are used, without their
    errors.

    Args:
        tracks: Trajectories in two dimensions, as returned by `read`.
        horizons: Times ahead, positive, also as text ("1d,10d").
        space: A file written by `driftbayes map -o` or `driftbayes field -o`.
        model: Model of a map; None selects that with the largest evidence.
        cell: Side of a cell: "10km" or a number for a plane, "0.1deg" for longitude and latitude;
            by default a hundredth of the longer side of the map.

    Returns:
        Probability of presence in each cell, at each time.

    Raises:
        DriftbayesError: The file is not a map or field, or does not cover the particles.

    Example:
        >>> import driftbayes as db
        >>> db.presence(db.read("drifters.csv"), "1d", "map.nc")  # doctest: +SKIP
    """
    from driftbayes.io import read_dataset
    from driftbayes.simulators._map_files import drawn_fields, gridded
    from driftbayes.simulators._transport import presence_in_space

    check_tracks(tracks)
    if tracks.n_dim != 2:
        raise DriftbayesError(f"a map of presence needs two dimensions, got {tracks.n_dim}")
    times = np.array(sorted(set(times_in(horizons, tracks.units, "horizons"))))
    if not (np.isfinite(times) & (times > 0)).all():
        raise DriftbayesError(f"horizons must be positive, got {times[0]:g}")
    dataset = read_dataset(space, kind=("map", "field"))
    units = tracks.length_unit, tracks.time_unit
    for what, unit in zip(("length", "time"), units, strict=True):
        stored = str(dataset.attrs.get(f"{what}_unit", ""))
        if stored and not unit:
            raise DriftbayesError(
                f"the trajectories have no unit of {what}, but the map has {stored}; pass "
                f"--{what}-unit"
            )
    found, *draws = (
        made.on_lonlat() if made.ground is not None and made.ground.frame == "local" else made
        for made in (
            gridded(each, model=model, to=units) for each in (dataset, *drawn_fields(dataset))
        )
    )
    options: dict[str, Any] = {"units": units, "draws": draws}
    if cell is not None:
        options["cell"] = cell_side(cell, tracks.units, in_degrees=found.is_lonlat)
    fixes = last_fixes(tracks)
    on_earth = found.is_lonlat or found.ground is not None
    if on_earth != (fixes is not None):
        where = ("on a plane", "on the earth")
        raise DriftbayesError(
            f"{found.title} is {where[on_earth]} but the trajectories are {where[not on_earth]}; "
            "make the map from the same data"
        )
    if fixes is None:
        last = tracks.positions[last_rows(tracks)]
    else:
        last = np.array(fixes.lonlat)
        if found.ground is not None and not found.is_lonlat:
            last = found.ground.positions(last)
    return presence_in_space(found, last, times, **options)
