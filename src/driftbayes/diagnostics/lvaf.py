"""Lagrangian velocity autocovariance r(lag): how long a particle remembers its velocity."""

__all__ = ["VelocitySums", "autocorrelate", "finite_difference_velocities", "velocity_sums"]

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.fft import next_fast_len

from driftbayes.data.trajectories import Trajectories
from driftbayes.diagnostics._grid import gridded
from driftbayes.errors import DriftbayesError
from driftbayes.typing import FloatArray, IntArray


@dataclass(frozen=True)
class VelocitySums:
    r"""Sums of $U(t + \mathrm{lag})\,U(t)$, averaged over axes, from which every average is made.

    Args:
        totals: Sum over the pairs of each particle at the chosen lags, (particle, lag).
        counts: Number of pairs of each particle at the chosen lags, (particle, lag).
        pooled_totals: Sum over all particles at every lag from 0 to the largest.
        pooled_counts: Number of pairs of all particles at every lag from 0 to the largest.
    """

    totals: FloatArray
    counts: FloatArray
    pooled_totals: FloatArray
    pooled_counts: FloatArray

    @property
    def lvaf(self) -> FloatArray:
        """r(lag) at every lag from 0 to the largest; NaN where there is no pair."""
        with np.errstate(invalid="ignore"):
            return self.pooled_totals / self.pooled_counts


def velocity_sums(trajectories: Trajectories, steps: IntArray) -> VelocitySums:
    r"""Lagrangian velocity autocovariance as sums that can be resampled by particle.

    $$r(\mathrm{lag}) = \langle U_i(t + \mathrm{lag})\,U_i(t) \rangle$$

    Paper: [eq:lvaf].

    Averaged over time, particles and axes, so that $r(0)$ is the variance along *one* axis. No
    mean flow is subtracted. U is a finite difference over one recording interval dt, so it is the
    velocity *averaged* over dt: for a Langevin particle $r(0) = 2k(1 - \varphi(\gamma\,dt))/dt$
    rather than $\gamma k$, and for a Brownian particle $r(0) = 2\kappa/dt$ with nothing beyond.

    Args:
        trajectories: Where the particles were, at regular times. A velocity needs two fixes one
            interval apart; pairs that lack one are left out, and nothing is bridged.
        steps: Lags at which to keep the sums of each particle, in recording intervals.
    """
    n_lags = int(steps.max()) + 1
    shape = (trajectories.n_trajectories, len(steps))
    totals, counts = np.zeros(shape), np.zeros(shape)
    pooled_totals, pooled_counts = np.zeros(n_lags), np.zeros(n_lags)
    for particles, products, pairs in autocovariance_batches(trajectories, n_lags):
        n = products.shape[1]
        pooled_totals[:n] += products.sum(axis=0)
        pooled_counts[:n] += pairs.sum(axis=0)
        within = steps < n
        totals[np.ix_(particles, within)] = products[:, steps[within]]
        counts[np.ix_(particles, within)] = pairs[:, steps[within]]
    return VelocitySums(totals, counts, pooled_totals, pooled_counts)


def autocovariance_batches(
    trajectories: Trajectories, n_lags: int
) -> Iterator[tuple[IntArray, FloatArray, FloatArray]]:
    """Particles, sums of velocity products and numbers of pairs at all lags, batch by batch.

    Made anew on each call: holding every lag of every particle would take as much memory as
    the data, and the transforms are cheap.
    """
    velocity, particle, index = finite_difference_velocities(trajectories)
    ones = np.ones(len(velocity))
    for batch in gridded(velocity, ones, particle, index, reach=n_lags - 1):
        products, pairs = autocorrelate(batch.values, batch.weights, n_lags)
        pairs = np.rint(pairs)
        # Where no pair exists the transform leaves rounding noise, which must not be averaged.
        yield batch.particles, np.where(pairs > 0, products, 0.0) / trajectories.n_dim, pairs


def finite_difference_velocities(
    trajectories: Trajectories,
) -> tuple[FloatArray, IntArray, IntArray]:
    """Velocities over one recording interval, with the particle and grid index of each."""
    dt = trajectories.recording_interval
    if dt is None:
        raise DriftbayesError(trajectories.irregular_message())
    rows = np.flatnonzero(trajectories.observed)
    particle, index = trajectories.trajectory_index[rows], trajectories.grid_index[rows]
    adjacent = np.flatnonzero((np.diff(particle) == 0) & (np.diff(index) == 1))
    x = trajectories.positions
    velocity = (x[rows[adjacent + 1]] - x[rows[adjacent]]) / dt
    return velocity, particle[adjacent], index[adjacent]


def autocorrelate(
    values: FloatArray, weights: FloatArray, n_lags: int
) -> tuple[FloatArray, FloatArray]:
    r"""Sums of products a lag apart, and sums of their weights, by fast Fourier transform.

    $$s(\mathrm{lag}) = \sum_t \sum_c v_c(t + \mathrm{lag})\,v_c(t), \qquad
      n(\mathrm{lag}) = \sum_t w(t + \mathrm{lag})\,w(t)$$

    Args:
        values: (particle, channel, time), zero where there are no data.
        weights: (particle, time), zero where there are no data.
        n_lags: Number of lags wanted; fewer come back if the series are shorter.
    """
    n_times = weights.shape[1]
    n_lags = min(n_lags, n_times)
    # Padded by the largest lag, so that the end of a series never meets its own beginning.
    n = next_fast_len(n_times + n_lags - 1, real=True)
    power = (np.abs(np.fft.rfft(values, n, axis=-1)) ** 2).sum(axis=1)
    weight_power = np.abs(np.fft.rfft(weights, n, axis=-1)) ** 2
    products = np.fft.irfft(power, n, axis=-1)[:, :n_lags]
    return products, np.fft.irfft(weight_power, n, axis=-1)[:, :n_lags]
