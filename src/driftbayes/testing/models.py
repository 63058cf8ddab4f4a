"""A model with more parameters than quadrature can take, for tests and benchmarks of samplers."""

__all__ = ["TwoSpeeds"]

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from driftbayes.jax_typing import Leaf, Scalar
from driftbayes.models import Brownian, Langevin
from driftbayes.models._base import AbstractModel, Parameter
from driftbayes.precision import as_leaf


class TwoSpeeds(AbstractModel):
    r"""A fast and a slow Langevin velocity and a Brownian part, all independent.

    $$r(t) = k\,\bigl[\gamma_1 e^{-\gamma_1 |t|} + s\,\gamma_2 e^{-\gamma_2 |t|} + 2 b\,\delta(t)
      \bigr]$$

    Args:
        gamma: Inverse decorrelation time of the first velocity.
        slow: That of the second.
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
