r"""Importance sampling from a heavy-tailed guess of the posterior: Laplace's method, repaired.

$$\hat Z = \frac1N \sum_i w_i, \qquad w_i = \frac{L(z_i)\,\pi(z_i)}{q(z_i)}, \qquad
  z_i \sim q = t_5(\text{mode}, \text{curvature})$$

In unconstrained coordinates, where the posterior is closest to a Gaussian. With several modes q is
a mixture over them; a tenth of the draws comes from the prior, so that a part of the posterior that
no mode covers is met now and then, and shows in the largest weights. The error is that of the mean
of the weights; how far it can be trusted is told by the tail of the largest of them.
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
# Share of the proposals that come from the prior.
_FROM_PRIOR = 0.1
# Every mode has at least this share of the others, divided evenly.
_EVENLY = 0.5
# With fewer effective draws, or with more of the weight on one of them, the error says nothing.
_MIN_EFFECTIVE = 100
_MAX_SHARE = 0.05


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
    # With components two more keys are needed; without them the numbers are those of two.
    keys = jax.random.split(key, 2 if guide.components is None else 4)
    key_normal, key_stretch = keys[0], keys[1]
    normal = jax.random.normal(key_normal, (n, target.n_dim))
    stretch = 2 * jax.random.gamma(key_stretch, 0.5 * _FREEDOM, (n,)) / _FREEDOM
    w = normal / jnp.sqrt(stretch)[:, None]
    parts = guide.components
    if parts is None:
        z = guide.center[None] + w @ guide.factor.T
        log_q = _log_student(w, guide.factor)
    else:
        # By lot: one of the modes, or the prior.
        exists = jnp.isfinite(parts.log_masses).at[0].set(True)
        masses = jax.nn.softmax(jnp.where(exists, parts.log_masses, -jnp.inf))
        # The highest mode may have no mass, if the search for it did not converge.
        evenly = exists.astype(masses.dtype) / jnp.sum(exists, dtype=masses.dtype)
        masses = jnp.where(jnp.isfinite(masses), masses, evenly)
        shares = (1 - _EVENLY) * masses + _EVENLY * evenly
        log_shares = jnp.log(jnp.append((1 - _FROM_PRIOR) * shares, _FROM_PRIOR))
        kind = jax.random.categorical(keys[2], log_shares, shape=(n,))
        prior = jax.vmap(target.sample_prior)(jax.random.split(keys[3], n))
        mode = jnp.minimum(kind, len(shares) - 1)
        near = parts.centers[mode] + jnp.einsum("nij,nj->ni", parts.factors[mode], w)
        z = jnp.where((kind == len(shares))[:, None], prior, near)
        # A draw at the very edge of the prior has no place in unconstrained coordinates.
        z = jnp.where(jnp.all(jnp.isfinite(z), axis=1)[:, None], z, near)

        def log_density(center: Array, factor: Array) -> Array:
            away = (z - center[None]).T
            return _log_student(
                jax.scipy.linalg.solve_triangular(factor, away, lower=True).T, factor
            )

        each = jax.vmap(log_density)(parts.centers, parts.factors)
        each = jnp.where(exists[:, None], each, -jnp.inf)
        every = jnp.concatenate([each, jax.vmap(target.log_prior)(z)[None]])
        log_q = jax.scipy.special.logsumexp(every + log_shares[:, None], axis=0)
    # One after the other in blocks: a long record's likelihood would fill the memory.
    fits = jax.lax.map(target.log_likelihood, z, batch_size=256)
    log_joint = fits + jax.vmap(target.log_prior)(z)
    return Proposals(z=z, log_likelihoods=fits, log_weights=log_joint - log_q)


def _log_student(w: Float[Array, "draw parameter"], factor: Array) -> Float[Array, " draw"]:
    """Ln of Student's density of points at w in units of the factor."""
    n_dim = w.shape[1]
    log_det = jnp.sum(jnp.log(jnp.diag(factor)))
    half = 0.5 * (_FREEDOM + n_dim)
    constant = (
        jax.scipy.special.gammaln(jnp.asarray(half))
        - jax.scipy.special.gammaln(jnp.asarray(0.5 * _FREEDOM))
        - 0.5 * n_dim * np.log(_FREEDOM * np.pi)
    )
    return constant - log_det - half * jnp.log1p(jnp.sum(w**2, axis=1) / _FREEDOM)


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
            warnings = (
                f"the largest importance weights have a tail of shape {shape:.2f}, above "
                f"{WORST_SHAPE}: the error is not to be trusted; use method='bridge'",
            )
        elif n > _MIN_EFFECTIVE and not effective >= _MIN_EFFECTIVE:
            warnings = (
                f"the proposals are worth only {effective:.0f} draws from the posterior: the error "
                "is not to be trusted; use method='smc', or more n_proposals",
            )
        elif n * _MAX_SHARE > 1 and relative.max() > _MAX_SHARE * relative.sum():
            warnings = (
                f"one proposal has {relative.max() / relative.sum():.0%} of the weight: there is a "
                "part of the posterior that the proposals hardly reach; use method='smc'",
            )
        status = Status.SAMPLER_NOT_CONVERGED if warnings else Status.OK
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
