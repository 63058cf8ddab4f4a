"""Metropolis moves of many chains at once, by proposals that fit a cloud of particles."""

__all__ = ["Chains", "Cloud", "fit_cloud", "log_likelihoods", "log_priors", "move", "n_lots"]

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jax.scipy.special import erfinv
from jaxtyping import Array, Bool, Float

from driftbayes.inference.symmetric import cholesky
from driftbayes.inference.target import AbstractTarget
from driftbayes.jax_typing import Scalar

# Degrees of freedom of far proposals; even, so that chi-squares are logarithms of products.
_FREEDOM = 4
# Acceptance for which near proposals are scaled: between 0.44, best in one dimension, and 0.23.
_NEAR_ACCEPTANCE = 0.3
# Likelihoods computed at once: those of a long record would fill the memory.
_BLOCK = 256


class Cloud(eqx.Module):
    """Mean and covariance of weighted particles.

    Args:
        center: Mean.
        factor: Lower-triangular factor of the covariance.
    """

    center: Float[Array, " parameter"]
    factor: Float[Array, "parameter parameter"]

    def log_density(self, z: Float[Array, "chain parameter"]) -> Float[Array, " chain"]:
        """Of Student's t with this mean and shape, up to a constant."""
        y = solve_triangular(self.factor, (z - self.center[None, :]).T, lower=True)
        return -0.5 * (_FREEDOM + z.shape[1]) * jnp.log1p(jnp.sum(y**2, axis=0) / _FREEDOM)


class Chains(eqx.Module):
    """Where the chains are, and how well the two kinds of proposal do.

    Args:
        z: Their places.
        log_l: ln L there.
        log_prior: ln π there.
        log_scale: Logarithm of the length of near steps, relative to the best for a Gaussian.
        fit: Share of far proposals accepted of late.
    """

    z: Float[Array, "chain parameter"]
    log_l: Float[Array, " chain"]
    log_prior: Float[Array, " chain"]
    log_scale: Scalar
    fit: Scalar


def n_lots(n_dim: int) -> int:
    """Random numbers that one move of one chain takes: kick, length, kind, acceptance."""
    return n_dim + _FREEDOM // 2 + 2


def move(
    target: AbstractTarget,
    chains: Chains,
    cloud: Cloud,
    beta: Scalar,
    lots: Float[Array, "lot chain"],
) -> tuple[Chains, Scalar]:
    r"""One move that leaves $L^\beta \pi$ as it is, and the share of chains that made it.

    By lot, either far, to a place that does not depend on the present one, or near:

    $$z' \sim t_4(m, C) \qquad \text{or} \qquad z' \sim N\big(z,\ (2.38\,s)^2\, C / d\big)$$

    with m and C of the cloud. Far moves forget at once where the cloud is a good fit; near ones
    go on where it is not.

    Args:
        target: Prior and likelihood.
        chains: Where they are.
        cloud: For the proposals.
        beta: Inverse temperature.
        lots: `n_lots` random numbers from 0 to 1 for each chain. Drawn elsewhere for many moves
            at once: the generator takes longer to compile than all the rest of a move.
    """
    d = chains.z.shape[1]
    # Strictly within, for neither end is a number of the normal law.
    centred = jnp.clip(2 * lots[:d] - 1, -1 + 1e-16, 1 - 1e-16)
    kick = (cloud.factor @ (np.sqrt(2) * erfinv(centred))).T
    chi_square = -2 * jnp.sum(jnp.log1p(-lots[d:-2]), axis=0)
    far = cloud.center[None, :] + jnp.sqrt(_FREEDOM / chi_square)[:, None] * kick
    near = chains.z + jnp.exp(chains.log_scale) * 2.38 / np.sqrt(d) * kick
    # One far move accepted is worth many near ones, which therefore take over only where few are.
    is_far = lots[-2] < jnp.clip(4 * chains.fit, 0.1, 0.9)
    z = jnp.where(is_far[:, None], far, near)
    log_l, log_prior = log_likelihoods(target, z), log_priors(target, z)
    ratio = beta * (log_l - chains.log_l) + log_prior - chains.log_prior
    # Near proposals are as likely there and back; far ones are not.
    lopsided = cloud.log_density(chains.z) - cloud.log_density(z)
    ratio = ratio + jnp.where(is_far, lopsided, 0.0)
    # From nowhere to nowhere is NaN, which compares false.
    accept = jnp.log1p(-lots[-1]) < ratio
    moved = Chains(
        z=jnp.where(accept[:, None], z, chains.z),
        log_l=jnp.where(accept, log_l, chains.log_l),
        log_prior=jnp.where(accept, log_prior, chains.log_prior),
        log_scale=chains.log_scale + _excess(accept, ~is_far, _NEAR_ACCEPTANCE),
        fit=chains.fit + 0.3 * _excess(accept, is_far, chains.fit),
    )
    return moved, jnp.mean(accept, dtype=z.dtype)


def _excess(
    accept: Bool[Array, " chain"], of_kind: Bool[Array, " chain"], expected: Scalar | float
) -> Scalar:
    """Accepted share of the proposals of a kind, less the expected one; 0 if there were none."""
    n, n_accepted = jnp.sum(of_kind), jnp.sum(accept & of_kind)
    return jnp.where(n > 0, n_accepted / jnp.maximum(n, 1) - expected, 0.0)


def fit_cloud(z: Float[Array, "particle parameter"], weights: Float[Array, " particle"]) -> Cloud:
    """Mean and covariance; the weights sum to one."""
    center = weights @ z
    away = z - center[None, :]
    cov = (away * weights[:, None]).T @ away
    # And a little of the width without weights: a cloud of one live particle has none of its own.
    cov = cov + jnp.diag(jnp.var(z, axis=0)) * jnp.sum(weights**2)
    return Cloud(center, cholesky(cov))


def log_likelihoods(
    target: AbstractTarget, z: Float[Array, "chain parameter"]
) -> Float[Array, " chain"]:
    """Ln L at many places; whatever is not finite is minus infinity."""
    value = jax.lax.map(target.log_likelihood, z, batch_size=_BLOCK)
    return jnp.where(jnp.isfinite(value), value, -jnp.inf)


def log_priors(
    target: AbstractTarget, z: Float[Array, "chain parameter"]
) -> Float[Array, " chain"]:
    """Ln π at many places; whatever is not finite is minus infinity."""
    value = jax.vmap(target.log_prior)(z)
    return jnp.where(jnp.isfinite(value), value, -jnp.inf)
