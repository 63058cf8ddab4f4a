"""Oscillating Langevin model: a velocity that rotates while it decorrelates."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp

from driftbayes._jax_typing import Leaf
from driftbayes._precision import as_leaf
from driftbayes.models._base import Parameter
from driftbayes.models._linear import AbstractLinearModel, Dynamics


class OscillatingLangevin(AbstractLinearModel):
    r"""Particles whose velocity rotates at a rate $\Omega$ and decorrelates over $1/\gamma$.

    $$\mathrm{d}X = U\,\mathrm{d}t, \qquad
      \mathrm{d}U = (-\gamma U - \Omega W)\,\mathrm{d}t + \sqrt{2\gamma}\,u\,\mathrm{d}B_1, \qquad
      \mathrm{d}W = (\Omega U - \gamma W)\,\mathrm{d}t + \sqrt{2\gamma}\,u\,\mathrm{d}B_2$$

    so that $r(t) = u^2 e^{-\gamma|t|}\cos\Omega t$ with $u^2 = k(\gamma^2 + \Omega^2)/\gamma$: for
    trapping eddies, inertial oscillations and waves. As $\Omega \to 0$ the model becomes
    `Langevin(gamma, k)`. After M. Veneziani et al., J. Phys. Oceanogr. 34, 1884 (2004).

    Axes are independent, each with its own partner W. This is exact for each axis alone; for
    particles whose sense of rotation is unknown, only the dependence between axes is neglected.

    A weakly damped rotation is correlated over many steps, so each step of a long regular run is
    predicted from all earlier ones.

    Args:
        gamma: Rate at which the velocity loses its memory $\gamma > 0$, in 1/time.
        omega: Rate of rotation $\Omega > 0$, in radians per time.
        k: Long-time diffusivity $k > 0$, in length²/time: the variance of a displacement tends to
            $2k\tau$ per axis.

    Example:
        >>> import driftbayes as db
        >>> unit = db.Exponential(1.0)
        >>> db.Hypothesis(db.OscillatingLangevin(gamma=unit, omega=unit, k=unit)).names
        ('gamma', 'omega', 'k')
    """

    gamma: Leaf = eqx.field(converter=as_leaf)
    omega: Leaf = eqx.field(converter=as_leaf)
    k: Leaf = eqx.field(converter=as_leaf)

    name: ClassVar[str] = "oscillating"
    summary: ClassVar[str] = "Langevin velocity that also rotates at a rate omega"
    parameters: ClassVar[dict[str, Parameter]] = {
        "gamma": Parameter("γ", "rate at which the velocity loses its memory", 0, -1),
        "omega": Parameter("Ω", "rate of rotation of the velocity, in radians", 0, -1),
        "k": Parameter("k", "long-time diffusivity, Var(Δx_i) → 2kτ per axis", 2, -1),
    }
    scale_parameter: ClassVar[str] = "k"
    diffusivity: ClassVar[str | None] = "k"
    limit: ClassVar[str] = "langevin, as omega → 0"
    memory: ClassVar[int | None] = None

    def dynamics(self) -> Dynamics:
        """The velocity U and its partner W, which rotate into each other."""
        gamma, omega, k = map(jnp.asarray, (self.gamma, self.omega, self.k))
        variance = k * (gamma + omega * (omega / gamma))
        return Dynamics(
            rates=jnp.array([[-gamma, -omega], [omega, -gamma]]),
            intensity=2 * gamma * variance * jnp.eye(2),
            stationary=variance * jnp.eye(2),
        )
