r"""Spikes: a fix that goes far away and comes back at once.

With $a$ and $b$ the legs from the fix before and to the fix after, it is a spike if both are
too fast and the fixes before and after are nearer to each other than either is to it,
$|a + b| < \min(|a|, |b|)$. A fast stretch that goes on, or a turn, is none.

Without a limit of speed, too fast is eight times the median of the trajectory and of the
file, whichever is more, both per time and per root of time, so that neither straight motion nor
diffusion at uneven intervals looks fast where fixes are close in time.
"""

__all__ = ["MULTIPLE", "Spikes"]

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from driftbayes.data.trajectories import Trajectories
from driftbayes.quality.amounts import in_units_of
from driftbayes.quality.finding import AbstractCheck, Finding, successive, with_unit
from driftbayes.typing import FloatArray

# Of Gaussian steps a leg of eight medians is 5.4 standard deviations in 1D and 9.4 in 2D, and a
# spike takes two of them.
MULTIPLE = 8.0
# Fixes on each side whose median tells which of several neighbouring candidates is the wrong one.
_AROUND = 3


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
    speed: tuple[float, str] | None = None
    multiple: float = MULTIPLE
    medians: tuple[float, float] | None = None

    def fixed_by(self, trajectories: Trajectories) -> "Spikes":
        if self.speed is not None:
            return self
        rows, _ = successive(trajectories)
        _, same, measures = _legs(trajectories, rows)
        per_time, per_root = (_median(measure, same) for measure in measures)
        return replace(self, medians=(per_time, per_root))

    def find(self, trajectories: Trajectories) -> Finding:
        limit = None
        if self.speed is not None:
            limit = in_units_of(trajectories, self.speed, "speed", "spikes")
        rows, _ = successive(trajectories)
        chosen = np.zeros(len(trajectories.times), dtype=bool)
        while len(rows) > 2:
            found = _worst(trajectories, rows, limit, self)
            if not found.any():
                break
            chosen[rows[found]] = True
            rows = rows[~found]
        unit = trajectories.length_unit and trajectories.time_unit
        per = f"{trajectories.length_unit}/{trajectories.time_unit}" if unit else ""
        limits: dict[str, Any]
        if limit is None:
            how = f"{self.multiple:g} times the median speed"
            limits = {"multiple_of_median": self.multiple}
        else:
            how, limits = with_unit(limit, per), {"speed": limit, "unit": per}
        sentence = f"{{who}}: spikes (jumps out and back at more than {how})"
        return self._found(trajectories, chosen, sentence, **limits)

    def mend(self, trajectories: Trajectories, finding: Finding) -> Trajectories:
        """Spikes become missing fixes."""
        return without_detours(trajectories.blanked(finding.rows))


def without_detours(trajectories: Trajectories) -> Trajectories:
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
    before, after = np.append(0.0, far[:-1]), np.append(far[1:], 0.0)
    return candidates & (far >= before) & (far > after)
