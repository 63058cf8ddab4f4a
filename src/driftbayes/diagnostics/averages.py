"""Averages against lag: velocity autocovariance, mean square displacement, kurtosis.

The convention is Var(dX_i) = 2 kappa tau per axis.
"""

__all__ = [
    "DisplacementSums",
    "VelocitySums",
    "absolute_diffusivity",
    "displacement_sums",
    "kurtosis",
    "taylor_integral",
    "taylor_shares",
    "velocity_sums",
]

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from driftbayes._typing import FloatArray, IntArray
from driftbayes.data._trajectories import Trajectories
from driftbayes.diagnostics._scales import autocorrelate, gridded


@dataclass(frozen=True)
class VelocitySums:
    r"""Sums of $U(t + \mathrm{lag})\,U(t)$, averaged over axes.

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
    r"""Compute sums of the Lagrangian velocity autocovariance for each particle.

    $$r(\mathrm{lag}) = \langle U_i(t + \mathrm{lag})\,U_i(t) \rangle$$

    Paper: [eq:lvaf].

    Averaged over time, particles and axes, so that $r(0)$ is the variance along *one* axis. No
    mean flow is subtracted. U is a finite difference over one recording interval dt, so it is the
    velocity *averaged* over dt: for a Langevin particle $r(0) = 2k(1 - \varphi(\gamma\,dt))/dt$
    rather than $\gamma k$, and for a Brownian particle $r(0) = 2\kappa/dt$ with nothing beyond.

    Args:
        trajectories: Positions of the particles at regular times. A velocity needs two fixes one
            interval apart; gaps are not interpolated.
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
    """Yield particles, sums of velocity products and numbers of pairs at all lags, in batches.

    They are computed anew on each call: all lags of all particles would take as much memory as the
    data, and the transforms are cheap.
    """
    velocity, particle, index = finite_difference_velocities(trajectories)
    ones = np.ones(len(velocity))
    for batch in gridded(velocity, ones, particle, index, reach=n_lags - 1):
        products, pairs = autocorrelate(batch.values, batch.weights, n_lags)
        pairs = np.rint(pairs)
        # Without a pair, the transform leaves rounding noise.
        yield batch.particles, np.where(pairs > 0, products, 0.0) / trajectories.n_dim, pairs


def finite_difference_velocities(
    trajectories: Trajectories,
) -> tuple[FloatArray, IntArray, IntArray]:
    """Compute velocities over one recording interval, with the particle and grid index of each."""
    dt = trajectories.regular_interval
    rows = np.flatnonzero(trajectories.on_grid)
    particle, index = trajectories.trajectory_index[rows], trajectories.grid_index[rows]
    adjacent = np.flatnonzero((np.diff(particle) == 0) & (np.diff(index) == 1))
    x = trajectories.positions
    velocity = (x[rows[adjacent + 1]] - x[rows[adjacent]]) / dt
    return velocity, particle[adjacent], index[adjacent]


@dataclass(frozen=True)
class DisplacementSums:
    """Sums of powers of displacements, averaged over axes, each (particle, lag).

    Args:
        second: Sum of dX² over the pairs of each particle.
        fourth: Sum of dX⁴ over the pairs of each particle.
        counts: Number of pairs of fixes of each particle.
    """

    second: FloatArray
    fourth: FloatArray
    counts: FloatArray

    @property
    def mean_square(self) -> FloatArray:
        r"""Mean square displacement per axis, $\langle (X_i(t + \mathrm{lag}) - X_i(t))^2\rangle$.

        The average is over all (overlapping) start times, particles and axes; NaN where there
        is no pair.
        """
        with np.errstate(invalid="ignore"):
            return self.second.sum(axis=0) / self.counts.sum(axis=0)


def displacement_sums(trajectories: Trajectories, steps: IntArray) -> DisplacementSums:
    """Compute sums of second and fourth powers of displacements for each particle.

    Args:
        trajectories: Positions of the particles at regular times. A pair needs its two fixes, but
            none between them.
        steps: Lags in recording intervals; the cost is proportional to their number.
    """
    shape = (trajectories.n_trajectories, len(steps))
    second, fourth, counts = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    rows = np.flatnonzero(trajectories.on_grid)
    batches = gridded(
        trajectories.positions[rows],
        np.ones(len(rows)),
        trajectories.trajectory_index[rows],
        trajectories.grid_index[rows],
        reach=int(steps.max()),
    )
    for batch in batches:
        x, seen = batch.values, batch.weights
        for column, step in enumerate(steps[steps < seen.shape[1]]):
            end = seen.shape[1] - step
            both = seen[:, step:] * seen[:, :end]
            power = x[:, :, step:] - x[:, :, :end]
            power *= power
            second[batch.particles, column] = np.einsum("pct,pt->p", power, both)
            power *= power
            fourth[batch.particles, column] = np.einsum("pct,pt->p", power, both)
            counts[batch.particles, column] = both.sum(axis=1)
    return DisplacementSums(second / trajectories.n_dim, fourth / trajectories.n_dim, counts)


def absolute_diffusivity(mean_square: FloatArray, lag: FloatArray) -> FloatArray:
    r"""Compute the absolute diffusivity, in the convention Var(dX_i) = 2 kappa tau per axis.

    $$\kappa_\mathrm{abs}(\mathrm{lag}) =
      \frac{\langle (\Delta X_i)^2 \rangle}{2\,\mathrm{lag}}$$

    Paper: [eq:absolute-diffusivity].

    It is ballistic, $r(0)\,\mathrm{lag}/2$, at lags shorter than the velocity correlation time, and
    constant at longer ones. NaN at lag 0.
    """
    with np.errstate(invalid="ignore"):
        return mean_square / (2 * lag)


def taylor_integral(lvaf: FloatArray, dt: float) -> FloatArray:
    r"""Compute Taylor's diffusivity: the velocity autocovariance integrated up to each lag.

    $$\kappa_\mathrm{T}(n\,dt) = \int_0^{n\,dt} r\,\mathrm{d}\,\mathrm{lag}
      = dt\,\Bigl(\tfrac12 r_0 + r_1 + \dots + r_{n-1} + \tfrac12 r_n\Bigr)$$

    Paper: [eq:taylor].

    With finite-difference velocities the trapezoid rule is exact. A displacement is the sum of its
    steps, so $\mathrm{MSD}_n = dt^2\,(n r_0 + 2\sum_{m<n} (n - m)\,r_m)$, and

    $$\kappa_\mathrm{T}(n\,dt) = \frac12\;
      \frac{\mathrm{MSD}_{n+1} - \mathrm{MSD}_{n-1}}{2\,dt}$$

    is half the central difference of the mean square displacement. (Averages over a finite record
    differ by end effects.)

    Args:
        lvaf: r at every lag 0, dt, 2 dt, ...; beyond a NaN the integral is NaN.
        dt: Recording interval.
    """
    return dt * (np.cumsum(lvaf) - 0.5 * lvaf[0] - 0.5 * lvaf)


def taylor_shares(
    trajectories: Trajectories, steps: IntArray, sums: VelocitySums, dt: float
) -> FloatArray:
    r"""Compute the influence of each particle on Taylor's integral, (particle, lag).

    $$a_p(n\,dt) = \int_0^{n\,dt} \frac{s_p - r\,n_p}{\sum_q n_q}\,\mathrm{d}\,\mathrm{lag}$$

    with $s_p$, $n_p$ the sum and number of pairs of particle $p$. A resample with weights $W_p$
    changes the integral by $\sum_p W_p a_p$: to first order in general, exactly if all particles
    have the same fixes. All lags of all particles need not be stored.
    """
    n_lags = len(sums.pooled_counts)
    shares = np.zeros((trajectories.n_trajectories, len(steps)))
    mean = np.where(sums.pooled_counts > 0, sums.lvaf, 0.0)
    total = np.maximum(sums.pooled_counts, 1.0)
    for particles, products, pairs in autocovariance_batches(trajectories, n_lags):
        n = products.shape[1]
        integrand = (products - mean[:n] * pairs) / total[:n]
        # One more lag, zero: beyond its length a particle does not change the integral.
        integrand = np.pad(integrand, ((0, 0), (0, 1)))
        last = np.minimum(steps, n)
        cumulative = np.cumsum(integrand, axis=1)[:, last]
        shares[particles] = cumulative - 0.5 * integrand[:, :1] - 0.5 * integrand[:, last]
    return dt * shares


def kurtosis(second: FloatArray, fourth: FloatArray, counts: FloatArray) -> FloatArray:
    r"""Compute the kurtosis of displacements, pooled over axes, times and particles.

    $$\mathrm{kurtosis}(\mathrm{lag}) =
      \frac{\langle \Delta X_i^4 \rangle}{\langle \Delta X_i^2 \rangle^2}$$

    It is 3 for a Gaussian. Pooling mixes axes and particles, so unequal diffusivities raise it
    above 3 even if each displacement is Gaussian. No mean is subtracted. NaN without a pair or
    without motion.

    Args:
        second: Sum of dX².
        fourth: Sum of dX⁴.
        counts: Number of displacements in the sums.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        # Two divisions, since the square of a sum over millions of pairs could overflow.
        return (fourth / second) * (counts / second)
