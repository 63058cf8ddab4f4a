r"""Displacements that are sums of a random number of Gaussian jumps.

With m the mean number of jumps in a step and v the variance of a jump per axis, a nonzero step has
the density

$$\sum_{n \ge 1} e^{-m} \frac{m^n}{n!}\,(2\pi n v)^{-d/2}\,e^{-r^2/(2 n v)}.$$

The sum is centred on its largest term. If many terms are of similar size, only every h-th is
summed: the trapezoid rule is then exact to rounding. Terms are written as differences from $n = m$,
which keeps full precision for means up to $10^{12}$.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln

from driftbayes._typing import FloatArray
from driftbayes.data._sampling import Displacements
from driftbayes.errors import DriftbayesError
from driftbayes.likelihood._direct import DirectDisplacements

# Terms on either side of the largest, which cover 9 widths of the peak, and terms per width.
_N_SIDE, _PER_WIDTH = 72, 8.0
_N_NEWTON = 12
# Numbers in memory at a time.
_MAX_NUMBERS = 1 << 21
# Difference between ln n! and Stirling's formula.
_SMALL_N = np.arange(1.0, 17.0)
_STIRLING = gammaln(_SMALL_N + 1) - (
    _SMALL_N * np.log(_SMALL_N) - _SMALL_N + 0.5 * np.log(2 * np.pi * _SMALL_N)
)


def log_jump_density(square: FloatArray, count: FloatArray, n_dim: int) -> FloatArray:
    """Log-density of steps in units of the standard deviation of a jump per axis.

    Args:
        square: Squared length of each step in these units, positive.
        count: Mean number of jumps in each step, positive.
        n_dim: Number of axes.
    """
    log_count = np.log(count)
    # Newton iterations for the largest term, from below: ln m - ln n + r²/(2 n²) is decreasing
    # and convex in ln n.
    top = np.maximum(log_count, 0.5 * np.log(0.5 * square) - 2)
    for _ in range(_N_NEWTON):
        pull = 0.5 * square * np.exp(-2 * top)
        top = top + (log_count - top + pull) / (1 + 2 * pull)
    peak = np.maximum(np.exp(top), 1.0)
    width = peak / np.sqrt(peak + square / peak)
    # Terms are skipped only if the largest is beyond the 64th and the first ones are negligible.
    stride = np.maximum(np.ceil(width / _PER_WIDTH), 1.0)
    first = np.floor(peak) - _N_SIDE * stride
    first = np.where(stride > 1, first, np.maximum(first, 1.0))
    places = np.arange(2 * _N_SIDE + 1.0).reshape((1,) * first.ndim + (-1,))
    n = first[..., None] + stride[..., None] * places
    exists = n >= 1
    n = np.maximum(n, 1.0)
    above = n - count[..., None]
    rest = np.where(
        n <= len(_SMALL_N),
        np.take(_STIRLING, np.clip(n, 1, len(_SMALL_N)).astype(int) - 1),
        1 / (12 * n) - 1 / (360 * n**3) + 1 / (1260 * n**5),
    )
    log_chance = above - n * np.log1p(above / count[..., None]) - rest
    terms = log_chance - 0.5 * (n_dim + 1) * np.log(2 * np.pi * n) - 0.5 * square[..., None] / n
    terms = np.where(exists, terms, -np.inf)
    largest = np.max(terms, axis=-1)
    return largest + np.log(stride * np.sum(np.exp(terms - largest[..., None]), axis=-1))


def check_jumps(data: Displacements, model: str) -> None:
    """Raise an error for displacements with measurement errors or exact zeros.

    Args:
        data: Displacements at one tau.
        model: Name of the model.
    """
    if data.position_sd is not None and np.any(data.position_sd > 0):
        raise DriftbayesError(
            f"{model} needs positions without errors, as the number of jumps in each step is "
            "summed out step by step; leave the errors out if they are small beside the jumps, or "
            "leave the model out"
        )
    n_zero = int(np.sum(~np.any(data.dx, axis=1)))
    if n_zero:
        raise DriftbayesError(
            f"{n_zero} of {len(data.dx)} steps are exactly zero, to which {model} gives a "
            "probability and other models a density: their evidences cannot be compared; use a "
            "longer tau, at which every particle moves, or leave the model out (without repeated "
            "positions its rate of jumps would be too high)"
        )


@dataclass(frozen=True, eq=False)
class JumpEngine(DirectDisplacements):
    """Density of the steps of a random walk, observed without errors."""

    def log_densities(self, model: Any, values: Mapping[str, FloatArray]) -> FloatArray:
        """Compute ln p of the data at each value of κ and the rate of jumps."""
        square, interval = np.sum(self.data.dx**2, axis=1), self.data.interval
        found = []
        at_once = max(_MAX_NUMBERS // (len(square) * (2 * _N_SIDE + 1)), 1)
        kappa, rate = values["kappa"], values["rate"]
        for low in range(0, len(kappa), at_once):
            rows = slice(low, low + at_once)
            variance = (2 * kappa[rows] / rate[rows])[:, None]
            log_p = log_jump_density(
                square / variance, rate[rows][:, None] * interval, self.n_dim
            ) - 0.5 * self.n_dim * np.log(variance)
            found.append(log_p.sum(axis=1))
        return np.concatenate(found)
