"""Results of samplers, and diagnostics of weighted draws."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from driftbayes._typing import FloatArray, IntArray
from driftbayes.errors import Status
from driftbayes.inference._log_sums import logsumexp


@dataclass(frozen=True, eq=False)
class Estimate:
    """Evidence with its error, and the posterior as weighted draws.

    Args:
        log_evidence: ln Z.
        log_evidence_err: Standard error in nats; NaN if the method has none.
        z: Draws in unconstrained coordinates, (draw, parameter).
        log_weights: Logarithms of their weights, not normalised; zeros if all are equal.
        log_likelihoods: ln L of each draw.
        n_evaluations: Evaluations of the likelihood.
        status: Outcome of the computation.
        diagnostics: Diagnostics by name, such as "pareto_k" or "rhat".
        warnings: Warnings in words.
    """

    log_evidence: float
    log_evidence_err: float
    z: FloatArray
    log_weights: FloatArray
    log_likelihoods: FloatArray
    n_evaluations: int
    status: Status = Status.OK
    diagnostics: Mapping[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def weights(self) -> FloatArray:
        """Normalised weights."""
        shifted = np.exp(self.log_weights - np.max(self.log_weights))
        return shifted / shifted.sum()

    def reweighted(self, change: FloatArray) -> tuple["Estimate", FloatArray]:
        """Multiply the density at each point.

        Args:
            change: ln of the factor at each point.

        Returns:
            The estimate, whose error includes that of the ratio of the evidences for independent
            points, and the normalised weights.
        """
        log_weights = self.log_weights + change
        log_ratio = float(logsumexp(log_weights) - logsumexp(self.log_weights))
        weights = np.exp(log_weights - logsumexp(log_weights))
        spread = float(np.sqrt(np.sum((weights - self.weights) ** 2)))
        estimate = replace(
            self,
            log_evidence=self.log_evidence + log_ratio,
            log_evidence_err=float(np.hypot(self.log_evidence_err, spread)),
            log_weights=log_weights,
        )
        return estimate, weights


# Beyond this the mean of the weights has no useful error bar (Vehtari et al.).
MAX_SHAPE = 0.7


def resample(log_weights: FloatArray, n: int, rng: np.random.Generator) -> IntArray:
    """Draw the indices of n weighted points without replacement, by the Gumbel trick.

    This approximates draws from the target if n is much smaller than the effective sample size.
    """
    if n > np.isfinite(log_weights).sum():
        probabilities = np.exp(log_weights - logsumexp(log_weights))
        return rng.choice(len(log_weights), size=n, p=probabilities)
    keys = log_weights + rng.gumbel(size=len(log_weights))
    return np.argsort(-keys)[:n]


def pareto_shape(weights: FloatArray) -> float:
    r"""Estimate the shape k of the generalised Pareto distribution of the largest weights.

    Moments of order 1/k and above do not exist: beyond 0.5 the variance of the weights is infinite,
    beyond 0.7 a mean of thousands of weights is unreliable. The estimate uses the profile posterior
    of Zhang and Stephens (2009), with the prior of Vehtari et al. towards 0.5.

    Args:
        weights: Positive numbers; only their ratios matter.
    """
    n = len(weights)
    n_tail = int(np.ceil(min(0.2 * n, 3 * np.sqrt(n))))
    if n_tail < 5:
        return float("nan")
    ordered = np.sort(weights)
    threshold = ordered[-n_tail - 1]
    excess = ordered[-n_tail:] - threshold
    if not excess[-1] > 0 or excess[0] == excess[-1]:
        # All weights are equal: there is no tail.
        return float("-inf")
    excess = np.maximum(excess, 1e-300)
    n_grid = 30 + int(np.sqrt(n_tail))
    quartile = excess[int(n_tail / 4 + 0.5) - 1]
    grid = 1 - np.sqrt(n_grid / (np.arange(1, n_grid + 1) - 0.5))
    theta = grid / (3 * quartile) + 1 / excess[-1]
    shape = np.mean(np.log1p(-theta[:, None] * excess[None]), axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        profile = n_tail * (np.log(-theta / shape) - shape - 1)
    profile = np.where(np.isfinite(profile), profile, -np.inf)
    posterior = np.exp(profile - logsumexp(profile))
    best = np.sum(posterior * theta)
    k = float(np.mean(np.log1p(-best * excess)))
    return (n_tail * k + 10 * 0.5) / (n_tail + 10)
