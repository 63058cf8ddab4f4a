"""Displacements of some of the trajectories: the first few, all but one, a fold."""

__all__ = ["Part", "beside_each_fold", "growing", "subset", "without_each"]

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from driftbayes.data.sampling import Displacements
from driftbayes.likelihood import SecondMoments, second_moments
from driftbayes.models import Preparation
from driftbayes.typing import IntArray

# Data of some trajectories, themselves or as moments that can be stacked.
Part: TypeAlias = Displacements | SecondMoments


def subset(data: Displacements, keep: np.ndarray) -> Displacements:
    """Only the runs that are kept."""
    steps = np.repeat(keep, data.row_sizes)
    sd = data.position_sd
    return replace(
        data,
        dx=data.dx[steps],
        interval=data.interval[steps],
        row_sizes=data.row_sizes[keep],
        trajectory=data.trajectory[keep],
        position_sd=None if sd is None else sd[np.repeat(keep, data.row_sizes + 1)],
        start=None if data.start is None else data.start[keep],
        start_row=None if data.start_row is None else data.start_row[keep],
        start_time=None if data.start_time is None else data.start_time[keep],
        lonlat=None if data.lonlat is None else data.lonlat[steps],
    )


def growing(data: Displacements, numbers: IntArray, way: Preparation) -> Iterator[Part]:
    """The first trajectory, the first two, and so on to all, prepared in this way."""
    if way.engine == "kalman":
        for number in numbers:
            yield _part(data, data.trajectory <= number)
        return
    total: SecondMoments | None = None
    for own in _own_moments(data, numbers, way.memory):
        total = own if total is None else _add(total, own, 1.0)
        yield total


def without_each(data: Displacements, numbers: IntArray, way: Preparation) -> Iterator[Part]:
    """All trajectories, then all but the first, all but the second, and so on, likewise."""
    if way.engine == "kalman":
        yield data
        for number in numbers:
            yield _part(data, data.trajectory != number)
        return
    whole = second_moments(data, way.memory)
    yield whole
    for own in _own_moments(data, numbers, way.memory):
        yield _add(whole, own, -1.0)


def beside_each_fold(
    data: Displacements, numbers: IntArray, n_folds: int, way: Preparation
) -> Iterator[Part]:
    """For each fold all trajectories outside it, then these with each one of the fold, likewise."""
    whole, own = None, []
    if way.engine != "kalman":
        own = list(_own_moments(data, numbers, way.memory))
        whole = second_moments(data, way.memory)
    for fold in np.unique(numbers % n_folds):
        inside = np.flatnonzero(numbers % n_folds == fold)
        if whole is None:
            outside = data.trajectory % n_folds != fold
            yield _part(data, outside)
            for i in inside:
                yield _part(data, outside | (data.trajectory == numbers[i]))
            continue
        rest = whole
        for i in inside:
            rest = _add(rest, own[i], -1.0)
        yield rest
        for i in inside:
            yield _add(rest, own[i], 1.0)


def _part(data: Displacements, keep: np.ndarray) -> Displacements:
    """The runs that are kept; if none of them moved, with steps whose squares are zero."""
    if np.any(data.dx[np.repeat(keep, data.row_sizes)]):
        return subset(data, keep)
    return subset(replace(data, dx=np.where(data.dx == 0, np.finfo(float).tiny, data.dx)), keep)


def _own_moments(data: Displacements, numbers: IntArray, memory: int) -> Iterator[SecondMoments]:
    """Second moments of each trajectory, in the layout of the whole: they add up to it."""
    whole = second_moments(data, memory)
    keys = list(zip(whole.orders.tolist(), whole.paired.tolist(), strict=True))
    for number in numbers:
        runs = data.trajectory == number
        steps = np.repeat(runs, data.row_sizes)
        moves = bool(np.any(data.dx[steps]))
        # A particle that never moved is no data set by itself, but counts among others.
        one = data if moves else replace(data, dx=np.where(steps[:, None], 1.0, data.dx))
        own = second_moments(subset(one, runs), memory)
        forms, predicted = np.zeros_like(whole.forms), np.zeros_like(whole.predicted)
        size = own.forms.shape[-1]
        for i, key in enumerate(zip(own.orders.tolist(), own.paired.tolist(), strict=True)):
            forms[keys.index(key), :size, :size] = own.forms[i] * moves
        predicted[:size] = own.predicted
        yield SecondMoments(forms, whole.orders, whole.paired, predicted, whole.tau)


def _add(a: SecondMoments, b: SecondMoments, sign: float) -> SecondMoments:
    forms, predicted = a.forms + sign * b.forms, a.predicted + sign * b.predicted
    return SecondMoments(forms, a.orders, a.paired, predicted, a.tau)
