"""Subsets of trajectories: growing, leave-one-out, and by fold."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from driftbayes._typing import IntArray
from driftbayes.data._sampling import Displacements, subset
from driftbayes.likelihood import SecondMoments, second_moments
from driftbayes.models import Preparation

# Data of a subset of trajectories: displacements, or second moments that can be stacked.
Part: TypeAlias = Displacements | SecondMoments


def growing(data: Displacements, numbers: IntArray, preparation: Preparation) -> Iterator[Part]:
    """Yield the first trajectory, the first two, and so on to all, prepared for a model."""
    if preparation.engine == "kalman":
        for number in numbers:
            yield _part(data, data.trajectory <= number)
        return
    total: SecondMoments | None = None
    for moments in _own_moments(data, numbers, preparation.memory):
        total = moments if total is None else _add(total, moments, 1.0)
        yield total


def without_each(
    data: Displacements, numbers: IntArray, preparation: Preparation
) -> Iterator[Part]:
    """Yield all trajectories, then all but the first, all but the second, and so on."""
    if preparation.engine == "kalman":
        yield data
        for number in numbers:
            yield _part(data, data.trajectory != number)
        return
    total = second_moments(data, preparation.memory)
    yield total
    for moments in _own_moments(data, numbers, preparation.memory):
        yield _add(total, moments, -1.0)


def with_each_of_fold(
    data: Displacements, numbers: IntArray, n_folds: int, preparation: Preparation
) -> Iterator[Part]:
    """Yield, for each fold, all trajectories outside it, then these plus each one of the fold."""
    total, moments = None, []
    if preparation.engine != "kalman":
        moments = list(_own_moments(data, numbers, preparation.memory))
        total = second_moments(data, preparation.memory)
    for fold in np.unique(numbers % n_folds):
        inside = np.flatnonzero(numbers % n_folds == fold)
        if total is None:
            outside = data.trajectory % n_folds != fold
            yield _part(data, outside)
            for i in inside:
                yield _part(data, outside | (data.trajectory == numbers[i]))
            continue
        rest = total
        for i in inside:
            rest = _add(rest, moments[i], -1.0)
        yield rest
        for i in inside:
            yield _add(rest, moments[i], 1.0)


def _part(data: Displacements, keep: np.ndarray) -> Displacements:
    """Return the selected runs; if none of them moved, with steps whose squares are zero."""
    if np.any(data.dx[np.repeat(keep, data.row_sizes)]):
        return subset(data, keep)
    return subset(replace(data, dx=np.where(data.dx == 0, np.finfo(float).tiny, data.dx)), keep)


def _own_moments(data: Displacements, numbers: IntArray, memory: int) -> Iterator[SecondMoments]:
    """Yield the second moments of each trajectory, in a layout that sums to the total."""
    total = second_moments(data, memory)
    keys = list(zip(total.orders.tolist(), total.paired.tolist(), strict=True))
    for number in numbers:
        runs = data.trajectory == number
        steps = np.repeat(runs, data.row_sizes)
        moves = bool(np.any(data.dx[steps]))
        # A particle that never moved is not a valid data set alone, but counts in a sum.
        moving = data if moves else replace(data, dx=np.where(steps[:, None], 1.0, data.dx))
        moments = second_moments(subset(moving, runs), memory)
        forms, predicted = np.zeros_like(total.forms), np.zeros_like(total.predicted)
        size = moments.forms.shape[-1]
        for i, key in enumerate(zip(moments.orders.tolist(), moments.paired.tolist(), strict=True)):
            forms[keys.index(key), :size, :size] = moments.forms[i] * moves
        predicted[:size] = moments.predicted
        yield SecondMoments(forms, total.orders, total.paired, predicted, total.tau)


def _add(a: SecondMoments, b: SecondMoments, sign: float) -> SecondMoments:
    forms, predicted = a.forms + sign * b.forms, a.predicted + sign * b.predicted
    return SecondMoments(forms, a.orders, a.paired, predicted, a.tau)
