"""Fractional Brownian motion: spread as a power of time, with memory at all lags."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp

from driftbayes._jax_typing import LagArray, Leaf, Scalar, TimeArray
from driftbayes._precision import as_leaf
from driftbayes.models._base import AbstractModel, Parameter


class FractionalBrownian(AbstractModel):
    r"""Particles with anomalous diffusion: their variance grows as a power of time.

    $$\langle X(t)^2 \rangle = 2\kappa T \left( \frac{t}{T} \right)^{2H}$$

    per axis: subdiffusion for $H < 1/2$, superdiffusion for $H > 1/2$. At $H = 1/2$ the model is
    `Brownian(kappa)` for any T. There is no long-time diffusivity: $\kappa$ is the absolute
    diffusivity at the time T. T is a choice of unit, not to be inferred: fix it, for example at
    tau. There is no state-space form. Memory decays as a power of time, so each step of a long
    regular run is predicted from all earlier ones.

    Args:
        hurst: Hurst exponent, $0 < H < 1$.
        kappa: Absolute diffusivity at the reference time $\kappa > 0$, in length²/time.
        reference: Reference time $T > 0$.

    Example:
        >>> import driftbayes as db
        >>> hurst, kappa = db.Uniform(0, 1), db.Exponential(1.0)
        >>> model = db.FractionalBrownian(hurst=hurst, kappa=kappa, reference=1.0)
        >>> db.Hypothesis(model).fixed
        {'reference': 1.0}
    """

    hurst: Leaf = eqx.field(converter=as_leaf)
    kappa: Leaf = eqx.field(converter=as_leaf)
    reference: Leaf = eqx.field(converter=as_leaf)

    name: ClassVar[str] = "fractional"
    summary: ClassVar[str] = "fractional Brownian motion, spreading as a power of time"
    parameters: ClassVar[dict[str, Parameter]] = {
        "hurst": Parameter("H", "Hurst exponent, Var(Δx_i) ∝ τ^(2H), below 1", 0, 0, upper=1.0),
        "kappa": Parameter("κ", "absolute diffusivity at the reference time", 2, -1),
        "reference": Parameter("T", "reference time, to be held fixed", 0, 1),
    }
    scale_parameter: ClassVar[str] = "kappa"
    limit: ClassVar[str] = "brownian, at hurst = 1/2"
    has_state_space: ClassVar[bool] = False
    memory: ClassVar[int | None] = None

    def increment_autocovariance(self, lags: LagArray, tau: Scalar) -> LagArray:
        r"""$\kappa T (\tau/T)^{2H} \left[ (l+1)^{2H} - 2 l^{2H} + |l-1|^{2H} \right]$."""
        unit = 0.5 * self.mean_square_displacement(tau)
        above, here, below = (self._power(x) for x in (lags + 1, lags, jnp.abs(lags - 1)))
        return unit * (above - 2 * here + below)

    def mean_square_displacement(self, lag: TimeArray) -> TimeArray:
        r"""$2\kappa T (t/T)^{2H}$."""
        return 2 * self.kappa * self.reference * self._power(lag / self.reference)

    def lvaf(self, lag: TimeArray) -> TimeArray:
        r"""$2\kappa H (2H - 1)\,T^{1-2H} |t|^{2H-2}$, and infinite at lag 0."""
        after = jnp.abs(lag)
        safe = jnp.where(after > 0, after, 1.0)
        # m'' / 2 from the mean square displacement m, which does not overflow for any T.
        spread = self.mean_square_displacement(safe) / safe**2
        return jnp.where(after > 0, self.hurst * (2 * self.hurst - 1) * spread, jnp.inf)

    def _power(self, x: TimeArray) -> TimeArray:
        """Compute x to the power 2H, with a finite gradient at 0."""
        safe = jnp.where(x > 0, x, 1.0)
        return jnp.where(x > 0, safe ** (2 * self.hurst), 0.0)
