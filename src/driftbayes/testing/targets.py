"""Targets whose evidence is known in closed form: what every sampler must find."""

__all__ = ["BimodalTarget", "ConstantTarget", "GaussianTarget"]

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from driftbayes.inference.target import AbstractTarget
from driftbayes.jax_typing import Key, Scalar


def _log_normal(z: Array, mean: Array | float, sd: Array | float) -> Scalar:
    return jnp.sum(-0.5 * ((z - mean) / sd) ** 2 - jnp.log(sd) - 0.5 * np.log(2 * np.pi))


class GaussianTarget(AbstractTarget):
    r"""Prior N(0, 1) and likelihood N(m, s²) in each of n dimensions.

    $$Z = \prod_i N(m_i; 0, 1 + s_i^2)$$

    Args:
        mean: m.
        sd: s.
    """

    mean: Float[Array, " parameter"]
    sd: Float[Array, " parameter"]

    @classmethod
    def make(cls, n_dim: int) -> "GaussianTarget":
        """One with means from 1 to -1 and widths from 0.1 to 0.5."""
        return cls(jnp.linspace(1.0, -1.0, n_dim), jnp.linspace(0.1, 0.5, n_dim))

    @property
    def n_dim(self) -> int:
        return len(self.mean)

    def log_prior(self, z: Float[Array, " parameter"]) -> Scalar:
        return _log_normal(z, 0.0, jnp.ones_like(z))

    def log_likelihood(self, z: Float[Array, " parameter"]) -> Scalar:
        return _log_normal(z, self.mean, self.sd)

    def sample_prior(self, key: Key) -> Float[Array, " parameter"]:
        return jax.random.normal(key, (self.n_dim,))

    @property
    def log_evidence(self) -> float:
        """The answer."""
        return float(_log_normal(self.mean, 0.0, jnp.sqrt(1 + self.sd**2)))

    @property
    def expected_log_likelihood(self) -> float:
        """Posterior mean of ln L."""
        variance = self.sd**2 / (1 + self.sd**2)
        shift = self.mean * self.sd**2 / (1 + self.sd**2)
        inner = (variance + shift**2) / self.sd**2
        return float(jnp.sum(-0.5 * inner - jnp.log(self.sd) - 0.5 * np.log(2 * np.pi)))


class BimodalTarget(AbstractTarget):
    r"""Prior N(0, 3²) and likelihood ½N(+3, 0.5²) + ½N(-3, 0.5²) in n dimensions.

    Both modes lie along the diagonal and have the same height; by symmetry the evidence is that of
    one of them.

    Args:
        ones: A vector of ones, as long as there are dimensions.
    """

    ones: Float[Array, " parameter"]

    @classmethod
    def make(cls, n_dim: int) -> "BimodalTarget":
        """One in so many dimensions."""
        return cls(jnp.ones(n_dim))

    @property
    def n_dim(self) -> int:
        return len(self.ones)

    def log_prior(self, z: Float[Array, " parameter"]) -> Scalar:
        return _log_normal(z, 0.0, 3.0 * self.ones)

    def log_likelihood(self, z: Float[Array, " parameter"]) -> Scalar:
        both = [_log_normal(z, sign * 3.0 * self.ones, 0.5 * self.ones) for sign in (1, -1)]
        return jnp.logaddexp(both[0], both[1]) - np.log(2)

    def sample_prior(self, key: Key) -> Float[Array, " parameter"]:
        return 3.0 * jax.random.normal(key, (self.n_dim,))

    @property
    def log_evidence(self) -> float:
        """The answer."""
        return float(_log_normal(3.0 * self.ones, 0.0, jnp.sqrt(9.25) * self.ones))


class ConstantTarget(AbstractTarget):
    """Prior N(0, 1), likelihood 1: the evidence is 1.

    Args:
        zeros: A vector of zeros, as long as there are dimensions.
    """

    zeros: Float[Array, " parameter"]

    @property
    def n_dim(self) -> int:
        return len(self.zeros)

    def log_prior(self, z: Float[Array, " parameter"]) -> Scalar:
        return _log_normal(z, 0.0, jnp.ones_like(z))

    def log_likelihood(self, z: Float[Array, " parameter"]) -> Scalar:
        return 0.0 * jnp.sum(z)

    def sample_prior(self, key: Key) -> Float[Array, " parameter"]:
        return jax.random.normal(key, (self.n_dim,))

    @property
    def log_evidence(self) -> float:
        """The answer."""
        return 0.0
