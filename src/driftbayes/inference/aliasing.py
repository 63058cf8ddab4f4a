"""Error of the trapezoid rule on two interleaved lattices, from the values at their nodes.

The error of a lattice is the sum of the integrand's Fourier transform F over the dual lattice. In
units of 1/spacing, the sums over A and B differ by F at vectors of odd sum, which cancel in their
union. What is left there is F at vectors of even sum: (1, ±1, 0, …), (2, 0, …), (1, ±1, ±1, ±1).
The nodes determine F up to half of these; it is extrapolated from there.
"""

__all__ = [
    "Aliasing",
    "estimate_aliasing",
    "gaussian_spacing",
    "line_aliasing",
    "refined_spacing",
]

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np

from driftbayes.typing import FloatArray, IntArray

# Fractions of a dual vector at which F is computed: beyond these, images of F at other vectors of
# the dual lattice are no longer small. Those of (2, 0, …), twice as long, are nearer.
_FRACTIONS, _DOUBLED_FRACTIONS = np.array([0.2, 0.3, 0.4]), np.array([0.1, 0.2, 0.3])
# -ln F goes as a power of the wave number, two at first for a Gaussian, one in the end. This share
# of the excess over one is relied on beyond half of the vector, less where F is small already.
_PERSISTENCE, _SMALL = 0.6, (4.0, 8.0)
# Along an axis, less than one is believed only where F is large: nodes left out disturb the rest.
_MIN_POWER, _NOISE = 0.5, ((3.0, 6.0), (0.5, 1.0))
_SAFETY, _DOUBLED_SAFETY = 2.0, 4.0
# Share of the tolerance that a new spacing aims at.
_AIM = 0.5


@dataclass(frozen=True)
class Aliasing:
    """Estimated error of ln of the integral on the union of both lattices.

    Args:
        error: The estimate.
        by_axis: Contribution of each axis.
        power: Power of the wave number that -ln F goes as, for the largest contribution.
    """

    error: float
    by_axis: FloatArray
    power: float


def estimate_aliasing(index: IntArray, values: FloatArray) -> Aliasing:
    """Estimate the error of the trapezoid rule on the union of A and B.

    Args:
        index: Indices of the nodes (node, p), all even in A and all odd in B.
        values: ln of the integrand at the nodes.
    """
    n_dim = index.shape[1]
    if not np.isfinite(np.max(values, initial=-np.inf)):
        return Aliasing(np.inf, np.full(n_dim, np.inf), 1.0)
    weights = np.exp(values - np.max(values))
    weights = weights / np.sum(weights)
    used = weights > 1e-20
    place, weights = 0.5 * index[used], weights[used]
    is_b = index[used, 0] % 2 == 1
    share = float(np.sum(weights[is_b]))
    if not 0 < share < 1:
        return Aliasing(np.inf, np.full(n_dim, np.inf), 1.0)
    vectors = list(_dual_vectors(n_dim))
    halves, powers = np.empty(len(vectors)), np.empty(len(vectors))
    for k, vector in enumerate(vectors):
        halves[k], powers[k] = _half_way(vector, place, weights)
    doubled = np.array([np.max(vector) == 2 for vector in vectors])
    # F at (1, 0, …) is half of (2, 0, …): the sum over the axes is at least what A and B differ by.
    difference = 0.5 * abs(np.log((1 - share) / share))
    halves[doubled] *= max(1.0, difference / (2 * np.sum(halves[doubled])))
    logs = -np.log(halves.clip(1e-100, 0.9))
    reliance = np.interp(logs, _SMALL, (_PERSISTENCE, 0.0))
    onwards = np.where(powers > 1, 1 + reliance * (powers - 1), powers)
    onwards[doubled] = np.minimum(onwards[doubled], 1.0)
    parts = 2 * np.exp(-logs * 2**onwards) * np.where(doubled, _DOUBLED_SAFETY, _SAFETY)
    by_axis = np.zeros(n_dim)
    for vector, part in zip(vectors, parts, strict=True):
        by_axis[vector != 0] += part / np.count_nonzero(vector)
    return Aliasing(float(np.sum(by_axis)), by_axis, float(onwards[np.argmax(parts)]))


def line_aliasing(index: IntArray, weights: FloatArray) -> FloatArray:
    """The same error for many lines of nodes in one dimension.

    Args:
        index: Indices of the nodes, in units of half the spacing of A and of B.
        weights: Values at the nodes of each line, of sum one, (line, node).
    """
    weights = np.where(weights > 1e-20, weights, 0.0)
    share = weights[:, index % 2 == 1].sum(axis=1)
    fractions = _DOUBLED_FRACTIONS
    phases = 2 * np.pi * np.outer(index, fractions)
    waves = np.hypot(weights @ np.cos(phases), weights @ np.sin(phases))
    logs = -np.log(waves.clip(1e-100, 1 - 1e-9))
    powers = np.log(logs[:, 2:] / logs[:, :2]) / np.log(fractions[2] / fractions[:2])
    power = np.clip(powers.min(axis=1), np.interp(logs[:, 2], *_NOISE), 2.0)
    halves = np.exp(-logs[:, 2] * (0.5 / fractions[2]) ** power)
    # What A and B differ by is F at half of the vector too.
    halves *= np.maximum(1.0, 0.5 * np.abs(np.log((1 - share) / share)) / (2 * halves))
    onwards = np.minimum(power, 1.0)
    found = 2 * np.exp(np.log(halves.clip(1e-100, 0.9)) * 2**onwards) * _DOUBLED_SAFETY
    return np.where((share > 0) & (share < 1), found, np.inf)


def _dual_vectors(n_dim: int) -> Iterator[IntArray]:
    """List short vectors of even sum with coefficients of one, or one of two, up to the sign."""
    yield from 2 * np.eye(n_dim, dtype=np.int64)
    for size in range(2, min(n_dim, 4) + 1, 2):
        for members in combinations(range(n_dim), size):
            for signs in product((1, -1), repeat=size - 1):
                vector = np.zeros(n_dim, dtype=np.int64)
                vector[list(members)] = (1, *signs)
                yield vector


def _half_way(vector: IntArray, place: FloatArray, weights: FloatArray) -> tuple[float, float]:
    """Find F at half of a vector, and the power of the wave number that -ln F goes as.

    At half of the vector the nodes see a sum of real parts, of F there and at all its images. It
    may vanish by accident, so that F is at least what the smaller wave numbers suggest.
    """
    size = np.count_nonzero(vector)
    fractions = _DOUBLED_FRACTIONS if size == 1 else _FRACTIONS
    phase = place @ vector
    waves = np.exp(2j * np.pi * np.outer(fractions, phase)) @ weights
    logs = -np.log(np.abs(waves).clip(1e-100, 1 - 1e-9))
    powers = np.log(logs[2] / logs[:2]) / np.log(fractions[2] / fractions[:2])
    lowest = np.interp(logs[2], *_NOISE) if size == 1 else _MIN_POWER
    power = float(np.min(powers).clip(lowest, 2.0))
    suggested = float(np.exp(-logs[2] * (0.5 / fractions[2]) ** power))
    if size == 1:
        return suggested, power
    n_images = 2 ** (size - 1)
    return max(suggested, abs(float(np.cos(np.pi * phase) @ weights)) / n_images), power


def gaussian_spacing(n_dim: int, tolerance: float) -> float:
    """Choose a spacing at which the estimate for a Gaussian of unit width is the tolerance."""
    wanted = np.log(4 * _SAFETY * n_dim**2 / tolerance)
    trial = np.linspace(0.5, 1.7, 241)
    logs = np.pi**2 / trial**2
    found = logs * 2 ** (1 + np.interp(logs, _SMALL, (_PERSISTENCE, 0.0)))
    return float(trial[np.flatnonzero(found >= wanted)[-1]]) if found[0] >= wanted else 0.5


def refined_spacing(spacing: FloatArray, aliasing: Aliasing, tolerance: float) -> FloatArray:
    """Choose the spacing along each axis that brings the error to the tolerance.

    One dimension is halved, where all nodes are used again; in more, halving is dearer than
    starting again with a spacing that is just small enough.
    """
    n_dim = len(spacing)
    if n_dim == 1:
        return spacing / 2
    aim = np.log(n_dim / (_AIM * tolerance))
    present = np.log(1 / np.minimum(aliasing.by_axis, 0.5))
    factors = ((present / aim) ** (1 / max(aliasing.power, 0.8))).clip(0.5, 1.0)
    if np.min(factors) > 0.85:
        factors[np.argmin(factors)] = 0.85
    return spacing * factors
