r"""Survey of trajectories: sampling, rounding, and suggested sampling times.

A position rounded to multiples of a step $s$ has an error of standard deviation $s / \sqrt{12}$,
which acts as a measurement error at short sampling times.
"""

__all__ = ["Quantisation", "Survey", "grid_step", "quantisation", "survey"]

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np

from driftbayes._typing import FloatArray
from driftbayes.data._trajectories import AXES, Trajectories, fitted_step
from driftbayes.data._units import length_factor, time_factor
from driftbayes.errors import DriftbayesError

_EARTH = 6371e3
# Enough rows to find a step in any file.
_MAX_ROWS = 100_000
# Differences and squares of larger numbers may overflow.
_MAX_VALUE = 1e150
_MIN_ROWS, _MIN_VALUES = 20, 4
# Relative differences of alike intervals; the first at which half of them are alike is used.
_ALIKE = (1e-3, 1e-2, 0.1)
# Half of the trajectories have this many steps at the longest suggested sampling time.
_STEPS_LEFT = 5
_MAX_TAUS = 12
_MIN_STEPS = 20
# With a smaller fraction of alike intervals, most fixes fall between the sampling times.
_MIN_ALIKE = 0.5


@dataclass(frozen=True)
class Quantisation:
    """Resolution of one coordinate in the file.

    Args:
        axis: Name of the coordinate.
        step: Step between neighbouring values, in `unit`; at the largest value if `single`.
        unit: Unit of the step: degrees, or that of the positions.
        single: Whether the step is that of single precision, not of a number of digits.
        length: The step as a length, in the unit of the positions.
        noise: Standard deviation of the rounding error, in the unit of the positions.
    """

    axis: str
    step: float
    unit: str
    single: bool
    length: float
    noise: float


def quantisation(trajectories: Trajectories) -> list[Quantisation]:
    """Find the coordinates that are rounded to a step.

    Args:
        trajectories: Positions converted from degrees are tested in degrees.
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
        # Length of a metre in the unit of positions.
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
    """Find the step of which all differences between values are multiples, or None.

    Args:
        values: Numbers, with or without duplicates.
    """
    distinct = np.unique(values[np.isfinite(values)])
    if len(values) < _MIN_ROWS or len(distinct) < _MIN_VALUES:
        return None
    largest = np.abs(distinct).max()
    if not largest < _MAX_VALUE:
        return None
    slack = 8 * np.spacing(largest)
    gaps = np.sort(np.diff(distinct))
    gaps = gaps[gaps > slack]
    if len(gaps) == 0:
        return None
    step = float(gaps[0])
    for gap in gaps[1:200].tolist():
        step = _common(step, gap, 100 * slack)
        # A finer step is rounding, not a grid.
        if step < 1000 * slack:
            return None
    offsets = distinct - distinct[0]
    step = fitted_step(offsets, step)
    off = np.abs(offsets - np.round(offsets / step) * step).max()
    return step if off <= 0.01 * step + 2 * slack and off < 0.1 * step else None


def _common(a: float, b: float, slack: float) -> float:
    """Compute the greatest common divisor of two inexact lengths."""
    while b > slack:
        a, b = b, abs(a - np.round(a / b) * b)
    return a


def _single_precision(values: FloatArray) -> float | None:
    largest = np.abs(values).max(initial=0.0)
    if len(values) < _MIN_ROWS or not 0 < largest < np.finfo(np.float32).max:
        return None
    single = values.astype(np.float32)
    return float(np.spacing(np.float32(largest))) if (single == values).all() else None


@dataclass(frozen=True)
class Survey:
    """Sampling and rounding of trajectories; None where there are too few data.

    Args:
        interval: Most common time between fixes.
        share: Fraction of intervals alike to it.
        n_gaps: Number of intervals longer than 1.5 times that.
        longest_gap: Longest of these.
        step_rms: Root mean square displacement per axis over that interval.
        quantisation: Coordinates rounded to a step.
        tau_low: Shortest suggested sampling time, or None if every fix should be used at its own
            interval (`--tau all`).
        tau_high: Longest suggested sampling time.
        n_taus: Suggested number of sampling times.
        dates: First and last time, if times are dates.
        jumps: Number of steps longer than half the range along each axis where others are far
            shorter, as in a periodic domain.
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
        """Largest rounding error of all axes, in the unit of positions."""
        return max((rounding.noise for rounding in self.quantisation), default=0.0)


def survey(trajectories: Trajectories) -> Survey:
    """Survey the sampling of trajectories.

    Args:
        trajectories: Any trajectories, even if nothing can be inferred from them.
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
        # On a logarithmic scale, since intervals may range from milliseconds to years.
        bins = np.round(np.log(intervals) / width)
        kinds, counts = np.unique(bins, return_counts=True)
        alike = np.abs(bins - kinds[counts.argmax()]) <= 1
        if alike.mean() >= _MIN_ALIKE:
            break
    interval = float(np.median(intervals[alike]))
    dt = trajectories.recording_interval
    if dt is not None and abs(interval - dt) <= _ALIKE[0] * dt:
        # Fitted to the whole record.
        interval = dt
    return interval, float(alike.mean())


def _step_rms(trajectories: Trajectories, interval: float | None) -> float | None:
    if interval is None:
        return None
    same = np.diff(trajectories.trajectory_index) == 0
    close = same & (np.abs(np.diff(trajectories.times) - interval) <= 0.5 * interval)
    # Differences of very large positions overflow.
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
    """Return the first and last time as dates, if the file had dates."""
    origin = trajectories.provenance.get("time_origin")
    if origin is None:
        return None
    try:
        start = datetime.fromisoformat(str(origin))
        # A date without a zone is UTC.
        start = start.replace(tzinfo=start.tzinfo or UTC)
        factor = time_factor(trajectories.time_unit)[0]
        ends = (float(trajectories.times.min()), float(trajectories.times.max()))
        dates = [start + timedelta(seconds=time * factor) for time in ends]
    # A year beyond the calendar, or an invalid origin.
    except (ValueError, OverflowError, DriftbayesError):
        return None
    first, last = (date.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S") for date in dates)
    return first, last
