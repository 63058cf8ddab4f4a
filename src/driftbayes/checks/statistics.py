"""What is compared between data and replicas: a dozen numbers for each of a few quantities."""

__all__ = ["Quantity", "lags_of", "quantities", "statistics"]

from dataclasses import dataclass

import numpy as np
from scipy.special import erfc

from driftbayes.checks.innovations import Layout
from driftbayes.diagnostics.gaussianity import kurtosis
from driftbayes.typing import FloatArray, IntArray

# The most lags: more would say the same again, since they are correlated.
_N_LAGS = 10
# Displacements are counted beyond these multiples of their own root mean square.
_THRESHOLDS = np.array([0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0])
# Of Gaussian ones this share lies beyond each.
_SHARES = erfc(_THRESHOLDS / np.sqrt(2))
_QUANTILES = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
# Fewer particles or pairs than this tell nothing of their distribution.
_FEW = 5


@dataclass(frozen=True, eq=False)
class Quantity:
    """A property of a data set, as a handful of numbers.

    Args:
        name: Short name.
        words: What a model does or does not explain, in words.
        about: What `at` is.
        at: Lags in steps, thresholds or probabilities; one zero for a single number.
    """

    name: str
    words: str
    about: str
    at: FloatArray


def lags_of(layout: Layout, longest: int) -> IntArray:
    """Lags from 1 up to `longest`, evenly spaced in logarithm if they are many.

    Only those that five pairs have or more.
    """
    if longest < 1:
        return np.zeros(0, dtype=np.int64)
    last = min(longest, max(layout.n_steps // 2, 4))
    lags = np.unique(np.rint(np.geomspace(1, last, _N_LAGS)).astype(np.int64))
    if last <= _N_LAGS:
        lags = np.arange(1, last + 1)
    pairs = [np.maximum(layout.data.row_sizes - (lag - 1), 0).sum() for lag in lags]
    return lags[np.array(pairs) * layout.n_dim >= _FEW]


def quantities(layout: Layout) -> list[Quantity]:
    """The quantities that these data have; short runs and few particles have fewer."""
    spread = lags_of(layout, layout.n_steps).astype(np.float64)
    memory = lags_of(layout, layout.n_steps - 1).astype(np.float64)
    lag, none = "lag in steps", np.zeros(1)
    found = [Quantity("msd", "the mean square displacement", lag, spread)]
    if len(memory):
        words = "the autocovariance of displacements"
        found.append(Quantity("autocovariance", words, lag, memory))
    found.append(Quantity("kurtosis", "the kurtosis of displacements", lag, spread))
    words = "the distribution of displacements"
    thresholds = _THRESHOLDS[layout.data.dx.size * _SHARES >= _FEW]
    found.append(Quantity("distribution", words, "|Δx| over its rms", thresholds))
    if layout.n_particles >= _FEW:
        words = "the differences between particles"
        found.append(Quantity("particles", words, "quantile of particles", _QUANTILES))
    words = "the shape of the innovations"
    found.append(Quantity("innovation_shape", words, "skewness, kurtosis", np.array([3.0, 4.0])))
    if len(memory):
        words = "the whiteness of the innovations"
        found.append(Quantity("innovation_whiteness", words, lag, memory))
    if layout.n_particles >= _FEW:
        words = "the spread of innovations between particles"
        found.append(Quantity("innovation_particles", words, "", none))
    return found


def statistics(
    chosen: list[Quantity], layout: Layout, dx: FloatArray, white: FloatArray
) -> dict[str, FloatArray]:
    """The numbers (set, at) of every quantity for many data sets.

    Lags are counted in steps, within runs; with irregular times these differ in duration, in data
    and replicas alike.

    Args:
        chosen: Which quantities.
        layout: Shape of the data sets.
        dx: Steps (set, run, step, dim), zero where a run has ended.
        white: Innovations of unit variance, the same.
    """
    names = {quantity.name: quantity for quantity in chosen}
    found = {"innovation_shape": _shape(layout, white)}
    found["distribution"] = _distribution(layout, dx, names["distribution"].at)
    found["msd"], found["kurtosis"] = _spread(layout, dx, names["msd"].at.astype(np.int64))
    if "autocovariance" in names:
        lags = names["autocovariance"].at.astype(np.int64)
        counts = [np.maximum(layout.data.row_sizes - lag, 0).sum() * layout.n_dim for lag in lags]
        found["autocovariance"] = _products(dx, lags) / np.array(counts)
        whole = np.einsum("srnd,srnd->s", white, white)
        found["innovation_whiteness"] = _products(white, lags) / whole[:, None]
    if "particles" in names:
        found["particles"] = _particle_quantiles(layout, dx)
        found["innovation_particles"] = _particle_dispersion(layout, white)
    return {name: found[name] for name in names}


def _spread(layout: Layout, dx: FloatArray, lags: IntArray) -> tuple[FloatArray, FloatArray]:
    """Mean square displacement and kurtosis over `lags` successive steps."""
    n_sets, n_runs, _, n_dim = dx.shape
    position = np.concatenate([np.zeros((n_sets, n_runs, 1, n_dim)), np.cumsum(dx, axis=2)], axis=2)
    second, fourth = np.empty((n_sets, len(lags))), np.empty((n_sets, len(lags)))
    counts = np.empty(len(lags))
    for i, lag in enumerate(lags):
        square = position[:, :, lag:] - position[:, :, :-lag]
        np.square(square, out=square)
        inside = layout.valid[:, lag - 1 :]
        if not layout.is_full:
            square *= inside[None, :, :, None]
        square = square.reshape(n_sets, -1)
        second[:, i] = square.sum(axis=1)
        fourth[:, i] = np.einsum("si,si->s", square, square)
        counts[i] = inside.sum() * n_dim
    return second / counts, kurtosis(second, fourth, counts)


def _products(values: FloatArray, lags: IntArray) -> FloatArray:
    """Sums of products a lag apart, within runs: what follows the end of a run is zero."""
    columns = [
        np.einsum("srnd,srnd->s", values[:, :, lag:], values[:, :, : -int(lag)]) for lag in lags
    ]
    return np.stack(columns, axis=1)


def _distribution(layout: Layout, dx: FloatArray, thresholds: FloatArray) -> FloatArray:
    """Fraction of displacements beyond each threshold; an ended run's zeros are beyond none."""
    size = np.abs(dx).reshape(len(dx), -1)
    n = layout.data.dx.size
    rms = np.sqrt(np.einsum("si,si->s", size, size) / n)
    size /= rms[:, None]
    return np.stack([(size > at).sum(axis=1) / n for at in thresholds], axis=1)


def _shape(layout: Layout, white: FloatArray) -> FloatArray:
    """Skewness and kurtosis of the innovations."""
    values = white.reshape(len(white), -1)
    n = layout.data.dx.size
    square = values * values
    second = square.sum(axis=1) / n
    third = np.einsum("si,si->s", square, values) / n
    fourth = np.einsum("si,si->s", square, square) / n
    return np.stack([third / second**1.5, fourth / second**2], axis=1)


def _sizes(layout: Layout, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Sum of squares of each particle, and how many numbers were summed."""
    sums = layout.per_particle(np.einsum("srnd,srnd->sr", values, values))
    counts = layout.per_particle(layout.data.row_sizes.astype(np.float64)) * layout.n_dim
    return sums, counts


def _particle_quantiles(layout: Layout, dx: FloatArray) -> FloatArray:
    """Quantiles, over particles, of each one's mean square step over that of all."""
    sums, counts = _sizes(layout, dx)
    relative = sums / counts / (sums.sum(axis=1) / counts.sum())[:, None]
    return np.moveaxis(np.quantile(relative, _QUANTILES, axis=1), 0, 1)


def _particle_dispersion(layout: Layout, white: FloatArray) -> FloatArray:
    r"""How much more the particles' innovations differ in size than chance would have it.

    With $Q_p$ the sum of squares of the $n_p$ innovations of particle p, $\chi^2$ of $n_p$ degrees
    of freedom under a Gaussian model, and q the mean square of all, the mean of
    $(Q_p/q - n_p)^2 / 2 n_p$: about 1 if the particles are alike.
    """
    sums, counts = _sizes(layout, white)
    scaled = sums / (sums.sum(axis=1) / counts.sum())[:, None]
    return np.mean((scaled - counts) ** 2 / (2 * counts), axis=1)[:, None]
