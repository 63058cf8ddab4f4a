r"""What a sampler samples: a prior density and a likelihood over unconstrained coordinates z."""

__all__ = ["AbstractTarget", "Components", "Guide", "PosteriorTarget", "guide_of"]

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from driftbayes.inference.hypothesis import Hypothesis
from driftbayes.inference.modes import find_modes
from driftbayes.inference.newton import Mode
from driftbayes.inference.symmetric import cholesky, eigh
from driftbayes.jax_typing import Key, Scalar
from driftbayes.models import Data


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


class Components(eqx.Module):
    """Gaussians at every mode that was found, the guide's first.

    Args:
        centers: The modes.
        factors: Lower-triangular factor of the covariance at each.
        log_masses: ln of the integral of each; minus infinity where there is no further mode.
    """

    centers: Float[Array, "mode parameter"]
    factors: Float[Array, "mode parameter parameter"]
    log_masses: Float[Array, " mode"]


class Guide(eqx.Module):
    """A Gaussian that is roughly where the posterior is.

    Args:
        center: The mode of the density of z.
        factor: Lower-triangular factor of the covariance of a Gaussian of the same curvature.
        converged: Whether the mode was found.
        components: The same at every mode, if they were looked for.
    """

    center: Float[Array, " parameter"]
    factor: Float[Array, "parameter parameter"]
    converged: Bool[Array, ""]
    components: Components | None = None


def guide_of(hypothesis: Hypothesis, data: Data) -> tuple[Guide, Mode]:
    """The guide in unconstrained coordinates, and the mode in natural ones.

    The first starts samplers; the second is where the Occam factor is taken.
    """
    modes = find_modes(hypothesis, data)
    factors = jax.vmap(_factor)(modes.every.hessian)
    components = Components(modes.every.z, factors, modes.log_mass)
    guide = Guide(modes.free.z, factors[0], modes.free.converged, components)
    return guide, modes.natural


def _factor(hessian: Float[Array, "parameter parameter"]) -> Float[Array, "parameter parameter"]:
    curvature, axes = eigh(-0.5 * (hessian + hessian.T))
    # Widths within reason: a flat direction is as wide as a factor of twenty.
    variance = jnp.clip(1 / jnp.maximum(jnp.abs(curvature), 1e-30), 1e-20, 9.0)
    return cholesky((axes * variance[None, :]) @ axes.T)
