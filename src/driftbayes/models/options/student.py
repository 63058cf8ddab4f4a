"""Heavy tails: innovations from Student's distribution."""

__all__ = ["Student"]

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from driftbayes.errors import DriftbayesError
from driftbayes.jax_typing import Key, Leaf, Scalar, ScalarLike
from driftbayes.likelihood import Collected, PaddedSteps
from driftbayes.models._base import Parameter, fact
from driftbayes.models._gamma_ratio import log_gamma_ratio
from driftbayes.models._prepare import Data, Kind
from driftbayes.models.options._base import AbstractOption
from driftbayes.precision import as_leaf

# Below this no digit of the density knows of the tail; far below, the excess underflows to zero.
_NO_TAIL = 1e-30


class Student(AbstractOption):
    r"""The model with innovations that have heavy tails.

    What the earlier displacements of a run do not predict, $w_n \sqrt{v_n}$ with $v_n$ its variance
    under the Gaussian model, is not Gaussian but follows the d-dimensional Student distribution of
    ν degrees of freedom and unit variance per axis:

    $$p(w) = \frac{\Gamma((\nu + d)/2)}{\Gamma(\nu/2)\,(\pi(\nu - 2))^{d/2}}
      \left( 1 + \frac{|w|^2}{\nu - 2} \right)^{-(\nu + d)/2}, \qquad \nu = 1/q > 2$$

    Second moments are those of the Gaussian model. Of Brownian motion it makes independent Student
    displacements at this tau, and at no other: the model is one of the sampled process.

    Args:
        base: The other model.
        tail: $q = 1/\nu$, below 1/2.
    """

    tail: Leaf = eqx.field(converter=as_leaf)

    option: ClassVar[str] = "student"
    summary: ClassVar[str] = fact(lambda self: f"{self.base.summary}, innovations with heavy tails")
    own: ClassVar[dict[str, Parameter]] = {
        "tail": Parameter("q", "1/ν with ν the degrees of freedom, below 1/2", 0, 0, upper=0.5)
    }
    limit: ClassVar[str] = fact(lambda self: f"{self.base.name}, as tail → 0")
    is_gaussian: ClassVar[bool] = False
    kind: ClassVar[Kind] = "steps"

    def tail_weight(self) -> ScalarLike:
        tail = jnp.maximum(self.tail, _NO_TAIL)
        return tail / (1 - 2 * tail)

    def _constant(self, n_dim: int) -> Scalar:
        """Ln of the density's constant, of one step of unit variance."""
        tail = jnp.maximum(self.tail, _NO_TAIL)
        # ν = 2 / q' with q' → 0 the Gaussian: all terms are written so as to survive it.
        ratio = log_gamma_ratio(0.5 / tail, jnp.asarray(0.5 * n_dim))
        return ratio - 0.5 * n_dim * (np.log(2 * np.pi) + jnp.log1p(-2 * tail))

    def log_density(self, data: Data) -> Scalar:
        if isinstance(data, Collected):
            (terms,) = data.parts
            nu = 1 / jnp.maximum(self.tail, _NO_TAIL)
            value = (
                terms.n * self._constant(terms.n_dim)
                - 0.5 * terms.n_dim * terms.log_det
                - 0.5 * (nu + terms.n_dim) * data.excess
            )
            return jnp.where(jnp.isnan(value), -jnp.inf, value)
        if not isinstance(data, PaddedSteps):
            raise DriftbayesError(f"{self.name} needs single steps; prepare the data for it")
        innovation, variance = self.innovations(data)
        n_dim = data.dx.shape[-1]
        square = jnp.sum(innovation**2, axis=-1) / variance
        tail = jnp.maximum(self.tail, _NO_TAIL)
        nu, constant = 1 / tail, self._constant(n_dim)
        excess = jnp.log1p(tail * square / (1 - 2 * tail))
        value = constant - 0.5 * n_dim * jnp.log(variance) - 0.5 * (nu + n_dim) * excess
        total = jnp.sum(jnp.where(data.valid > 0, value, 0.0))
        return jnp.where(jnp.isnan(total), -jnp.inf, total)

    def simulate(
        self, key: Key, *, n_particles: int, n_steps: int, n_dim: int, tau: ScalarLike
    ) -> Float[Array, "particle position dim"]:
        """Exact positions, by the innovations of the displacements; $O(N^2)$ per particle."""
        key_normal, key_chi = jax.random.split(key)
        normal = jax.random.normal(key_normal, (n_particles, n_steps, n_dim))
        nu = 1 / self.tail
        chi = 2 * jax.random.gamma(key_chi, 0.5 * nu, (n_particles, n_steps, 1))
        return self.positions_from(normal * jnp.sqrt((nu - 2) / chi), tau)
