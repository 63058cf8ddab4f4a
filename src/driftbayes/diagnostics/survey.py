r"""Survey trajectories: how they are sampled and rounded, and which sampling times suit them.

A position rounded to multiples of a step $s$ has an error of standard deviation $s / \sqrt{12}$,
which at short sampling times looks like a measurement error, because it is one.
"""

__all__ = ["Quantisation", "Survey", "grid_step", "quantisation", "survey"]

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np

from driftbayes.data.trajectories import AXES, Trajectories
from driftbayes.data.units import length_factor, time_factor
from driftbayes.errors import DriftbayesError
from driftbayes.typing import FloatArray

_EARTH = 6371e3
# Enough rows to find a step, few enough for any file.
_MAX_ROWS = 100_000
# Of larger numbers no difference or square need be finite.
_LARGEST = 1e150
_MIN_ROWS, _MIN_VALUES = 20, 4
# Intervals that differ by less than this share of the typical one are alike: the first of these
# at which half of them are.
_ALIKE = (1e-3, 1e-2, 0.1)
# Half of the trajectories keep this many steps at the longest sampling time that is suggested.
_STEPS_LEFT = 5
_MAX_TAUS = 12
_MIN_STEPS = 20
# With fewer intervals alike than this, most fixes fall between the sampling times.
_MIN_ALIKE = 0.5


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
    if len(rows) > _MAX_ROWS:
        rows = rows[np.linspace(0, len(rows) - 1, _MAX_ROWS).astype(np.int64)]
    names: tuple[str, ...] = AXES
    if trajectories.lonlat is None:
        values, unit = trajectories.positions[rows], trajectories.length_unit
        scales = [1.0] * trajectories.n_dim
    else:
        names, unit = ("longitude", "latitude"), "degrees"
        values = trajectories.lonlat[rows]
        # What a metre is in the unit of positions that were laid on a plane.
        per_metre = length_factor("m", trajectories.length_unit or "m")[0]
        metres = np.radians(1.0) * _EARTH * per_metre
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
    if len(values) < _MIN_ROWS or len(distinct) < _MIN_VALUES:
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
    if len(values) < _MIN_ROWS or not 0 < largest < np.finfo(np.float32).max:
        return None
    single = values.astype(np.float32)
    return float(np.spacing(np.float32(largest))) if (single == values).all() else None


@dataclass(frozen=True)
class Survey:
    """What `survey` finds; None where there is too little to say.

    Args:
        interval: The most common time between fixes.
        share: The part of all intervals that are alike to it.
        n_gaps: Intervals of more than one and a half of it.
        longest_gap: The longest of these.
        step_rms: Root mean square displacement per axis over that interval.
        quantisation: Coordinates written in steps.
        tau_low: The shortest sampling time that suits, or None if fixes are better used each at its
            own interval (`--tau all`).
        tau_high: The longest.
        n_taus: How many between the two.
        dates: First and last time, if times are dates.
        jumps: Steps of more than half of its range along each axis, where others are far shorter:
            what a periodic domain leaves.
    """

    interval: float | None
    share: float | None
    n_gaps: int | None
    longest_gap: float | None
    step_rms: float | None
    quantisation: list[Quantisation]
    tau_low: float | None
    tau_high: float | None
    n_taus: int
    dates: tuple[str, str] | None
    jumps: dict[str, int]

    @property
    def noise(self) -> float:
        """Error of rounding, in the unit of positions: the largest of all axes."""
        return max((one.noise for one in self.quantisation), default=0.0)


def survey(trajectories: Trajectories) -> Survey:
    """Look at how trajectories are sampled.

    Args:
        trajectories: Any, also those of which nothing can be inferred.
    """
    interval, share = _typical(trajectories)
    gaps = trajectories.intervals[trajectories.intervals > 1.5 * (interval or np.inf)]
    low, high, count = _taus(trajectories, interval, share)
    return Survey(
        interval=interval,
        share=share,
        n_gaps=None if interval is None else len(gaps),
        longest_gap=float(gaps.max()) if len(gaps) else None,
        step_rms=_step_rms(trajectories, interval),
        quantisation=quantisation(trajectories),
        tau_low=low,
        tau_high=high,
        n_taus=count,
        dates=_dates(trajectories),
        jumps=_jumps(trajectories),
    )


def _typical(trajectories: Trajectories) -> tuple[float | None, float | None]:
    intervals = trajectories.intervals
    if len(intervals) == 0:
        return None, None
    for width in _ALIKE:
        # On a logarithmic scale: intervals may span milliseconds to years.
        bins = np.round(np.log(intervals) / width)
        kinds, counts = np.unique(bins, return_counts=True)
        alike = np.abs(bins - kinds[counts.argmax()]) <= 1
        if alike.mean() >= _MIN_ALIKE:
            break
    interval = float(np.median(intervals[alike]))
    dt = trajectories.recording_interval
    if dt is not None and abs(interval - dt) <= _ALIKE[0] * dt:
        # Refined over the whole record.
        interval = dt
    return interval, float(alike.mean())


def _step_rms(trajectories: Trajectories, interval: float | None) -> float | None:
    if interval is None:
        return None
    same = np.diff(trajectories.trajectory_index) == 0
    close = same & (np.abs(np.diff(trajectories.times) - interval) <= 0.5 * interval)
    # Positions near the largest number there is have no differences.
    with np.errstate(over="ignore", invalid="ignore"):
        steps = np.diff(trajectories.positions, axis=0)[close]
        steps = steps[np.isfinite(steps).all(axis=1)]
        rms = float(np.sqrt(np.mean(steps**2))) if len(steps) else np.nan
    return rms if np.isfinite(rms) else None


def _jumps(trajectories: Trajectories) -> dict[str, int]:
    if trajectories.lonlat is not None or "unwrapped" in trajectories.provenance:
        return {}
    rows, same = trajectories.fixes
    found = {}
    for name, values in zip(AXES, trajectories.positions[rows].T, strict=False):
        with np.errstate(over="ignore", invalid="ignore"):
            steps = np.abs(np.diff(values))[same]
            width = np.ptp(values) if len(values) else 0.0
        if len(steps) < _MIN_STEPS or not 0 < width < np.inf:
            continue
        n_jumps = int(np.sum(steps > 0.5 * width))
        if n_jumps and np.quantile(steps, 0.95) < 0.1 * width:
            found[name] = n_jumps
    return found


def _taus(
    trajectories: Trajectories, interval: float | None, share: float | None
) -> tuple[float | None, float | None, int]:
    regular = trajectories.recording_interval
    if interval is None or share is None or regular is None or share < _MIN_ALIKE:
        return None, None, 0
    ends = trajectories.times[trajectories.starts[1:] - 1]
    durations = ends - trajectories.times[trajectories.starts[:-1]]
    usable = durations[durations > 0]
    n_steps = max(int(np.median(usable) / _STEPS_LEFT / interval), 1)
    return interval, n_steps * interval, min(n_steps, _MAX_TAUS)


def _dates(trajectories: Trajectories) -> tuple[str, str] | None:
    """First and last time as dates, if the file had dates."""
    origin = trajectories.provenance.get("time_origin")
    if origin is None:
        return None
    try:
        start = datetime.fromisoformat(str(origin))
        # One without a zone is UTC, wherever this runs.
        start = start.replace(tzinfo=start.tzinfo or UTC)
        factor = time_factor(trajectories.time_unit)[0]
        ends = (float(trajectories.times.min()), float(trajectories.times.max()))
        dates = [start + timedelta(seconds=time * factor) for time in ends]
    # A year that the calendar does not have, or an origin that is none.
    except (ValueError, OverflowError, DriftbayesError):
        return None
    first, last = (date.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S") for date in dates)
    return first, last
