r"""Checks of trajectories: each finds observations that look wrong, and repairs them on request.

A spike is a fix that goes far away and comes back at once. With $a$ and $b$ the legs from the fix
before and to the fix after, both are too fast, and the fixes before and after are nearer to each
other than either is to it, $|a + b| < \min(|a|, |b|)$. A fast stretch that goes on, or a turn, is
none. Without a limit of speed, too fast is eight times the median of the trajectory and of the
file, whichever is more, both per time and per root of time, so that neither straight motion nor
diffusion at uneven intervals looks fast where fixes are close in time.

An outlier is a fix far from the line between its neighbours, while these fit to the fixes around
them without it. Far is six standard deviations of such residuals, by their median in the trajectory
and among the fixes around, whichever is more, each as a length, per root of time and per square of
time. Of a turn or a fast stretch the neighbours do not fit; of a restless stretch others are as far
off.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from driftbayes.data.trajectories import Trajectories
from driftbayes.data.units import LENGTH, SPEED, TIME, converted, parse_quantity, readable
from driftbayes.errors import DriftbayesError, NothingLeftError, did_you_mean
from driftbayes.typing import FloatArray, IntArray

# A number with its unit, which may be empty.
Amount = tuple[float, str]
# Without a time, so many median intervals are a gap, and so many without any motion are stuck.
_GAP_INTERVALS, _STUCK_INTERVALS = 20, 10
# A share of repeated positions from which a person is told without asking. Of particles that
# never moved, whoever needs displacements says so.
_NOTABLE = 0.01
# Within so many standard deviations of the error of a position there is no motion beyond noise.
_SIGMAS = 4.0
_MIN_STUCK = 3
# Of Gaussian steps a leg of eight medians is 5.4 standard deviations in 1D and 9.4 in 2D, and a
# spike takes two of them.
MULTIPLE = 8.0
# Fixes on each side whose median tells which of several neighbouring candidates is the wrong one.
_AROUND = 3
# Of an outlier: standard deviations of residuals beyond which it lies, residuals on each side that
# tell how large they are there, the largest residual of its neighbours without it, relative to its
# own, and the median length of a Gaussian vector of unit variance per axis.
_DEVIATIONS, _NEARBY, _FIT = 6.0, 8, 1 / 3
_RAYLEIGH = (0.6745, 1.1774, 1.5382)
_MIN_FIXES = 12


@dataclass(frozen=True, eq=False)
class Finding:
    """What one check found.

    Args:
        name: Of the check, as in `--qc`.
        n_observations: How many observations it concerns.
        n_trajectories: In how many trajectories they are.
        rows: Which observations.
        sentence: The finding in words.
        limits: The numbers that the check went by, in the units of the data.
        is_notable: Whether a person should be told without asking.
    """

    name: str
    n_observations: int
    n_trajectories: int
    rows: np.ndarray = field(repr=False)
    sentence: str
    limits: dict[str, Any] = field(default_factory=dict)
    is_notable: bool = False

    def to_json(self) -> dict[str, Any]:
        """Plain numbers and text."""
        return {
            "check": self.name,
            "n_observations": self.n_observations,
            "n_trajectories": self.n_trajectories,
            "limits": self.limits,
            "sentence": self.sentence,
        }


class AbstractCheck(ABC):
    """A check: it finds, and on request repairs."""

    name: ClassVar[str]

    @classmethod
    def parse(cls, value: str) -> "AbstractCheck":
        """The check with the limits that are written after its name."""
        if value:
            raise DriftbayesError(f"{cls.name} takes no value, got {value!r}; omit it")
        return cls()

    @abstractmethod
    def find(self, trajectories: Trajectories) -> Finding:
        """The observations that look wrong; nothing is changed."""

    def repair(self, trajectories: Trajectories, finding: Finding) -> Trajectories:
        """The trajectories without what was found in them: here, with missing fixes."""
        return trajectories.blanked(finding.rows)

    def fixed_by(self, trajectories: Trajectories) -> "AbstractCheck":
        """The same check with the limits that it would take from some trajectories of a file."""
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
        """A record of these rows; `{who}` and `{tracks}` in the sentence become the counts."""
        n = int(rows.sum())
        m = len(np.unique(trajectories.trajectory_index[rows]))
        positions, tracks = counted(n, m) if n else ("", "none")
        text = sentence.format(who=f"{positions} in {tracks}" if n else "none", tracks=tracks)
        notable = n > 0 if is_notable is None else is_notable
        return Finding(self.name, n, m, rows, text, limits, notable)


@dataclass(frozen=True)
class Drogue(AbstractCheck):
    """Observations from the loss of the drogue on, by the flag "drogued".

    Args:
        if_known: Whether data without the flag are left as they are, and not refused.
    """

    name: ClassVar[str] = "drogued"
    if_known: bool = False

    def refuse_unknown(self, trajectories: Trajectories) -> None:
        """Refuse data in which no loss can be seen."""
        if "drogued" not in trajectories.flags and not self.if_known:
            raise DriftbayesError("the data have no flag 'drogued'; omit this check")

    def find(self, trajectories: Trajectories) -> Finding:
        lost = np.zeros(len(trajectories.times), dtype=bool)
        flag = trajectories.flags.get("drogued")
        if flag is not None:
            gone = np.cumsum(flag == 0)
            before = np.concatenate([[0], gone])[trajectories.starts[:-1]]
            lost = gone > np.repeat(before, trajectories.row_sizes)
        sentence = "{who}: after the loss of the drogue"
        if flag is None:
            sentence = "unknown: the data have no flag 'drogued'"
        return self._found(trajectories, lost, sentence, has_flag=flag is not None)

    def repair(self, trajectories: Trajectories, finding: Finding) -> Trajectories:
        """Trajectories end where the drogue is lost."""
        if finding.rows.all():
            msg = "no position has a drogue, so nothing would remain; omit 'drogued'"
            raise NothingLeftError(msg)
        return trajectories.select(~finding.rows)


@dataclass(frozen=True)
class Stuck(AbstractCheck):
    """Stretches in which a particle does not move beyond the noise of its positions.

    Args:
        time: How long a stretch must last, and the unit; None for ten median intervals.
        radius: How far from its first fix a particle that is stuck may seem to move, and the unit;
            None for four standard deviations of the error of positions if `time` is given and the
            error known, and for none at all otherwise.
    """

    name: ClassVar[str] = "stuck"
    time: Amount | None = None
    radius: Amount | None = None

    @classmethod
    def parse(cls, value: str) -> "Stuck":
        time, _, radius = value.partition(":")
        return cls(_parse_amount(time, "stuck"), _parse_amount(radius, "stuck"))

    def fixed_by(self, trajectories: Trajectories) -> "Stuck":
        if self.time is not None:
            return self
        return Stuck(
            (_duration(trajectories, self.time, _STUCK_INTERVALS, "stuck"), ""),
            self.radius or (0.0, ""),
        )

    def find(self, trajectories: Trajectories) -> Finding:
        least = _duration(trajectories, self.time, _STUCK_INTERVALS, "stuck")
        chosen = np.zeros(len(trajectories.times), dtype=bool)
        radius = self._radius(trajectories)
        rows, same = trajectories.fixes
        x = trajectories.positions[rows]
        times = trajectories.times[rows]
        still = same & (np.linalg.norm(np.diff(x, axis=0), axis=1) <= radius[rows[:-1]])
        ends = np.flatnonzero(~np.append(same, False)) + 1
        done = 0
        for i in np.flatnonzero(still).tolist():
            if i < done:
                continue
            last = int(ends[np.searchsorted(ends, i, side="right")])
            done = _leaves(x, i, last, float(radius[rows[i]]))
            # Rounding of time stamps must not decide.
            if done - i >= _MIN_STUCK and times[done - 1] - times[i] >= least * (1 - 1e-9):
                chosen[rows[i + 1 : done]] = True
        largest = float(radius.max(initial=0.0))
        within = "" if largest == 0 else f" beyond {readable(largest, trajectories.length_unit, 3)}"
        sentence = (
            f"{{who}}: no motion{within} for {readable(least, trajectories.time_unit, 3)} or longer"
        )
        time = least if np.isfinite(least) else None
        return self._found(trajectories, chosen, sentence, time=time, radius=largest)

    def _radius(self, trajectories: Trajectories) -> FloatArray:
        n = len(trajectories.times)
        if self.radius is not None:
            return np.full(n, converted(*self.radius, LENGTH, trajectories.units, "stuck"))
        if self.time is None or trajectories.position_sd is None:
            return np.zeros(n)
        return np.nan_to_num(_SIGMAS * trajectories.position_sd)


def _leaves(x: FloatArray, first: int, last: int, radius: float) -> int:
    """The first index from which on, before `last`, a particle is farther than `radius`."""
    low, size = first + 1, 16
    while low < last:
        high = min(low + size, last)
        out = np.linalg.norm(x[low:high] - x[first], axis=1) > radius
        if out.any():
            return low + int(out.argmax())
        low, size = high, 2 * size
    return last


@dataclass(frozen=True)
class Spikes(AbstractCheck):
    """Fixes that go far away and come back at once.

    Args:
        speed: Limit of the speed of both legs and its unit; None for a multiple of the median.
        multiple: Of the median leg, where no speed is given.
        medians: Of all legs of the file, per time and per root of time, where only a part of it is
            looked at; None takes those of the trajectories.
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

    def fixed_by(self, trajectories: Trajectories) -> "Spikes":
        if self.speed is not None:
            return self
        rows, _ = trajectories.fixes
        _, same, measures = _legs(trajectories, rows)
        per_time, per_root = (_median(measure, same) for measure in measures)
        return replace(self, medians=(per_time, per_root))

    def find(self, trajectories: Trajectories) -> Finding:
        limit = None
        if self.speed is not None:
            limit = converted(*self.speed, SPEED, trajectories.units, "spikes")
        rows, _ = trajectories.fixes
        chosen = np.zeros(len(trajectories.times), dtype=bool)
        while len(rows) > 2:
            found = _worst(trajectories, rows, limit, self)
            if not found.any():
                break
            chosen[rows[found]] = True
            rows = rows[~found]
        per = "/".join(trajectories.units) if all(trajectories.units) else ""
        how = f"{self.multiple:g} times the median speed"
        limits: dict[str, Any] = {"multiple_of_median": self.multiple}
        if limit is not None:
            how, limits = readable(limit, per, 3), {"speed": limit, "unit": per}
        sentence = f"{{who}}: spikes (jumps out and back at more than {how})"
        return self._found(trajectories, chosen, sentence, **limits)

    def repair(self, trajectories: Trajectories, finding: Finding) -> Trajectories:
        """Spikes become missing fixes."""
        return _without_detours(trajectories.blanked(finding.rows))


def _without_detours(trajectories: Trajectories) -> Trajectories:
    """Laid on the plane anew, if that is where they come from: no way leads over a blanked fix.

    A detour to (0, 0) and back would shift what comes after it, since the plane is laid along the
    path. Where positions have been changed since, they stay as they are.
    """
    plane = trajectories.provenance.get("plane")
    is_own = trajectories.length_unit == "m" and "unwrapped" not in trajectories.provenance
    if trajectories.lonlat is None or not isinstance(plane, dict) or not is_own:
        return trajectories
    radius = plane.get("radius")
    from driftbayes.data.sphere import on_plane

    anew = on_plane(
        replace(trajectories, positions=trajectories.lonlat, lonlat=None),
        frame=plane.get("frame", "auto"),
        radius=radius if isinstance(radius, float) else None,
    )
    return replace(trajectories, positions=anew.positions)


def _legs(
    trajectories: Trajectories, rows: np.ndarray
) -> tuple[FloatArray, np.ndarray, list[FloatArray]]:
    """Lengths of legs, whether they lie within a trajectory, and both measures of speed."""
    same = np.diff(trajectories.trajectory_index[rows]) == 0
    length = np.linalg.norm(np.diff(trajectories.positions[rows], axis=0), axis=1)
    took = np.where(same, np.diff(trajectories.times[rows]), 1.0)
    return length, same, [length / took, length / np.sqrt(took)]


def _median(measure: FloatArray, same: np.ndarray) -> float:
    moving = same & (measure > 0)
    return float(np.median(measure[moving])) if moving.any() else 0.0


def _worst(
    trajectories: Trajectories, rows: np.ndarray, limit: float | None, check: Spikes
) -> np.ndarray:
    """Which of these rows are spikes; of neighbours only the one farthest from its surroundings."""
    x, owner = trajectories.positions[rows], trajectories.trajectory_index[rows]
    length, same, measures = _legs(trajectories, rows)
    if limit is not None:
        fast = same & (measures[0] > limit)
    else:
        usual = check.medians or [_median(measure, same) for measure in measures]
        fast = same.copy()
        for measure, median in zip(measures, usual, strict=True):
            fast &= measure > check.multiple * median
    chord = np.linalg.norm(x[2:] - x[:-2], axis=1)
    inner = fast[:-1] & fast[1:] & (chord < np.minimum(length[:-1], length[1:]))
    candidates = np.concatenate([[False], inner, [False]])
    if limit is None:
        # The medians of trajectories only where they matter: sorting them all takes time.
        for number in np.unique(owner[candidates]).tolist():
            low, high = np.searchsorted(owner, [number, number + 1])
            for measure in measures:
                own = measure[low : high - 1]
                large = own > check.multiple * np.median(own[own > 0])
                candidates[low + 1 : high - 1] &= large[:-1] & large[1:]
    if not candidates.any():
        return candidates
    # How far from the median of the fixes around it: of 0, 9, 0, 9, 0 the nines are wrong.
    far = np.zeros(len(rows))
    for i in np.flatnonzero(candidates).tolist():
        near = np.arange(max(i - _AROUND, 0), min(i + _AROUND + 1, len(rows)))
        near = near[owner[near] == owner[i]]
        far[i] = np.linalg.norm(x[i] - np.median(x[near], axis=0))
    return candidates & _is_peak(far)


def _is_peak(sizes: FloatArray) -> np.ndarray:
    """Which sizes are as large as the one before and larger than the one after."""
    return (sizes >= np.append(0.0, sizes[:-1])) & (sizes > np.append(sizes[1:], 0.0))


@dataclass(frozen=True)
class Outliers(AbstractCheck):
    """Fixes far off the line between their neighbours, which fit without them.

    Args:
        deviations: How many standard deviations of the residuals are far.
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
            found = _off_line(trajectories, rows, self.deviations)
            if not found.any():
                break
            chosen[rows[found]] = True
            # Only trajectories in which something was found can have more.
            again = np.isin(
                trajectories.trajectory_index[rows], trajectories.trajectory_index[rows[found]]
            )
            rows = rows[again & ~found]
        share = float(chosen.sum() / max(len(chosen), 1))
        sentence = (
            f"{{who}}: outliers (more than {self.deviations:g} standard deviations off the line "
            "between their neighbours, which fit without them); +noise+outliers models them"
        )
        is_notable, limit = share >= _NOTABLE, self.deviations
        return self._found(trajectories, chosen, sentence, is_notable=is_notable, deviations=limit)

    def repair(self, trajectories: Trajectories, finding: Finding) -> Trajectories:
        """Outliers become missing fixes."""
        return _without_detours(trajectories.blanked(finding.rows))


def _residuals(
    x: FloatArray, t: FloatArray, owner: IntArray, before: IntArray, after: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Distance of fixes from the line between others, and the harmonic time to these; else NaN."""
    inside = (before >= 0) & (after < len(x))
    low, high = np.where(inside, before, 0), np.where(inside, after, 0)
    inside &= (owner[low] == owner) & (owner[high] == owner)
    first, last = t - t[low], t[high] - t
    span = np.where(inside, first + last, 1.0)
    line = x[low] + (x[high] - x[low]) * (first / span)[:, None]
    far = np.linalg.norm(x - line, axis=1)
    return np.where(inside, far, np.nan), np.where(inside, first * last / span, np.nan)


def _off_line(trajectories: Trajectories, rows: IntArray, deviations: float) -> np.ndarray:
    """Which of these rows are outliers; of neighbours only the one farthest off."""
    x, t = trajectories.positions[rows], trajectories.times[rows]
    owner, n = trajectories.trajectory_index[rows], len(rows)
    here = np.arange(n)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        far, wait = _residuals(x, t, owner, here - 1, here + 1)
        candidates = np.isfinite(far) & (far > 0)
        unit = deviations / _RAYLEIGH[min(x.shape[1], 3) - 1]
        starts = np.flatnonzero(np.append(True, np.diff(owner) != 0))
        for measure in (far, far / np.sqrt(wait), far / wait**2):
            usual = [np.nanmedian(part) for part in np.split(measure, starts[1:])]
            candidates &= measure > unit * np.repeat(usual, np.diff(np.append(starts, n)))
        # Without the fix: how well those before and after it fit.
        left, _ = _residuals(x, t, owner, here - 1, here + 2)
        right, _ = _residuals(x, t, owner, here - 2, here + 1)
        rest = np.fmax(np.append(np.nan, left[:-1]), np.append(right[1:], np.nan))
        candidates &= rest < _FIT * far
    for i in np.flatnonzero(candidates).tolist():
        near = np.arange(max(i - _NEARBY, 0), min(i + _NEARBY + 1, n))
        near = near[(owner[near] == owner[i]) & (np.abs(near - i) > 1)]
        candidates[i] = far[i] > unit * np.nanmedian(far[near])
    return np.asarray(candidates & _is_peak(np.where(candidates, far, 0.0)))


@dataclass(frozen=True)
class Repeats(AbstractCheck):
    """Fixes exactly equal to the one before: few digits, or an instrument that repeats itself."""

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
        return self._found(
            trajectories, chosen, sentence, is_notable=_NOTABLE <= share < 1, share=share
        )


@dataclass(frozen=True)
class Gaps(AbstractCheck):
    """The first fix after a long time without one.

    Args:
        time: How long, and the unit; None for twenty median intervals.
    """

    name: ClassVar[str] = "gaps"
    time: Amount | None = None

    @classmethod
    def parse(cls, value: str) -> "Gaps":
        return cls(_parse_amount(value, "gaps"))

    def fixed_by(self, trajectories: Trajectories) -> "Gaps":
        return replace(self, time=(_duration(trajectories, self.time, _GAP_INTERVALS, "gaps"), ""))

    def find(self, trajectories: Trajectories) -> Finding:
        longest = _duration(trajectories, self.time, _GAP_INTERVALS, "gaps")
        rows, same = trajectories.fixes
        wide = same & (np.diff(trajectories.times[rows]) > longest * (1 + 1e-9))
        chosen = np.zeros(len(trajectories.times), dtype=bool)
        chosen[rows[1:][wide]] = True
        after = readable(longest, trajectories.time_unit, 3)
        sentence = f"{{who}}: after a gap longer than {after}"
        time = longest if np.isfinite(longest) else None
        return self._found(trajectories, chosen, sentence, is_notable=False, time=time)

    def repair(self, trajectories: Trajectories, finding: Finding) -> Trajectories:
        """Trajectories are split in two: what comes after a gap has the name NAME/2, NAME/3, ..."""
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
    """Trajectories with fewer positions than asked for.

    Args:
        min_points: The fewest positions; with fewer than two there is no displacement.
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
        sentence = f"{{tracks}}: fewer than {self.min_points} positions"
        n = self.min_points
        return self._found(trajectories, short, sentence, is_notable=False, min_points=n)

    def repair(self, trajectories: Trajectories, finding: Finding) -> Trajectories:
        """Short trajectories are left out."""
        if not finding.n_trajectories:
            return trajectories
        return trajectories.drop_short(self.min_points)


# In the order in which they are applied: what is cut off need not be repaired, an instrument that
# sent one wrong position for hours is stuck and then a spike, and pieces are counted last.
CHECKS: dict[str, type[AbstractCheck]] = {
    kind.name: kind for kind in (Drogue, Stuck, Spikes, Outliers, Repeats, Gaps, Short)
}


def counted(n_positions: int, n_trajectories: int) -> tuple[str, str]:
    """Numbers of positions and of trajectories in words."""
    positions = "1 position" if n_positions == 1 else f"{n_positions} positions"
    tracks = "1 trajectory" if n_trajectories == 1 else f"{n_trajectories} trajectories"
    return positions, tracks


def parse_check(name: str, value: str) -> AbstractCheck:
    """A check by its name, with its limits as text, for example `6h:50m`."""
    if name not in CHECKS:
        known = ["default", *CHECKS]
        near = did_you_mean(name, known)
        raise DriftbayesError(f"unknown check {name!r}; known are {', '.join(known)}{near}")
    return CHECKS[name].parse(value)


def _parse_amount(text: str, option: str) -> Amount | None:
    """A positive number and its unit, which may be empty; None for an empty text."""
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
    """A given time, or that of so many median intervals."""
    if time is not None:
        return converted(*time, TIME, trajectories.units, option)
    intervals = trajectories.intervals
    return n * float(np.median(intervals)) if len(intervals) else np.inf
