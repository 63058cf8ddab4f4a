"""Two-scale Langevin model: a fast and a slow velocity, independent of each other."""

__all__ = ["TwoScaleLangevin"]

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from driftbayes.jax_typing import Leaf, Scalar
from driftbayes.models._base import AbstractModel, Parameter
from driftbayes.models.langevin import Langevin
from driftbayes.precision import as_leaf


class TwoScaleLangevin(AbstractModel):
    r"""Particles carried by the sum of a fast and a slow Langevin velocity.

    $$r(t) = k \left[ (1 - s)\,\gamma e^{-\gamma |t|} + s\,\gamma\rho\,e^{-\gamma\rho |t|} \right]$$

    As $s \to 0$ the model becomes `Langevin(gamma, k)`.

    A weak and slow velocity shows only over many steps: in long regular runs each step is
    predicted from all before it.

    Args:
        gamma: Inverse decorrelation time of the fast velocity $\gamma > 0$, in 1/time.
        ratio: Slow rate over fast rate, $0 < \rho < 1$.
        share: Share of the diffusivity that the slow velocity carries, $0 < s < 1$.
        k: Long-time diffusivity $k > 0$ of both together, in length²/time: the variance of a
            displacement tends to $2k\tau$ per axis.
    """

    gamma: Leaf = eqx.field(converter=as_leaf)
    ratio: Leaf = eqx.field(converter=as_leaf)
    share: Leaf = eqx.field(converter=as_leaf)
    k: Leaf = eqx.field(converter=as_leaf)

    name: ClassVar[str] = "two_scale"
    summary: ClassVar[str] = "sum of a fast and a slow Langevin velocity"
    parameters: ClassVar[dict[str, Parameter]] = {
        "gamma": Parameter("γ", "inverse decorrelation time of the fast velocity", 0, -1),
        "ratio": Parameter("ρ", "slow rate over fast rate, below 1", 0, 0, upper=1.0),
        "share": Parameter(
            "s", "share of k carried by the slow velocity, below 1", 0, 0, upper=1.0
        ),
        "k": Parameter("k", "long-time diffusivity, Var(Δx_i) → 2kτ per axis", 2, -1),
    }
    moves_by_generator: ClassVar[bool] = True
    scale_parameter: ClassVar[str] = "k"
    limit: ClassVar[str] = "langevin, as share → 0"
    memory: ClassVar[int | None] = None

    @property
    def _parts(self) -> tuple[Langevin, Langevin]:
        return (
            Langevin(gamma=self.gamma, k=self.k * (1 - self.share)),
            Langevin(gamma=self.gamma * self.ratio, k=self.k * self.share),
        )

    def increment_autocovariance(
        self, lags: Float[Array, " lag"], tau: Scalar
    ) -> Float[Array, " lag"]:
        """The sum of those of the two velocities."""
        fast, slow = self._parts
        return fast.increment_autocovariance(lags, tau) + slow.increment_autocovariance(lags, tau)

    def transition(
        self, interval: Scalar
    ) -> tuple[Float[Array, "state state"], Float[Array, "state state"]]:
        """State (X, fast velocity, slow velocity)."""
        (a, q), (b, r) = (part.transition(interval) for part in self._parts)
        propagator = jnp.zeros((3, 3)).at[:2, :2].set(a)
        propagator = propagator.at[0, 2].set(b[0, 1]).at[2, 2].set(b[1, 1])
        noise = jnp.zeros((3, 3)).at[:2, :2].set(q).at[0, 0].add(r[0, 0])
        noise = noise.at[0, 2].set(r[0, 1]).at[2, 0].set(r[1, 0]).at[2, 2].set(r[1, 1])
        return propagator, noise

    def generator(self) -> tuple[Float[Array, "state state"], Float[Array, "state state"]]:
        """Two velocities, each with a noise of its own."""
        (fast, fast_noise), (slow, slow_noise) = (part.generator() for part in self._parts)
        drift = jnp.zeros((3, 3)).at[0, 1:].set(1.0)
        drift = drift.at[1, 1].set(fast[1, 1]).at[2, 2].set(slow[1, 1])
        noise = jnp.zeros((3, 3)).at[1, 1].set(fast_noise[1, 1]).at[2, 2].set(slow_noise[1, 1])
        return drift, noise

    def initial_covariance(self) -> Float[Array, "state state"]:
        r"""Variances $(1 - s) k\gamma$ and $s k\gamma\rho$."""
        fast, slow = (part.initial_covariance()[1, 1] for part in self._parts)
        return jnp.diag(jnp.stack([jnp.zeros(()), fast, slow]))

    def mean_square_displacement(self, lag: Float[Array, "..."]) -> Float[Array, "..."]:
        """The sum of those of the two velocities."""
        fast, slow = self._parts
        return fast.mean_square_displacement(lag) + slow.mean_square_displacement(lag)

    def lvaf(self, lag: Float[Array, "..."]) -> Float[Array, "..."]:
        """Two exponentials."""
        fast, slow = self._parts
        return fast.lvaf(lag) + slow.lvaf(lag)
