r"""Displacements that are sums of a random number of Gaussian jumps.

With m the mean number of jumps of a step and v the variance of a jump per axis, a step that is not
zero has the density

$$\sum_{n \ge 1} e^{-m} \frac{m^n}{n!}\,(2\pi n v)^{-d/2}\,e^{-r^2/(2 n v)}.$$

It is summed about its largest term. Where that term has many like it, every h-th is taken: the
trapezoid rule is then exact to rounding. Terms are written as differences from $n = m$, so that
means of $10^{12}$ lose no digits.
"""

__all__ = ["JumpEngine", "check_jumps", "log_jump_density"]

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln

from driftbayes.data.sampling import Displacements
from driftbayes.errors import DriftbayesError
from driftbayes.likelihood.direct import AbstractDirect
from driftbayes.typing import FloatArray

# Terms on either side of the largest, 9 of its widths, and how many are taken within a width.
_REACH, _PER_WIDTH = 72, 8.0
_NEWTON = 12
# Numbers that are held at a time.
_HELD = 1 << 21
# Ln n! less Stirling's formula.
_SMALL = np.arange(1.0, 17.0)
_STIRLING = gammaln(_SMALL + 1) - (
    _SMALL * np.log(_SMALL) - _SMALL + 0.5 * np.log(2 * np.pi * _SMALL)
)


def log_jump_density(square: Any, count: Any, n_dim: int, xp: Any = np) -> Any:
    """Ln of the density of steps, in units of the standard deviation of a jump per axis.

    Args:
        square: Squared length of each step in these units, above 0.
        count: Mean number of jumps of each step, above 0.
        n_dim: Number of axes.
        xp: NumPy, or JAX's.
    """
    log_count = xp.log(count)
    # The largest term, from below: ln m - ln n + r²/(2 n²) falls and is convex in ln n.
    top = xp.maximum(log_count, 0.5 * xp.log(0.5 * square) - 2)
    for _ in range(_NEWTON):
        pull = 0.5 * square * xp.exp(-2 * top)
        top = top + (log_count - top + pull) / (1 + 2 * pull)
    peak = xp.maximum(xp.exp(top), 1.0)
    width = peak / xp.sqrt(peak + square / peak)
    # Terms are left out only where the largest is beyond the 64th, and the first ones count for
    # nothing.
    stride = xp.maximum(xp.ceil(width / _PER_WIDTH), 1.0)
    first = xp.floor(peak) - _REACH * stride
    first = xp.where(stride > 1, first, xp.maximum(first, 1.0))
    places = np.arange(2 * _REACH + 1.0).reshape((1,) * first.ndim + (-1,))
    n = first[..., None] + stride[..., None] * places
    exists = n >= 1
    n = xp.maximum(n, 1.0)
    above = n - count[..., None]
    rest = xp.where(
        n <= len(_SMALL),
        xp.take(xp.asarray(_STIRLING), xp.clip(n, 1, len(_SMALL)).astype(int) - 1),
        1 / (12 * n) - 1 / (360 * n**3) + 1 / (1260 * n**5),
    )
    log_chance = above - n * xp.log1p(above / count[..., None]) - rest
    terms = log_chance - 0.5 * (n_dim + 1) * xp.log(2 * np.pi * n) - 0.5 * square[..., None] / n
    terms = xp.where(exists, terms, -np.inf)
    largest = xp.max(terms, axis=-1)
    return largest + xp.log(stride * xp.sum(xp.exp(terms - largest[..., None]), axis=-1))


def check_jumps(data: Displacements, model: str) -> None:
    """Refuse displacements of which the density of jumps says nothing, or infinitely much.

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
class JumpEngine(AbstractDirect):
    """Exact steps of a random walk: values of the density at many parameters."""

    def log_densities(self, model: Any, values: Mapping[str, FloatArray]) -> FloatArray:
        """Ln p of the data, of each value of κ and the rate of jumps."""
        square, interval = np.sum(self.data.dx**2, axis=1), self.data.interval
        found = []
        at_once = max(_HELD // (len(square) * (2 * _REACH + 1)), 1)
        kappa, rate = values["kappa"], values["rate"]
        for low in range(0, len(kappa), at_once):
            some = slice(low, low + at_once)
            variance = (2 * kappa[some] / rate[some])[:, None]
            log_p = log_jump_density(
                square / variance, rate[some][:, None] * interval, self.n_dim
            ) - 0.5 * self.n_dim * np.log(variance)
            found.append(log_p.sum(axis=1))
        return np.concatenate(found)
