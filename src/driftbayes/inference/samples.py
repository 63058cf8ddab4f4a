"""What samplers return, and what weighted draws are worth."""

__all__ = [
    "WORST_SHAPE",
    "Estimate",
    "pareto_shape",
    "resample",
]

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from driftbayes.errors import Status
from driftbayes.inference.log_sums import logsumexp
from driftbayes.typing import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Estimate:
    """An evidence with its error, and the posterior as weighted draws.

    Args:
        log_evidence: ln Z.
        log_evidence_err: Its error, one sigma in nats; NaN if the method has none.
        z: Draws in unconstrained coordinates, (draw, parameter).
        log_weights: Logarithms of their weights, not normalised; zeros if all count the same.
        log_likelihoods: ln L of each draw.
        n_evaluations: Evaluations of the likelihood, gradients counted as one each.
        status: How the computation ended.
        diagnostics: Named numbers by which to judge it, such as "pareto_k" or "rhat".
        warnings: What a reader should know, in words.
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
        """Weights that sum to one."""
        shifted = np.exp(self.log_weights - np.max(self.log_weights))
        return shifted / shifted.sum()


# Vehtari et al.: beyond this the mean of the weights has no useful error bar.
WORST_SHAPE = 0.7


def resample(log_weights: FloatArray, n: int, rng: np.random.Generator) -> IntArray:
    """Places of n of the weighted points, as if drawn from the target, none of them twice.

    By the Gumbel trick, without replacement: right as long as n is much smaller than the
    number of points that count.
    """
    if n > np.isfinite(log_weights).sum():
        probabilities = np.exp(log_weights - logsumexp(log_weights))
        return rng.choice(len(log_weights), size=n, p=probabilities)
    keys = log_weights + rng.gumbel(size=len(log_weights))
    return np.argsort(-keys)[:n]


def pareto_shape(weights: FloatArray) -> float:
    r"""Shape k of the generalised Pareto law that the largest weights follow.

    Moments of order 1/k and above do not exist: beyond 0.5 the variance of the weights is infinite,
    beyond 0.7 a mean of thousands of them is not to be trusted. By the profile posterior of Zhang
    and Stephens (2009), with the prior of Vehtari et al. towards 0.5.

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
        # All alike: no tail at all.
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
