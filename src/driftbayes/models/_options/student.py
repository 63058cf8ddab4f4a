"""Heavy tails: innovations with a Student distribution."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from driftbayes._jax_typing import Key, Leaf, Positions, Scalar, ScalarLike
from driftbayes._precision import as_leaf
from driftbayes.likelihood import Collected
from driftbayes.models._base import Kind, Parameter, fact
from driftbayes.models._gamma_ratio import log_gamma_ratio
from driftbayes.models._options._base import AbstractOption

# Tails below this do not change the density; far below, the excess would underflow to zero.
_MIN_TAIL = 1e-30


class Student(AbstractOption):
    r"""The model with innovations that have heavy tails.

    The innovation of each step given the earlier steps of its run is $w_n \sqrt{v_n}$, with $v_n$
    its variance under the Gaussian model. w follows the d-dimensional Student distribution with ν
    degrees of freedom and unit variance per axis:

    $$p(w) = \frac{\Gamma((\nu + d)/2)}{\Gamma(\nu/2)\,(\pi(\nu - 2))^{d/2}}
      \left( 1 + \frac{|w|^2}{\nu - 2} \right)^{-(\nu + d)/2}, \qquad \nu = 1/q > 2$$

    Second moments are those of the Gaussian model. The model describes the sampled process: with
    Brownian motion, displacements are independent and Student distributed at this tau only.

    Args:
        base: The wrapped model.
        tail: $q = 1/\nu$, below 1/2.

    Example:
        >>> import driftbayes as db
        >>> langevin = db.Langevin(gamma=db.Exponential(1), k=db.Exponential(2))
        >>> db.Student(langevin, tail=db.Uniform(0, 0.5)).name
        'langevin+student'
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
        tail = jnp.maximum(self.tail, _MIN_TAIL)
        return tail / (1 - 2 * tail)

    def _constant(self, n_dim: int) -> Scalar:
        """Logarithm of the constant of the density for one step of unit variance."""
        tail = jnp.maximum(self.tail, _MIN_TAIL)
        # All terms stay finite in the Gaussian limit, tail → 0.
        ratio = log_gamma_ratio(0.5 / tail, jnp.asarray(0.5 * n_dim))
        return ratio - 0.5 * n_dim * (np.log(2 * np.pi) + jnp.log1p(-2 * tail))

    def log_density(self, sums: Collected) -> Scalar:
        (terms,) = sums.parts
        nu = 1 / jnp.maximum(self.tail, _MIN_TAIL)
        value = (
            terms.n * self._constant(terms.n_dim)
            - 0.5 * terms.n_dim * terms.log_det
            - 0.5 * (nu + terms.n_dim) * sums.excess
        )
        return jnp.where(jnp.isnan(value), -jnp.inf, value)

    def simulate(
        self, key: Key, *, n_particles: int, n_steps: int, n_dim: int, tau: ScalarLike
    ) -> Positions:
        """Simulate exact positions from the innovations of the steps; $O(N^2)$ per particle."""
        key_normal, key_chi = jax.random.split(key)
        normal = jax.random.normal(key_normal, (n_particles, n_steps, n_dim))
        nu = 1 / self.tail
        chi = 2 * jax.random.gamma(key_chi, 0.5 * nu, (n_particles, n_steps, 1))
        return self.positions_from(normal * jnp.sqrt((nu - 2) / chi), tau)
