"""Moments and quantiles of posteriors given by weighted nodes."""

from collections.abc import Sequence
from dataclasses import fields

import numpy as np
from numpy.typing import NDArray

from driftbayes._typing import FloatArray, IntArray
from driftbayes.inference._evidence import QUANTILES
from driftbayes.inference._node_lattice import NodeLattice
from driftbayes.inference._quadrature import Nodes
from driftbayes.inference._quantiles import tabulated_quantiles
from driftbayes.inference._records import Posterior
from driftbayes.inference._scale import GammaForm, scale_posterior
from driftbayes.likelihood._gaussian import LOG_2PI

# Densities below exp(-_DEPTH) of the peak are ignored.
_DEPTH = 36.0
_N_DENSITY = 257
# Nodes of less weight, relative to the largest, are ignored in the density of the scale.
_NEGLIGIBLE = 1e-7
_BATCH_SIZE = 4096


def summarise(
    nodes: Nodes, scale_index: int | None, form: GammaForm | None, signed: NDArray[np.bool_]
) -> Posterior:
    """Compute the moments of one posterior; the arguments are those of `summarise_stack`."""
    n = nodes.theta.shape[1]
    if not np.isfinite(np.max(nodes.log_weights, initial=-np.inf)):
        unknown = np.full(n, np.nan)
        cov, quantiles = np.full((n, n), np.nan), np.full((n, len(QUANTILES)), np.nan)
        return Posterior(unknown, cov, quantiles, unknown, unknown, np.nan)
    owner = np.zeros(len(nodes.log_weights), dtype=np.int64)
    found = summarise_stack(nodes, owner, scale_index, form, signed)
    return Posterior(*(getattr(found, field.name)[0] for field in fields(found)))


# Non-finite values are reported by the status, not by NumPy warnings.
@np.errstate(all="ignore")
def summarise_stack(
    nodes: Nodes,
    owner: IntArray,
    scale_index: int | None,
    form: GammaForm | None,
    signed: NDArray[np.bool_],
) -> Posterior:
    r"""Compute moments of several posteriors; a scale that was integrated out has inner nodes.

    $$\operatorname{Var} c = \operatorname{E}[\operatorname{Var}(c \mid \mathrm{node})]
      + \operatorname{Var}(\operatorname{E}[c \mid \mathrm{node}])$$

    Args:
        nodes: Weighted nodes, posterior after posterior.
        owner: Index of the posterior of each node.
        scale_index: Index of the scale in θ.
        form: Prior of the scale, if it was integrated out.
        signed: Whether each parameter may be negative.

    Returns:
        Moments with a leading axis over posteriors; quantiles only of a scale that was integrated
        out, NaN for other parameters.
    """
    n_parameters = nodes.theta.shape[1]
    peaks = np.maximum.reduceat(nodes.log_weights, _begins(owner))
    # Nodes without weight may have infinite values, and zero times infinity is NaN.
    used = nodes.log_weights >= peaks[owner] - _DEPTH
    owner, theta, fits = owner[used], np.array(nodes.theta[used]), nodes.fits[used]
    begins = _begins(owner)
    weights = np.exp(nodes.log_weights[used] - peaks[owner])
    weights /= np.add.reduceat(weights, begins)[owner]

    def average(values: FloatArray) -> FloatArray:
        shape = (-1,) + (1,) * (values.ndim - 1)
        return np.asarray(np.add.reduceat(weights.reshape(shape) * values, begins, axis=0))

    def mean_and_cov(values: FloatArray) -> tuple[FloatArray, FloatArray]:
        mean = average(values)
        centred = values - mean[owner]
        return mean, average(centred[:, :, None] * centred[:, None])

    log_theta = described(theta, signed)
    quantiles = np.full((len(begins), n_parameters, len(QUANTILES)), np.nan)
    variance = log_variance = np.zeros(len(begins))
    if form is None or scale_index is None:
        log_likelihoods = fits[:, 0]
    else:
        scales = _Scales(owner, weights, fits, form)
        theta[:, scale_index], variances = scales.moments(scales.values)
        log_theta[:, scale_index], log_variances = scales.moments(np.log(scales.values))
        variance, log_variance = average(variances), average(log_variances)
        log_likelihoods = scales.log_likelihoods(log_theta[:, scale_index])
        quantiles[:, scale_index] = np.exp(_density_quantiles(*scales.log_density()))
    mean, cov = mean_and_cov(theta)
    log_mean, log_cov = mean_and_cov(log_theta)
    if scale_index is not None:
        cov[:, scale_index, scale_index] += variance
        log_cov[:, scale_index, scale_index] += log_variance
    log_sd = np.sqrt(np.diagonal(log_cov, axis1=1, axis2=2))
    return Posterior(mean, cov, quantiles, log_mean, log_sd, average(log_likelihoods))


def described(theta: FloatArray, signed: NDArray[np.bool_]) -> FloatArray:
    """Return ln θ, or θ where it may be negative."""
    return np.where(signed, theta, np.log(np.where(signed, 1.0, theta)))


def weighted_quantiles(values: FloatArray, weights: FloatArray) -> FloatArray:
    """Compute quantiles of weighted points, (parameter, probability).

    Args:
        values: Points, (point, parameter).
        weights: Weight of each point: the probability of the region around it.
    """
    out = np.empty((values.shape[1], len(QUANTILES)))
    for i, column in enumerate(values.T):
        order = np.argsort(column)
        rise = np.cumsum(weights[order])
        out[i] = np.interp(QUANTILES, (rise - 0.5 * weights[order]) / rise[-1], column[order])
    return out


def _density_quantiles(v: FloatArray, density: FloatArray) -> FloatArray:
    """Compute quantiles of smooth densities on even grids, (posterior, probability)."""
    low, high = v[:, :1], v[:, -1:]
    has_width = (high > low)[:, 0]
    places = np.zeros((len(v), len(QUANTILES)))
    places[has_width] = tabulated_quantiles(density[has_width], np.array(QUANTILES))
    return np.asarray(low + (high - low) * places / (v.shape[1] - 1))


def _begins(owner: IntArray) -> IntArray:
    """Return the position of the first node of each posterior."""
    return np.searchsorted(owner, np.arange(int(owner[-1]) + 1))


class _Scales:
    """Posteriors of a scale that was integrated out, each a mixture over its nodes.

    Args:
        owner: Index of the posterior of each node.
        weights: Weights of the nodes.
        fits: Count, log-determinant and quadratic form at each node.
        form: Prior of the scale.
    """

    def __init__(
        self, owner: IntArray, weights: FloatArray, fits: FloatArray, form: GammaForm
    ) -> None:
        self.owner, self.weights, self.form = owner, weights, form
        self.n, self.log_det, self.quadratic = fits.T
        self.values, log_weights = scale_posterior(self.n, self.quadratic, form)
        inner = np.exp(log_weights)
        self.inner = inner / inner.sum(axis=1, keepdims=True)

    def moments(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Compute mean and variance of a function of the scale at each node."""
        mean = np.sum(self.inner * values, axis=1)
        return mean, np.sum(self.inner * (values - mean[:, None]) ** 2, axis=1)

    def log_likelihoods(self, log_mean: FloatArray) -> FloatArray:
        """Compute the mean of ln L, which is linear in ln c and 1/c, at each node."""
        inverse = np.sum(self.inner / self.values, axis=1)
        return -0.5 * (self.n * (LOG_2PI + log_mean) + self.log_det + self.quadratic * inverse)

    def log_density(self, v: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
        """Compute the density of ln c on an even grid, both (posterior, point)."""
        highest = np.maximum.reduceat(self.weights, _begins(self.owner))[self.owner]
        kept = np.flatnonzero(self.weights > _NEGLIGIBLE * highest)
        owner, begins = self.owner[kept], _begins(self.owner[kept])
        if v is None:
            log_values = np.log(self.values[kept])
            inner = self.weights[kept, None] * self.inner[kept]
            is_relevant = inner > np.exp(-_DEPTH) * highest[kept, None]
            low = np.where(is_relevant, log_values, np.inf).min(axis=1)
            high = np.where(is_relevant, log_values, -np.inf).max(axis=1)
            low, high = np.minimum.reduceat(low, begins), np.maximum.reduceat(high, begins)
            v = np.linspace(low, high, _N_DENSITY, axis=1)
        rise, fall = self.form.rate * np.exp(v), 0.5 * np.exp(-v)
        density = np.zeros_like(v)
        for first in range(0, len(kept), _BATCH_SIZE):
            part, at = kept[first : first + _BATCH_SIZE], owner[first : first + _BATCH_SIZE]
            exponent = (self.form.shape - 0.5 * self.n[part])[:, None] * v[at]
            exponent -= self.quadratic[part, None] * fall[at]
            exponent -= rise[at]
            exponent -= exponent.max(axis=1, keepdims=True)
            conditional = np.exp(exponent, out=exponent)
            conditional *= (self.weights[part] / conditional.sum(axis=1))[:, None]
            owners, starts = np.unique(at, return_index=True)
            density[owners] += np.add.reduceat(conditional, starts, axis=0)
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
    used = weights > np.exp(-_DEPTH)
    weights /= weights.sum()

    def scales_of(which: NDArray[np.bool_]) -> _Scales:
        owner = np.zeros(int(which.sum()), dtype=np.int64)
        return _Scales(owner, weights[which], nodes.fits[which], form)

    v, density = scales_of(used).log_density()
    if lattices:
        density = np.zeros_like(v)
        which_lattice = np.repeat(np.arange(len(lattices)), [len(part.z) for part in lattices])
        for k, lattice in enumerate(lattices):
            is_here = which_lattice == k
            if (kept := used & is_here).any():
                scales = scales_of(kept)
                ripple = _ripple_frequency(lattice, kept[is_here], scales)
                density += _low_pass(v[0], scales.log_density(v)[1], ripple)
    values, density = v[0], np.maximum(density[0], 0.0)
    return values, density / np.trapezoid(density, values)


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
    """Remove angular frequencies above a limit from densities that vanish at both ends."""
    frequency = 2 * np.pi * np.fft.rfftfreq(len(grid), grid[1] - grid[0])
    taper = 0.5 * (1 + np.cos(np.pi * np.clip(frequency / limit - 0.5, 0.0, 0.5) / 0.5))
    return np.fft.irfft(np.fft.rfft(density) * taper, len(grid))
