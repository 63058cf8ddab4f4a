"""Steps and the clock: correlations of successive steps, and a variance that repeats with a period.

A camera that compresses its frames in groups, an interlaced sensor, or a tide makes the sizes of
steps depend on the frame number modulo a period. The mean square step of each phase shows it. Its
significance comes from permutations: trajectories are cut into stretches, and the phase of each is
shifted at random, which leaves all memory within a stretch as it is.
"""

from dataclasses import dataclass

import numpy as np

from driftbayes.data.trajectories import Trajectories
from driftbayes.magnitudes import whole
from driftbayes.typing import FloatArray, IntArray

MAX_PERIOD = 30
# A stretch is so many of the longest periods; of more stretches so many, evenly spaced, are tested.
_PERIODS, _MAX_STRETCHES = 2, 400
_MIN_STRETCHES = 8
# Squares of steps beyond this many means of their trajectory count as so many: no single step and
# no single trajectory decides.
_LARGEST = 9.0
_N_PERMUTATIONS = 499
SIGNIFICANT = 0.005
# Contrasts that are this many standard deviations above chance are worth permutations: one of 29
# periods is so in a few per cent of all data, a significant one always.
_LIKELY = 5.0


@dataclass(frozen=True, eq=False)
class Modulation:
    """How the size of steps depends on the frame number modulo a period.

    Args:
        period: Period in frames: the most significant of all that were tried.
        p_value: Its significance, corrected for the number of periods tried.
        profile: Mean square step per axis over 2 tau of each phase of the frame number, which is
            that of the fix where a step ends, counted from time zero.
        errors: Their standard errors, from the stretches.
        unit: Unit of the profile.
    """

    period: int
    p_value: float
    profile: FloatArray
    errors: FloatArray
    unit: str = ""

    @property
    def is_significant(self) -> bool:
        """Whether chance explains it in less than one of 200 data sets."""
        return self.p_value < SIGNIFICANT

    @property
    def sentence(self) -> str:
        """The finding in words."""
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
            "others; the camera, its compression or a periodic forcing may cause it, and no model "
            "here describes it: use a sampling time of a whole number of periods"
        )


def step_correlations(trajectories: Trajectories, n_lags: int = 4) -> tuple[FloatArray, FloatArray]:
    """Correlations of steps 1, 2, ... recording intervals apart, with standard errors.

    Steps are over one recording interval, without the mean over all particles. Errors come from
    the differences between trajectories; of one trajectory they are NaN.

    Args:
        trajectories: At regular times.
        n_lags: Number of lags.
    """
    steps, frame, owner = _steps(trajectories)
    steps = steps - steps.mean(axis=0)
    n = trajectories.n_trajectories
    size = np.bincount(owner, np.sum(steps**2, axis=1), n) / max(len(steps), 1)
    found, errors = np.empty(n_lags), np.empty(n_lags)
    for lag in range(1, n_lags + 1):
        pair = (owner[lag:] == owner[:-lag]) & (frame[lag:] - frame[:-lag] == lag)
        products = np.sum(steps[lag:] * steps[:-lag], axis=1)[pair]
        own = np.bincount(owner[lag:][pair], products, n) / max(int(pair.sum()), 1)
        found[lag - 1] = own.sum() / size.sum() if size.sum() > 0 else np.nan
        rest = own - found[lag - 1] * size
        spread = np.sqrt(np.sum(rest**2) * n / (n - 1)) if n > 1 else np.nan
        errors[lag - 1] = spread / size.sum() if size.sum() > 0 else np.nan
    return found, errors


def modulation(
    trajectories: Trajectories, seed: int = 0, *, only_likely: bool = False
) -> Modulation | None:
    """Find the period in frames with which the variance of steps repeats, if it does.

    Args:
        trajectories: At regular times.
        seed: Random seed of the permutations.
        only_likely: Whether to leave out the permutations, which take most of the time, where no
            period stands out.

    Returns:
        The most significant period; None if there are too few steps to say.
    """
    steps, frame, owner = _steps(trajectories)
    squares = np.mean(steps**2, axis=1)
    stretch = _stretches(frame, owner)
    n = int(stretch.max(initial=-1)) + 1
    if n < _MIN_STRETCHES:
        return None
    own = np.bincount(owner, squares) / np.maximum(np.bincount(owner), 1)
    every = -(-n // _MAX_STRETCHES)
    usable = (own[owner] > 0) & (stretch % every == 0)
    sizes = np.minimum(squares[usable] / own[owner][usable], _LARGEST)
    place, n = stretch[usable] // every, -(-n // every)
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
    # Each period on its own scale, so that none counts for more.
    by_chance = scores[:, 1:]
    scale = by_chance.std(axis=1, keepdims=True)
    scores = (scores - by_chance.mean(axis=1, keepdims=True)) / np.where(scale > 0, scale, 1.0)
    best = scores.max(axis=0)
    p_value = (1 + np.sum(best[1:] >= best[0])) / (_N_PERMUTATIONS + 1)
    period = periods[int(np.argmax(scores[:, 0]))]
    dt = float(trajectories.recording_interval or 1.0)
    profile, errors = _profile(squares / (2 * dt), stretch, frame % period, period)
    length, time = trajectories.length_unit, trajectories.time_unit
    unit = f"{length}²/{time}" if length and time else ""
    return Modulation(period, float(p_value), profile, errors, unit)


def _steps(trajectories: Trajectories) -> tuple[FloatArray, IntArray, IntArray]:
    """Steps over one recording interval, frame number at their end, and their trajectory."""
    dt = trajectories.recording_interval
    rows = np.flatnonzero(trajectories.observed)
    owner = trajectories.trajectory_index[rows]
    # From time zero: trajectories share one clock.
    frame = np.rint(trajectories.times[rows] / (dt or 1.0)).astype(np.int64)
    next_to = (np.diff(owner) == 0) & (np.diff(frame) == 1)
    steps = np.diff(trajectories.positions[rows], axis=0)[next_to]
    return steps, frame[1:][next_to], owner[1:][next_to]


def _stretches(frame: IntArray, owner: IntArray) -> IntArray:
    """Number of the stretch of each step: parts of trajectories, of at least a period each."""
    length = _PERIODS * MAX_PERIOD
    new = np.concatenate([[True], np.diff(owner) != 0]) if len(owner) else np.zeros(0, dtype=bool)
    first = np.maximum.accumulate(np.where(new, np.arange(len(frame)), 0))
    part = (frame - frame[first]) // length
    keys = owner * (int(part.max(initial=0)) + 1) + part
    return np.unique(keys, return_inverse=True)[1].reshape(-1)


def _contrast(total: FloatArray, shifts: IntArray) -> FloatArray:
    """Sum of squares over phases of the sums over stretches, each shifted, for each set of shifts.

    By Fourier coefficients along the phase a shift is a factor, a power for each order.
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
    """The contrast without shifts, in standard deviations of that with random shifts.

    A sum of waves with random phases is nearly normal: its square has the mean P, the sum of their
    squares, and the standard deviation P, or √2 P for a wave that only changes sign.
    """
    waves = np.fft.rfft(total, axis=1)[:, 1:]
    is_real = 2 * np.arange(1, waves.shape[1] + 1) == total.shape[1]
    weight = np.where(is_real, 1.0, 2.0)
    power = weight * np.sum(np.abs(waves) ** 2, axis=0)
    spread = np.sqrt(np.sum(np.where(is_real, 2.0, 1.0) * power**2))
    found = np.sum(weight * np.abs(waves.sum(axis=0)) ** 2)
    return float((found - power.sum()) / spread) if spread > 0 else 0.0


def _profile(
    values: FloatArray, stretch: IntArray, phase: IntArray, period: int
) -> tuple[FloatArray, FloatArray]:
    """Mean of each phase, and its standard error from the stretches."""
    n = int(stretch.max()) + 1
    cells = stretch * period + phase
    sums = np.bincount(cells, values, n * period).reshape(n, period)
    counts = np.bincount(cells, minlength=n * period).reshape(n, period)
    total = np.maximum(counts.sum(axis=0), 1)
    mean = sums.sum(axis=0) / total
    rest = sums - mean * counts
    return mean, np.sqrt(np.sum(rest**2, axis=0) * n / (n - 1)) / total
