"""Second-order Langevin model: the acceleration decorrelates over a finite time, too."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp

from driftbayes._jax_typing import Leaf
from driftbayes._precision import as_leaf
from driftbayes.models._base import Parameter
from driftbayes.models._linear import AbstractLinearModel, Dynamics


class SecondOrderLangevin(AbstractLinearModel):
    r"""Particles whose acceleration is finite and decorrelates over a time of about $1/a$.

    $$\mathrm{d}X = U\,\mathrm{d}t, \qquad \mathrm{d}U = A\,\mathrm{d}t, \qquad
      \mathrm{d}A = -a A\,\mathrm{d}t - \gamma a U\,\mathrm{d}t + \gamma a \sqrt{2k}\,\mathrm{d}W$$

    The velocity has variance $k\gamma$ and the integral time $1/\gamma$, exactly; its
    autocovariance is smooth at lag 0. It is a sum of two decaying exponentials if $a > 4\gamma$,
    and a damped oscillation if $a < 4\gamma$. As $a \to \infty$ the model becomes
    `Langevin(gamma, k)`. After B. L. Sawford, Phys. Fluids A 3, 1577 (1991).

    A weakly damped oscillation sampled near its half period is correlated over many steps, so each
    step of a long regular run is predicted from all earlier ones.

    The state is (X, U, $A/\sqrt{\gamma a}$), the last two of equal variance.

    Args:
        gamma: Inverse integral time of the velocity $\gamma > 0$, in 1/time.
        accel: Inverse decorrelation time of the acceleration $a > 0$, in 1/time.
        k: Long-time diffusivity $k > 0$, in length²/time: the variance of a displacement tends to
            $2k\tau$ per axis.

    Example:
        >>> import driftbayes as db
        >>> unit = db.Exponential(1.0)
        >>> db.Hypothesis(db.SecondOrderLangevin(gamma=unit, accel=unit, k=unit)).names
        ('gamma', 'accel', 'k')
    """

    gamma: Leaf = eqx.field(converter=as_leaf)
    accel: Leaf = eqx.field(converter=as_leaf)
    k: Leaf = eqx.field(converter=as_leaf)

    name: ClassVar[str] = "second_order"
    summary: ClassVar[str] = "Langevin velocity whose acceleration decorrelates over 1/accel"
    parameters: ClassVar[dict[str, Parameter]] = {
        "gamma": Parameter("γ", "inverse integral time of the velocity", 0, -1),
        "accel": Parameter("a", "inverse decorrelation time of the acceleration", 0, -1),
        "k": Parameter("k", "long-time diffusivity, Var(Δx_i) → 2kτ per axis", 2, -1),
    }
    scale_parameter: ClassVar[str] = "k"
    diffusivity: ClassVar[str | None] = "k"
    limit: ClassVar[str] = "langevin, as accel → ∞"
    memory: ClassVar[int | None] = None

    def dynamics(self) -> Dynamics:
        r"""$U' = \omega W$, $W' = -\omega U - a W$ + noise, with $\omega^2 = \gamma a$."""
        gamma, accel, k = map(jnp.asarray, (self.gamma, self.accel, self.k))
        # Not sqrt(gamma * accel): the product may overflow where the root does not.
        omega = jnp.sqrt(gamma) * jnp.sqrt(accel)
        return Dynamics(
            rates=jnp.array([[0.0, omega], [-omega, -accel]]),
            intensity=jnp.zeros((2, 2)).at[1, 1].set(2 * k * gamma * accel),
            stationary=k * gamma * jnp.eye(2),
        )
