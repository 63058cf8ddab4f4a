"""Langevin model: Ornstein--Uhlenbeck velocity, integrated to a position."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp

from driftbayes._jax_typing import LagArray, Leaf, Scalar, StateMatrices, StateMatrix, TimeArray
from driftbayes._precision import as_leaf
from driftbayes.models._base import AbstractModel, Parameter
from driftbayes.models.special import varphi, varphi_complement, varphi_curvature


class Langevin(AbstractModel):
    r"""Particles whose velocity decorrelates over a time $1/\gamma$.

    $$\mathrm{d}X = U\,\mathrm{d}t, \qquad
      \mathrm{d}U = -\gamma U\,\mathrm{d}t + \gamma\sqrt{2k}\,\mathrm{d}W$$

    Paper: [eq:langevin], [eq:langevin-likelihood]. As $\gamma \to \infty$ it becomes
    `Brownian(kappa=k)` [eq:diffusive-limit].

    Args:
        gamma: Inverse decorrelation time $\gamma > 0$, in 1/time.
        k: Long-time diffusivity $k > 0$, in length²/time: the variance of a displacement tends to
            $2k\tau$ per axis.

    Example:
        >>> import driftbayes as db
        >>> model = db.Langevin(gamma=db.Exponential(1), k=db.Exponential(2))
        >>> db.Hypothesis(model).names
        ('gamma', 'k')
    """

    gamma: Leaf = eqx.field(converter=as_leaf)
    k: Leaf = eqx.field(converter=as_leaf)

    name: ClassVar[str] = "langevin"
    summary: ClassVar[str] = "Ornstein-Uhlenbeck velocity that decorrelates over 1/gamma"
    parameters: ClassVar[dict[str, Parameter]] = {
        "gamma": Parameter("γ", "inverse decorrelation time of the velocity", 0, -1),
        "k": Parameter("k", "long-time diffusivity, Var(Δx_i) → 2kτ per axis", 2, -1),
    }
    moves_by_generator: ClassVar[bool] = True
    scale_parameter: ClassVar[str] = "k"
    diffusivity: ClassVar[str | None] = "k"
    limit: ClassVar[str] = "brownian, as gamma·tau → ∞"

    def increment_autocovariance(self, lags: LagArray, tau: Scalar) -> LagArray:
        """First row of the Toeplitz matrix S. Paper: [eq:langevin-cov]."""
        x = self.gamma * tau
        variance = 2 * self.k * tau * varphi_complement(x)
        # Clipped: exp(+x) at lag 0 would overflow, and a NaN in the branch that `where` discards
        # still makes its gradient NaN.
        decay = jnp.exp(-x * jnp.maximum(lags - 1, 0))
        covariance = self.k * x * tau * varphi(x) ** 2 * decay
        return jnp.where(lags == 0, variance, covariance)

    def transition(self, interval: Scalar) -> StateMatrices:
        """State (X, U). Paper: [eq:var1], [eq:var1-noise]."""
        x = self.gamma * interval
        propagator = jnp.array([[1.0, interval * varphi(x)], [0.0, jnp.exp(-x)]])
        position = 2 * self.k * interval * varphi_curvature(x)
        cross = self.k * jnp.expm1(-x) ** 2
        velocity = -self.k * self.gamma * jnp.expm1(-2 * x)
        return propagator, jnp.array([[position, cross], [cross, velocity]])

    def generator(self) -> StateMatrices:
        r"""$\mathrm{d}X = U\,\mathrm{d}t$; U has the rate γ and the intensity $2k\gamma^2$."""
        drift = jnp.zeros((2, 2)).at[0, 1].set(1.0).at[1, 1].set(-self.gamma)
        return drift, jnp.zeros((2, 2)).at[1, 1].set(2 * self.k * self.gamma**2)

    def initial_covariance(self) -> StateMatrix:
        r"""Variance $k\gamma$ of the velocity. Paper: [eq:stationary-variance]."""
        return jnp.zeros((2, 2)).at[1, 1].set(self.k * self.gamma)

    def mean_square_displacement(self, lag: TimeArray) -> TimeArray:
        r"""$2kt\,(1 - \varphi(\gamma t))$. Paper: [eq:absolute-diffusivity-ou]."""
        return 2 * self.k * lag * varphi_complement(self.gamma * lag)

    def lvaf(self, lag: TimeArray) -> TimeArray:
        r"""$k\gamma\,e^{-\gamma|t|}$. Paper: [eq:lvaf-ou]."""
        return self.k * self.gamma * jnp.exp(-self.gamma * jnp.abs(lag))
