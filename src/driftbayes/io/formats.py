"""All formats, and which of them a file is of."""

__all__ = ["FORMATS", "choose", "format_named", "read_as"]

from driftbayes.data.trajectories import Trajectories
from driftbayes.errors import DriftbayesError
from driftbayes.io.adapters import tracking
from driftbayes.io.adapters.cf import CF
from driftbayes.io.adapters.clouddrift import CLOUDDRIFT, CLOUDDRIFT_PARQUET
from driftbayes.io.adapters.drifters import GDP, GLAD, OPENDRIFT
from driftbayes.io.adapters.gdp_text import GDP_TEXT
from driftbayes.io.adapters.numpy_arrays import NUMPY
from driftbayes.io.adapters.parcels import PARCELS_3, PARCELS_4
from driftbayes.io.adapters.plain import NETCDF, TABLE, ZARR
from driftbayes.io.adapters.run import RUN
from driftbayes.io.adapters.trackmate import TRACKMATE_CSV, TRACKMATE_TRACKS, TRACKMATE_XML
from driftbayes.io.contents import Contents
from driftbayes.io.datasets import open_dataset
from driftbayes.io.reading import Format, ReadOptions
from driftbayes.suggest import did_you_mean

# In the order in which they are tried: the particular before the general.
FORMATS: tuple[Format, ...] = (
    *(RUN, ZARR, PARCELS_3, PARCELS_4, OPENDRIFT, NETCDF),
    *(GDP, GLAD, CLOUDDRIFT, CLOUDDRIFT_PARQUET, CF),
    *(tracking.TRACKPY, tracking.SASPT, tracking.ANDI, tracking.SFI, tracking.EVALSPT),
    *(TRACKMATE_CSV, TRACKMATE_TRACKS, TRACKMATE_XML, tracking.MYPTV, tracking.MYPTV_SMOOTHED),
    *(GDP_TEXT, NUMPY, TABLE),
)


def format_named(name: str) -> Format:
    """The format of a name."""
    for one in FORMATS:
        if one.name == name:
            return one
    names = [one.name for one in FORMATS]
    msg = f"unknown format {name!r}; known are {', '.join(names)}{did_you_mean(name, names)}"
    raise DriftbayesError(msg)


def choose(contents: Contents, name: str | None = None) -> Format:
    """The format of a file."""
    if name is not None:
        return format_named(name)
    for one in FORMATS:
        if one.detect(contents):
            return one
    shown = ", ".join(repr(other[:40]) for other in contents.names[:8])
    found = f" ({contents.container} with {shown})" if shown else ""
    msg = (
        f"unrecognised file format: {contents.path.name!r}{found}; pass --format NAME, see "
        "`driftbayes formats`, or --columns"
    )
    raise DriftbayesError(msg)


def read_as(chosen: Format, contents: Contents, options: ReadOptions) -> Trajectories:
    """Trajectories from a file of a known format."""
    if chosen.read is not None:
        return chosen.read(contents, options)
    if chosen.convert is None or contents.container not in ("netcdf", "zarr"):
        msg = (
            f"{contents.path.name!r} is a {contents.container} file, but {chosen.name!r} is not "
            "such a format; choose another with --format"
        )
        raise DriftbayesError(msg)
    with open_dataset(contents, options.missing) as dataset:
        return chosen.convert(dataset, contents, options)
