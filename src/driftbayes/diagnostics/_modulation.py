"""Correlations of successive steps, and periodic modulation of their variance.

A camera that compresses its frames in groups, an interlaced sensor, or a tide makes the sizes of
steps depend on the frame number modulo a period. The statistic is the mean square step of each
phase. Its significance comes from permutations: trajectories are cut into segments, and the phase
of each is shifted at random, which preserves the correlations within a segment.
"""

from dataclasses import dataclass

import numpy as np

from driftbayes._magnitudes import whole
from driftbayes._typing import FloatArray, IntArray
from driftbayes.data._trajectories import Trajectories
from driftbayes.data._units import DIFFUSIVITY, unit_of
from driftbayes.diagnostics._scales import lagged_correlation

MAX_PERIOD = 30
# Length of a segment in units of the longest period, and range of the number of segments.
_SEGMENT_PERIODS, _MIN_SEGMENTS, _MAX_SEGMENTS = 2, 8, 400
# Squares of steps are clipped at this multiple of the mean of their trajectory, so that no single
# step or trajectory decides.
_MAX_SQUARE = 9.0
_N_PERMUTATIONS = 499
SIGNIFICANT = 0.005
# Contrasts that exceed chance by this many standard deviations are tested by permutations: any of
# 29 periods does so in a few per cent of all data, a significant one always.
_LIKELY = 5.0


@dataclass(frozen=True, eq=False)
class Modulation:
    """Dependence of the size of steps on the frame number modulo a period.

    Args:
        period: Most significant period in frames.
        p_value: Its p-value, corrected for the number of periods tested.
        profile: Mean square step per axis over 2 tau at each phase. The frame number is that of the
            fix at the end of a step, counted from time zero.
        errors: Standard errors of the profile, from the segments.
        unit: Unit of the profile.
    """

    period: int
    p_value: float
    profile: FloatArray
    errors: FloatArray
    unit: str = ""

    @property
    def is_significant(self) -> bool:
        """Whether the p-value is below 0.005."""
        return self.p_value < SIGNIFICANT

    @property
    def sentence(self) -> str:
        """Sentence with the result."""
        if not self.is_significant:
            return (
                f"step variance does not depend on the frame number (periods of 2 to {MAX_PERIOD} "
                f"frames, p = {self.p_value:.2g})"
            )
        middle = float(np.median(self.profile))
        odd = int(np.argmax(np.abs(self.profile - middle)))
        others = np.delete(self.profile, odd)
        unit = f" {self.unit}" if self.unit else ""
        low, high = (f"{value:.3g}" for value in (others.min(), others.max()))
        rest = low if low == high else f"{low} to {high}"
        return (
            f"step variance depends on the frame number modulo {self.period} (p = "
            f"{self.p_value:.2g}): variance/2τ is {self.profile[odd]:.3g} ± "
            f"{self.errors[odd]:.1g}{unit} for steps that end at phase {odd}, {rest} at the "
            "others; the camera, its compression or a periodic forcing may cause this, and no "
            "model describes it: use a sampling time of a whole number of periods"
        )


def step_correlations(trajectories: Trajectories, n_lags: int = 4) -> tuple[FloatArray, FloatArray]:
    """Compute correlations of steps 1, 2, ... recording intervals apart, with standard errors.

    Steps are over one recording interval, minus their mean over all particles. Errors come from the
    differences between trajectories; for one trajectory they are NaN.

    Args:
        trajectories: Trajectories at regular times.
        n_lags: Number of lags.
    """
    steps, frame, owner = _steps(trajectories)
    steps = steps - steps.mean(axis=0)
    n = trajectories.n_trajectories
    size = np.bincount(owner, np.sum(steps**2, axis=1), n) / max(len(steps), 1)
    found = []
    for lag in range(1, n_lags + 1):
        pair = (owner[lag:] == owner[:-lag]) & (frame[lag:] - frame[:-lag] == lag)
        found.append(lagged_correlation(steps, owner, size, pair))
    correlations, errors = np.array(found).T
    return correlations, errors


def modulation(
    trajectories: Trajectories, seed: int = 0, *, only_likely: bool = False
) -> Modulation | None:
    """Find the most significant period, in frames, of the variance of steps.

    Args:
        trajectories: Trajectories at regular times.
        seed: Random seed of the permutations.
        only_likely: Whether to skip the permutations, which take most of the time, if no period
            stands out.

    Returns:
        The most significant period; None if there are too few steps.
    """
    steps, frame, owner = _steps(trajectories)
    squares = np.mean(steps**2, axis=1)
    segment = _segments(frame, owner)
    n = int(segment.max(initial=-1)) + 1
    if n < _MIN_SEGMENTS:
        return None
    own = np.bincount(owner, squares) / np.maximum(np.bincount(owner), 1)
    every = -(-n // _MAX_SEGMENTS)
    usable = (own[owner] > 0) & (segment % every == 0)
    sizes = np.minimum(squares[usable] / own[owner][usable], _MAX_SQUARE)
    place, n = segment[usable] // every, -(-n // every)
    periods = range(2, MAX_PERIOD + 1)
    totals: list[FloatArray] = []
    for period in periods:
        cells = place * period + frame[usable] % period
        sums = np.bincount(cells, sizes - sizes.mean(), n * period)
        totals.append(np.asarray(sums, dtype=np.float64).reshape(n, period))
    if only_likely and max(map(_excess, totals)) < _LIKELY:
        return None
    rng = np.random.default_rng(whole(seed, "seed"))
    shifts = rng.random((_N_PERMUTATIONS, n))
    scores = np.empty((len(periods), _N_PERMUTATIONS + 1))
    for i, (period, total) in enumerate(zip(periods, totals, strict=True)):
        moved = np.floor(shifts * period).astype(np.int64)
        scores[i] = _contrast(total, np.concatenate([np.zeros((1, n), dtype=np.int64), moved]))
    # Standardise each period, so that all count alike.
    by_chance = scores[:, 1:]
    scale = by_chance.std(axis=1, keepdims=True)
    scores = (scores - by_chance.mean(axis=1, keepdims=True)) / np.where(scale > 0, scale, 1.0)
    best = scores.max(axis=0)
    p_value = (1 + np.sum(best[1:] >= best[0])) / (_N_PERMUTATIONS + 1)
    period = periods[int(np.argmax(scores[:, 0]))]
    dt = float(trajectories.recording_interval or 1.0)
    profile, errors = _profile(squares / (2 * dt), segment, frame % period, period)
    unit = unit_of(DIFFUSIVITY, trajectories.units)
    return Modulation(period, float(p_value), profile, errors, unit)


def _steps(trajectories: Trajectories) -> tuple[FloatArray, IntArray, IntArray]:
    """Return steps over one recording interval, frame number at their end, and trajectory."""
    dt = trajectories.recording_interval
    rows = np.flatnonzero(trajectories.observed)
    owner = trajectories.trajectory_index[rows]
    # Counted from time zero, so that all trajectories share one clock.
    frame = np.rint(trajectories.times[rows] / (dt or 1.0)).astype(np.int64)
    next_to = (np.diff(owner) == 0) & (np.diff(frame) == 1)
    steps = np.diff(trajectories.positions[rows], axis=0)[next_to]
    return steps, frame[1:][next_to], owner[1:][next_to]


def _segments(frame: IntArray, owner: IntArray) -> IntArray:
    """Return the number of the segment of each step; segments are parts of trajectories."""
    length = _SEGMENT_PERIODS * MAX_PERIOD
    new = np.concatenate([[True], np.diff(owner) != 0]) if len(owner) else np.zeros(0, dtype=bool)
    first = np.maximum.accumulate(np.where(new, np.arange(len(frame)), 0))
    part = (frame - frame[first]) // length
    keys = owner * (int(part.max(initial=0)) + 1) + part
    return np.unique(keys, return_inverse=True)[1].reshape(-1)


def _contrast(total: FloatArray, shifts: IntArray) -> FloatArray:
    """Compute the sum of squares over phases of the sums over shifted segments.

    There is one value for each set of shifts. A shift multiplies the Fourier coefficients along the
    phase by powers of one factor.
    """
    period = total.shape[1]
    waves = np.fft.rfft(total, axis=1)[:, 1:].astype(np.complex64)
    turn = np.exp(-2j * np.pi / period * np.arange(period)).astype(np.complex64)[shifts]
    factor = np.ones_like(turn)
    found = np.zeros(len(shifts))
    for order, wave in enumerate(waves.T, start=1):
        factor *= turn
        weight = 1.0 if 2 * order == period else 2.0
        found += weight * np.abs(factor @ wave) ** 2
    return found


def _excess(total: FloatArray) -> float:
    """Return the contrast without shifts, in standard deviations of that with random shifts.

    A sum of waves with random phases is nearly normal: its square has the mean P, the sum of their
    squares, and the standard deviation P, or √2 P if the phases are 0 and π only.
    """
    waves = np.fft.rfft(total, axis=1)[:, 1:]
    is_real = 2 * np.arange(1, waves.shape[1] + 1) == total.shape[1]
    weight = np.where(is_real, 1.0, 2.0)
    power = weight * np.sum(np.abs(waves) ** 2, axis=0)
    spread = np.sqrt(np.sum(np.where(is_real, 2.0, 1.0) * power**2))
    found = np.sum(weight * np.abs(waves.sum(axis=0)) ** 2)
    return float((found - power.sum()) / spread) if spread > 0 else 0.0


def _profile(
    values: FloatArray, segment: IntArray, phase: IntArray, period: int
) -> tuple[FloatArray, FloatArray]:
    """Return the mean of each phase, and its standard error from the segments."""
    n = int(segment.max()) + 1
    cells = segment * period + phase
    sums = np.bincount(cells, values, n * period).reshape(n, period)
    counts = np.bincount(cells, minlength=n * period).reshape(n, period)
    total = np.maximum(counts.sum(axis=0), 1)
    mean = sums.sum(axis=0) / total
    rest = sums - mean * counts
    return mean, np.sqrt(np.sum(rest**2, axis=0) * n / (n - 1)) / total
