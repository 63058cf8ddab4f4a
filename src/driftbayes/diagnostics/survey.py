"""How trajectories are sampled, and which sampling times suit them."""

__all__ = ["Survey", "survey"]

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np

from driftbayes.data.trajectories import AXES, Trajectories
from driftbayes.data.units import time_factor
from driftbayes.diagnostics.quantisation import Quantisation, quantisation
from driftbayes.errors import DriftbayesError

# Intervals that differ by less than this share of the typical one are alike: the first of these
# at which half of them are.
_ALIKE = (1e-3, 1e-2, 0.1)
# Half of the trajectories keep this many steps at the longest sampling time that is suggested.
_STEPS_LEFT = 5
_MOST_TAUS = 12
_FEWEST_STEPS = 20
# With fewer intervals alike than this, most fixes fall between the sampling times.
_FEWEST_ALIKE = 0.5


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
        if alike.mean() >= _FEWEST_ALIKE:
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
    rows = np.flatnonzero(trajectories.observed)
    same = np.diff(trajectories.trajectory_index[rows]) == 0
    found = {}
    for name, values in zip(AXES, trajectories.positions[rows].T, strict=False):
        with np.errstate(over="ignore", invalid="ignore"):
            steps = np.abs(np.diff(values))[same]
            width = np.ptp(values) if len(values) else 0.0
        if len(steps) < _FEWEST_STEPS or not 0 < width < np.inf:
            continue
        n_jumps = int(np.sum(steps > 0.5 * width))
        if n_jumps and np.quantile(steps, 0.95) < 0.1 * width:
            found[name] = n_jumps
    return found


def _taus(
    trajectories: Trajectories, interval: float | None, share: float | None
) -> tuple[float | None, float | None, int]:
    regular = trajectories.recording_interval
    if interval is None or share is None or regular is None or share < _FEWEST_ALIKE:
        return None, None, 0
    ends = trajectories.times[trajectories.starts[1:] - 1]
    durations = ends - trajectories.times[trajectories.starts[:-1]]
    usable = durations[durations > 0]
    n_steps = max(int(np.median(usable) / _STEPS_LEFT / interval), 1)
    return interval, n_steps * interval, min(n_steps, _MOST_TAUS)


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
