"""Variables of a dataset of any layout, all in the one order of its trajectories."""

__all__ = ["Observed", "observed"]

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes.data.trajectories import Trajectories
from driftbayes.errors import DriftbayesError
from driftbayes.io.contents import Contents
from driftbayes.io.datasets import from_grid, from_ragged, identifiers, numbers, seconds
from driftbayes.io.layouts import Layout
from driftbayes.typing import FloatArray, IntArray

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True)
class Observed:
    """What a dataset holds of each observation.

    Args:
        dataset: Of some or all trajectories.
        contents: Where it comes from.
        layout: How trajectories lie in it.
        times: In seconds, or as the user has it.
        time_unit: Their unit.
        ids: Of the trajectories.
        row_sizes: Number of observations of each trajectory; None if they are padded.
        order: Rows of the file in the order of trajectories and times; None if they are so.
    """

    dataset: "xr.Dataset"
    contents: Contents
    layout: Layout
    times: FloatArray
    time_unit: str
    ids: Sequence[Any]
    row_sizes: IntArray | None
    order: IntArray | slice | None

    def values(self, name: str) -> FloatArray:
        """A variable as numbers, in the order of the trajectories."""
        layout, source = self.layout, self.contents.path.name
        values, dims = numbers(self.dataset, name, source), self.dataset[name].dims
        expected = (layout.instance, layout.sample) if layout.kind == "grid" else (layout.sample,)
        if layout.kind == "grid" and dims == expected[::-1]:
            values, dims = values.T, expected
        if dims != expected:
            msg = (
                f"{source!r}: variable {name!r} has the dimensions ({', '.join(map(str, dims))}), "
                f"expected ({', '.join(map(str, expected))})"
            )
            raise DriftbayesError(msg)
        return values if self.order is None else values[..., self.order]

    def trajectories(self, coordinates: Sequence[FloatArray], **attributes: Any) -> Trajectories:
        """Trajectories of these coordinates; attributes as for `from_grid`."""
        if self.row_sizes is None:
            return from_grid(coordinates, self.times, self.ids, self.contents, **attributes)
        return from_ragged(
            coordinates, self.times, self.row_sizes, self.ids, self.contents, **attributes
        )


def observed(
    dataset: "xr.Dataset", contents: Contents, layout: Layout, time_unit: str | None = None
) -> Observed:
    """The variables of a dataset in the order of its trajectories."""
    source = contents.path.name
    times, unit = seconds(dataset, layout.time, contents, time_unit)
    row_sizes: IntArray | None = None
    order: IntArray | slice | None = None
    ids: Sequence[Any]
    if layout.kind == "grid":
        if times.ndim == 2 and dataset[layout.time].dims[0] == layout.sample:
            times = times.T
        if times.ndim == 1 and len(times) > 1 and np.all(np.diff(times) < 0):
            # A run backwards in time has the same increments.
            order = slice(None, None, -1)
            times = times[order]
        ids = _ids(dataset, contents, layout, dataset.sizes[layout.instance])
    elif layout.kind == "contiguous":
        row_sizes = _counts(dataset, str(layout.counter), source)
        ids = _ids(dataset, contents, layout, len(row_sizes))
    elif layout.kind == "single":
        row_sizes = np.array([len(times)])
        ids = _ids(dataset, contents, layout, 1)
    else:
        index, ids = _index(dataset, contents, layout)
        order = np.lexsort((times, index))[np.count_nonzero(index < 0) :]
        row_sizes = np.bincount(index[order], minlength=len(ids))
        times = times[order]
    return Observed(dataset, contents, layout, times, unit, ids, row_sizes, order)


def _ids(dataset: "xr.Dataset", contents: Contents, layout: Layout, count: int) -> Sequence[Any]:
    """Ids of the trajectories; without any, their numbers in the file."""
    if layout.ids is None:
        first = int(dataset.encoding.get("first_trajectory", 0))
        return range(first, first + count)
    source = contents.path.name
    if layout.ids not in dataset.variables or dataset[layout.ids].ndim:
        ids: list[Any] = identifiers(dataset, layout.ids, source).tolist()
    else:
        ids = identifiers(dataset[[layout.ids]].expand_dims("one"), layout.ids, source).tolist()
    if len(ids) != count:
        msg = (
            f"{source!r}: variable {layout.ids!r} has {len(ids)} ids for {count} trajectories; "
            "the file is damaged"
        )
        raise DriftbayesError(msg)
    return ids


def _counts(dataset: "xr.Dataset", name: str, source: str) -> IntArray:
    counts = numbers(dataset, name, source, are_counts=True)
    # The largest possible sum: one that is larger is not the number of anything in a file.
    if counts.ndim != 1 or not ((counts >= 0) & (counts < 2**40) & (counts % 1 == 0)).all():
        msg = (
            f"{source!r}: variable {name!r} must hold the number of observations of each "
            "trajectory, whole numbers from 0 up; the file is damaged or this is another variable"
        )
        raise DriftbayesError(msg)
    return counts.astype(np.int64)


def _index(
    dataset: "xr.Dataset", contents: Contents, layout: Layout
) -> tuple[IntArray, Sequence[Any]]:
    """Number of the trajectory of each observation, -1 for none, and the ids."""
    source, name = contents.path.name, str(layout.counter)
    if layout.kind == "long":
        unique, codes = np.unique(identifiers(dataset, name, source), return_inverse=True)
        return codes.astype(np.int64), unique.tolist()
    given = numbers(dataset, name, source, are_counts=True)
    if not (np.isnan(given) | (given % 1 == 0) & (np.abs(given) < 2**53)).all():
        msg = f"{source!r}: variable {name!r} must hold numbers of trajectories, from 0 up"
        raise DriftbayesError(msg)
    index: IntArray = np.where(given >= 0, given, -1).astype(np.int64)
    count = dataset.sizes.get(layout.instance)
    if layout.ids is None and count is None:
        there, codes = np.unique(index, return_inverse=True)
        none = int((there < 0).any())
        return codes.astype(np.int64) - none, there[none:].tolist()
    ids = _ids(dataset, contents, layout, int(count if count is not None else 0))
    if index.max(initial=-1) >= len(ids):
        msg = (
            f"{source!r}: variable {name!r} has the number {index.max()}, but there are only "
            f"{len(ids)} trajectories, counted from 0; the file is damaged"
        )
        raise DriftbayesError(msg)
    return index, ids
