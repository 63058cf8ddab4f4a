"""Moments and quantiles of a posterior given by weighted nodes."""

__all__ = ["Posterior", "described", "log_scale_density", "summarise"]

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from driftbayes.inference.evidence import QUANTILES
from driftbayes.inference.node_lattice import NodeLattice
from driftbayes.inference.quadrature import Nodes
from driftbayes.inference.quantiles import tabulated_quantiles
from driftbayes.inference.scale import GammaForm, scale_posterior
from driftbayes.likelihood.gaussian import LOG_2PI
from driftbayes.typing import FloatArray

# Densities below exp(-DEPTH) of the peak are ignored.
DEPTH = 36.0
N_DENSITY = 257
# Nodes of less weight, relative to the largest, are ignored in quantiles.
NEGLIGIBLE = 1e-7
_BATCH_SIZE = 4096


@dataclass(frozen=True)
class Posterior:
    """Moments and quantiles of the parameters, in the order of θ.

    Args:
        mean: Means.
        cov: Covariance.
        quantiles: Of a scale that was integrated out, (parameter, probability); NaN for others.
        log_mean: Means of ln θ; of θ if it is signed.
        log_sd: Standard deviations of ln θ or θ.
        expected_log_likelihood: Mean of ln L.
    """

    mean: FloatArray
    cov: FloatArray
    quantiles: FloatArray
    log_mean: FloatArray
    log_sd: FloatArray
    expected_log_likelihood: float


# Non-finite values are reported by the status, not by NumPy warnings.
@np.errstate(all="ignore")
def summarise(
    nodes: Nodes, scale_index: int | None, form: GammaForm | None, signed: Sequence[bool]
) -> Posterior:
    r"""Compute moments from nodes; a scale that was integrated out has inner nodes at each.

    $$\operatorname{Var} c = \operatorname{E}[\operatorname{Var}(c \mid \mathrm{node})]
      + \operatorname{Var}(\operatorname{E}[c \mid \mathrm{node}])$$

    Args:
        nodes: Weighted nodes.
        scale_index: Index of the scale in θ.
        form: Prior of the scale, if it was integrated out.
        signed: Whether each parameter may be negative.
    """
    is_signed = np.array(signed)
    n_parameters = nodes.theta.shape[1]
    # Nodes without weight may have infinite values, and zero times infinity is NaN.
    peak = np.max(nodes.log_weights, initial=-np.inf)
    if not np.isfinite(peak):
        unknown = np.full(n_parameters, np.nan)
        quantiles = np.full((n_parameters, len(QUANTILES)), np.nan)
        cov = np.diag(unknown) * np.nan
        return Posterior(unknown, cov, quantiles, unknown, unknown, np.nan)
    used = nodes.log_weights > peak - DEPTH
    weights = np.exp(nodes.log_weights[used] - peak)
    weights /= weights.sum()
    theta, fits = np.array(nodes.theta[used]), nodes.fits[used]
    log_theta = described(theta, is_signed)
    quantiles = np.full((n_parameters, len(QUANTILES)), np.nan)
    variance = log_variance = 0.0
    if form is None or scale_index is None:
        expected = float(weights @ fits[:, 0])
    else:
        scales = _Scales(weights, fits, form)
        theta[:, scale_index], variances = scales.moments(scales.values)
        log_theta[:, scale_index], log_variances = scales.moments(np.log(scales.values))
        variance, log_variance = float(weights @ variances), float(weights @ log_variances)
        expected = scales.expected_log_likelihood(log_theta[:, scale_index])
        quantiles[scale_index] = np.exp(_density_quantiles(*scales.log_density()))
    mean, cov = _mean_and_cov(weights, theta)
    log_mean, log_cov = _mean_and_cov(weights, log_theta)
    if scale_index is not None:
        cov[scale_index, scale_index] += variance
        log_cov[scale_index, scale_index] += log_variance
    return Posterior(mean, cov, quantiles, log_mean, np.sqrt(np.diag(log_cov)), expected)


def described(theta: FloatArray, signed: NDArray[np.bool_]) -> FloatArray:
    """Return ln θ, or θ where it may be negative."""
    return np.where(signed, theta, np.log(np.where(signed, 1.0, theta)))


class _Scales:
    """Posterior of a scale that was integrated out, one density per node.

    Args:
        weights: Weights of the nodes.
        fits: Count, log-determinant and quadratic form at each node.
        form: Prior of the scale.
    """

    def __init__(self, weights: FloatArray, fits: FloatArray, form: GammaForm) -> None:
        self.weights, self.form = weights, form
        self.n, self.log_det, self.quadratic = fits.T
        self.values, log_weights = scale_posterior(self.n, self.quadratic, form)
        inner = np.exp(log_weights)
        self.inner = inner / inner.sum(axis=1, keepdims=True)

    def moments(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Compute mean and variance of a function of the scale at each node."""
        mean = np.sum(self.inner * values, axis=1)
        return mean, np.sum(self.inner * (values - mean[:, None]) ** 2, axis=1)

    def expected_log_likelihood(self, log_mean: FloatArray) -> float:
        """Compute the mean of ln L, which is linear in ln c and 1/c."""
        inverse = np.sum(self.inner / self.values, axis=1)
        fits = self.n * (LOG_2PI + log_mean) + self.log_det + self.quadratic * inverse
        return float(-0.5 * self.weights @ fits)

    def log_density(self, v: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
        """Compute the marginal density of ln c on an even grid, a mixture over the nodes."""
        kept = np.flatnonzero(self.weights > NEGLIGIBLE * self.weights.max())
        log_values, inner = np.log(self.values[kept]), self.inner[kept]
        is_relevant = self.weights[kept, None] * inner > np.exp(-DEPTH) * self.weights.max()
        if v is None:
            low, high = log_values[is_relevant].min(), log_values[is_relevant].max()
            v = np.linspace(low, high, N_DENSITY)
        density = np.zeros(len(v))
        for first in range(0, len(kept), _BATCH_SIZE):
            part = kept[first : first + _BATCH_SIZE]
            exponent = (
                (self.form.shape - 0.5 * self.n[part])[:, None] * v
                - (0.5 * self.quadratic[part])[:, None] * np.exp(-v)
                - self.form.rate * np.exp(v)
            )
            conditional = np.exp(exponent - exponent.max(axis=1, keepdims=True))
            density += self.weights[part] @ (conditional / conditional.sum(axis=1, keepdims=True))
        return v, density


def log_scale_density(
    nodes: Nodes, lattices: Sequence[NodeLattice], form: GammaForm
) -> tuple[FloatArray, FloatArray]:
    r"""Compute the density of ln c of a scale that was integrated out.

    The mixture over the nodes has ripples if the conditional densities are narrower than the
    spacing of their means. Sums over a lattice are exact for slow oscillations. Let the mean of
    ln c given the node be $a + b \cdot w$, and G the shortest vector of the reciprocal lattice:
    frequencies above $|G| / (2 |b|)$ belong to the ripples and are removed.

    Args:
        nodes: Weighted nodes of all lattices.
        lattices: Lattices of the parts of the density; empty if no other parameter was left.
        form: Prior of the scale.

    Returns:
        Values of ln c, evenly spaced, and the normalised density there.
    """
    weights = np.exp(nodes.log_weights - np.max(nodes.log_weights))
    used = weights > np.exp(-DEPTH)
    whole = _Scales(weights[used] / weights.sum(), nodes.fits[used], form)
    v, density = whole.log_density()
    if lattices:
        density, first = np.zeros(len(v)), 0
        for lattice in lattices:
            part = slice(first, first + len(lattice.z))
            first = part.stop
            kept = used[part]
            if kept.any():
                scales = _Scales(weights[part][kept] / weights.sum(), nodes.fits[part][kept], form)
                ripple = _ripple_frequency(lattice, kept, scales)
                density += _low_pass(v, scales.log_density(v)[1], ripple)
    density = np.maximum(density, 0.0)
    return v, density / np.trapezoid(density, v)


def _ripple_frequency(lattice: NodeLattice, kept: NDArray[np.bool_], scales: _Scales) -> float:
    """Return the lowest angular frequency of the ripples of a mixture over a lattice."""
    mean, _ = scales.moments(np.log(scales.values))
    root = np.sqrt(scales.weights)[:, None]
    design = np.column_stack([np.ones(len(mean)), lattice.w[kept]])
    slope = np.linalg.lstsq(root * design, root[:, 0] * mean)[0][1:]
    inverse: FloatArray = 2 * np.pi / lattice.spacing
    # The lattices are interleaved: indices of reciprocal vectors have an even sum.
    shortest = 2 * float(np.min(inverse))
    if len(inverse) > 1:
        shortest = min(shortest, float(np.hypot(*np.sort(inverse)[:2])))
    return float(shortest / (2 * max(float(np.linalg.norm(slope)), 1e-300)))


def _low_pass(grid: FloatArray, density: FloatArray, limit: float) -> FloatArray:
    """Remove angular frequencies above a limit from a density that vanishes at both ends."""
    frequency = 2 * np.pi * np.fft.rfftfreq(len(grid), grid[1] - grid[0])
    taper = 0.5 * (1 + np.cos(np.pi * np.clip(frequency / limit - 0.5, 0.0, 0.5) / 0.5))
    return np.fft.irfft(np.fft.rfft(density) * taper, len(grid))


def _mean_and_cov(weights: FloatArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    mean = weights @ values
    centred = values - mean
    return mean, (weights[:, None] * centred).T @ centred


def _density_quantiles(grid: FloatArray, density: FloatArray) -> FloatArray:
    """Compute quantiles of a smooth density on an even grid."""
    if len(grid) < 2 or not grid[-1] > grid[0]:
        return np.full(len(QUANTILES), grid[0])
    (places,) = tabulated_quantiles(density[None], np.array(QUANTILES))
    return np.asarray(grid[0] + (grid[-1] - grid[0]) * places / (len(grid) - 1))
