"""Scoring rules of a predicted displacement, in closed form."""

__all__ = ["crps", "energy_score", "log_score"]

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erf, gamma, i0e, i1e, logsumexp

from driftbayes._typing import FloatArray
from driftbayes.prediction._predict import ScaleMixture

# Number of elements (displacement, draw) per block: 16 MB.
_BLOCK = 2**21


def log_score(mixture: ScaleMixture, distance: ArrayLike) -> FloatArray:
    """Compute ln p(ΔX) of displacement vectors of given lengths; larger is better."""
    used = mixture.weights > 0
    v, weights = mixture.variances[used], mixture.weights[used]
    constant = np.log(weights) - 0.5 * mixture.n_dim * np.log(2 * np.pi * v)
    return _in_blocks(
        lambda r: logsumexp(constant - r**2 / (2 * v), axis=1), distance, len(mixture.weights)
    )


def crps(mixture: ScaleMixture, component: ArrayLike) -> FloatArray:
    r"""Compute the continuous ranked probability score of single components, in closed form.

    $$\mathrm{CRPS}(F, y) = \int (F(x) - [x \ge y])^2\,\mathrm{d}x
      = \mathrm{E}|X - y| - \tfrac12 \mathrm{E}|X - X'|$$

    In the unit of length; smaller is better. It is the energy score in one dimension.
    """
    return energy_score(ScaleMixture(mixture.variances, mixture.weights, 1), np.abs(component))


def energy_score(mixture: ScaleMixture, distance: ArrayLike) -> FloatArray:
    r"""Compute the energy score of displacement vectors of given lengths, in closed form.

    $$\mathrm{ES} = \mathrm{E}|X - y| - \tfrac12 \mathrm{E}|X - X'|
      = \sum_i w_i \sqrt{v_i}\, \mu_d(|y| / \sqrt{v_i})
      - \tfrac12 \mu_d(0) \sum_{ij} w_i w_j \sqrt{v_i + v_j}$$

    with $\mu_d(\lambda)$ the mean of a noncentral chi distribution. The score is exact for the
    mixture of posterior draws.
    """
    v, weights = mixture.variances, mixture.weights
    sd = np.sqrt(v)
    rows = max(_BLOCK // len(v), 1)
    pairs = sum(
        weights[low : low + rows] @ np.sqrt(v[low : low + rows, None] + v) @ weights
        for low in range(0, len(v), rows)
    )
    at_zero = np.sqrt(2) * gamma(0.5 * (mixture.n_dim + 1)) / gamma(0.5 * mixture.n_dim)
    first = _in_blocks(
        lambda r: (sd * _chi_mean(r / sd, mixture.n_dim)) @ weights, distance, len(v)
    )
    return first - 0.5 * at_zero * pairs


def _chi_mean(x: FloatArray, n_dim: int) -> FloatArray:
    """Compute the mean of |Z + x e|, Z standard normal, e a unit vector, in 1 to 3 dimensions."""
    if n_dim == 2:
        # Bessel functions scaled by exp(-q/2), so that large q does not overflow.
        q = 0.5 * x**2
        return np.sqrt(np.pi / 2) * ((1 + q) * i0e(0.5 * q) + q * i1e(0.5 * q))
    bell, inside = np.sqrt(2 / np.pi) * np.exp(-0.5 * x**2), erf(x / np.sqrt(2))
    if n_dim == 1:
        return bell + x * inside
    ratio = np.where(x > 1e-8, inside / np.where(x > 1e-8, x, 1.0), np.sqrt(2 / np.pi))
    return bell + x * inside + ratio


def _in_blocks(
    function: Callable[[FloatArray], FloatArray], values: ArrayLike, n_draws: int
) -> FloatArray:
    """Apply a function to values in blocks."""
    all_values = np.asarray(values, dtype=np.float64)
    column, rows = all_values.reshape(-1, 1), max(_BLOCK // n_draws, 1)
    parts = [function(column[low : low + rows]) for low in range(0, len(column), rows)]
    return np.concatenate(parts).reshape(all_values.shape)
