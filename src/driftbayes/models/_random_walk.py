"""Continuous-time random walk: jumps separated by random waiting times."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from driftbayes._jax_typing import Key, Leaf, Positions, ScalarLike
from driftbayes._precision import as_leaf
from driftbayes.models._base import Kind, Parameter
from driftbayes.models._brownian import AbstractIndependent


class RandomWalk(AbstractIndependent):
    r"""Particles that rest and jump at random times.

    Waiting times are exponential with mean $1/\lambda$, jumps are Gaussian and take no time. With
    $n$ the number of jumps in a step, common to all axes,

    $$n \sim \operatorname{Poisson}(\lambda\tau), \qquad
      \Delta X \mid n \sim N(0, 2\kappa n/\lambda)$$

    per axis. Steps are independent and $\operatorname{Var}(\Delta X_i) = 2\kappa\tau$ at any τ; the
    kurtosis of a component is $3 + 3/(\lambda\tau)$. As λ → ∞ it is `Brownian(kappa)`. A step is
    exactly zero with probability $e^{-\lambda\tau}$ and then has no density: data with such steps,
    or with measurement errors, raise an error.

    Args:
        kappa: Diffusivity $\kappa > 0$, in length²/time.
        rate: Rate of jumps $\lambda > 0$, in 1/time.
    """

    rate: Leaf = eqx.field(converter=as_leaf)

    name: ClassVar[str] = "random_walk"
    summary: ClassVar[str] = "rests of random length and Gaussian jumps between them"
    parameters: ClassVar[dict[str, Parameter]] = {
        "kappa": Parameter("κ", "diffusivity, Var(Δx_i) = 2κτ per axis", 2, -1),
        "rate": Parameter("λ", "rate of jumps", 0, -1),
    }
    scale_parameter: ClassVar[str] = "kappa"
    limit: ClassVar[str] = "brownian, as rate → ∞"
    is_gaussian: ClassVar[bool] = False
    has_state_space: ClassVar[bool] = False
    kind: ClassVar[Kind] = "jumps"

    def simulate(
        self, key: Key, *, n_particles: int, n_steps: int, n_dim: int, tau: ScalarLike
    ) -> Positions:
        """Simulate exact positions at times 0, tau, 2 tau, ..., from the origin."""
        key_number, key_size = jax.random.split(key)
        shape = (n_particles, n_steps)
        number = jax.random.poisson(key_number, self.rate * jnp.asarray(tau), shape)
        size = jnp.sqrt(2 * self.kappa / self.rate * number.astype(float))[..., None]
        steps = size * jax.random.normal(key_size, (*shape, n_dim))
        return jnp.pad(jnp.cumsum(steps, axis=1), ((0, 0), (1, 0), (0, 0)))
