"""Scales of the motion, data on a grid of recording intervals, and caveats from lag one."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

import numpy as np

from driftbayes._magnitudes import whole
from driftbayes._typing import FloatArray, IntArray
from driftbayes.data._sampling import Displacements, sampled_runs, stride_of
from driftbayes.data._trajectories import GRID_TOLERANCE, Trajectories, check_tracks
from driftbayes.data._units import SPEED, TIME, in_units, readable, unit_of
from driftbayes.errors import DriftbayesError

# Grid points per batch: few enough to stay in cache, enough to make the Python loop negligible.
BATCH_SIZE = 2**18
# With fewer grid points filled, most of the memory would hold gaps.
MIN_FILLING = 0.01
# Correlations at lag one below which noise is likely, and below which it dominates.
_NOISY, _DOMINATED = -0.03, -0.35
# Range of correlations at lag one for exposures of half a step to a whole step.
_BLURRED = (0.1, 0.27)
# Minimum fraction of a mean flow in the mean square displacement.
_DRIFTING = 0.005
# Steps are clipped at this multiple of the median of their trajectory.
_MAX_STEP = 4.0
_MIN_PAIRS, _MIN_TRAJECTORIES = 50, 5


@dataclass(frozen=True)
class Batch:
    """Data of a few particles of similar length, on the time grid.

    Args:
        particles: Numbers of the particles.
        values: Data (particle, channel, time), zero where there are none.
        weights: Weight of each grid point (particle, time), zero where there are no data.
    """

    particles: IntArray
    values: FloatArray
    weights: FloatArray


def lag_steps(trajectories: Trajectories, n_lags: int, max_lag: float | str | None) -> IntArray:
    """Return lags in recording intervals: zero, and up to `n_lags` evenly spaced in logarithm."""
    dt = trajectories.regular_interval
    n_lags = whole(n_lags, "n_lags", 1)
    if max_lag is None:
        fixes = np.bincount(trajectories.trajectory_index, weights=trajectories.observed)
        longest = max(int(fixes.max()) - 1, 1)
        last = max(longest // 4, min(longest, 4))
    else:
        span = int(trajectories.grid_steps.max())
        lag = in_units(max_lag, TIME, trajectories.units, "max_lag")
        last = int(lag / dt + GRID_TOLERANCE) if np.isfinite(lag) else -1
        if not 1 <= last <= span:
            least, most, given = (
                readable(time, trajectories.time_unit) for time in (dt, span * dt, lag)
            )
            raise DriftbayesError(
                f"max_lag must lie between the recording interval {least} and the length of the "
                f"longest trajectory {most}, got {given}"
            )
    # 64 per step reach every step; more would be duplicates.
    steps = np.unique(np.rint(np.geomspace(1, last, min(n_lags, 64 * last))).astype(np.int64))
    return np.concatenate([[0], steps])


def gridded(
    values: FloatArray, weights: FloatArray, particle: IntArray, index: IntArray, *, reach: int
) -> Iterator[Batch]:
    """Put ragged data on the grid, in batches of similar length, shortest particles first."""
    if len(particle) == 0:
        return
    firsts = np.flatnonzero(np.diff(particle, prepend=particle[0] - 1))
    advance = np.minimum(np.diff(index, prepend=index[0]), reach + 1)
    place = np.cumsum(advance)
    row_sizes = np.diff(np.append(firsts, len(particle)))
    place -= np.repeat(place[firsts], row_sizes)
    lengths = place[firsts + row_sizes - 1] + 1
    filling = len(place) / lengths.sum()
    if filling < MIN_FILLING:
        raise DriftbayesError(
            f"positions fill only a fraction {filling:.1e} of the grid of recording intervals, too "
            "few for averages at fixed lags; round the times to a coarser interval"
        )
    order = np.argsort(lengths, kind="stable")
    batch, slot = _assign(lengths[order])
    batch_of, slot_of = np.empty_like(order), np.empty_like(order)
    batch_of[order], slot_of[order] = batch, slot
    rows = np.argsort(np.repeat(batch_of, row_sizes), kind="stable")
    ends = np.cumsum(np.bincount(batch_of, weights=row_sizes)).astype(np.int64)
    row_slot = np.repeat(slot_of, row_sizes)
    for number, end in enumerate(ends):
        members = order[batch == number]
        chosen = rows[(ends[number - 1] if number else 0) : end]
        shape = (len(members), values.shape[1], int(lengths[members].max()))
        grid, mask = np.zeros(shape), np.zeros((shape[0], shape[2]))
        slots, places = row_slot[chosen], place[chosen]
        mask[slots, places] = weights[chosen]
        for channel in range(shape[1]):
            grid[slots, channel, places] = values[chosen, channel]
        yield Batch(particles=particle[firsts[members]], values=grid, weights=mask)


def _assign(lengths: IntArray) -> tuple[IntArray, IntArray]:
    """Assign a batch and a slot to each particle, for ascending lengths."""
    batch, slot = np.empty_like(lengths), np.empty_like(lengths)
    number, used = 0, 0
    for i, length in enumerate(lengths):
        if used and (used + 1) * length > BATCH_SIZE:
            number, used = number + 1, 0
        batch[i], slot[i] = number, used
        used += 1
    return batch, slot


def autocorrelate(
    values: FloatArray, weights: FloatArray, n_lags: int
) -> tuple[FloatArray, FloatArray]:
    r"""Sum products a lag apart, and their weights, by fast Fourier transform.

    $$s(\mathrm{lag}) = \sum_t \sum_c v_c(t + \mathrm{lag})\,v_c(t), \qquad
      n(\mathrm{lag}) = \sum_t w(t + \mathrm{lag})\,w(t)$$
    """
    n_times = weights.shape[1]
    n_lags = min(n_lags, n_times)
    # Padded by the largest lag to avoid wrapping around.
    n = _fast_length(n_times + n_lags - 1)
    power = (np.abs(np.fft.rfft(values, n, axis=-1)) ** 2).sum(axis=1)
    weight_power = np.abs(np.fft.rfft(weights, n, axis=-1)) ** 2
    products = np.fft.irfft(power, n, axis=-1)[:, :n_lags]
    return products, np.fft.irfft(weight_power, n, axis=-1)[:, :n_lags]


def _fast_length(n: int) -> int:
    """Return the next length with prime factors 2, 3 and 5 only, without importing scipy.fft."""
    odd = (3**i * 5**j for i in range(20) for j in range(14))
    return min(m << (-(-n // m) - 1).bit_length() for m in odd)


# Steps longer than this multiple of the typical one are gaps: their mean velocity is uninformative,
# and pairs across them would need a large grid.
_MAX_INTERVALS = 16
# A million positions are enough for priors, which need these scales to a factor of two. They are
# taken in blocks from all over the data, each long enough for the velocity to decorrelate.
MAX_POSITIONS = 2**20
BLOCK = 2**16
# Minimum correlation of successive steps, and minimum ratio of a correlation or drift to its error.
_MIN_CORRELATION, _SIGMAS = 0.1, 4.0


@dataclass(frozen=True)
class Scales:
    """Scales of a data set, for default priors.

    Args:
        u_rms: Root mean square speed |U|, all axes together, in length/time.
        timescale: Integral time scale of the velocity, in time.
        memory: The same at the shortest interval that resolves it, if that is shorter than the
            sampling time.
        noise: Measurement error suggested by negative correlations of steps.
    """

    u_rms: float
    timescale: float
    memory: float | None = None
    noise: float = 0.0


def data_scales(trajectories: Trajectories, tau: float | None = None) -> Scales:
    r"""Estimate root mean square speed and velocity time scale at a sampling time.

    $$u_\mathrm{rms} = \sqrt{\langle |U|^2 \rangle}, \qquad
      T = \tau\,\Bigl(\tfrac12 + \sum_{0 < m < c} \frac{r_m}{r_0}\Bigr)$$

    with U the velocity between fixes tau apart, r its autocovariance and c the first lag at which
    r is not positive. T is at least tau/2, its value for velocities without memory, so that
    $u_\mathrm{rms}^2\,T$ is then $d\,\kappa$.

    T does not resolve a memory shorter than tau. `memory` is T at the shortest interval, the
    recording interval times 1, 2, 4, ..., at which successive velocities are positively
    correlated. If steps over tau are negatively correlated, $r_1 < 0$, `noise` is
    $\tau \sqrt{-r_1 / d}$, the error of white measurement noise with that correlation.

    If times are irregular, or fewer than half of the steps between successive fixes last one
    recording interval, every step has its own duration h: averages are weighted by
    $\sqrt{h_n h_{n+m}}$ (by h, at lag 0), lags are counted in steps, and tau is the median of h.
    Steps longer than 16 tau are omitted. At most a million positions are used.

    Args:
        trajectories: Positions of the particles.
        tau: Sampling time; by default the recording interval.

    Example:
        >>> import driftbayes as db
        >>> tracks = db.simulate("brownian", {"kappa": 1.0}, tau=0.5, n_particles=10, n_steps=20)
        >>> found = db.data_scales(tracks)
        >>> found.timescale >= 0.25
        True
    """
    check_tracks(trajectories)
    dt = trajectories.recording_interval
    if tau is None or dt is None:
        return _scales(trajectories)[0]
    stride, _ = stride_of(trajectories, tau)
    found = _scales_at(trajectories, stride)
    if found is None:
        # Too few fixes are tau apart.
        return _scales(trajectories)[0]
    for shorter in (2**i for i in range((stride - 1).bit_length())):
        part = _scales_at(trajectories, shorter)
        if part is not None and part[1] > 0:
            return replace(found[0], memory=part[0].timescale)
    return found[0]


def _scales_at(trajectories: Trajectories, stride: int) -> tuple[Scales, float] | None:
    """Estimate scales of fixes `stride` recording intervals apart; None if nothing moves."""
    if stride > 1:
        tau = stride * trajectories.regular_interval
        chosen = np.zeros(len(trajectories.times), dtype=bool)
        chosen[sampled_runs(trajectories, tau).rows] = True
        trajectories = trajectories.select(chosen).on_interval(tau)
    try:
        return _scales(trajectories)
    except DriftbayesError:
        if stride == 1:
            raise
        return None


def _scales(trajectories: Trajectories) -> tuple[Scales, float]:
    """Estimate scales, and the correlation of successive steps (0 if not significant)."""
    dx, duration, run, index, dt = _steps(trajectories)
    if len(dx) == 0:
        raise DriftbayesError("no trajectory has two positions; check the column of ids")
    if not np.any(dx):
        raise DriftbayesError(
            f"all {len(dx)} displacements are zero, so the data have no scale; "
            "check the columns and the number of digits in the file"
        )
    weight = np.sqrt(duration)
    values = dx / weight[:, None]
    u_rms = float(np.sqrt(np.sum(values**2) / duration.sum()))
    n_steps, correlation = _integral_scale(values, weight, run, index)
    noise = u_rms * dt * float(np.sqrt(max(-correlation, 0.0) / dx.shape[1]))
    return Scales(u_rms=u_rms, timescale=dt * n_steps, noise=noise), correlation


def _steps(trajectories: Trajectories) -> tuple[FloatArray, FloatArray, IntArray, IntArray, float]:
    """Return steps, their durations, runs and indices in the run, and the time of one lag."""
    dt = trajectories.recording_interval
    rows = np.flatnonzero(trajectories.observed if dt is None else trajectories.on_grid)
    every = -(-len(rows) // MAX_POSITIONS)
    number = np.arange(len(rows))
    if every > 1:
        number = number[(number // BLOCK) % every == 0]
        rows = rows[number]
    particle, times = trajectories.trajectory_index[rows], trajectories.times[rows]
    first = np.flatnonzero((np.diff(particle) == 0) & (np.diff(number) == 1))
    dx = trajectories.positions[rows[first + 1]] - trajectories.positions[rows[first]]
    duration = times[first + 1] - times[first]
    if len(dx) == 0:
        return dx, duration, first, first, 0.0
    single = np.zeros(len(dx), bool)
    if dt is not None:
        single = np.diff(trajectories.grid_index[rows])[first] == 1
    if dt is None or single.mean() < 0.5:
        dt = float(np.median(duration))
        keep, index, used = duration <= _MAX_INTERVALS * dt, first, duration
    else:
        keep, index = single, trajectories.grid_index[rows[first]]
        # Differences of stamps may be affected by rounding.
        used = np.full(len(dx), dt)
    # A run ends at a gap, and at the end of a trajectory or block.
    is_gap = np.concatenate([[False], duration[:-1] > _MAX_INTERVALS * dt])
    run = np.cumsum(is_gap | (np.diff(first, prepend=first[0]) > 1), dtype=np.int64)
    return dx[keep], used[keep], run[keep], index[keep], dt


def _integral_scale(
    values: FloatArray, weight: FloatArray, run: IntArray, index: IntArray
) -> tuple[float, float]:
    """Integrate the normalised autocovariance up to its first zero crossing, in steps.

    Also return its value at lag one, or 0 if not significant.
    """
    longest = int(np.bincount(run - run.min()).max())
    n_lags = longest // 2 + 1
    totals, weights = np.zeros(n_lags), np.zeros(n_lags)
    for batch in gridded(values, weight, run, index, reach=n_lags - 1):
        products, pairs = autocorrelate(batch.values, batch.weights, n_lags)
        n = products.shape[1]
        totals[:n] += products.sum(axis=0)
        weights[:n] += pairs.sum(axis=0)
    # At a lag without pairs, the weight is rounding noise: the integral ends there.
    known = weights > 1e-9 * weights[0]
    correlation = 0.0
    if n_lags > 1 and known[1] and totals[0] > 0:
        correlation = float(totals[1] / weights[1] * weights[0] / totals[0])
        error = 1 / np.sqrt(max(values.size * weights[1] / weights[0], 1.0))
        if abs(correlation) < max(_MIN_CORRELATION, _SIGMAS * error):
            correlation = 0.0
    positive = known & (totals > 0)
    end = n_lags if positive.all() else int(np.argmin(positive))
    if end == 0:
        return 0.5, correlation
    lvaf = totals[:end] / weights[:end]
    return 0.5 + float(np.sum(lvaf[1:])) / float(lvaf[0]), correlation


def lag_one_doubts(
    data: Displacements, options: Collection[str] = (), *, is_every_fix: bool = True
) -> list[tuple[str, str]]:
    """Describe signs of noise, blur or drift that no model takes into account.

    Measurement errors alone give successive steps the correlation -1/2. An exposure of a whole step
    gives them the correlation 1/4, and no correlation at longer lags.

    Args:
        data: Displacements at one tau.
        options: Options of the models compared ("noise", "blur", "mean", ...).
        is_every_fix: Whether tau is the recording interval, where blur matters.

    Returns:
        A clause for a verdict and a sentence for each sign; empty if there is none.
    """
    dx, interval, owner = data.dx, data.interval[:, None], _owners(data)
    n = int(owner.max(initial=-1)) + 1
    flow = dx.sum(axis=0) / interval.sum()
    white, square = _white_steps(data, flow, owner)
    if not square.sum() > 0:
        return []
    run = _runs(data)
    one, two = (_correlation(white, run, owner, square, lag) for lag in (1, 2))
    found = []
    what = f"could explain the correlation {one[0]:+.2f} of successive steps"
    text = f"successive displacements correlate at {one[0]:.2f} ± {one[1]:.1g}"
    is_clear = abs(one[0]) > _SIGMAS * one[1]
    if is_clear and one[0] < _NOISY and "noise" not in options and data.position_sd is None:
        sentence = (
            f"{text}, as expected from measurement noise or confinement; add +noise to the models"
        )
        if one[0] < _DOMINATED:
            sentence = (
                f"measurement noise dominates: {text}, where noise alone gives -0.5 and an "
                "apparent diffusivity of σ²/τ; add +noise to the models, or use a longer sampling "
                "time"
            )
        found.append((f"measurement error {what}: compare with brownian+noise", sentence))
    is_short = abs(two[0]) < max(_SIGMAS * two[1], 0.02)
    blurs = is_every_fix and data.ground is None and "blur" not in options
    if is_clear and blurs and _BLURRED[0] < one[0] < _BLURRED[1] and is_short:
        exposure = min(6 * one[0] / (1 + 2 * one[0]), 1.0)
        sentence = (
            f"{text} and those farther apart do not, as expected from an exposure of "
            f"{exposure:.0%} of the frame interval or a velocity with a shorter memory; add +blur "
            "with the exposure of the camera, or use a longer sampling time"
        )
        clause = f"motion blur or smoothing {what}: compare at a longer tau, or with brownian+blur"
        found.append((clause, sentence))
    if not {"mean", "linear"} & set(options) and n >= _MIN_TRAJECTORIES:
        rest = np.stack([np.bincount(owner, column, n) for column in (dx - flow * interval).T])
        error = np.sqrt(np.sum(rest**2, axis=1) * n / (n - 1)) / interval.sum()
        share = np.sum((flow * np.median(interval)) ** 2) / (square.sum() + 1e-300)
        if np.sum((flow / error) ** 2) > _SIGMAS**2 * data.n_dim and share > _DRIFTING:
            numbers = ", ".join(f"{value:.3g}" for value in flow)
            speed = f"({numbers}) {unit_of(SPEED, (data.length_unit, data.time_unit))}".rstrip()
            sentence = f"particles drift together, on average at {speed}; add +mean to the models"
            found.append((f"a mean flow {what}: compare with brownian+mean", sentence))
    return found


def memory_of_steps(data: Displacements) -> tuple[float, float] | None:
    """Return the correlation of successive steps and its standard error; None if not positive."""
    owner = _owners(data)
    flow = data.dx.sum(axis=0) / data.interval.sum()
    white, square = _white_steps(data, flow, owner)
    if not square.sum() > 0:
        return None
    correlation, error = _correlation(white, _runs(data), owner, square, 1)
    return (correlation, error) if correlation > max(_MIN_CORRELATION, _SIGMAS * error) else None


def _owners(data: Displacements) -> IntArray:
    """Number the trajectory of each step."""
    return np.repeat(np.unique(data.trajectory, return_inverse=True)[1], data.row_sizes)


def _runs(data: Displacements) -> IntArray:
    """Number the run of each step."""
    return np.repeat(np.arange(len(data.row_sizes)), data.row_sizes)


def _white_steps(
    data: Displacements, flow: FloatArray, owner: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return steps without the flow, scaled to one duration, and the mean square by trajectory."""
    n = int(owner.max(initial=-1)) + 1
    interval = data.interval[:, None]
    # Scale steps of different durations to the typical duration.
    white = (data.dx - flow * interval) * np.sqrt(np.median(interval) / interval)
    # Clip long steps, so that no single one decides.
    length = np.linalg.norm(white, axis=1)
    order = np.lexsort((length, owner))
    counts = np.bincount(owner, minlength=n)
    median = length[order][np.cumsum(counts) - counts + counts // 2]
    limit = _MAX_STEP * median[owner]
    white = white * np.where(length > limit, limit / np.maximum(length, 1e-300), 1.0)[:, None]
    return white, np.bincount(owner, np.sum(white**2, axis=1), n) / len(data.dx)


def _correlation(
    steps: FloatArray, run: IntArray, owner: IntArray, square: FloatArray, lag: int
) -> tuple[float, float]:
    """Compute the correlation of steps of a run at a lag, and its standard error.

    The error is from the differences between trajectories, but at least that of independent steps.
    """
    pair = run[lag:] == run[:-lag]
    n_pairs = int(pair.sum())
    if n_pairs < _MIN_PAIRS:
        return 0.0, np.inf
    found, between = lagged_correlation(steps, owner, square, pair)
    # From the actual sizes, so that one energetic trajectory does not count for all.
    sizes = np.sum(steps**2, axis=1)
    spread = np.sum((sizes[lag:] * sizes[:-lag])[pair]) / steps.shape[1]
    error = float(np.sqrt(spread) / n_pairs / square.sum())
    return found, max(error, between) if len(square) >= _MIN_TRAJECTORIES else error


def lagged_correlation(
    steps: FloatArray, owner: IntArray, square: FloatArray, pair: np.ndarray
) -> tuple[float, float]:
    """Compute the correlation of steps a lag apart, and its error.

    The error is from the differences between trajectories; NaN for one trajectory.

    Args:
        steps: Steps (step, dim).
        owner: Trajectory of each step.
        square: Mean square step, divided among the trajectories.
        pair: Whether each step but the first ones makes a pair with that a lag earlier.
    """
    n, total, lag = len(square), float(square.sum()), len(steps) - len(pair)
    if not total > 0:
        return np.nan, np.nan
    products = np.sum(steps[lag:] * steps[:-lag], axis=1)[pair]
    own = np.bincount(owner[lag:][pair], products, n) / max(int(pair.sum()), 1)
    found = float(own.sum()) / total
    spread = np.sum((own - found * square) ** 2)
    return found, float(np.sqrt(spread * n / (n - 1))) / total if n > 1 else np.nan
