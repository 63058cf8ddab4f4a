"""The posterior as weighted nodes, and the numbers that describe it, for a batch at once.

In NumPy: it is a few sums, which would cost more to compile than to do.
"""

__all__ = ["Posterior", "PosteriorNodes", "summarise"]

from dataclasses import dataclass

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from driftbayes.inference.evidence import QUANTILES
from driftbayes.inference.scale import GammaForm, scale_posterior
from driftbayes.likelihood import GaussianTerms
from driftbayes.likelihood.terms import gaussian_log_density
from driftbayes.typing import FloatArray

# Probability beyond exp(-_DEPTH) of the peak is left out of quantiles.
_DEPTH = 36.0
_N_DENSITY = 65
# Points between two nodes of a density.
_N_FINE = 16


class PosteriorNodes(eqx.Module):
    """Where the quadrature evaluated the posterior, and what it found there.

    Args:
        log_values: Log-integrand at each node.
        theta: Parameters at each node; the scale is 1 if it was integrated out.
        log_likelihoods: Log-likelihood at each node; None if the scale was integrated out.
        terms: Gaussian terms at unit scale at each node, if the scale was integrated out.
        form: The prior of the scale, if it was integrated out.
    """

    log_values: Float[Array, "*batch node"]
    theta: Float[Array, "*batch node parameter"]
    log_likelihoods: Float[Array, "*batch node"] | None = None
    terms: GaussianTerms | None = None
    form: GammaForm | None = None


@dataclass(frozen=True)
class Posterior:
    """Moments and quantiles of the parameters, in the order of θ; the first axis is the batch."""

    mean: FloatArray
    cov: FloatArray
    quantiles: FloatArray
    log_mean: FloatArray
    log_sd: FloatArray
    expected_log_likelihood: FloatArray


# Where nothing is finite the result says so in its status, not NumPy in a warning.
@np.errstate(all="ignore")
def summarise(nodes: PosteriorNodes, scale_index: int) -> Posterior:
    """Moments and quantiles from nodes; a scale that was integrated out is given its own nodes.

    Args:
        nodes: A batch of solutions, stacked along the first axis.
        scale_index: Place of the scale parameter in θ.
    """
    mixture = _mixture(nodes)
    cloud = _plain_cloud(nodes) if mixture is None else _expanded_cloud(mixture, scale_index)
    weights = cloud.weights[:, :, None]
    # Points of no weight may hold no finite number; zero times infinity is not zero.
    used = weights > 0
    theta = np.where(used, cloud.theta, 1.0)
    log_theta = np.log(theta)
    mean = np.sum(weights * theta, axis=1)
    log_mean = np.sum(weights * log_theta, axis=1)
    centred = theta - mean[:, None]
    log_variance = np.sum(weights * (log_theta - log_mean[:, None]) ** 2, axis=1)
    fits = np.where(used[..., 0], cloud.log_likelihoods, 0.0)
    n_parameters = theta.shape[-1]
    out = np.empty((len(theta), n_parameters, len(QUANTILES)))
    for i in range(n_parameters):
        if mixture is not None and i == scale_index:
            out[:, i] = _scale_quantiles(mixture)
        elif mixture is not None and n_parameters == 2:
            density = _normalised(np.asarray(nodes.log_values))
            out[:, i] = _from_density(np.log(np.asarray(nodes.theta)[..., i]), density)
        elif mixture is None and i == 0:
            # The first parameter has one value along all of the grid's other directions.
            n_line = round(cloud.weights.shape[1] ** (1 / n_parameters))
            line = cloud.theta.reshape(len(theta), n_line, -1, n_parameters)[:, :, 0, 0]
            density = np.sum(cloud.weights.reshape(len(theta), n_line, -1), axis=2)
            out[:, i] = _from_density(np.log(line), density)
        else:
            rows = zip(log_theta[..., i], cloud.weights, strict=True)
            out[:, i] = [_from_cloud(values, weight) for values, weight in rows]
    return Posterior(
        mean=mean,
        cov=np.einsum("bn,bnp,bnq->bpq", cloud.weights, centred, centred, optimize=True),
        quantiles=np.exp(out),
        log_mean=log_mean,
        log_sd=np.sqrt(log_variance),
        expected_log_likelihood=np.sum(cloud.weights * fits, axis=1),
    )


@dataclass(frozen=True)
class _Cloud:
    """Weighted points that stand for the posterior, all parameters included."""

    theta: FloatArray
    weights: FloatArray
    log_likelihoods: FloatArray


@dataclass(frozen=True)
class _Mixture:
    """The posterior of a scale that was integrated out: one density for each outer node."""

    theta: FloatArray
    log_values: FloatArray
    n: FloatArray
    log_det: FloatArray
    quadratic: FloatArray
    shape: FloatArray
    rate: FloatArray
    scales: FloatArray
    log_weights: FloatArray


def _mixture(nodes: PosteriorNodes) -> _Mixture | None:
    if nodes.terms is None or nodes.form is None:
        return None
    theta, log_values = np.asarray(nodes.theta), np.asarray(nodes.log_values)
    # A line of nodes is twice finer than moments need, for 1e-6 of the posterior widths.
    step = 2 if theta.shape[-1] == 2 and log_values.shape[1] > 3 else 1
    size = log_values.shape

    def whole(part: Array | FloatArray) -> FloatArray:
        array = np.asarray(part)
        array = np.broadcast_to(array.reshape(array.shape + (1,) * (2 - array.ndim)), size)
        return array[:, ::step]

    terms, form = nodes.terms, nodes.form
    n, quadratic, shape, rate = map(whole, (terms.n, terms.quadratic, form.shape, form.rate))
    scales, log_weights = scale_posterior(n, quadratic, shape, rate)
    log_weights = log_weights - np.log(np.sum(np.exp(log_weights), axis=-1, keepdims=True))
    return _Mixture(
        theta=theta[:, ::step],
        log_values=log_values[:, ::step],
        n=n,
        log_det=whole(terms.log_det),
        quadratic=quadratic,
        shape=shape,
        rate=rate,
        scales=scales,
        log_weights=log_weights,
    )


def _plain_cloud(nodes: PosteriorNodes) -> _Cloud:
    weights = _normalised(np.asarray(nodes.log_values))
    return _Cloud(np.asarray(nodes.theta), weights, np.asarray(nodes.log_likelihoods))


def _expanded_cloud(mixture: _Mixture, scale_index: int) -> _Cloud:
    full = np.repeat(mixture.theta[:, :, None, :], mixture.scales.shape[-1], axis=2)
    full[..., scale_index] = mixture.scales
    n, log_det, quadratic = (
        part[..., None] for part in (mixture.n, mixture.log_det, mixture.quadratic)
    )
    fits = gaussian_log_density(n, log_det, quadratic, mixture.scales, np)
    n_batch, n_parameters = len(full), full.shape[-1]
    joint = mixture.log_values[..., None] + mixture.log_weights
    return _Cloud(
        theta=full.reshape(n_batch, -1, n_parameters),
        weights=_normalised(joint.reshape(n_batch, -1)),
        log_likelihoods=fits.reshape(n_batch, -1),
    )


def _normalised(log_weights: FloatArray) -> FloatArray:
    peak = np.max(log_weights, axis=1, keepdims=True)
    weights = np.exp(log_weights - np.where(np.isfinite(peak), peak, 0.0))
    total = np.sum(weights, axis=1, keepdims=True)
    return np.where(total > 0, weights / np.where(total > 0, total, 1.0), np.nan)


def _scale_quantiles(mixture: _Mixture) -> FloatArray:
    """Quantiles of ln scale from its marginal density, a mixture over the outer nodes."""
    outer = _normalised(mixture.log_values)
    log_scales = np.log(mixture.scales)
    joint = mixture.log_values[..., None] + mixture.log_weights
    matter = joint > np.max(joint, axis=(1, 2), keepdims=True) - _DEPTH
    low = np.min(np.where(matter, log_scales, np.inf), axis=(1, 2))
    high = np.max(np.where(matter, log_scales, -np.inf), axis=(1, 2))
    grid = low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, _N_DENSITY)
    # Density of v = ln c at each outer node, up to that node's normalisation.
    v = grid[:, None, :]
    exponent = (
        (mixture.shape - 0.5 * mixture.n)[..., None] * v
        - (0.5 * mixture.quadratic)[..., None] * np.exp(-v)
        - mixture.rate[..., None] * np.exp(v)
    )
    conditional = np.exp(exponent - np.max(exponent, axis=2, keepdims=True))
    conditional /= np.sum(conditional, axis=2, keepdims=True)
    return _from_density(grid, np.einsum("bn,bnv->bv", outer, conditional))


def _from_density(grid: FloatArray, density: FloatArray) -> FloatArray:
    """Quantiles from a smooth density on an even grid, by cubic interpolation of it."""
    n = grid.shape[1]
    left, right = density[:, :-1, None], density[:, 1:, None]
    slope = np.gradient(density, axis=1)
    t = np.arange(_N_FINE) / _N_FINE
    # Cubic Hermite polynomials: the interpolant has the density's values and central slopes.
    fine = (
        (1 + 2 * t) * (1 - t) ** 2 * left
        + t**2 * (3 - 2 * t) * right
        + t * (1 - t) ** 2 * slope[:, :-1, None]
        - t**2 * (1 - t) * slope[:, 1:, None]
    ).reshape(len(grid), -1)
    fine = np.concatenate([fine, density[:, -1:]], axis=1).clip(min=0.0)
    cumulative = np.cumsum(0.5 * (fine[:, 1:] + fine[:, :-1]), axis=1)
    cumulative = np.concatenate([np.zeros((len(grid), 1)), cumulative], axis=1)
    place = np.arange(cumulative.shape[1]) / _N_FINE
    nodes = np.arange(n)
    return np.stack(
        [
            np.interp(np.interp(QUANTILES, rise / rise[-1], place), nodes, coordinates)
            if rise[-1] > 0
            else np.full(len(QUANTILES), np.nan)
            for rise, coordinates in zip(cumulative, grid, strict=True)
        ]
    )


def _from_cloud(values: FloatArray, weights: FloatArray) -> FloatArray:
    """Quantiles from scattered weighted points: each stands for the probability around it."""
    order = np.argsort(values)
    cumulative = np.cumsum(weights[order]) - 0.5 * weights[order]
    return np.interp(QUANTILES, cumulative, values[order])
