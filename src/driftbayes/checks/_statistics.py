"""Quantities compared between data and replicas, each with up to a dozen values."""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.special import erfc

from driftbayes._typing import FloatArray, IntArray
from driftbayes.checks._innovations import Layout
from driftbayes.diagnostics.averages import kurtosis
from driftbayes.errors import DriftbayesError

# More lags would add little, since they are correlated.
_MAX_LAGS = 10
# Thresholds for displacements, relative to their root mean square, and the fractions of Gaussian
# displacements beyond them.
_THRESHOLDS = np.array([0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0])
_FRACTIONS = erfc(_THRESHOLDS / np.sqrt(2))
_QUANTILES = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
# Minimum number of particles or pairs for a distribution.
_MIN_COUNT = 5


@dataclass(frozen=True, eq=False)
class Quantity:
    """Property of a data set, with one or more values.

    Args:
        name: Short name.
        words: Name in a sentence.
        about: Label of `at`.
        at: Lags in steps, thresholds or probabilities; one zero for a single value.
        places: Label of each value; empty for a single value.
        is_log: Whether logarithms are compared.
    """

    name: str
    words: str
    about: str
    at: FloatArray
    places: tuple[str, ...] = ()
    is_log: bool = False


def lags_of(layout: Layout, longest: int) -> IntArray:
    """Return lags from 1 to `longest` with five or more pairs.

    They are evenly spaced in logarithm if there are many.
    """
    if longest < 1:
        return np.zeros(0, dtype=np.int64)
    last = min(longest, max(layout.n_steps // 2, 4))
    lags = np.unique(np.rint(np.geomspace(1, last, _MAX_LAGS)).astype(np.int64))
    if last <= _MAX_LAGS:
        lags = np.arange(1, last + 1)
    pairs = [np.maximum(layout.data.row_sizes - (lag - 1), 0).sum() for lag in lags]
    return lags[np.array(pairs) * layout.n_dim >= _MIN_COUNT]


def quantities(layout: Layout) -> list[Quantity]:
    """List the quantities to compare; there are fewer for short runs and few particles."""
    spread = lags_of(layout, layout.n_steps)
    memory = lags_of(layout, layout.n_steps - 1)
    thresholds = _THRESHOLDS[layout.data.dx.size * _FRACTIONS >= _MIN_COUNT]
    axes = tuple(f"axis {axis + 1}" for axis in range(layout.n_dim))
    beyond = tuple(f"fraction beyond {t:g} rms" for t in thresholds)
    found = [
        _by_place("mean", "the mean displacement", ", ".join(axes), axes),
        _by_lag("msd", "the mean square displacement", spread),
    ]
    if len(memory):
        found.append(_by_lag("autocovariance", "the autocovariance of displacements", memory))
    words = "the distribution of displacements"
    found += [
        _by_lag("kurtosis", "the kurtosis of displacements", spread, is_log=True),
        Quantity("distribution", words, "|Δx| over its rms", thresholds, beyond),
    ]
    if layout.n_particles >= _MIN_COUNT:
        places = tuple(f"quantile {q:g} of the relative mean square step" for q in _QUANTILES)
        words, about = "the differences between particles", "quantile of particles"
        found.append(Quantity("particles", words, about, _QUANTILES, places, is_log=True))
    if layout.moments is not None:
        both = ("displacements", "innovations")
        words = "the independence of particles"
        found.append(_by_place("together", words, "steps, innovations", both))
    if layout.n_dim > 1:
        pairs = [(i + 1, j + 1) for i, j in _axis_pairs(layout.n_dim)]
        places = tuple(
            f"variance along axis {i} over the mean, minus 1"
            if i == j
            else f"covariance of axes {i} and {j} over the mean variance"
            for i, j in pairs
        )
        words = "the isotropy of the innovations"
        about = ", ".join(f"axis {i}" if i == j else f"axes {i}–{j}" for i, j in pairs)
        found.append(_by_place("axes", words, about, places))
    shape = ("skewness", "kurtosis")
    words = "the shape of the innovations"
    found.append(Quantity("innovation_shape", words, ", ".join(shape), np.array([3.0, 4.0]), shape))
    if len(memory):
        words = "the whiteness of the innovations"
        found.append(_by_lag("innovation_whiteness", words, memory))
    if layout.n_particles >= _MIN_COUNT:
        words = "the spread of innovations between particles"
        found.append(Quantity("innovation_particles", words, "", np.zeros(1), is_log=True))
    return found


def _by_place(name: str, words: str, about: str, places: tuple[str, ...]) -> Quantity:
    return Quantity(name, words, about, np.arange(float(len(places))), places)


def _by_lag(name: str, words: str, lags: IntArray, *, is_log: bool = False) -> Quantity:
    places = tuple(f"lag {lag}" for lag in lags)
    return Quantity(name, words, "lag in steps", lags.astype(np.float64), places, is_log)


def statistics(
    chosen: list[Quantity], layout: Layout, dx: FloatArray, white: FloatArray
) -> dict[str, FloatArray]:
    """Compute the values (set, at) of every quantity for many data sets.

    Lags are counted in steps within runs, also at irregular times.
    """
    names = {quantity.name: quantity for quantity in chosen}
    found = {
        "innovation_shape": _shape(layout, white),
        "mean": dx.sum(axis=(1, 2)) / layout.data.interval.sum(),
    }
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
    if "together" in names:
        both = [_pair_correlation(layout, values) for values in (dx, white)]
        found["together"] = np.stack(both, axis=1)
    if "axes" in names:
        found["axes"] = _axes(white)
    return {name: found[name] for name in names}


def _spread(layout: Layout, dx: FloatArray, lags: IntArray) -> tuple[FloatArray, FloatArray]:
    """Compute mean square displacement and kurtosis over `lags` successive steps."""
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
    """Sum products a lag apart within runs; values after the end of a run are zero."""
    columns = [
        np.einsum("srnd,srnd->s", values[:, :, lag:], values[:, :, : -int(lag)]) for lag in lags
    ]
    return np.stack(columns, axis=1)


def _distribution(layout: Layout, dx: FloatArray, thresholds: FloatArray) -> FloatArray:
    """Compute the fraction of displacements beyond each threshold."""
    size = np.abs(dx).reshape(len(dx), -1)
    n = layout.data.dx.size
    rms = np.sqrt(np.einsum("si,si->s", size, size) / n)
    size /= rms[:, None]
    return np.stack([(size > at).sum(axis=1) / n for at in thresholds], axis=1)


def _axis_pairs(n_dim: int) -> list[tuple[int, int]]:
    """Return the axes of the values of `_axes`: each but the last with itself, then all pairs."""
    return [*((i, i) for i in range(n_dim - 1)), *combinations(range(n_dim), 2)]


def _axes(white: FloatArray) -> FloatArray:
    """Compute variances along all axes but the last, minus one, and covariances of axes.

    They are in units of the mean variance of all axes.
    """
    n_dim = white.shape[-1]
    product = np.einsum("srni,srnj->sij", white, white)
    product *= (n_dim / np.trace(product, axis1=1, axis2=2))[:, None, None]
    return np.stack([product[:, i, j] - (i == j) for i, j in _axis_pairs(n_dim)], axis=1)


def _pair_correlation(layout: Layout, values: FloatArray) -> FloatArray:
    """Compute the mean correlation of simultaneous steps over pairs of particles."""
    if layout.moments is None:
        raise DriftbayesError("simultaneous steps of these data are unknown; pass start_times")
    order = np.argsort(layout.moments, kind="stable")
    counts = np.bincount(layout.moments)
    steps = values[:, layout.valid][:, order]
    sums = np.add.reduceat(steps, np.cumsum(counts) - counts, axis=1)
    square = np.einsum("snd,snd->s", steps, steps)
    pairs = np.einsum("sgd,sgd->s", sums, sums) - square
    return np.asarray(pairs / (square / counts.sum() * np.sum(counts * (counts - 1.0))))


def _shape(layout: Layout, white: FloatArray) -> FloatArray:
    """Compute skewness and kurtosis of the innovations."""
    values = white.reshape(len(white), -1)
    n = layout.data.dx.size
    square = values * values
    second = square.sum(axis=1) / n
    third = np.einsum("si,si->s", square, values) / n
    fourth = np.einsum("si,si->s", square, square) / n
    return np.stack([third / second**1.5, fourth / second**2], axis=1)


def _sizes(layout: Layout, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the sum of squares and the number of values of each particle."""
    sums = layout.per_particle(np.einsum("srnd,srnd->sr", values, values))
    counts = layout.per_particle(layout.data.row_sizes.astype(np.float64)) * layout.n_dim
    return sums, counts


def _particle_quantiles(layout: Layout, dx: FloatArray) -> FloatArray:
    """Compute quantiles over particles of the mean square step relative to that of all."""
    sums, counts = _sizes(layout, dx)
    relative = sums / counts / (sums.sum(axis=1) / counts.sum())[:, None]
    return np.moveaxis(np.quantile(relative, _QUANTILES, axis=1), 0, 1)


def _particle_dispersion(layout: Layout, white: FloatArray) -> FloatArray:
    r"""Compute the dispersion between particles of the size of innovations.

    With $Q_p$ the sum of squares of the $n_p$ innovations of particle p, $\chi^2$ with $n_p$
    degrees of freedom under a Gaussian model, and q the mean square of all, it is the mean of
    $(Q_p/q - n_p)^2 / 2 n_p$: about 1 if the particles are alike.
    """
    sums, counts = _sizes(layout, white)
    scaled = sums / (sums.sum(axis=1) / counts.sum())[:, None]
    return np.mean((scaled - counts) ** 2 / (2 * counts), axis=1)[:, None]
