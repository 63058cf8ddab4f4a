r"""Positions written with few digits: the step between them, and the noise that it amounts to.

A position rounded to multiples of a step $s$ has an error of standard deviation $s / \sqrt{12}$,
which at short sampling times looks like a measurement error, because it is one.
"""

__all__ = ["Quantisation", "grid_step", "quantisation"]

from dataclasses import dataclass

import numpy as np

from driftbayes.data.trajectories import AXES, Trajectories
from driftbayes.typing import FloatArray

_EARTH = 6371e3
# Enough rows to find a step, few enough for any file.
_MOST_ROWS = 100_000
# Of larger numbers no difference or square need be finite.
_LARGEST = 1e150
_FEWEST_ROWS, _FEWEST_VALUES = 20, 4


@dataclass(frozen=True)
class Quantisation:
    """How finely one coordinate is written.

    Args:
        axis: Its name.
        step: Between neighbouring values, in `unit`; of single precision at the largest value.
        unit: Of the step: degrees, or that of the positions.
        single: Whether it is the step of single precision, not of a number of digits.
        length: The step as a length, in the unit of the positions.
        noise: Standard deviation of the error of rounding, in the unit of the positions.
    """

    axis: str
    step: float
    unit: str
    single: bool
    length: float
    noise: float


def quantisation(trajectories: Trajectories) -> list[Quantisation]:
    """The coordinates that are written in steps, with those steps.

    Args:
        trajectories: If they were laid on a plane, degrees are looked at, and not metres.
    """
    rows = np.flatnonzero(trajectories.observed)
    if len(rows) > _MOST_ROWS:
        rows = rows[np.linspace(0, len(rows) - 1, _MOST_ROWS).astype(np.int64)]
    names: tuple[str, ...] = AXES
    if trajectories.lonlat is None:
        values, unit = trajectories.positions[rows], trajectories.length_unit
        scales = [1.0] * trajectories.n_dim
    else:
        names, unit = ("longitude", "latitude"), "degrees"
        values = trajectories.lonlat[rows]
        metres = np.radians(1.0) * _EARTH * _per_metre(trajectories)
        shrunk = float(np.cos(np.radians(np.median(values[:, 1])))) if len(values) else 1.0
        scales = [metres * shrunk, metres]
    found = []
    for axis, scale, column in zip(names, scales, values.T, strict=False):
        step, single = grid_step(column), False
        if step is None:
            step, single = _single_precision(column), True
        if step is not None:
            length = step * scale
            noise = length / np.sqrt(12)
            found.append(Quantisation(axis, step, unit, single, float(length), float(noise)))
    return found


def grid_step(values: FloatArray) -> float | None:
    """The step of which all differences between values are multiples, or None.

    Args:
        values: Numbers, any number of times each.
    """
    distinct = np.unique(values[np.isfinite(values)])
    if len(values) < _FEWEST_ROWS or len(distinct) < _FEWEST_VALUES:
        return None
    largest = np.abs(distinct).max()
    if not largest < _LARGEST:
        return None
    slack = 8 * np.spacing(largest)
    gaps = np.sort(np.diff(distinct))
    gaps = gaps[gaps > slack]
    if len(gaps) == 0:
        return None
    step = float(gaps[0])
    for gap in gaps[1:200].tolist():
        step = _common(step, gap, 100 * slack)
        # Finer than this it is rounding that is seen, and not a grid.
        if step < 1000 * slack:
            return None
    offsets = distinct - distinct[0]
    # From near to far: a slightly wrong step miscounts the steps of far values.
    for horizon in (1e2, 1e4, 1e6, np.inf):
        counts = np.round(offsets / step)
        near = counts <= horizon
        if counts[near].any():
            step = float(np.sum(offsets[near] * counts[near]) / np.sum(counts[near] ** 2))
    off = np.abs(offsets - np.round(offsets / step) * step).max()
    return step if off <= 0.01 * step + 2 * slack and off < 0.1 * step else None


def _common(one: float, other: float, slack: float) -> float:
    """Greatest common divisor of two lengths that are not exact."""
    while other > slack:
        one, other = other, abs(one - np.round(one / other) * other)
    return one


def _single_precision(values: FloatArray) -> float | None:
    largest = np.abs(values).max(initial=0.0)
    if len(values) < _FEWEST_ROWS or not 0 < largest < np.finfo(np.float32).max:
        return None
    single = values.astype(np.float32)
    return float(np.spacing(np.float32(largest))) if (single == values).all() else None


def _per_metre(trajectories: Trajectories) -> float:
    """What a metre is in the unit of positions that were laid on a plane."""
    from driftbayes.data.units import length_factor

    return length_factor("m", trajectories.length_unit or "m")[0]
