"""A model made from another by an option: what it takes over unchanged."""

__all__ = ["AbstractOption"]

import jax
from jaxtyping import Array, Float

from driftbayes.jax_typing import Key, Scalar, ScalarLike
from driftbayes.models._base import AbstractModel


class AbstractOption(AbstractModel):
    """A model that consists of another and something more.

    Classes are made by functions, one for each class of models that takes the option: their
    parameters are those of the other model and their own.

    Args:
        base: The other model.
    """

    base: AbstractModel

    def increment_autocovariance(
        self, lags: Float[Array, " lag"], tau: Scalar
    ) -> Float[Array, " lag"]:
        return self.base.increment_autocovariance(lags, tau)

    def first_autocovariances(self, n_lags: int, tau: Scalar) -> Float[Array, " lag"]:
        return self.base.first_autocovariances(n_lags, tau)

    def transition(
        self, interval: Scalar
    ) -> tuple[Float[Array, "state state"], Float[Array, "state state"]]:
        return self.base.transition(interval)

    def initial_covariance(self) -> Float[Array, "state state"]:
        return self.base.initial_covariance()

    def fix_variance(self) -> ScalarLike:
        return self.base.fix_variance()

    def mean_square_displacement(self, lag: Float[Array, "..."]) -> Float[Array, "..."]:
        return self.base.mean_square_displacement(lag)

    def lvaf(self, lag: Float[Array, "..."]) -> Float[Array, "..."]:
        return self.base.lvaf(lag)

    def simulate(
        self, key: Key, *, n_particles: int, n_steps: int, n_dim: int, tau: ScalarLike
    ) -> Float[Array, "particle position dim"]:
        key_base, key_own = jax.random.split(key)
        positions = self.base.simulate(
            key_base, n_particles=n_particles, n_steps=n_steps, n_dim=n_dim, tau=tau
        )
        return self.changed(key_own, positions, tau)

    def changed(
        self, key: Key, positions: Float[Array, "particle position dim"], tau: ScalarLike
    ) -> Float[Array, "particle position dim"]:
        """Positions of the other model, simulated, with the option applied."""
        return positions
