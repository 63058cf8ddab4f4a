"""Layouts of trajectories in a dataset, found from names and attributes alone.

The layouts are those of the CF conventions, appendix H.4: contiguous ragged, indexed ragged,
(trajectory, observation) and a single trajectory. clouddrift and the Global Drifter Program use
them too, but omit the attributes that declare them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from driftbayes._typing import FloatArray, IntArray, StrArray
from driftbayes.data._trajectories import Trajectories
from driftbayes.errors import DriftbayesError, did_you_mean
from driftbayes.io._ids import BadCellError, id_array
from driftbayes.io._limits import check_memory
from driftbayes.io._reading import Contents, ReadOptions, prefix_errors

Kind = Literal["contiguous", "indexed", "long", "grid", "single"]

COUNTS = ("rowsize", "row_size", "count")
_IDS = (
    *("id", "ids", "trajectory", "trajectory_id", "traj_id", "traj", "particle", "particle_id"),
    *("drifter_id", "drifter", "buoy_id", "buoy", "platform_id", "platform", "wmo"),
)
_TIMES = ("time", "t", "obs_time", "datetime", "date", "timestamp", "juld")
_OBSERVATIONS = ("obs", "observation", "time", "index", "row", "sample", "step")
# Pairs of coordinates are searched by standard name, by axis and by name, in this order.
_STANDARD = (("longitude", "latitude"), ("projection_x_coordinate", "projection_y_coordinate"))
PAIRS = (("lon", "lat"), ("longitude", "latitude"), ("x", "y"))


@dataclass(frozen=True)
class Layout:
    """Layout of trajectories in a dataset, and the role of each variable."""

    # "contiguous": one trajectory after the other, with the count of each; "indexed": mixed, with
    # the trajectory number of each observation; "long": mixed, with the trajectory id of each
    # observation; "grid": (trajectory, observation), padded; "single": one trajectory.
    kind: Kind
    x: str  # variable of the first coordinate
    y: str  # variable of the second coordinate
    time: str  # variable of times
    sample: str  # dimension of observations
    instance: str | None = None  # dimension of trajectories, if any
    counter: str | None = None  # variable of counts, trajectory numbers or ids
    ids: str | None = None  # variable of ids, if any


def find_layout(contents: Contents, options: ReadOptions | None = None) -> Layout:
    """Find the layout of a dataset from names, attributes and the columns given by the user."""
    given = _given_names(contents, options or ReadOptions())
    counter = find_counter(contents)
    x, y = _find_coordinates(contents, given, counter)
    dims = contents.dims[x]
    named = given.get("id")
    if len(dims) == 1:
        sample = dims[0]
        if counter is not None:
            kind, name, instance = counter
            ids = named or _find_ids(contents, instance)
            time = _find_time(contents, given, (sample,), None)
            return Layout(kind, x, y, time, sample, instance, name, ids)
        time = _find_time(contents, given, (sample,), None)
        ids = named or _find_ids(contents, sample, exclude=(x, y, time))
        if ids is not None and contents.dims[ids][:1] == (sample,):
            return Layout("long", x, y, time, sample, None, ids, ids)
        return Layout("single", x, y, time, sample, ids=ids or _find_ids(contents, None))
    candidates = (_find_ids(contents, dim, exclude=(x, y)) for dim in dims)
    marked = named or next(filter(None, candidates), None)
    id_dim = contents.dims[marked][0] if marked and contents.dims[marked] else None
    time = _find_time(contents, given, dims, id_dim)
    if len(contents.dims[time]) == 1:
        sample = contents.dims[time][0]
    elif id_dim in dims:
        sample = dims[1] if dims[0] == id_dim else dims[0]
    else:
        sample = next((dim for dim in dims if dim.lower() in _OBSERVATIONS), dims[1])
    instance = dims[1] if dims[0] == sample else dims[0]
    ids = marked if marked and contents.dims[marked][:1] == (instance,) else None
    return Layout("grid", x, y, time, sample, instance, None, ids)


def _given_names(contents: Contents, options: ReadOptions) -> dict[str, str]:
    names = options.names
    for degrees, role in (("lon", "x"), ("lat", "y")):
        if degrees in names:
            names[role] = names.pop(degrees)
    for role, name in names.items():
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
    return names


def find_counter(contents: Contents) -> tuple[Kind, str, str] | None:
    """Find the kind of a ragged layout, its counter variable and the trajectory dimension."""
    for name, dims in contents.dims.items():
        sample = contents.attribute(name, "sample_dimension")
        instance = contents.attribute(name, "instance_dimension")
        if sample and len(dims) == 1 and dims[0] != sample:
            return "contiguous", name, dims[0]
        if instance and len(dims) == 1:
            return "indexed", name, instance
    for name, dims in contents.dims.items():
        # Many clouddrift files lack the attribute that CF requires.
        if name.lower() in COUNTS and len(dims) == 1:
            return "contiguous", name, dims[0]
    return None


def _find_coordinates(
    contents: Contents, given: Mapping[str, str], counter: tuple[Kind, str, str] | None
) -> tuple[str, str]:
    """Find the variables of the two coordinates."""
    if "x" in given and "y" in given:
        x, y = given["x"], given["y"]
        dims = contents.dims[x]
        if dims != contents.dims[y] or not 1 <= len(dims) <= 2:
            raise DriftbayesError(
                f"{contents.source!r}: {x!r} has dimensions ({', '.join(dims)}) and {y!r} has "
                f"({', '.join(contents.dims[y])}); expected the same one or two dimensions"
            )
        return x, y
    for xs, ys in _candidates(contents):
        pairs = [
            (x, y)
            for x in xs
            for y in ys
            if x != y and contents.dims[x] == contents.dims[y] and _suits(contents, x, counter)
        ]
        if pairs:
            # Values per observation take precedence over values per trajectory.
            return max(pairs, key=lambda pair: len(contents.dims[pair[0]]))
    raise DriftbayesError(
        f"{contents.source!r} has no pair of position variables with the same dimensions and "
        "known standard names or names (lon, lat, x, y); it has "
        f"{contents.shown or 'no variables'}: pass columns (--columns x=NAME,y=NAME)"
    )


def _candidates(contents: Contents) -> Iterator[tuple[list[str], list[str]]]:
    def select(value: Callable[[str], str], pair: Sequence[str]) -> tuple[list[str], list[str]]:
        x, y = ([name for name in contents.dims if value(name) == wanted] for wanted in pair)
        return x, y

    for pair in _STANDARD:
        yield select(lambda name: contents.attribute(name, "standard_name"), pair)
    yield select(lambda name: contents.attribute(name, "axis").upper(), "XY")
    for pair in PAIRS:
        yield select(str.lower, pair)


def _suits(contents: Contents, name: str, counter: tuple[Kind, str, str] | None) -> bool:
    dims = contents.dims[name]
    if len(dims) == 2:
        # A count beside a padded array gives the number of valid entries in each row.
        return counter is None or counter[0] == "contiguous"
    if len(dims) != 1:
        return False
    return counter is None or (
        dims == contents.dims[counter[1]] if counter[0] == "indexed" else dims[0] != counter[2]
    )


def _find_time(
    contents: Contents, given: Mapping[str, str], dims: tuple[str, ...], id_dim: str | None
) -> str:
    """Find the variable of times, along some or all dimensions of the positions."""

    def fits(name: str) -> bool:
        own = contents.dims[name]
        return bool(own) and own != (id_dim,) and set(own) <= set(dims)

    if "time" in given:
        if not fits(given["time"]):
            raise DriftbayesError(
                f"{contents.source!r}: {given['time']!r} has dimensions "
                f"({', '.join(contents.dims[given['time']])}), expected those of the positions, "
                f"({', '.join(dims)}), or one of them"
            )
        return given["time"]
    names = [name for name in contents.dims if fits(name)]
    candidates = (
        [n for n in names if contents.attribute(n, "standard_name") == "time"],
        [n for n in names if contents.attribute(n, "axis").upper() == "T"],
        [n for n in names if n.lower() in _TIMES],
        [n for n in names if " since " in contents.attribute(n, "units").lower()],
    )
    for matches in candidates:
        if matches:
            return max(matches, key=lambda name: len(contents.dims[name]))
    raise DriftbayesError(
        f"{contents.source!r} has no time variable with the dimensions of its positions, "
        f"({', '.join(dims)}), or one of them; pass columns (--columns time=NAME)"
    )


def _find_ids(contents: Contents, dim: str | None, exclude: tuple[str, ...] = ()) -> str | None:
    """Find the variable of ids along a dimension; without one, the scalar id."""
    names = [
        name
        for name, dims in contents.dims.items()
        if name not in exclude and (dims[:1] == (dim,) if dim else not dims) and len(dims) <= 2
    ]
    for name in names:
        if contents.attribute(name, "cf_role").lower() == "trajectory_id":
            return name
    if dim is not None and dim.lower() in _OBSERVATIONS:
        # The coordinate of the observation dimension holds no ids, even with a name like `index`.
        names = [name for name in names if name.lower() != dim.lower()]
    return next((name for known in _IDS for name in names if name.lower() == known), None)


def from_grid(
    coordinates: Sequence[FloatArray],
    times: FloatArray,
    ids: Sequence[Any] | np.ndarray,
    contents: Contents,
    **attributes: Any,
) -> Trajectories:
    """Make trajectories from arrays (trajectory, observation), padded with NaN.

    Entries without a time, and those before the first or after the last position of a trajectory,
    are padding; a missing position between others is a missing fix. Trajectories without positions
    are excluded.
    """
    shape = coordinates[0].shape
    if len(shape) != 2 or any(axis.shape != shape for axis in coordinates):
        shapes = ", ".join(str(axis.shape) for axis in coordinates)
        msg = f"positions have shapes {shapes}, expected the same (trajectory, time)"
        raise DriftbayesError(f"{contents.source!r}: {msg}")
    if times.shape not in (shape, shape[1:]):
        msg = f"times have shape {times.shape}, expected {shape} or {shape[1:]}"
        raise DriftbayesError(f"{contents.source!r}: {msg}")
    times = np.broadcast_to(times, shape)
    present = np.all([np.isfinite(axis) for axis in coordinates], axis=0)
    # From the first to the last position, both included.
    begun = np.logical_or.accumulate(present, axis=1)
    not_ended = np.logical_or.accumulate(present[:, ::-1], axis=1)[:, ::-1]
    rows = begun & not_ended & np.isfinite(times)
    return _trajectories(coordinates, times, rows, rows.sum(axis=1), ids, contents, **attributes)


def from_ragged(
    coordinates: Sequence[FloatArray],
    times: FloatArray,
    row_sizes: IntArray,
    ids: Sequence[Any],
    contents: Contents,
    **attributes: Any,
) -> Trajectories:
    """Make trajectories from arrays of observations, one trajectory after the other."""
    sizes = {len(times), *(len(axis) for axis in coordinates)}
    if len(sizes) > 1 or row_sizes.sum() != len(times) or (row_sizes < 0).any():
        raise DriftbayesError(
            f"{contents.source!r}: the observation counts of its trajectories sum to "
            f"{row_sizes.sum():,}, expected the number of times and positions, "
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
    """Make trajectories from the valid rows, and their number in each trajectory."""
    present = np.all([np.isfinite(axis) for axis in coordinates], axis=0)
    if not (present & rows).any():
        raise DriftbayesError(f"{contents.source!r} holds no position at all; every one is missing")
    with prefix_errors(contents.path):
        return Trajectories(
            positions=np.column_stack([np.where(present, a, np.nan)[rows] for a in coordinates]),
            times=times[rows],
            row_sizes=counts[counts > 0],
            ids=_id_array(ids, counts),
            position_sd=None if sd is None else np.broadcast_to(sd, rows.shape)[rows],
            flags={name: values[rows] for name, values in (flags or {}).items()},
            **attributes,
        )


def _id_array(ids: Sequence[Any] | np.ndarray, counts: IntArray) -> StrArray:
    """Return the ids of the trajectories with observations."""
    # Ids may be text, where each takes as much memory as the longest.
    check_memory(300 * len(counts), f"{len(counts):,} trajectories")
    if isinstance(ids, range):
        ids = np.arange(ids.start, ids.stop, dtype=np.int64)
    if isinstance(ids, np.ndarray) and ids.dtype.kind == "i" and len(ids) == len(counts):
        return ids[counts > 0].astype(np.int64)
    try:
        return id_array([i for i, count in zip(ids, counts, strict=True) if count])
    except BadCellError as error:
        raise DriftbayesError(f"the variable of ids {error.what}") from error
