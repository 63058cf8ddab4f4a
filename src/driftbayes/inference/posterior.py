"""The posterior as weighted nodes, and the numbers that describe it, for a batch at once.

In NumPy: it is a few sums, which would cost more to compile than to do.
"""

__all__ = ["Posterior", "PosteriorNodes", "described", "summarise"]

from collections.abc import Sequence
from dataclasses import dataclass, fields

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from driftbayes.inference.evidence import QUANTILES
from driftbayes.inference.scale import GammaForm, scale_posterior
from driftbayes.likelihood import GaussianTerms
from driftbayes.likelihood.terms import LOG_2PI
from driftbayes.typing import FloatArray

# Probability beyond exp(-_DEPTH) of the peak is left out of quantiles.
_DEPTH = 36.0
_N_DENSITY = 65
# More nodes than this are not treated all at once.
_MANY = 10_000
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
def summarise(
    nodes: PosteriorNodes,
    scale_index: int | None,
    signed: Sequence[bool] = (),
    *,
    on_grid: bool = True,
) -> Posterior:
    """Moments and quantiles from nodes; a scale that was integrated out is given its own nodes.

    Args:
        nodes: A batch of solutions, stacked along the first axis.
        scale_index: Place in θ of a scale that was integrated out.
        signed: Which parameters may be negative; by default none.
        on_grid: Whether the nodes are those of one grid, in its order.
    """
    is_signed = np.array(signed or [False] * nodes.theta.shape[-1])
    if nodes.log_values.shape[1] <= _MANY:
        return _summarise(nodes, scale_index, is_signed, on_grid=on_grid)
    # One by one, and without the corners of the grid: all at once would fill the memory.
    parts = [
        _summarise(_pruned(nodes, i), scale_index, is_signed, on_grid=False)
        for i in range(len(nodes.log_values))
    ]
    return Posterior(
        **{
            f.name: np.concatenate([getattr(part, f.name) for part in parts])
            for f in fields(Posterior)
        }
    )


def _pruned(nodes: PosteriorNodes, index: int) -> PosteriorNodes:
    """One solution of a batch, with the nodes that matter."""
    values = np.asarray(nodes.log_values[index])
    kept = np.flatnonzero(values > np.max(values) - _DEPTH)
    kept = kept if len(kept) else np.arange(1)
    n = len(values)

    def part(leaf: Array | FloatArray) -> FloatArray:
        one = np.asarray(leaf)[index]
        return one[kept][None] if one.ndim and len(one) == n else one[None]

    return jax.tree.map(part, nodes)


def _summarise(
    nodes: PosteriorNodes,
    scale_index: int | None,
    is_signed: NDArray[np.bool_],
    *,
    on_grid: bool,
) -> Posterior:
    mixture = _mixture(nodes)
    if mixture is None or scale_index is None:
        moments = _plain_moments(nodes, is_signed)
    else:
        moments = _mixture_moments(mixture, scale_index, is_signed)
    theta, weights = moments.theta, moments.weights
    n_parameters = theta.shape[-1]
    coordinates = described(theta, is_signed)
    out = np.empty((len(theta), n_parameters, len(QUANTILES)))
    for i in range(n_parameters):
        if mixture is not None and i == scale_index:
            out[:, i] = _scale_quantiles(mixture)
        elif mixture is not None and n_parameters == 2 and on_grid:
            line = described(np.asarray(nodes.theta), is_signed)[..., i]
            out[:, i] = _from_density(line, weights)
        elif mixture is None and i == 0 and on_grid:
            # The first parameter has one value along all of the grid's other directions.
            n_line = round(weights.shape[1] ** (1 / n_parameters))
            # Of all nodes: those of no weight, moments aside, have a place of their own.
            every = described(np.asarray(nodes.theta), is_signed)
            line = every.reshape(len(theta), n_line, -1, n_parameters)[:, :, 0, 0]
            density = np.sum(weights.reshape(len(theta), n_line, -1), axis=2)
            out[:, i] = _from_density(line, density)
        else:
            rows = zip(coordinates[..., i], weights, strict=True)
            out[:, i] = [_from_cloud(values, weight) for values, weight in rows]
    return Posterior(
        mean=moments.mean,
        cov=moments.cov,
        quantiles=np.where(is_signed[:, None], out, np.exp(out)),
        log_mean=moments.log_mean,
        log_sd=moments.log_sd,
        expected_log_likelihood=moments.expected_log_likelihood,
    )


@dataclass(frozen=True)
class _Moments:
    """Moments of θ, and the weighted nodes, scale integrated out, from which they come."""

    theta: FloatArray
    weights: FloatArray
    mean: FloatArray
    cov: FloatArray
    log_mean: FloatArray
    log_sd: FloatArray
    expected_log_likelihood: FloatArray


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
    size = log_values.shape

    def whole(part: Array | FloatArray) -> FloatArray:
        array = np.asarray(part)
        return np.broadcast_to(array.reshape(array.shape + (1,) * (2 - array.ndim)), size)

    terms, form = nodes.terms, nodes.form
    n, quadratic, shape, rate = map(whole, (terms.n, terms.quadratic, form.shape, form.rate))
    scales, log_weights = scale_posterior(n, quadratic, shape, rate)
    log_weights = log_weights - np.log(np.sum(np.exp(log_weights), axis=-1, keepdims=True))
    return _Mixture(
        theta=theta,
        log_values=log_values,
        n=n,
        log_det=whole(terms.log_det),
        quadratic=quadratic,
        shape=shape,
        rate=rate,
        scales=scales,
        log_weights=log_weights,
    )


def described(theta: FloatArray, signed: NDArray[np.bool_]) -> FloatArray:
    """The coordinate that posteriors are described in: ln θ, or θ where it may be negative."""
    return np.where(signed, theta, np.log(np.where(signed, 1.0, theta)))


def _plain_moments(nodes: PosteriorNodes, signed: NDArray[np.bool_]) -> _Moments:
    weights = _normalised(np.asarray(nodes.log_values))
    # Nodes of no weight may hold no finite number; zero times infinity is not zero.
    theta = np.where(weights[..., None] > 0, np.asarray(nodes.theta), 1.0)
    fits = np.where(weights > 0, np.asarray(nodes.log_likelihoods), 0.0)
    mean, cov = _mean_and_cov(weights, theta)
    log_mean, log_cov = _mean_and_cov(weights, described(theta, signed))
    return _Moments(
        theta=theta,
        weights=weights,
        mean=mean,
        cov=cov,
        log_mean=log_mean,
        log_sd=np.sqrt(np.diagonal(log_cov, axis1=1, axis2=2)),
        expected_log_likelihood=np.sum(weights * fits, axis=1),
    )


def _mixture_moments(mixture: _Mixture, scale_index: int, signed: NDArray[np.bool_]) -> _Moments:
    r"""Moments of the mixture, by the law of total variance.

    $$\operatorname{Var} c = \operatorname{E}[\operatorname{Var}(c \mid \mathrm{node})]
      + \operatorname{Var}(\operatorname{E}[c \mid \mathrm{node}])$$
    """
    weights = _normalised(mixture.log_values)
    used = weights > 0
    inner, scales = np.exp(mixture.log_weights), mixture.scales
    log_scales = np.log(scales)

    def conditional(values: FloatArray) -> tuple[FloatArray, FloatArray]:
        mean = np.einsum("bns,bns->bn", inner, values)
        centred = values - mean[..., None]
        variance = np.einsum("bns,bns,bns->bn", inner, centred, centred)
        return np.where(used, mean, 1.0), np.where(used, variance, 0.0)

    scale_mean, scale_variance = conditional(scales)
    log_mean, log_variance = conditional(log_scales)
    inverse = np.einsum("bns,bns->bn", inner, 1 / scales)
    # ln p(D | θ) is linear in ln c and 1/c.
    fits = -0.5 * (mixture.n * (LOG_2PI + log_mean) + mixture.log_det + mixture.quadratic * inverse)
    theta = np.where(used[..., None], mixture.theta, 1.0)
    log_theta = described(theta, signed)
    theta[..., scale_index], log_theta[..., scale_index] = scale_mean, log_mean
    mean, cov = _mean_and_cov(weights, theta)
    mean_of_log, log_cov = _mean_and_cov(weights, log_theta)
    cov[:, scale_index, scale_index] += np.sum(weights * scale_variance, axis=1)
    log_cov[:, scale_index, scale_index] += np.sum(weights * log_variance, axis=1)
    return _Moments(
        theta=theta,
        weights=weights,
        mean=mean,
        cov=cov,
        log_mean=mean_of_log,
        log_sd=np.sqrt(np.diagonal(log_cov, axis1=1, axis2=2)),
        expected_log_likelihood=np.sum(weights * np.where(used, fits, 0.0), axis=1),
    )


def _mean_and_cov(weights: FloatArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    mean = np.einsum("bn,bnp->bp", weights, values)
    centred = values - mean[:, None]
    return mean, np.einsum("bnp,bnq->bpq", weights[..., None] * centred, centred)


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
    values, weights = values[weights > 0], weights[weights > 0]
    if len(values) == 0:
        return np.full(len(QUANTILES), np.nan)
    order = np.argsort(values)
    cumulative = np.cumsum(weights[order]) - 0.5 * weights[order]
    return np.interp(QUANTILES, cumulative, values[order])
