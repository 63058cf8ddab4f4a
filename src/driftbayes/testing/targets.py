"""Targets with a known evidence, and a model with many parameters, for tests of samplers."""

__all__ = ["BimodalTarget", "ConstantTarget", "GaussianTarget", "TwoSpeeds"]

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from driftbayes.inference.target import AbstractTarget
from driftbayes.jax_typing import Key, Leaf, Scalar
from driftbayes.models import Brownian, Langevin
from driftbayes.models._base import AbstractModel, Parameter
from driftbayes.precision import as_leaf


def _log_normal(z: Array, mean: Array | float, sd: Array | float) -> Scalar:
    return jnp.sum(-0.5 * ((z - mean) / sd) ** 2 - jnp.log(sd) - 0.5 * np.log(2 * np.pi))


class _StandardPrior(AbstractTarget):
    """A target with the prior N(0, 1) in each dimension."""

    def log_prior(self, z: Float[Array, " parameter"]) -> Scalar:
        return _log_normal(z, 0.0, jnp.ones_like(z))

    def sample_prior(self, key: Key) -> Float[Array, " parameter"]:
        return jax.random.normal(key, (self.n_dim,))


class GaussianTarget(_StandardPrior):
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
        """Make a target with means from 1 to -1 and widths from 0.1 to 0.5."""
        return cls(jnp.linspace(1.0, -1.0, n_dim), jnp.linspace(0.1, 0.5, n_dim))

    @property
    def n_dim(self) -> int:
        return len(self.mean)

    def log_likelihood(self, z: Float[Array, " parameter"]) -> Scalar:
        return _log_normal(z, self.mean, self.sd)

    @property
    def log_evidence(self) -> float:
        """Exact log evidence."""
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
        """Make a target in this number of dimensions."""
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
        """Exact log evidence."""
        return float(_log_normal(3.0 * self.ones, 0.0, jnp.sqrt(9.25) * self.ones))


class ConstantTarget(_StandardPrior):
    """Prior N(0, 1), likelihood 1: the evidence is 1.

    Args:
        zeros: A vector of zeros, as long as there are dimensions.
    """

    zeros: Float[Array, " parameter"]

    @property
    def n_dim(self) -> int:
        return len(self.zeros)

    def log_likelihood(self, z: Float[Array, " parameter"]) -> Scalar:
        return 0.0 * jnp.sum(z)

    @property
    def log_evidence(self) -> float:
        """Exact log evidence."""
        return 0.0


class TwoSpeeds(AbstractModel):
    r"""A fast and a slow Langevin velocity and a Brownian part, all independent.

    $$r(t) = k\,\bigl[\gamma_1 e^{-\gamma_1 |t|} + s\,\gamma_2 e^{-\gamma_2 |t|} + 2 b\,\delta(t)
      \bigr]$$

    Args:
        gamma: Inverse decorrelation time of the first velocity.
        slow: Inverse decorrelation time of the second velocity.
        share: Diffusivity of the second relative to the first, s.
        rest: Diffusivity of the Brownian part relative to the first, b.
        k: Diffusivity of the first.
    """

    gamma: Leaf = eqx.field(converter=as_leaf)
    slow: Leaf = eqx.field(converter=as_leaf)
    share: Leaf = eqx.field(converter=as_leaf)
    rest: Leaf = eqx.field(converter=as_leaf)
    k: Leaf = eqx.field(converter=as_leaf)

    name: ClassVar[str] = "two_speeds"
    summary: ClassVar[str] = "two Langevin velocities and a Brownian part"
    parameters: ClassVar[dict[str, Parameter]] = {
        "gamma": Parameter("γ", "inverse decorrelation time of the first velocity", 0, -1),
        "slow": Parameter("γ₂", "that of the second", 0, -1),
        "share": Parameter("s", "relative diffusivity of the second", 0, 0),
        "rest": Parameter("b", "relative diffusivity of the Brownian part", 0, 0),
        "k": Parameter("k", "diffusivity of the first", 2, -1),
    }
    scale_parameter: ClassVar[str] = "k"
    limit: ClassVar[str] = "langevin, as share and rest → 0"

    @property
    def _parts(self) -> tuple[Langevin, Langevin, Brownian]:
        return (
            Langevin(gamma=self.gamma, k=self.k),
            Langevin(gamma=self.slow, k=self.k * self.share),
            Brownian(kappa=self.k * self.rest),
        )

    def increment_autocovariance(
        self, lags: Float[Array, " lag"], tau: Scalar
    ) -> Float[Array, " lag"]:
        first, second, third = (part.increment_autocovariance(lags, tau) for part in self._parts)
        return first + second + third

    def transition(
        self, interval: Scalar
    ) -> tuple[Float[Array, "state state"], Float[Array, "state state"]]:
        first, second, third = self._parts
        (a, q), (b, r) = first.transition(interval), second.transition(interval)
        propagator = jnp.zeros((3, 3)).at[:2, :2].set(a)
        propagator = propagator.at[0, 2].set(b[0, 1]).at[2, 2].set(b[1, 1])
        noise = jnp.zeros((3, 3)).at[:2, :2].set(q)
        noise = noise.at[0, 0].add(r[0, 0] + third.mean_square_displacement(interval))
        noise = noise.at[0, 2].set(r[0, 1]).at[2, 0].set(r[1, 0]).at[2, 2].set(r[1, 1])
        return propagator, noise

    def initial_covariance(self) -> Float[Array, "state state"]:
        first, second, _ = self._parts
        covariance = jnp.zeros((3, 3)).at[1, 1].set(first.initial_covariance()[1, 1])
        return covariance.at[2, 2].set(second.initial_covariance()[1, 1])

    def mean_square_displacement(self, lag: Float[Array, "..."]) -> Float[Array, "..."]:
        first, second, third = (part.mean_square_displacement(lag) for part in self._parts)
        return first + second + third

    def lvaf(self, lag: Float[Array, "..."]) -> Float[Array, "..."]:
        first, second, third = (part.lvaf(lag) for part in self._parts)
        return first + second + third
