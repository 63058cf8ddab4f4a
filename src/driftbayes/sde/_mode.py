"""Posterior mode from noisy estimates of the likelihood."""

import numpy as np

from driftbayes._typing import FloatArray
from driftbayes.inference._hypothesis import Hypothesis
from driftbayes.inference._log_sums import logsumexp
from driftbayes.inference._samples import Estimate


def mode_of(hypothesis: Hypothesis, estimate: Estimate) -> FloatArray:
    """Find the mode of the density of the natural parameters, in unconstrained coordinates.

    The mode is the maximum of a quadratic fitted to the weighted points, which averages over the
    noise of the estimated ln L.

    Args:
        hypothesis: Model family and prior.
        estimate: Weighted points, with estimates of ln L.
    """
    usable = np.isfinite(estimate.log_weights) & np.isfinite(estimate.log_likelihoods)
    if not usable.any():
        return np.full(len(hypothesis.names), np.nan)
    z, log_weights = estimate.z[usable], estimate.log_weights[usable]
    weights = np.exp(log_weights - logsumexp(log_weights))
    log_priors = hypothesis.log_priors(hypothesis.from_unconstrained(z))
    log_density = estimate.log_likelihoods[usable] + log_priors.sum(axis=1)
    best = z[np.argmax(np.where(weights > 0, log_density, -np.inf))]
    mean = weights @ z
    centred = z - mean
    d = z.shape[1]
    i, j = np.triu_indices(d)
    design = np.column_stack([np.ones(len(z)), centred, centred[:, i] * centred[:, j]])
    root = np.sqrt(weights)[:, None]
    coefficients, _, rank, _ = np.linalg.lstsq(root * design, root[:, 0] * log_density)
    curvature = np.zeros((d, d))
    curvature[i, j] = coefficients[1 + d :]
    curvature = curvature + curvature.T
    spread = np.sqrt(weights @ centred**2)
    is_peak = rank == design.shape[1] and np.all(np.linalg.eigvalsh(curvature) < 0)
    maximum = mean - np.linalg.solve(curvature, coefficients[1 : 1 + d]) if is_peak else best
    return maximum if np.all(np.abs(maximum - mean) < 4 * spread) else best
