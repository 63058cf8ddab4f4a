"""How trajectories lie in a dataset: which variable is what, from names and attributes alone.

The layouts are those of the CF conventions, appendix H.4: contiguous ragged, indexed ragged,
(trajectory, observation) and one trajectory alone. Files of clouddrift and of the Global Drifter
Program are of them too, but leave out the attributes that say so.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from driftbayes.data.trajectories import Trajectories
from driftbayes.errors import DriftbayesError, did_you_mean
from driftbayes.io.ids import BadCellError, id_array
from driftbayes.io.limits import check_memory
from driftbayes.io.reading import Contents, ReadOptions, begin_with_name
from driftbayes.typing import FloatArray, IntArray, StrArray

Kind = Literal["contiguous", "indexed", "long", "grid", "single"]

_COUNTS = ("rowsize", "row_size", "count")
_IDS = (
    *("id", "ids", "trajectory", "trajectory_id", "traj_id", "traj", "particle", "particle_id"),
    *("drifter_id", "drifter", "buoy_id", "buoy", "platform_id", "platform", "wmo"),
)
_TIMES = ("time", "t", "obs_time", "datetime", "date", "timestamp", "juld")
_OBSERVATIONS = ("obs", "observation", "time", "index", "row", "sample", "step")
# By standard name, by axis, by name: the first pair that is there.
_STANDARD = (("longitude", "latitude"), ("projection_x_coordinate", "projection_y_coordinate"))
_PAIRS = (("lon", "lat"), ("longitude", "latitude"), ("x", "y"))


@dataclass(frozen=True)
class Layout:
    """Which variable is what, and how trajectories lie in them."""

    # "contiguous": one after the other, with a count of each; "indexed": mixed, with the number of
    # its trajectory for each observation; "long": likewise, with its id; "grid": (trajectory,
    # observation), padded; "single": one alone.
    kind: Kind
    x: str  # variable of the first coordinate
    y: str  # variable of the second
    time: str  # variable of times
    sample: str  # dimension of observations
    instance: str | None = None  # dimension of trajectories, if there is one
    counter: str | None = None  # variable of counts, or of the numbers or ids of trajectories
    ids: str | None = None  # variable of ids, if there is one


def find_layout(contents: Contents, options: ReadOptions | None = None) -> Layout:
    """Find how trajectories lie in a dataset, from names and attributes and the user's names."""
    told = _told(contents, options or ReadOptions())
    counter = find_counter(contents)
    x, y = _pair(contents, told, counter)
    dims = contents.dims[x]
    named = told.get("id")
    if len(dims) == 1:
        sample = dims[0]
        if counter is not None:
            kind, name, instance = counter
            ids = named or _ids(contents, instance)
            time = _time(contents, told, (sample,), None)
            return Layout(kind, x, y, time, sample, instance, name, ids)
        time = _time(contents, told, (sample,), None)
        ids = named or _ids(contents, sample, besides=(x, y, time))
        if ids is not None and contents.dims[ids][:1] == (sample,):
            return Layout("long", x, y, time, sample, None, ids, ids)
        return Layout("single", x, y, time, sample, ids=ids or _ids(contents, None))
    marked = named or next((i for dim in dims if (i := _ids(contents, dim, besides=(x, y)))), None)
    of_ids = contents.dims[marked][0] if marked and contents.dims[marked] else None
    # A coordinate of its own, time(time), is no id, whatever it is called.
    time = _time(contents, told, dims, of_ids)
    if len(contents.dims[time]) == 1:
        sample = contents.dims[time][0]
    elif of_ids in dims:
        sample = dims[1] if dims[0] == of_ids else dims[0]
    else:
        sample = next((dim for dim in dims if dim.lower() in _OBSERVATIONS), dims[1])
    instance = dims[1] if dims[0] == sample else dims[0]
    ids = marked if marked and contents.dims[marked][:1] == (instance,) else None
    return Layout("grid", x, y, time, sample, instance, None, ids)


def _told(contents: Contents, options: ReadOptions) -> dict[str, str]:
    told = options.names
    for degrees, role in (("lon", "x"), ("lat", "y")):
        if degrees in told:
            told[role] = told.pop(degrees)
    for role, name in told.items():
        if role not in ("id", "time", "x", "y", "sd"):
            raise DriftbayesError(
                f"columns has the key {role!r}, expected one of id, time, x, y (or lon, lat) and "
                "sd, mapped to a variable of the file"
            )
        if name not in contents.names:
            raise DriftbayesError(
                f"{contents.source!r} has no variable {name!r} (wanted as {role!r}); "
                f"it has {contents.shown}{did_you_mean(name, contents.names)}"
            )
    return told


def find_counter(contents: Contents) -> tuple[Kind, str, str] | None:
    """Kind of a ragged layout, its variable of counts or numbers, the dimension of trajectories."""
    for name, dims in contents.dims.items():
        sample = contents.attribute(name, "sample_dimension")
        instance = contents.attribute(name, "instance_dimension")
        if sample and len(dims) == 1 and dims[0] != sample:
            return "contiguous", name, dims[0]
        if instance and len(dims) == 1:
            return "indexed", name, instance
    for name, dims in contents.dims.items():
        # Many clouddrift files lack the attribute that CF asks for.
        if name.lower() in _COUNTS and len(dims) == 1:
            return "contiguous", name, dims[0]
    return None


def _pair(
    contents: Contents, told: Mapping[str, str], counter: tuple[Kind, str, str] | None
) -> tuple[str, str]:
    """The variables of the two coordinates."""
    if "x" in told and "y" in told:
        dims = contents.dims[told["x"]]
        if dims != contents.dims[told["y"]] or not 1 <= len(dims) <= 2:
            raise DriftbayesError(
                f"{contents.source!r}: {told['x']!r} has the dimensions ({', '.join(dims)}), "
                f"{told['y']!r} ({', '.join(contents.dims[told['y']])}); expected the same one or "
                "two"
            )
        return told["x"], told["y"]
    for xs, ys in _candidates(contents):
        pairs = [
            (x, y)
            for x in xs
            for y in ys
            if x != y and contents.dims[x] == contents.dims[y] and _suits(contents, x, counter)
        ]
        if pairs:
            # What is known for each observation comes before what is known for each trajectory.
            return max(pairs, key=lambda pair: len(contents.dims[pair[0]]))
    raise DriftbayesError(
        f"{contents.source!r} has no two variables of positions with the same dimensions and "
        "known standard names or names (lon, lat, x, y); it has "
        f"{contents.shown or 'no variables'}: pass columns (--columns x=NAME,y=NAME)"
    )


def _candidates(contents: Contents) -> Iterator[tuple[list[str], list[str]]]:
    names = list(contents.dims)
    for pair in _STANDARD:
        found = [[n for n in names if contents.attribute(n, "standard_name") == s] for s in pair]
        yield found[0], found[1]
    found = [[n for n in names if contents.attribute(n, "axis").upper() == a] for a in "XY"]
    yield found[0], found[1]
    for pair in _PAIRS:
        found = [[n for n in names if n.lower() == called] for called in pair]
        yield found[0], found[1]


def _suits(contents: Contents, name: str, counter: tuple[Kind, str, str] | None) -> bool:
    dims = contents.dims[name]
    if len(dims) == 2:
        # A count of its own beside a padded array says how much of it is padding.
        return counter is None or counter[0] == "contiguous"
    if len(dims) != 1:
        return False
    return counter is None or (
        dims == contents.dims[counter[1]] if counter[0] == "indexed" else dims[0] != counter[2]
    )


def _time(
    contents: Contents, told: Mapping[str, str], dims: tuple[str, ...], of_ids: str | None
) -> str:
    """The variable of times, of some or all of the dimensions of positions."""

    def fits(name: str) -> bool:
        own = contents.dims[name]
        return bool(own) and own != (of_ids,) and set(own) <= set(dims)

    if "time" in told:
        if not fits(told["time"]):
            raise DriftbayesError(
                f"{contents.source!r}: {told['time']!r} has the dimensions "
                f"({', '.join(contents.dims[told['time']])}), expected those of the positions, "
                f"({', '.join(dims)}), or one of them"
            )
        return told["time"]
    names = [name for name in contents.dims if fits(name)]
    ways = (
        [n for n in names if contents.attribute(n, "standard_name") == "time"],
        [n for n in names if contents.attribute(n, "axis").upper() == "T"],
        [n for n in names if n.lower() in _TIMES],
        [n for n in names if " since " in contents.attribute(n, "units").lower()],
    )
    for found in ways:
        if found:
            return max(found, key=lambda name: len(contents.dims[name]))
    raise DriftbayesError(
        f"{contents.source!r} has no variable of times with the dimensions of its positions, "
        f"({', '.join(dims)}), or one of them; pass columns (--columns time=NAME)"
    )


def _ids(contents: Contents, dim: str | None, besides: tuple[str, ...] = ()) -> str | None:
    """The variable of ids along a dimension; along none, that of one trajectory."""
    of_dim = [
        name
        for name, dims in contents.dims.items()
        if name not in besides and (dims[:1] == (dim,) if dim else not dims) and len(dims) <= 2
    ]
    for name in of_dim:
        if contents.attribute(name, "cf_role").lower() == "trajectory_id":
            return name
    if dim is not None and dim.lower() in _OBSERVATIONS:
        # `trajectory(obs)` numbers observations only where it is an id by its name alone.
        of_dim = [name for name in of_dim if name.lower() != dim.lower()]
    return next((name for called in _IDS for name in of_dim if name.lower() == called), None)


def from_grid(
    coordinates: Sequence[FloatArray],
    times: FloatArray,
    ids: Sequence[Any] | np.ndarray,
    contents: Contents,
    **attributes: Any,
) -> Trajectories:
    """Make trajectories from arrays (trajectory, observation), padded with NaN.

    Rows without a time, and those before the first and after the last position of a trajectory, are
    padding; a missing position between others is a missing fix. Trajectories without any position
    are left out.
    """
    shape = coordinates[0].shape
    if len(shape) != 2 or any(axis.shape != shape for axis in coordinates):
        shapes = ", ".join(str(axis.shape) for axis in coordinates)
        msg = f"positions have the shapes {shapes}, expected one (trajectory, time)"
        raise DriftbayesError(f"{contents.source!r}: {msg}")
    if times.shape not in (shape, shape[1:]):
        msg = f"times have the shape {times.shape}, expected {shape} or {shape[1:]}"
        raise DriftbayesError(f"{contents.source!r}: {msg}")
    times = np.broadcast_to(times, shape)
    there = np.all([np.isfinite(axis) for axis in coordinates], axis=0)
    # Between the first and the last position, both included.
    begun = np.logical_or.accumulate(there, axis=1)
    ended = np.logical_or.accumulate(there[:, ::-1], axis=1)[:, ::-1]
    rows = begun & ended & np.isfinite(times)
    return _trajectories(coordinates, times, rows, rows.sum(axis=1), ids, contents, **attributes)


def from_ragged(
    coordinates: Sequence[FloatArray],
    times: FloatArray,
    row_sizes: IntArray,
    ids: Sequence[Any],
    contents: Contents,
    **attributes: Any,
) -> Trajectories:
    """Make trajectories from arrays of observations, trajectory after trajectory."""
    sizes = {len(times), *(len(axis) for axis in coordinates)}
    if len(sizes) > 1 or row_sizes.sum() != len(times) or (row_sizes < 0).any():
        raise DriftbayesError(
            f"{contents.source!r}: the numbers of observations of its trajectories sum to "
            f"{row_sizes.sum():,}, expected that of its times and positions, "
            f"{', '.join(map(str, sorted(sizes)))}; the file is damaged"
        )
    timed = np.isfinite(times)
    index = np.repeat(np.arange(len(row_sizes)), row_sizes)
    counts = np.bincount(index[timed], minlength=len(row_sizes))
    return _trajectories(coordinates, times, timed, counts, ids, contents, **attributes)


def _trajectories(
    coordinates: Sequence[FloatArray],
    times: FloatArray,
    rows: np.ndarray,
    counts: IntArray,
    ids: Sequence[Any] | np.ndarray,
    contents: Contents,
    *,
    sd: FloatArray | None = None,
    flags: Mapping[str, FloatArray] | None = None,
    **attributes: Any,
) -> Trajectories:
    """Trajectories from the rows that are observations, and the number of these in each."""
    there = np.all([np.isfinite(axis) for axis in coordinates], axis=0)
    if not (there & rows).any():
        raise DriftbayesError(f"{contents.source!r} holds no position at all; every one is missing")
    with begin_with_name(contents.path):
        return Trajectories(
            positions=np.column_stack([np.where(there, a, np.nan)[rows] for a in coordinates]),
            times=times[rows],
            row_sizes=counts[counts > 0],
            ids=_id_array(ids, counts),
            position_sd=None if sd is None else np.broadcast_to(sd, rows.shape)[rows],
            flags={name: values[rows] for name, values in (flags or {}).items()},
            **attributes,
        )


def _id_array(ids: Sequence[Any] | np.ndarray, counts: IntArray) -> StrArray:
    """The ids of those trajectories that have observations."""
    # As text too, of which every one takes the room of the longest.
    check_memory(300 * len(counts), f"{len(counts):,} trajectories")
    if isinstance(ids, range):
        ids = np.arange(ids.start, ids.stop, dtype=np.int64)
    if isinstance(ids, np.ndarray) and ids.dtype.kind == "i" and len(ids) == len(counts):
        return ids[counts > 0].astype(np.int64)
    try:
        return id_array([i for i, count in zip(ids, counts, strict=True) if count])
    except BadCellError as error:
        raise DriftbayesError(f"the variable of ids {error.what}") from error
