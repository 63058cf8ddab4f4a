"""The common time grid: lags on it, ragged data laid out on it in batches, autocorrelation."""

__all__ = ["Batch", "autocorrelate", "gridded", "lag_steps"]

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.fft import next_fast_len

from driftbayes.data.trajectories import GRID_TOLERANCE, Trajectories
from driftbayes.errors import DriftbayesError
from driftbayes.magnitudes import whole
from driftbayes.typing import FloatArray, IntArray

# Grid points per batch: small enough to stay in cache, large enough that Python's loop is free.
BATCH_SIZE = 2**18
# Below this filling, most of the memory would hold gaps: the times are irregular in all but name.
MIN_FILLING = 0.01


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


def lag_steps(trajectories: Trajectories, n_lags: int, max_lag: float | None) -> IntArray:
    """Lags in recording intervals: zero, and up to `n_lags` evenly spaced in logarithm."""
    dt = trajectories.recording_interval
    if dt is None:
        raise DriftbayesError(trajectories.irregular_message())
    n_lags = whole(n_lags, "n_lags", 1)
    if max_lag is None:
        fixes = np.bincount(trajectories.trajectory_index, weights=trajectories.observed)
        longest = max(int(fixes.max()) - 1, 1)
        last = max(longest // 4, min(longest, 4))
    else:
        span = int(trajectories.grid_index.max())
        last = int(max_lag / dt + GRID_TOLERANCE) if np.isfinite(max_lag) else -1
        if not 1 <= last <= span:
            unit = f" {trajectories.time_unit}" if trajectories.time_unit else ""
            msg = (
                f"max_lag must lie between the recording interval {dt:g}{unit} and the length of "
                f"the longest trajectory {span * dt:g}{unit}, got {max_lag:g}{unit}"
            )
            raise DriftbayesError(msg)
    # So many in the logarithm reach every step; more would be the same ones again.
    steps = np.unique(np.rint(np.geomspace(1, last, min(n_lags, 64 * last))).astype(np.int64))
    return np.concatenate([[0], steps])


def gridded(
    values: FloatArray, weights: FloatArray, particle: IntArray, index: IntArray, *, reach: int
) -> Iterator[Batch]:
    """Lay ragged data out on the grid, shortest particles first, in batches of similar length."""
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
        msg = (
            f"the positions fill only {filling:.1e} of the grid of recording intervals, too few "
            "for averages at fixed lags; round the times to a coarser interval"
        )
        raise DriftbayesError(msg)
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
    """Batch and slot of each particle, for ascending lengths."""
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
    r"""Sums of products a lag apart, and sums of their weights, by fast Fourier transform.

    $$s(\mathrm{lag}) = \sum_t \sum_c v_c(t + \mathrm{lag})\,v_c(t), \qquad
      n(\mathrm{lag}) = \sum_t w(t + \mathrm{lag})\,w(t)$$
    """
    n_times = weights.shape[1]
    n_lags = min(n_lags, n_times)
    # Padded by the largest lag, so that the end of a series never meets its own beginning.
    n = next_fast_len(n_times + n_lags - 1, real=True)
    power = (np.abs(np.fft.rfft(values, n, axis=-1)) ** 2).sum(axis=1)
    weight_power = np.abs(np.fft.rfft(weights, n, axis=-1)) ** 2
    products = np.fft.irfft(power, n, axis=-1)[:, :n_lags]
    return products, np.fft.irfft(weight_power, n, axis=-1)[:, :n_lags]
