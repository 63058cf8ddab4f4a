"""Displacements of some of the trajectories: the first few, all but one, a fold."""

__all__ = ["growing", "subset", "without_each"]

from collections.abc import Iterator
from dataclasses import replace

import equinox as eqx
import numpy as np

from driftbayes.likelihood import PaddedSteps, SecondMoments, second_moments
from driftbayes.models import Data, Preparation
from driftbayes.sampling import Displacements
from driftbayes.typing import IntArray


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
        start_lonlat=None if data.start_lonlat is None else data.start_lonlat[keep],
    )


def growing(data: Displacements, numbers: IntArray, way: Preparation) -> Iterator[Data]:
    """The first trajectory, the first two, and so on to all, prepared in this way."""
    if way.engine == "kalman":
        padded = PaddedSteps.from_displacements(data)
        for number in numbers:
            yield _masked(padded, data.trajectory <= number)
        return
    total: SecondMoments | None = None
    for own in _own_moments(data, numbers, way.memory):
        total = own if total is None else _add(total, own, 1.0)
        yield total


def without_each(data: Displacements, numbers: IntArray, way: Preparation) -> Iterator[Data]:
    """All trajectories, then all but the first, all but the second, and so on, likewise."""
    if way.engine == "kalman":
        padded = PaddedSteps.from_displacements(data)
        yield padded
        for number in numbers:
            yield _masked(padded, data.trajectory != number)
        return
    whole = second_moments(data, way.memory)
    yield whole
    for own in _own_moments(data, numbers, way.memory):
        yield _add(whole, own, -1.0)


def _masked(padded: PaddedSteps, keep: np.ndarray) -> PaddedSteps:
    """The same arrays, so that nothing is compiled anew, with the other runs switched off."""
    factor = np.zeros((padded.valid.shape[0], 1))
    factor[: len(keep), 0] = keep
    return eqx.tree_at(lambda steps: steps.valid, padded, np.asarray(padded.valid) * factor)


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
