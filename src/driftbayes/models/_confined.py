"""Confined Langevin model: a Langevin particle in a harmonic well of unknown centre."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp

from driftbayes._jax_typing import Leaf, Scalar, TimeArray
from driftbayes._precision import as_leaf
from driftbayes.models._base import Parameter
from driftbayes.models._linear import AbstractLinearModel, Dynamics, over
from driftbayes.models._matrix_exponential import exponential_integrals


class ConfinedLangevin(AbstractLinearModel):
    r"""Langevin particles that are drawn towards a centre at an unknown position.

    $$\mathrm{d}X = U\,\mathrm{d}t, \qquad
      \mathrm{d}U = -\gamma U\,\mathrm{d}t - \gamma\lambda (X - c)\,\mathrm{d}t
      + \gamma\sqrt{2k}\,\mathrm{d}W$$

    (known as OUF in ecology). Only displacements are scored: the centre c has a flat prior, and
    every run starts in the stationary distribution, with $\operatorname{Var}(X) = k/\lambda$ around
    it and $\operatorname{Var}(U) = k\gamma$. As $\lambda \to 0$ the model becomes
    `Langevin(gamma, k)`. The long-time diffusivity is zero. After C. H. Fleming et al., Am. Nat.
    183, E154 (2014).

    The state is (X, U, $\sqrt{\gamma\lambda}\,(X - c)$), with X relative to the latest fix. Every
    fix is informative about the centre, so each step of a long regular run is predicted from all
    earlier ones.

    Args:
        gamma: Inverse decorrelation time of the velocity $\gamma > 0$ without the well, in 1/time.
        well: Rate of relaxation to the centre $\lambda > 0$, in 1/time.
        k: Diffusivity before confinement takes effect $k > 0$, in length²/time: the variance of a
            displacement is near $2k\tau$ per axis for $1/\gamma \ll \tau \ll 1/\lambda$.

    Example:
        >>> import driftbayes as db
        >>> unit = db.Exponential(1.0)
        >>> db.Hypothesis(db.ConfinedLangevin(gamma=unit, well=unit, k=unit)).names
        ('gamma', 'well', 'k')
    """

    gamma: Leaf = eqx.field(converter=as_leaf)
    well: Leaf = eqx.field(converter=as_leaf)
    k: Leaf = eqx.field(converter=as_leaf)

    name: ClassVar[str] = "confined"
    summary: ClassVar[str] = "Langevin motion in a harmonic well of unknown centre"
    parameters: ClassVar[dict[str, Parameter]] = {
        "gamma": Parameter("γ", "inverse decorrelation time of the velocity", 0, -1),
        "well": Parameter("λ", "rate of relaxation to the centre of the well", 0, -1),
        "k": Parameter("k", "diffusivity before confinement", 2, -1),
    }
    scale_parameter: ClassVar[str] = "k"
    limit: ClassVar[str] = "langevin, as well → 0"
    memory: ClassVar[int | None] = None

    @property
    def _omega(self) -> Scalar:
        """Frequency of the well: the geometric mean of the two rates."""
        return jnp.sqrt(self.gamma) * jnp.sqrt(self.well)

    def dynamics(self) -> Dynamics:
        r"""$U' = -\gamma U - \omega Y$ + noise, $Y' = \omega U$; $\omega^2 = \gamma\lambda$."""
        gamma, k, omega = jnp.asarray(self.gamma), jnp.asarray(self.k), self._omega
        return Dynamics(
            rates=jnp.array([[-gamma, -omega], [omega, 0.0]]),
            intensity=jnp.zeros((2, 2)).at[0, 0].set(2 * k * gamma**2),
            stationary=k * gamma * jnp.eye(2),
        )

    def mean_square_displacement(self, lag: TimeArray) -> TimeArray:
        r"""$2(k/\lambda)(1 - \rho(t))$ with $\rho$ the autocorrelation of the position.

        $1 - \rho$ is computed as an integral of the velocity, not as a difference, and keeps full
        precision for all $\lambda t$.
        """
        rates = self.dynamics().rates
        scale = 2 * (self.k / self.well) * self._omega

        def at(t: Scalar) -> Scalar:
            return scale * t * exponential_integrals(rates * t).once[1, 0]

        return over(at, lag)
