"""Confined Brownian model: diffusion in a harmonic well of unknown centre."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp

from driftbayes._jax_typing import LagArray, Leaf, Scalar, StateMatrices, StateMatrix, TimeArray
from driftbayes._precision import as_leaf
from driftbayes.models._base import AbstractModel, Parameter
from driftbayes.models.special import varphi


class ConfinedBrownian(AbstractModel):
    r"""Diffusing particles, each drawn towards its own centre at an unknown position.

    $$\mathrm{d}X = -\lambda (X - c)\,\mathrm{d}t + \sqrt{2\kappa}\,\mathrm{d}W$$

    Only displacements are scored: the centre c has a flat prior, and every run starts in
    the stationary distribution, of variance $\kappa/\lambda$, around it. As $\lambda \to 0$ the
    model becomes `Brownian(kappa)`. The long-time diffusivity is zero.

    Every fix is informative about the centre, so each step of a long regular run is predicted from
    all earlier ones.

    Args:
        well: Rate of relaxation to the centre $\lambda > 0$, in 1/time.
        kappa: Diffusivity before confinement takes effect $\kappa > 0$, in length²/time: the
            variance of a displacement is $2\kappa\tau$ per axis for small $\lambda\tau$.

    Example:
        >>> import driftbayes as db
        >>> unit = db.Exponential(1.0)
        >>> db.Hypothesis(db.ConfinedBrownian(well=unit, kappa=unit)).names
        ('well', 'kappa')
    """

    well: Leaf = eqx.field(converter=as_leaf)
    kappa: Leaf = eqx.field(converter=as_leaf)

    name: ClassVar[str] = "confined_brownian"
    summary: ClassVar[str] = "Brownian motion in a harmonic well of unknown centre"
    parameters: ClassVar[dict[str, Parameter]] = {
        "well": Parameter("λ", "rate of relaxation to the centre of the well", 0, -1),
        "kappa": Parameter("κ", "diffusivity before confinement, Var(Δx_i) ≈ 2κτ", 2, -1),
    }
    moves_by_generator: ClassVar[bool] = True
    scale_parameter: ClassVar[str] = "kappa"
    limit: ClassVar[str] = "brownian, as well → 0"
    memory: ClassVar[int | None] = None

    def increment_autocovariance(self, lags: LagArray, tau: Scalar) -> LagArray:
        r"""$2\kappa\tau\varphi(x)$, then $-\kappa\tau x \varphi(x)^2 e^{-(l-1)x}$; x = λτ."""
        x = self.well * tau
        variance = 2 * self.kappa * tau * varphi(x)
        decay = jnp.exp(-x * jnp.maximum(lags - 1, 0))
        return jnp.where(lags == 0, variance, -self.kappa * tau * x * varphi(x) ** 2 * decay)

    def transition(self, interval: Scalar) -> StateMatrices:
        r"""State (X, X - c), with X relative to the latest fix."""
        x = self.well * interval
        propagator = jnp.eye(2).at[0, 1].set(jnp.expm1(-x)).at[1, 1].set(jnp.exp(-x))
        # Both components change by the same amount: the noise has rank one.
        noise = 2 * self.kappa * interval * varphi(2 * x)
        return propagator, noise * jnp.ones((2, 2))

    def generator(self) -> StateMatrices:
        r"""Drift $-\lambda(X - c)$ and the same noise for both components."""
        drift = jnp.zeros((2, 2)).at[:, 1].set(-self.well)
        return drift, 2 * self.kappa * jnp.ones((2, 2))

    def initial_covariance(self) -> StateMatrix:
        r"""Variance $\kappa/\lambda$ about the centre."""
        return jnp.zeros((2, 2)).at[1, 1].set(self.kappa / self.well)

    def mean_square_displacement(self, lag: TimeArray) -> TimeArray:
        r"""$2(\kappa/\lambda)(1 - e^{-\lambda t})$."""
        return 2 * self.kappa * lag * varphi(self.well * lag)

    def lvaf(self, lag: TimeArray) -> TimeArray:
        r"""$-\kappa\lambda e^{-\lambda|t|}$, and a delta function at lag 0."""
        after = -self.kappa * self.well * jnp.exp(-self.well * jnp.abs(lag))
        return jnp.where(lag == 0, jnp.inf, after)
