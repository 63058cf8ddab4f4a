"""Brownian model: positions diffuse, velocities are white noise."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp

from driftbayes._jax_typing import LagArray, Leaf, Scalar, StateMatrices, StateMatrix, TimeArray
from driftbayes._precision import as_leaf
from driftbayes.models._base import AbstractModel, Parameter


class AbstractIndependent(AbstractModel):
    """A model with independent steps and a diffusivity."""

    kappa: Leaf = eqx.field(converter=as_leaf)

    def increment_autocovariance(self, lags: LagArray, tau: Scalar) -> LagArray:
        r"""$2\kappa\tau$ at lag 0, otherwise 0."""
        return jnp.where(lags == 0, 2 * self.kappa * tau, 0.0)

    def mean_square_displacement(self, lag: TimeArray) -> TimeArray:
        r"""$2\kappa t$."""
        return 2 * self.kappa * lag

    def lvaf(self, lag: TimeArray) -> TimeArray:
        r"""A delta function: zero at every lag but 0, where it is infinite."""
        return jnp.where(lag == 0, jnp.inf, 0.0)


class Brownian(AbstractIndependent):
    r"""Particles whose displacements are independent.

    $$\mathrm{d}X = \sqrt{2\kappa}\,\mathrm{d}W, \qquad \Delta X \sim N(0, 2\kappa\tau)$$

    Paper: [eq:brownian], [eq:brownian-likelihood].

    Args:
        kappa: Diffusivity $\kappa > 0$, in length²/time: the variance of a displacement is
            $2\kappa\tau$ per axis.

    Example:
        >>> import driftbayes as db
        >>> model = db.Brownian(kappa=db.Exponential(mean=2.0))
        >>> db.Hypothesis(model).names
        ('kappa',)
    """

    name: ClassVar[str] = "brownian"
    summary: ClassVar[str] = "independent displacements, white-noise velocity"
    parameters: ClassVar[dict[str, Parameter]] = {
        "kappa": Parameter("κ", "diffusivity, Var(Δx_i) = 2κτ per axis", 2, -1)
    }
    moves_by_generator: ClassVar[bool] = True
    scale_parameter: ClassVar[str] = "kappa"
    diffusivity: ClassVar[str | None] = "kappa"
    limit: ClassVar[str] = "the simplest model"

    def transition(self, interval: Scalar) -> StateMatrices:
        r"""$A = 1$, $Q = 2\kappa\,\Delta t$."""
        return jnp.ones((1, 1)), (2 * self.kappa * interval)[None, None]

    def generator(self) -> StateMatrices:
        r"""$F = 0$, $D = 2\kappa$."""
        return jnp.zeros((1, 1)), 2 * jnp.asarray(self.kappa)[None, None]

    def initial_covariance(self) -> StateMatrix:
        """Zero: the position is the whole state."""
        return jnp.zeros((1, 1))
