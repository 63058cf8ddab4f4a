"""Matérn model: a velocity spectrum flat at low frequencies, a power law at high ones."""

from math import log, pi
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import gammaln
from jaxtyping import Array, Float

from driftbayes._jax_typing import LagArray, Leaf, Scalar, TimeArray
from driftbayes._precision import as_leaf
from driftbayes.models._base import AbstractModel, Parameter
from driftbayes.models._gaussian_mixture import gaussian_spread, gaussian_step_covariance
from driftbayes.models._linear import over
from driftbayes.models._matern_steps import matern_first_covariances

# Nodes of the mixture, and minus the logarithm of the weight at which it is truncated.
_N_NODES = 320
_CUT = 40.0


class MaternVelocity(AbstractModel):
    r"""Particles whose velocity has a spectrum $\propto (\omega^2 + \lambda^2)^{-\nu - 1/2}$.

    $$r(t) = k\gamma\,\frac{2^{1-\nu}}{\Gamma(\nu)}\,(\lambda|t|)^\nu K_\nu(\lambda|t|), \qquad
      \lambda = \gamma\sqrt\pi\,\frac{\Gamma(\nu + \frac12)}{\Gamma(\nu)}$$

    The smoothness $\nu$ sets how steep the spectrum is, $\omega^{-2\alpha}$ with $\alpha = \nu +
    \frac12$; $1/\gamma$ is the integral time of the velocity and $k\gamma$ its variance, for any
    $\nu$. At $\nu = 1/2$ ($\alpha = 1$) the model is `Langevin(gamma, k)`; at $\nu = 3/2$ it is
    `SecondOrderLangevin(gamma, 4 gamma, k)`. After J. M. Lilly et al., Nonlin. Processes Geophys.
    24, 481 (2017).

    It is computed as a mixture of Gaussian shapes,

    $$r(t) = \frac{k\gamma}{\Gamma(\nu)} \int_0^\infty s^{\nu-1} e^{-s}\,
      e^{-\lambda^2 t^2 / 4s}\,\mathrm{d}s,$$

    by the trapezoid rule over $\ln s$, which converges exponentially. Likelihoods of regular data
    use tabulated shapes (`_matern_steps.py`). There is no state-space form. Each step of a long
    regular run is predicted from all earlier ones.

    Args:
        gamma: Inverse integral time of the velocity $\gamma > 0$, in 1/time.
        smoothness: $\nu > 0$: below 1/2 rougher than Langevin, above it smoother; a velocity with
            an acceleration has $\nu > 1$.
        k: Long-time diffusivity $k > 0$, in length²/time: the variance of a displacement tends to
            $2k\tau$ per axis.

    Example:
        >>> import driftbayes as db
        >>> unit = db.Exponential(1.0)
        >>> db.Hypothesis(db.MaternVelocity(gamma=unit, smoothness=1.5, k=unit)).names
        ('gamma', 'k')
    """

    gamma: Leaf = eqx.field(converter=as_leaf)
    smoothness: Leaf = eqx.field(converter=as_leaf)
    k: Leaf = eqx.field(converter=as_leaf)

    name: ClassVar[str] = "matern"
    summary: ClassVar[str] = "velocity spectrum of any slope, by a Matérn autocovariance"
    parameters: ClassVar[dict[str, Parameter]] = {
        "gamma": Parameter("γ", "inverse integral time of the velocity", 0, -1),
        "smoothness": Parameter("ν", "smoothness: the velocity spectrum falls as ω^(-2ν-1)", 0, 0),
        "k": Parameter("k", "long-time diffusivity, Var(Δx_i) → 2kτ per axis", 2, -1),
    }
    scale_parameter: ClassVar[str] = "k"
    diffusivity: ClassVar[str | None] = "k"
    limit: ClassVar[str] = "langevin, at smoothness = 1/2"
    has_state_space: ClassVar[bool] = False
    has_many_nodes: ClassVar[bool] = True
    memory: ClassVar[int | None] = None

    def increment_autocovariance(self, lags: LagArray, tau: Scalar) -> LagArray:
        """Mixture over Gaussian shapes."""
        weights, z = self._mixture(tau)
        apart = gaussian_step_covariance(jnp.maximum(lags, 1.0)[:, None], z[None, :])
        variance = jnp.sum(weights * gaussian_spread(z))
        return self.k * self.gamma * tau**2 * jnp.where(lags == 0, variance, apart @ weights)

    def first_autocovariances(self, n_lags: int, tau: Scalar) -> LagArray:
        """Mixture of tabulated Gaussian shapes."""
        nu, x = jnp.asarray(self.smoothness), self.gamma * tau
        return self.k * x * tau * matern_first_covariances(nu, x, n_lags)

    def mean_square_displacement(self, lag: TimeArray) -> TimeArray:
        """Mixture over Gaussian shapes."""

        def at(t: Scalar) -> Scalar:
            weights, z = self._mixture(t)
            return self.k * self.gamma * t**2 * jnp.sum(weights * gaussian_spread(z))

        return over(at, lag)

    def lvaf(self, lag: TimeArray) -> TimeArray:
        r"""$k\gamma$ at lag 0, falling as $t^{2\nu}$ if $\nu < 1$ and $t^2$ if $\nu > 1$."""

        def at(t: Scalar) -> Scalar:
            weights, z = self._mixture(t)
            correlation = jnp.sum(weights * jnp.exp(-(z**2)))
            return self.k * self.gamma * jnp.where(t > 0, correlation, 1.0)

        return over(at, jnp.abs(lag))

    def _mixture(self, t: Scalar) -> tuple[Float[Array, " node"], Float[Array, " node"]]:
        """Weights of the Gaussian shapes, and t in units of the width of each."""
        nu = jnp.asarray(self.smoothness)
        log_ratio = gammaln(nu + 0.5) - gammaln(nu)
        x = self.gamma * jnp.exp(log_ratio + 0.5 * log(pi)) * t
        # Towards small s the integrand falls as s^nu, and below x² at least as s^(nu + 1/2);
        # towards large s it falls as e^-s. Derivatives treat the nodes as constants, since moving
        # them would only add rounding.
        fixed, near = jax.lax.stop_gradient((nu, x))
        near = jnp.log(jnp.clip(near, 1e-12, 1.0))
        low = (near - _CUT) / (fixed + 0.5)
        high = jnp.log(fixed + _CUT + 9 * jnp.sqrt(fixed))
        spacing = (high - low) / (_N_NODES - 1)
        log_s = low + spacing * jnp.arange(float(_N_NODES))
        weights = spacing * jnp.exp(nu * log_s - jnp.exp(log_s) - gammaln(nu))
        return weights, 0.5 * x * jnp.exp(-0.5 * log_s)
