"""Two numbers that set the scale of a data set: how fast particles move, and for how long."""

__all__ = ["Scales", "data_scales"]

from dataclasses import dataclass

import numpy as np

from driftbayes.data.trajectories import Trajectories
from driftbayes.diagnostics._grid import autocorrelate, gridded
from driftbayes.errors import DriftbayesError
from driftbayes.typing import FloatArray, IntArray

# A step this many times the usual one is a silence: its mean velocity says nothing about the
# velocity, and pairs across it are not worth the memory of the grid they would need.
SILENCE = 16
# Priors need these scales to a factor of two: a million positions are plenty. They are taken in
# blocks from all over the data, each long enough to see the velocity decorrelate.
MAX_POSITIONS = 2**20
BLOCK = 2**16


@dataclass(frozen=True)
class Scales:
    """Scales of a data set, from which default priors are made.

    Args:
        u_rms: Root mean square speed |U|, all axes together, in length/time.
        timescale: Integral time scale of the velocity, in time.
    """

    u_rms: float
    timescale: float


def data_scales(trajectories: Trajectories) -> Scales:
    r"""Root mean square speed and velocity time scale of the data.

    $$u_\mathrm{rms} = \sqrt{\langle |U|^2 \rangle}, \qquad
      T = dt\,\Bigl(\tfrac12 + \sum_{0 < m < c} \frac{r_m}{r_0}\Bigr)$$

    with U the velocity between fixes one recording interval dt apart, r its autocovariance and c
    the first lag at which r is not positive. T is at least dt/2, its value for
    velocities without memory, so that $u_\mathrm{rms}^2\,T$ is then $d\,\kappa$.

    If times are irregular, or fewer than half of the steps between successive fixes last one
    recording interval, every step counts at its own duration h: averages are weighted by
    $\sqrt{h_n h_{n+m}}$ (by h, at lag 0), lags are counted in steps, and dt is the median of h.
    Steps longer than 16 dt are left out. Of more than a million positions, a million are used.

    Args:
        trajectories: Where the particles were.
    """
    dx, duration, run, index, dt = _steps(trajectories)
    if len(dx) == 0:
        msg = (
            "no trajectory has two positions, so nothing is known about how the particles move; "
            "check the column of ids"
        )
        raise DriftbayesError(msg)
    if not np.any(dx):
        msg = (
            f"all {len(dx)} displacements are zero, so the data have no scale; "
            "check the columns and the number of digits in the file"
        )
        raise DriftbayesError(msg)
    weight = np.sqrt(duration)
    values = dx / weight[:, None]
    u_rms = float(np.sqrt(np.sum(values**2) / duration.sum()))
    timescale = dt * _integral_scale(values, weight, run, index)
    return Scales(u_rms=u_rms, timescale=timescale)


def _steps(trajectories: Trajectories) -> tuple[FloatArray, FloatArray, IntArray, IntArray, float]:
    """Steps, their durations, the run and the place in it of each, and the time step of a lag."""
    rows = np.flatnonzero(trajectories.observed)
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
    dt = trajectories.recording_interval
    single = np.zeros(len(dx), bool) if dt is None else np.rint(duration / dt) == 1
    if dt is None or single.mean() < 0.5:
        dt = float(np.median(duration))
        keep, index, used = duration <= SILENCE * dt, first, duration
    else:
        keep, index = single, trajectories.grid_index[rows[first]]
        # Not the difference of two stamps, which may have been rounded.
        used = np.full(len(dx), dt)
    # A silence ends the run, and so does the end of the trajectory or of the block.
    silent = np.concatenate([[False], duration[:-1] > SILENCE * dt])
    run = np.cumsum(silent | (np.diff(first, prepend=first[0]) > 1), dtype=np.int64)
    return dx[keep], used[keep], run[keep], index[keep], dt


def _integral_scale(
    values: FloatArray, weight: FloatArray, run: IntArray, index: IntArray
) -> float:
    """Integral of the normalised autocovariance up to its first zero crossing, in steps."""
    longest = int(np.bincount(run - run.min()).max())
    n_lags = longest // 2 + 1
    totals, weights = np.zeros(n_lags), np.zeros(n_lags)
    for batch in gridded(values, weight, run, index, reach=n_lags - 1):
        products, pairs = autocorrelate(batch.values, batch.weights, n_lags)
        n = products.shape[1]
        totals[:n] += products.sum(axis=0)
        weights[:n] += pairs.sum(axis=0)
    # A lag that no pair covers has rounding noise for a weight; there the integral has to end.
    known = weights > 1e-9 * weights[0]
    positive = known & (totals > 0)
    end = n_lags if positive.all() else int(np.argmin(positive))
    if end == 0:
        return 0.5
    lvaf = totals[:end] / weights[:end]
    return 0.5 + float(np.sum(lvaf[1:])) / float(lvaf[0])
