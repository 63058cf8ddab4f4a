"""Metropolis moves of many chains at once, with proposals fitted to a cloud of points."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from driftbayes._typing import FloatArray
from driftbayes.inference._target import AbstractTarget, Points

# Degrees of freedom of independent proposals.
_FREEDOM = 4
# Target acceptance of random-walk proposals: between 0.44, best in one dimension, and 0.23.
_WALK_ACCEPTANCE = 0.3
# Rate at which the share of accepted independent proposals is learned.
_LEARNING_RATE = 0.3


@dataclass(frozen=True, eq=False)
class Cloud:
    """Mean and covariance of weighted points.

    Args:
        center: Mean.
        factor: Lower-triangular factor of the covariance.
    """

    center: FloatArray
    factor: FloatArray

    def log_density(self, z: FloatArray) -> FloatArray:
        """Compute ln of Student's density with this mean and shape, up to a constant."""
        whitened = np.linalg.solve(self.factor, (z - self.center).T)
        squares = np.sum(np.clip(whitened, -1e150, 1e150) ** 2, axis=0)
        return -0.5 * (_FREEDOM + z.shape[1]) * np.log1p(squares / _FREEDOM)


@dataclass(frozen=True, eq=False)
class Chains(Points):
    """Positions of the chains, and the tuning of both kinds of proposal.

    Args:
        log_scale: Logarithm of the length of random-walk steps, relative to the best for a
            Gaussian.
        fit: Share of independent proposals that were accepted recently.
    """

    log_scale: float = 0.0
    fit: float = 0.5


def move(
    target: AbstractTarget, chains: Chains, cloud: Cloud, beta: float, rng: np.random.Generator
) -> tuple[Chains, NDArray[np.bool_]]:
    r"""Move every chain once, leaving $L^\beta \pi$ invariant.

    Each proposal is, at random, independent of the present position or a random-walk step,

    $$z' \sim t_4(m, C) \qquad \text{or} \qquad z' \sim N\big(z,\ (2.38\,s)^2\, C / d\big)$$

    with mean m and covariance C of the cloud. If the cloud fits, independent proposals give
    independent draws; otherwise, random-walk steps still work.

    Args:
        target: Prior and likelihood.
        chains: The chains.
        cloud: Mean and covariance of the proposals.
        beta: Inverse temperature.
        rng: Random number generator.

    Returns:
        The chains after the move, with adapted `log_scale` and `fit`, and which chains moved.
    """
    n, d = chains.z.shape
    kick = rng.normal(size=(n, d)) @ cloud.factor.T
    spread = np.sqrt(_FREEDOM / rng.chisquare(_FREEDOM, n))
    independent = cloud.center + spread[:, None] * kick
    walk = chains.z + np.exp(chains.log_scale) * 2.38 / np.sqrt(d) * kick
    # An accepted independent proposal is worth many steps: walk mainly if few are accepted.
    is_independent = rng.random(n) < np.clip(4 * chains.fit, 0.1, 0.9)
    z = np.where(is_independent[:, None], independent, walk)
    log_prior, log_likelihood = target.log_densities(z)
    with np.errstate(invalid="ignore"):
        ratio = beta * (log_likelihood - chains.log_likelihood) + log_prior - chains.log_prior
        # Random-walk proposals are symmetric, independent ones are not.
        asymmetry = cloud.log_density(chains.z) - cloud.log_density(z)
        ratio = ratio + np.where(is_independent, asymmetry, 0.0)
        # NaN between two impossible points rejects the proposal.
        accepted = np.log1p(-rng.random(n)) < ratio
    moved = Chains(
        z=np.where(accepted[:, None], z, chains.z),
        log_prior=np.where(accepted, log_prior, chains.log_prior),
        log_likelihood=np.where(accepted, log_likelihood, chains.log_likelihood),
        log_scale=chains.log_scale + _excess(accepted[~is_independent], _WALK_ACCEPTANCE),
        fit=chains.fit + _LEARNING_RATE * _excess(accepted[is_independent], chains.fit),
    )
    return moved, accepted


def _excess(accepted: NDArray[np.bool_], expected: float) -> float:
    """Compute the share of accepted proposals minus the expected one; 0 without proposals."""
    return float(accepted.mean() - expected) if len(accepted) else 0.0


def fit_cloud(z: FloatArray, weights: FloatArray) -> Cloud:
    """Fit mean and covariance of weighted points.

    Args:
        z: Points, (point, parameter).
        weights: Weights that sum to one.
    """
    center = weights @ z
    away = z - center
    cov = (away * weights[:, None]).T @ away
    # Add a fraction of the unweighted variance: a cloud of one live point would have no width.
    cov = cov + np.diag(np.var(z, axis=0)) * np.sum(weights**2)
    return Cloud(center, np.asarray(np.linalg.cholesky(cov)))
