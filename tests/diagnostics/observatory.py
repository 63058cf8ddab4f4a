"""Data with known answers, and slow answers, for the tests of the diagnostics."""

import numpy as np
from hypothesis import strategies as st

from driftbayes.data._trajectories import Trajectories

DT = 0.25
# Tolerances of Monte Carlo tests, in standard errors.
FIVE_SIGMA = 5.0


def langevin_paths(n_particles, n_times, n_dim, *, gamma, k, dt, seed):
    """Exact simulation: (U, increment of X) over dt is Gaussian given U."""
    rng = np.random.default_rng(seed)
    x = gamma * dt
    keep, lose = np.exp(-x), -np.expm1(-x)
    var_u = gamma * k * -np.expm1(-2 * x)
    var_x = 2 * k / gamma * (x - 2 * lose + 0.5 * -np.expm1(-2 * x))
    factor = np.linalg.cholesky([[var_u, k * lose**2], [k * lose**2, var_x]])
    u = rng.normal(size=(n_particles, n_dim)) * np.sqrt(gamma * k)
    steps = np.empty((n_times - 1, n_particles, n_dim))
    for n in range(n_times - 1):
        noise = rng.normal(size=(n_particles, n_dim, 2)) @ factor.T
        steps[n] = u * lose / gamma + noise[..., 1]
        u = u * keep + noise[..., 0]
    start = rng.normal(size=(1, n_particles, n_dim))
    return np.concatenate([start, start + np.cumsum(steps, axis=0)]).transpose(1, 0, 2)


def brownian_paths(n_particles, n_times, n_dim, *, kappa, dt, seed):
    rng = np.random.default_rng(seed)
    steps = rng.normal(size=(n_particles, n_times - 1, n_dim)) * np.sqrt(2 * kappa * dt)
    return np.concatenate([np.zeros((n_particles, 1, n_dim)), np.cumsum(steps, axis=1)], axis=1)


def varphi(x):
    return -np.expm1(-x) / x


def langevin_msd(lag, *, gamma, k):
    """2 k lag (1 - varphi(gamma lag)) per axis."""
    return 2 * k * lag * (1 - varphi(gamma * lag))


def langevin_lvaf(steps, *, gamma, k, dt):
    """Autocovariance of velocities averaged over dt, from the covariance of increments."""
    x = gamma * dt
    beyond = k * gamma * varphi(x) ** 2 * np.exp(-x * np.maximum(steps - 1.0, 0))
    return np.where(steps == 0, langevin_msd(dt, gamma=gamma, k=k) / dt**2, beyond)


@st.composite
def gappy_trajectories(draw):
    """Ragged, with rows of NaN and with rows that are not there; times start anywhere."""
    n_dim = draw(st.integers(1, 3))
    lengths = draw(st.lists(st.sampled_from([1, 2, 3, 7, 12]), min_size=1, max_size=4))
    lengths[0] = max(lengths[0], 2)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    share_missing = draw(st.sampled_from([0.0, 0.2, 0.6]))
    tracks, stamps = [], []
    for number, length in enumerate(lengths):
        x = 100 * rng.normal(size=n_dim) + np.cumsum(rng.normal(size=(length, n_dim)), axis=0)
        blank, absent = rng.random(length) < share_missing, rng.random(length) < share_missing
        absent[0] = False
        # One pair of successive rows, without which the recording interval would be another.
        if number == 0:
            blank[:2] = absent[:2] = False
        x[blank] = np.nan
        tracks.append(x[~absent])
        stamps.append((number + np.arange(length)[~absent]) * DT)
    return Trajectories.from_arrays(tracks, times=stamps)


def positions_on_grid(trajectories, dt=DT):
    """Position at each grid index of each particle, as plain dictionaries."""
    tracks = []
    for start, end in zip(trajectories.starts[:-1], trajectories.starts[1:], strict=True):
        x, t = trajectories.positions[start:end], trajectories.times[start:end]
        tracks.append(
            {round((t[i] - t[0]) / dt): x[i] for i in range(len(t)) if x[i, 0] == x[i, 0]}
        )
    return tracks


def slow_sums(track, step, product):
    """Sum over all pairs a lag apart of `product(value, value a lag later)`, and their number."""
    values = [product(track[i], track[i + step]) for i in track if i + step in track]
    return sum(values), len(values)


def velocities_on_grid(track, dt=DT):
    return {i: (track[i + 1] - track[i]) / dt for i in track if i + 1 in track}
