r"""What a sampler samples: a prior density and a likelihood over unconstrained coordinates z."""

__all__ = ["AbstractTarget", "Guide", "PosteriorTarget", "components_of", "guide_of"]

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from driftbayes.inference.hypothesis import Hypothesis
from driftbayes.inference.proposals import Components
from driftbayes.inference.search import Modes
from driftbayes.jax_typing import Key, Scalar
from driftbayes.likelihood.moments import AnyArray
from driftbayes.models import Data
from driftbayes.typing import FloatArray


class AbstractTarget(eqx.Module):
    r"""A posterior known up to its constant, the evidence $Z = \int L(z)\,\pi(z)\,\mathrm dz$.

    A pytree: targets of one shape stack, and a sampler may be mapped over them.
    """

    @property
    @abstractmethod
    def n_dim(self) -> int:
        """Number of coordinates."""

    @abstractmethod
    def log_prior(self, z: Float[Array, " parameter"]) -> Scalar:
        """Ln π(z), normalised."""

    @abstractmethod
    def log_likelihood(self, z: Float[Array, " parameter"]) -> Scalar:
        """Ln L(z); minus infinity, not NaN, where the model cannot be."""

    @abstractmethod
    def sample_prior(self, key: Key) -> Float[Array, " parameter"]:
        """One draw from π."""

    def log_joint(self, z: Float[Array, " parameter"]) -> Scalar:
        """Ln L(z) π(z)."""
        return self.log_likelihood(z) + self.log_prior(z)


class PosteriorTarget(AbstractTarget):
    """A hypothesis and its data, in the priors' own unconstrained coordinates.

    Args:
        hypothesis: Model family and prior.
        data: What an engine made of the displacements.
    """

    hypothesis: Hypothesis
    data: Data

    @property
    def n_dim(self) -> int:
        return len(self.hypothesis.names)

    def log_prior(self, z: Float[Array, " parameter"]) -> Scalar:
        theta = self.hypothesis.from_unconstrained(z)
        value = self.hypothesis.log_prior(theta) + self.hypothesis.log_jacobian(z)
        return jnp.where(jnp.isnan(value), -jnp.inf, value)

    def log_likelihood(self, z: Float[Array, " parameter"]) -> Scalar:
        value = self.hypothesis.log_likelihood(self.hypothesis.from_unconstrained(z), self.data)
        # Far out a parameter overflows; nothing is there.
        return jnp.where(jnp.isnan(value), -jnp.inf, value)

    def sample_prior(self, key: Key) -> Float[Array, " parameter"]:
        keys = jax.random.split(key, self.n_dim)
        priors = [self.hypothesis.priors[name] for name in self.hypothesis.names]
        draws = [prior.sample(k) for prior, k in zip(priors, keys, strict=True)]
        return self.hypothesis.to_unconstrained(jnp.stack(draws))


class Guide(eqx.Module):
    """A Gaussian that is roughly where the posterior is.

    Args:
        center: The mode of the density of z.
        factor: Lower-triangular factor of the covariance of a Gaussian of the same curvature.
        converged: Whether the mode was found.
    """

    center: Float[AnyArray, "*batch parameter"]
    factor: Float[AnyArray, "*batch parameter parameter"]
    converged: Bool[AnyArray, "*batch"]


def guide_of(modes: Modes) -> Guide:
    """The guide of a sampler from the modes of the posterior."""
    factor = _factor(modes.free.hessian)
    return Guide(modes.free.z, factor, np.asarray(modes.free.converged))


def components_of(modes: Modes) -> Components:
    """Gaussians at all modes of the posterior."""
    centers = np.stack([mode.z for mode in modes.every])
    factors = np.stack([_factor(mode.hessian) for mode in modes.every])
    return Components(centers, factors, modes.log_mass)


def _factor(hessian: FloatArray) -> FloatArray:
    curvature, axes = np.linalg.eigh(-np.nan_to_num(hessian))
    # Widths within reason: a flat direction is as wide as a factor of twenty.
    variance = np.clip(1 / np.maximum(np.abs(curvature), 1e-30), 1e-20, 9.0)
    return np.asarray(np.linalg.cholesky((axes * variance) @ axes.T))
