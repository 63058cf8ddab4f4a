r"""Checks that find suspicious observations, and repair them on request.

A spike is a jump out and back. With $a$ and $b$ the steps from the previous fix and to the next
fix, both are too fast, and the previous and the next fix are nearer to each other than either is to
the spike, $|a + b| < \min(|a|, |b|)$. Sustained fast motion or a turn is not a spike. The default
limit is eight times the median of the trajectory or of the file, whichever is larger, both per time
and per square root of time, so that neither straight motion nor diffusion at irregular intervals
looks fast at short intervals.

An outlier is a fix far from the line between its neighbours, which fit to the fixes around them
without it. The limit is six standard deviations of such residuals, from their median in the
trajectory or among nearby fixes, whichever is larger, as a length, per square root of time and per
square of time. In a turn or a fast segment the neighbours do not fit; in an irregular segment
nearby residuals are as large.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from driftbayes._representation import counted
from driftbayes._typing import FloatArray, IntArray
from driftbayes.data._trajectories import Trajectories
from driftbayes.data._units import (
    LENGTH,
    SPEED,
    TIME,
    converted,
    parse_quantity,
    readable,
    unit_of,
)
from driftbayes.errors import DriftbayesError, NothingLeftError, did_you_mean

# A number with its unit, which may be empty.
Amount = tuple[float, str]
# Default length of a gap, and of a period without motion, in median intervals.
_GAP_INTERVALS, _STUCK_INTERVALS = 20, 10
# Share of repeated positions or outliers that is reported without a request.
_MIN_NOTABLE = 0.01
# Motion within this many standard deviations of the position error is noise.
_SIGMAS = 4.0
_MIN_STUCK = 3
# For Gaussian steps, eight medians are 5.4 standard deviations in 1D and 9.4 in 2D, and a spike has
# two such steps.
MULTIPLE = 8.0
# Fixes on each side whose median selects the wrong one of neighbouring candidates.
_N_AROUND = 3
# Limits of an outlier: its residual in standard deviations, the number of residuals on each side
# that give the local scale, and the largest residual of its neighbours without it, relative to its
# own.
_DEVIATIONS, _N_NEARBY, _MAX_MISFIT = 6.0, 8, 1 / 3
# Median length of a Gaussian vector of unit variance per axis, in 1 to 3 dimensions.
_RAYLEIGH = (0.6745, 1.1774, 1.5382)
_MIN_FIXES = 12


@dataclass(frozen=True, eq=False)
class Finding:
    """Result of one check.

    Args:
        name: Name of the check, as in `--qc`.
        n_observations: Number of observations found.
        n_trajectories: Number of trajectories with such observations.
        rows: Mask of the observations found.
        sentence: The finding in words.
        limits: Limits of the check, in the units of the data.
        is_notable: Whether to report the finding without a request.
    """

    name: str
    n_observations: int
    n_trajectories: int
    rows: np.ndarray = field(repr=False)
    sentence: str
    limits: dict[str, Any] = field(default_factory=dict)
    is_notable: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return plain numbers and text."""
        return {
            "check": self.name,
            "n_observations": self.n_observations,
            "n_trajectories": self.n_trajectories,
            "limits": self.limits,
            "sentence": self.sentence,
        }


class AbstractCheck(ABC):
    """A check that finds and repairs suspicious observations."""

    name: ClassVar[str]

    @classmethod
    def parse(cls, value: str) -> "AbstractCheck":
        """Make the check with limits given as text."""
        if value:
            raise DriftbayesError(f"{cls.name} takes no value, got {value!r}; omit it")
        return cls()

    @abstractmethod
    def find(self, trajectories: Trajectories) -> Finding:
        """Find suspicious observations, without changing the data."""

    def repair(self, trajectories: Trajectories, finding: Finding) -> Trajectories:
        """Repair trajectories, by default by setting the observations found to missing."""
        return trajectories.blanked(finding.rows)

    def fix_limits(self, trajectories: Trajectories) -> "AbstractCheck":
        """Return the check with fixed limits, computed from some trajectories of a file."""
        return self

    def _found(
        self,
        trajectories: Trajectories,
        rows: np.ndarray,
        sentence: str,
        *,
        is_notable: bool | None = None,
        **limits: Any,
    ) -> Finding:
        """Make a finding; `{who}` and `{tracks}` in the sentence are replaced by the counts."""
        n = int(rows.sum())
        m = len(np.unique(trajectories.trajectory_index[rows]))
        positions, tracks = counts_text(n, m) if n else ("", "none")
        text = sentence.format(who=f"{positions} in {tracks}" if n else "none", tracks=tracks)
        notable = n > 0 if is_notable is None else is_notable
        return Finding(self.name, n, m, rows, text, limits, notable)


@dataclass(frozen=True)
class Drogue(AbstractCheck):
    """Observations after the loss of the drogue, by the flag "drogued".

    Args:
        if_known: Whether to accept data without the flag, unchanged.
    """

    name: ClassVar[str] = "drogued"
    if_known: bool = False

    def refuse_unknown(self, trajectories: Trajectories) -> None:
        """Refuse data without the flag."""
        if "drogued" not in trajectories.flags and not self.if_known:
            raise DriftbayesError("the data have no flag 'drogued'; omit this check")

    def find(self, trajectories: Trajectories) -> Finding:
        lost = np.zeros(len(trajectories.times), dtype=bool)
        flag = trajectories.flags.get("drogued")
        if flag is not None:
            n_lost = np.cumsum(flag == 0)
            before = np.concatenate([[0], n_lost])[trajectories.starts[:-1]]
            lost = n_lost > np.repeat(before, trajectories.row_sizes)
        sentence = "{who}: after the loss of the drogue"
        if flag is None:
            sentence = "unknown: the data have no flag 'drogued'"
        return self._found(trajectories, lost, sentence, has_flag=flag is not None)

    def repair(self, trajectories: Trajectories, finding: Finding) -> Trajectories:
        """Cut trajectories at the loss of the drogue."""
        if finding.rows.all():
            msg = "no position has a drogue, so nothing would remain; omit 'drogued'"
            raise NothingLeftError(msg)
        return trajectories.select(~finding.rows)


@dataclass(frozen=True)
class Stuck(AbstractCheck):
    """Periods in which a particle does not move beyond the noise of its positions.

    Args:
        time: Minimum duration and its unit; None for ten median intervals.
        radius: Maximum distance from the first fix of the period, and its unit; None for four
            standard deviations of the position error if `time` is given and the error is known,
            else zero.
    """

    name: ClassVar[str] = "stuck"
    time: Amount | None = None
    radius: Amount | None = None

    @classmethod
    def parse(cls, value: str) -> "Stuck":
        time, _, radius = value.partition(":")
        return cls(_parse_amount(time, "stuck"), _parse_amount(radius, "stuck"))

    def fix_limits(self, trajectories: Trajectories) -> "Stuck":
        if self.time is not None:
            return self
        return Stuck(
            (_duration(trajectories, self.time, _STUCK_INTERVALS, "stuck"), ""),
            self.radius or (0.0, ""),
        )

    def find(self, trajectories: Trajectories) -> Finding:
        min_time = _duration(trajectories, self.time, _STUCK_INTERVALS, "stuck")
        chosen = np.zeros(len(trajectories.times), dtype=bool)
        radius = self._radius(trajectories)
        rows, same = trajectories.fixes
        x = trajectories.positions[rows]
        times = trajectories.times[rows]
        still = same & (np.linalg.norm(np.diff(x, axis=0), axis=1) <= radius[rows[:-1]])
        ends = np.flatnonzero(~np.append(same, False)) + 1
        stop = 0
        for i in np.flatnonzero(still).tolist():
            if i < stop:
                continue
            last = int(ends[np.searchsorted(ends, i, side="right")])
            stop = _find_exit(x, i, last, float(radius[rows[i]]))
            # Allow for rounding of time stamps.
            if stop - i >= _MIN_STUCK and times[stop - 1] - times[i] >= min_time * (1 - 1e-9):
                chosen[rows[i + 1 : stop]] = True
        largest = float(radius.max(initial=0.0))
        within = "" if largest == 0 else f" beyond {readable(largest, trajectories.length_unit, 3)}"
        duration = readable(min_time, trajectories.time_unit, 3)
        sentence = f"{{who}}: no motion{within} for {duration} or longer"
        time = min_time if np.isfinite(min_time) else None
        return self._found(trajectories, chosen, sentence, time=time, radius=largest)

    def _radius(self, trajectories: Trajectories) -> FloatArray:
        n = len(trajectories.times)
        if self.radius is not None:
            return np.full(n, converted(*self.radius, LENGTH, trajectories.units, "stuck"))
        if self.time is None or trajectories.position_sd is None:
            return np.zeros(n)
        return np.nan_to_num(_SIGMAS * trajectories.position_sd)


def _find_exit(x: FloatArray, first: int, last: int, radius: float) -> int:
    """Find the first index before `last` farther than `radius` from `first`; else return `last`."""
    low, size = first + 1, 16
    while low < last:
        high = min(low + size, last)
        outside = np.linalg.norm(x[low:high] - x[first], axis=1) > radius
        if outside.any():
            return low + int(outside.argmax())
        low, size = high, 2 * size
    return last


@dataclass(frozen=True)
class Spikes(AbstractCheck):
    """Jumps out and back.

    Args:
        speed: Speed limit for both steps and its unit; None for a multiple of the median.
        multiple: Multiple of the median step, if no speed is given.
        medians: Median steps of the whole file per time and per square root of time, to check a
            part of it; None computes them from the trajectories.
    """

    name: ClassVar[str] = "spikes"
    speed: Amount | None = None
    multiple: float = MULTIPLE
    medians: tuple[float, float] | None = None

    @classmethod
    def parse(cls, value: str) -> "Spikes":
        amount = _parse_amount(value.removesuffix("x"), "spikes")
        if amount is not None and value.endswith("x"):
            return cls(multiple=amount[0])
        return cls(speed=amount)

    def fix_limits(self, trajectories: Trajectories) -> "Spikes":
        if self.speed is not None:
            return self
        rows, _ = trajectories.fixes
        _, same, measures = _steps(trajectories, rows)
        per_time, per_root = (_median(measure, same) for measure in measures)
        return replace(self, medians=(per_time, per_root))

    def find(self, trajectories: Trajectories) -> Finding:
        limit = None
        if self.speed is not None:
            limit = converted(*self.speed, SPEED, trajectories.units, "spikes")
        rows, _ = trajectories.fixes
        chosen = np.zeros(len(trajectories.times), dtype=bool)
        while len(rows) > 2:
            is_spike = _find_spikes(trajectories, rows, limit, self)
            if not is_spike.any():
                break
            chosen[rows[is_spike]] = True
            rows = rows[~is_spike]
        per = unit_of(SPEED, trajectories.units)
        how = f"{self.multiple:g} times the median speed"
        limits: dict[str, Any] = {"multiple_of_median": self.multiple}
        if limit is not None:
            how, limits = readable(limit, per, 3), {"speed": limit, "unit": per}
        sentence = f"{{who}}: spikes (jumps out and back at more than {how})"
        return self._found(trajectories, chosen, sentence, **limits)

    def repair(self, trajectories: Trajectories, finding: Finding) -> Trajectories:
        """Set spikes to missing."""
        return _project_again(trajectories.blanked(finding.rows))


def _project_again(trajectories: Trajectories) -> Trajectories:
    """Repeat the projection of longitudes and latitudes without the fixes set to missing.

    Projection follows the path, so that a spike to (0, 0) shifts all later positions. Positions
    that were changed after their projection are kept.
    """
    plane = trajectories.provenance.get("plane")
    is_own = trajectories.length_unit == "m" and "unwrapped" not in trajectories.provenance
    if trajectories.lonlat is None or not isinstance(plane, dict) or not is_own:
        return trajectories
    radius = plane.get("radius")
    from driftbayes.data.sphere import on_plane

    projected = on_plane(
        replace(trajectories, positions=trajectories.lonlat, lonlat=None),
        frame=plane.get("frame", "auto"),
        radius=radius if isinstance(radius, float) else None,
    )
    return replace(trajectories, positions=projected.positions)


def _steps(
    trajectories: Trajectories, rows: np.ndarray
) -> tuple[FloatArray, np.ndarray, list[FloatArray]]:
    """Return lengths of steps, whether they are within a trajectory, and two measures of speed."""
    same = np.diff(trajectories.trajectory_index[rows]) == 0
    length = np.linalg.norm(np.diff(trajectories.positions[rows], axis=0), axis=1)
    duration = np.where(same, np.diff(trajectories.times[rows]), 1.0)
    return length, same, [length / duration, length / np.sqrt(duration)]


def _median(measure: FloatArray, same: np.ndarray) -> float:
    moving = same & (measure > 0)
    return float(np.median(measure[moving])) if moving.any() else 0.0


def _find_spikes(
    trajectories: Trajectories, rows: np.ndarray, limit: float | None, check: Spikes
) -> np.ndarray:
    """Find spikes; of neighbouring candidates select the one farthest from nearby fixes."""
    x, owner = trajectories.positions[rows], trajectories.trajectory_index[rows]
    length, same, measures = _steps(trajectories, rows)
    if limit is not None:
        fast = same & (measures[0] > limit)
    else:
        medians = check.medians or [_median(measure, same) for measure in measures]
        fast = same.copy()
        for measure, median in zip(measures, medians, strict=True):
            fast &= measure > check.multiple * median
    chord = np.linalg.norm(x[2:] - x[:-2], axis=1)
    inner = fast[:-1] & fast[1:] & (chord < np.minimum(length[:-1], length[1:]))
    candidates = np.concatenate([[False], inner, [False]])
    if limit is None:
        # Compute medians only of trajectories with candidates, to save time.
        for number in np.unique(owner[candidates]).tolist():
            low, high = np.searchsorted(owner, [number, number + 1])
            for measure in measures:
                own = measure[low : high - 1]
                large = own > check.multiple * np.median(own[own > 0])
                candidates[low + 1 : high - 1] &= large[:-1] & large[1:]
    if not candidates.any():
        return candidates
    # Distance from the median of nearby fixes: in 0, 9, 0, 9, 0 the nines are spikes.
    distance = np.zeros(len(rows))
    for i in np.flatnonzero(candidates).tolist():
        near = np.arange(max(i - _N_AROUND, 0), min(i + _N_AROUND + 1, len(rows)))
        near = near[owner[near] == owner[i]]
        distance[i] = np.linalg.norm(x[i] - np.median(x[near], axis=0))
    return candidates & _is_peak(distance)


def _is_peak(sizes: FloatArray) -> np.ndarray:
    """Whether each size is not smaller than the previous and larger than the next."""
    return (sizes >= np.append(0.0, sizes[:-1])) & (sizes > np.append(sizes[1:], 0.0))


@dataclass(frozen=True)
class Outliers(AbstractCheck):
    """Fixes far from the line between their neighbours, which fit without them.

    Args:
        deviations: Limit in standard deviations of the residuals.
    """

    name: ClassVar[str] = "outliers"
    deviations: float = _DEVIATIONS

    @classmethod
    def parse(cls, value: str) -> "Outliers":
        number, unit = _parse_amount(value, "outliers") or (_DEVIATIONS, "")
        if unit:
            raise DriftbayesError(f"outliers takes a number of standard deviations, got {value!r}")
        return cls(number)

    def find(self, trajectories: Trajectories) -> Finding:
        chosen = np.zeros(len(trajectories.times), dtype=bool)
        rows, _ = trajectories.fixes
        owner = trajectories.trajectory_index[rows]
        sizes = np.bincount(owner, minlength=trajectories.n_trajectories)
        rows = rows[sizes[owner] >= _MIN_FIXES]
        while len(rows) >= _MIN_FIXES:
            is_outlier = _find_outliers(trajectories, rows, self.deviations)
            if not is_outlier.any():
                break
            chosen[rows[is_outlier]] = True
            # Search again only in trajectories with outliers.
            owner = trajectories.trajectory_index[rows]
            rows = rows[np.isin(owner, owner[is_outlier]) & ~is_outlier]
        share = float(chosen.sum() / max(len(chosen), 1))
        sentence = (
            f"{{who}}: outliers (more than {self.deviations:g} standard deviations off the line "
            "between their neighbours, which fit without them); +noise+outliers models them"
        )
        is_notable, limit = share >= _MIN_NOTABLE, self.deviations
        return self._found(trajectories, chosen, sentence, is_notable=is_notable, deviations=limit)

    def repair(self, trajectories: Trajectories, finding: Finding) -> Trajectories:
        """Set outliers to missing."""
        return _project_again(trajectories.blanked(finding.rows))


def _residuals(
    x: FloatArray, t: FloatArray, owner: IntArray, before: IntArray, after: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return distances of fixes from the line between two others, and harmonic mean times.

    Both are NaN at the ends of trajectories.
    """
    inside = (before >= 0) & (after < len(x))
    low, high = np.where(inside, before, 0), np.where(inside, after, 0)
    inside &= (owner[low] == owner) & (owner[high] == owner)
    first, last = t - t[low], t[high] - t
    span = np.where(inside, first + last, 1.0)
    line = x[low] + (x[high] - x[low]) * (first / span)[:, None]
    residual = np.linalg.norm(x - line, axis=1)
    return np.where(inside, residual, np.nan), np.where(inside, first * last / span, np.nan)


def _find_outliers(trajectories: Trajectories, rows: IntArray, deviations: float) -> np.ndarray:
    """Find outliers; of neighbouring candidates select the one with the largest residual."""
    x, t = trajectories.positions[rows], trajectories.times[rows]
    owner, n = trajectories.trajectory_index[rows], len(rows)
    index = np.arange(n)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        residual, time = _residuals(x, t, owner, index - 1, index + 1)
        candidates = np.isfinite(residual) & (residual > 0)
        factor = deviations / _RAYLEIGH[min(x.shape[1], 3) - 1]
        starts = np.flatnonzero(np.append(True, np.diff(owner) != 0))
        for measure in (residual, residual / np.sqrt(time), residual / time**2):
            medians = [np.nanmedian(part) for part in np.split(measure, starts[1:])]
            candidates &= measure > factor * np.repeat(medians, np.diff(np.append(starts, n)))
        # Residuals of the neighbours without the fix.
        left, _ = _residuals(x, t, owner, index - 1, index + 2)
        right, _ = _residuals(x, t, owner, index - 2, index + 1)
        misfit = np.fmax(np.append(np.nan, left[:-1]), np.append(right[1:], np.nan))
        candidates &= misfit < _MAX_MISFIT * residual
    for i in np.flatnonzero(candidates).tolist():
        near = np.arange(max(i - _N_NEARBY, 0), min(i + _N_NEARBY + 1, n))
        near = near[(owner[near] == owner[i]) & (np.abs(near - i) > 1)]
        candidates[i] = residual[i] > factor * np.nanmedian(residual[near])
    return np.asarray(candidates & _is_peak(np.where(candidates, residual, 0.0)))


@dataclass(frozen=True)
class Repeats(AbstractCheck):
    """Fixes identical to the previous one, by rounding or repeated transmission."""

    name: ClassVar[str] = "repeated"

    def find(self, trajectories: Trajectories) -> Finding:
        rows, same = trajectories.fixes
        x = trajectories.positions[rows]
        equal = same & np.all(x[1:] == x[:-1], axis=1)
        chosen = np.zeros(len(trajectories.times), dtype=bool)
        chosen[rows[1:][equal]] = True
        share = float(equal.sum() / max(same.sum(), 1))
        sentence = (
            f"{{who}}: identical to the previous position, {share:.1%} of all steps (rounding, or "
            "repeated transmission)"
        )
        is_notable = _MIN_NOTABLE <= share < 1
        return self._found(trajectories, chosen, sentence, is_notable=is_notable, share=share)


@dataclass(frozen=True)
class Gaps(AbstractCheck):
    """The first fix after a long gap.

    Args:
        time: Length of the gap and its unit; None for twenty median intervals.
    """

    name: ClassVar[str] = "gaps"
    time: Amount | None = None

    @classmethod
    def parse(cls, value: str) -> "Gaps":
        return cls(_parse_amount(value, "gaps"))

    def fix_limits(self, trajectories: Trajectories) -> "Gaps":
        return replace(self, time=(_duration(trajectories, self.time, _GAP_INTERVALS, "gaps"), ""))

    def find(self, trajectories: Trajectories) -> Finding:
        max_time = _duration(trajectories, self.time, _GAP_INTERVALS, "gaps")
        rows, same = trajectories.fixes
        long = same & (np.diff(trajectories.times[rows]) > max_time * (1 + 1e-9))
        chosen = np.zeros(len(trajectories.times), dtype=bool)
        chosen[rows[1:][long]] = True
        duration = readable(max_time, trajectories.time_unit, 3)
        sentence = f"{{who}}: after a gap longer than {duration}"
        time = max_time if np.isfinite(max_time) else None
        return self._found(trajectories, chosen, sentence, is_notable=False, time=time)

    def repair(self, trajectories: Trajectories, finding: Finding) -> Trajectories:
        """Split trajectories at gaps; the later parts are named NAME/2, NAME/3, ..."""
        starts = finding.rows.copy()
        starts[trajectories.starts[:-1]] = True
        firsts = np.flatnonzero(starts)
        owner = trajectories.trajectory_index[firsts]
        part = np.arange(len(firsts)) - np.searchsorted(owner, owner) + 1
        names = [
            str(trajectories.ids[i]) + (f"/{k}" if k > 1 else "")
            for i, k in zip(owner, part, strict=True)
        ]
        if len(firsts) == trajectories.n_trajectories:
            return trajectories
        sizes = np.diff(np.append(firsts, len(trajectories.times)))
        return replace(trajectories, row_sizes=sizes, ids=np.array(names))


@dataclass(frozen=True)
class Short(AbstractCheck):
    """Trajectories with too few positions.

    Args:
        min_points: Minimum number of positions; a displacement needs two.
    """

    name: ClassVar[str] = "min-points"
    min_points: int = 2

    @classmethod
    def parse(cls, value: str) -> "Short":
        number, unit = _parse_amount(value, "min-points") or (2.0, "")
        if unit or number != int(number):
            raise DriftbayesError(f"min-points must be a whole number, got {value!r}")
        return cls(int(number))

    def find(self, trajectories: Trajectories) -> Finding:
        short = (trajectories.n_positions < self.min_points)[trajectories.trajectory_index]
        n = self.min_points
        sentence = f"{{tracks}}: fewer than {n} positions"
        return self._found(trajectories, short, sentence, is_notable=False, min_points=n)

    def repair(self, trajectories: Trajectories, finding: Finding) -> Trajectories:
        """Remove short trajectories."""
        if not finding.n_trajectories:
            return trajectories
        return trajectories.drop_short(self.min_points)


# In the order of application: removed data need no repair, an instrument that repeats a wrong
# position is stuck and then a spike, and short pieces are removed last.
CHECKS: dict[str, type[AbstractCheck]] = {
    kind.name: kind for kind in (Drogue, Stuck, Spikes, Outliers, Repeats, Gaps, Short)
}


def counts_text(n_positions: int, n_trajectories: int) -> tuple[str, str]:
    """Format numbers of positions and of trajectories."""
    return counted(n_positions, "position"), counted(n_trajectories, "trajectory", "trajectories")


def parse_check(name: str, value: str) -> AbstractCheck:
    """Make a check from its name and its limits as text, for example `6h:50m`."""
    if name not in CHECKS:
        known = ["default", *CHECKS]
        near = did_you_mean(name, known)
        raise DriftbayesError(f"unknown check {name!r}; known are {', '.join(known)}{near}")
    return CHECKS[name].parse(value)


def _parse_amount(text: str, option: str) -> Amount | None:
    """Parse a positive number and its unit, which may be empty; None for empty text."""
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        return parse_quantity(text, option)
    if not (math.isfinite(value) and value > 0):
        msg = f"{option} must be a positive number, with or without a unit, got {text!r}"
        raise DriftbayesError(msg)
    return value, ""


def _duration(trajectories: Trajectories, time: Amount | None, n: int, option: str) -> float:
    """Return the given time, or `n` median intervals."""
    if time is not None:
        return converted(*time, TIME, trajectories.units, option)
    intervals = trajectories.intervals
    return n * float(np.median(intervals)) if len(intervals) else np.inf
