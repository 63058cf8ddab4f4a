r"""Importance sampling from a heavy-tailed guess of the posterior: Laplace's method, repaired.

$$\hat Z = \frac1N \sum_i w_i, \qquad w_i = \frac{L(z_i)\,\pi(z_i)}{q(z_i)}, \qquad
  z_i \sim q = t_5(\text{mode}, \text{curvature})$$

In unconstrained coordinates, where the posterior is closest to a Gaussian. The error is that of the
mean of the weights; how far it can be trusted is told by the tail of the largest of them.
"""

__all__ = ["Proposals", "importance", "pareto_shape", "propose", "resample"]

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import logsumexp

from driftbayes.errors import Status
from driftbayes.inference.estimate import Estimate
from driftbayes.inference.target import AbstractTarget, Guide
from driftbayes.jax_typing import Key
from driftbayes.typing import FloatArray, IntArray

N_PROPOSALS = 4000
# Degrees of freedom: heavy enough for any posterior that falls exponentially.
_FREEDOM = 5.0
# Vehtari et al.: beyond this the mean of the weights has no useful error bar.
WORST_SHAPE = 0.7


class Proposals(eqx.Module):
    """Points from the guess, and what the target says there.

    Args:
        z: Points.
        log_likelihoods: ln L.
        log_weights: ln of L π / q.
    """

    z: Float[Array, "draw parameter"]
    log_likelihoods: Float[Array, " draw"]
    log_weights: Float[Array, " draw"]


def propose(target: AbstractTarget, guide: Guide, key: Key, n: int) -> Proposals:
    """Draw from the guess and weigh; pure, may be compiled and mapped.

    Args:
        target: What is sampled.
        guide: Where it is.
        key: Of the draws.
        n: How many.
    """
    n_dim = target.n_dim
    key_normal, key_stretch = jax.random.split(key)
    normal = jax.random.normal(key_normal, (n, n_dim))
    stretch = 2 * jax.random.gamma(key_stretch, 0.5 * _FREEDOM, (n,)) / _FREEDOM
    w = normal / jnp.sqrt(stretch)[:, None]
    z = guide.center[None] + w @ guide.factor.T
    log_det = jnp.sum(jnp.log(jnp.diag(guide.factor)))
    half = 0.5 * (_FREEDOM + n_dim)
    constant = (
        jax.scipy.special.gammaln(jnp.asarray(half))
        - jax.scipy.special.gammaln(jnp.asarray(0.5 * _FREEDOM))
        - 0.5 * n_dim * np.log(_FREEDOM * np.pi)
    )
    log_q = constant - log_det - half * jnp.log1p(jnp.sum(w**2, axis=1) / _FREEDOM)
    # One after the other in blocks: a long record's likelihood would fill the memory.
    fits = jax.lax.map(target.log_likelihood, z, batch_size=256)
    log_joint = fits + jax.vmap(target.log_prior)(z)
    return Proposals(z=z, log_likelihoods=fits, log_weights=log_joint - log_q)


def importance(proposals: Proposals) -> Estimate:
    """The evidence and its error from weighted proposals."""
    log_weights = np.asarray(proposals.log_weights, dtype=np.float64)
    usable = np.isfinite(log_weights)
    log_weights = np.where(usable, log_weights, -np.inf)
    n = len(log_weights)
    status = Status.OK
    warnings: tuple[str, ...] = ()
    if not usable.any():
        log_evidence = error = shape = effective = float("nan")
        status, warnings = Status.NOT_FINITE, (Status.NOT_FINITE.advice,)
    else:
        log_evidence = float(logsumexp(log_weights) - np.log(n))
        relative = np.exp(log_weights - log_evidence)
        error = float(relative.std(ddof=1) / np.sqrt(n))
        effective = float(relative.sum() ** 2 / np.sum(relative**2))
        shape = pareto_shape(relative)
        if shape > WORST_SHAPE:
            status = Status.SAMPLER_NOT_CONVERGED
            warnings = (
                f"the largest importance weights have a tail of shape {shape:.2f}, above "
                f"{WORST_SHAPE}: the error is not to be trusted; use method='bridge'",
            )
    return Estimate(
        log_evidence=log_evidence,
        log_evidence_err=error,
        z=np.asarray(proposals.z),
        log_weights=log_weights,
        log_likelihoods=np.asarray(proposals.log_likelihoods),
        n_evaluations=n,
        status=status,
        diagnostics={"pareto_k": shape, "ess": effective},
        warnings=warnings,
    )


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
