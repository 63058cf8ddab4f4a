"""Measurement errors of positions, and blur over the exposure."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from driftbayes._jax_typing import (
    Key,
    LagArray,
    Leaf,
    Positions,
    Scalar,
    ScalarLike,
    StateMatrices,
    StateMatrix,
    TimeArray,
)
from driftbayes._precision import as_leaf
from driftbayes.errors import DriftbayesError
from driftbayes.models._base import AbstractModel, Parameter, fact
from driftbayes.models._matrix_exponential import noise_covariance
from driftbayes.models._options._base import AbstractOption


class Noise(AbstractOption):
    r"""The model observed through fixes with independent errors.

    $$y_n = X_n + \sigma\,\eta_n, \qquad
      \operatorname{Cov}(\Delta y_0, \Delta y_l) = \operatorname{Cov}(\Delta X_0, \Delta X_l)
      + \sigma^2 (2\delta_{l0} - \delta_{l1})$$

    Errors that the data give for each position are added; a known σ for the same error would count
    it twice, of which analyses of trajectories warn. Noise and a finite γ have opposite effects on
    the autocovariance of displacements; at small tau both are hard to distinguish from a smaller
    diffusivity, which shows in the posterior widths.

    Args:
        base: The wrapped model.
        sigma: Standard deviation σ of the error of each coordinate, in length.

    Example:
        >>> import driftbayes as db
        >>> langevin = db.Langevin(gamma=db.Exponential(1), k=db.Exponential(2))
        >>> db.Noise(langevin, sigma=db.Exponential(0.1)).name
        'langevin+noise'
    """

    sigma: Leaf = eqx.field(converter=as_leaf)

    option: ClassVar[str] = "noise"
    summary: ClassVar[str] = fact(
        lambda self: f"{self.base.summary}, positions with independent errors"
    )
    own: ClassVar[dict[str, Parameter]] = {
        "sigma": Parameter("σ", "standard deviation of the error of each coordinate", 1, 0)
    }
    limit: ClassVar[str] = fact(lambda self: f"{self.base.name}, as sigma → 0")
    memory: ClassVar[int | None] = None

    def increment_autocovariance(self, lags: LagArray, tau: Scalar) -> LagArray:
        return self.base.increment_autocovariance(lags, tau) + self._error_autocovariance(lags)

    def first_autocovariances(self, n_lags: int, tau: Scalar) -> LagArray:
        errors = self._error_autocovariance(jnp.arange(n_lags, dtype=tau.dtype))
        return self.base.first_autocovariances(n_lags, tau) + errors

    def _error_autocovariance(self, lags: LagArray) -> LagArray:
        """Compute the covariance of the errors of two steps."""
        shape = jnp.where(lags == 0, 2.0, 0.0) - jnp.where(lags == 1, 1.0, 0.0)
        return self.sigma**2 * shape

    def fix_variance(self) -> ScalarLike:
        return self.base.fix_variance() + self.sigma**2

    def motion(self) -> AbstractModel:
        return self.base.motion()

    def apply(self, key: Key, positions: Positions, tau: ScalarLike) -> Positions:
        return positions + self.sigma * jax.random.normal(key, positions.shape)


def _end_clustered_nodes(n_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Make nodes and weights on (0, 1), dense at both ends, where m(t) may be a power of t.

    They are Gauss--Legendre nodes v, mapped to v⁴(35 - 84v + 70v² - 20v³).
    """
    nodes, weights = np.polynomial.legendre.leggauss(n_nodes)
    v = 0.5 * (1 + nodes)
    place = v**4 * (35 - 84 * v + 70 * v**2 - 20 * v**3)
    return place, 0.5 * weights * 140 * v**3 * (1 - v) ** 3


# For each smooth part of the triangular weight.
_NODES, _WEIGHTS = _end_clustered_nodes(20)
# Relative excess of the exposure over a step that rounding of times may cause.
_TOLERANCE = 1e-6
Matrices = StateMatrices


class Blur(AbstractOption):
    r"""The model with positions averaged over an exposure.

    $$y_n = \frac1E \int_0^E X(t_n + s)\,\mathrm{d}s, \qquad
      \tilde m(t) = \int_{-E}^{E} \frac{E - |s|}{E^2}\,
      \bigl[m(|t + s|) - m(|s|)\bigr]\,\mathrm{d}s$$

    with m and $\tilde m$ the mean square displacement without and with it. For Brownian motion
    $\tilde m = 2\kappa(t - E/3)$, and successive displacements are correlated: at lag one, blurred
    Brownian motion looks like Langevin motion.

    The exposure is at most one step, so that exposures do not overlap. A model with a state-space
    form keeps one: the state when the shutter closes is $(y, X - y, V)$, with X the position and V
    the rest of the state. While the shutter is closed the model evolves as usual; while it is open
    the integral of the position, which starts at zero, is part of the state.

    Args:
        base: The wrapped model.
        exposure: Time E over which each position is averaged.

    Example:
        >>> import driftbayes as db
        >>> langevin = db.Langevin(gamma=db.Exponential(1), k=db.Exponential(2))
        >>> db.Blur(langevin, exposure=0.1).name
        'langevin+blur'
    """

    exposure: Leaf = eqx.field(converter=as_leaf)

    option: ClassVar[str] = "blur"
    summary: ClassVar[str] = fact(
        lambda self: f"{self.base.summary}, positions averaged over the exposure"
    )
    own: ClassVar[dict[str, Parameter]] = {
        "exposure": Parameter(
            "E", "time over which each position is averaged, known", 0, 1, within_step=True
        )
    }
    limit: ClassVar[str] = fact(lambda self: f"{self.base.name}, as exposure → 0")
    observes_position: ClassVar[bool] = False
    moves_by_generator: ClassVar[bool] = False

    def check_step(self, shortest: float) -> None:
        exposure = self.exposure
        if isinstance(exposure, jax.core.Tracer) or self._fits(float(exposure), shortest):
            return
        raise DriftbayesError(
            f"the exposure, {float(exposure):g}, is longer than the shortest step, "
            f"{shortest:g}; exposures must not overlap: give an exposure of at most one step, "
            "or choose a longer tau"
        )

    def _fits(self, exposure: Any, step: Any) -> Any:
        """Return whether exposures of successive positions do not overlap."""
        return exposure <= step * (1 + _TOLERANCE)

    def increment_autocovariance(self, lags: LagArray, tau: Scalar) -> LagArray:
        r"""$\tfrac12\,[\tilde m((l+1)\tau) - 2\tilde m(l\tau) + \tilde m(|l-1|\tau)]$."""
        if self.base.has_state_space:
            transition, start = self.transition(tau), self.initial_covariance()
            return jax.vmap(lambda lag: _autocovariance_at(transition, start, lag))(lags)
        above, here, below = (self._averaged(jnp.abs(lags + i) * tau) for i in (1, 0, -1))
        return 0.5 * self._or_nan(above - 2 * here + below, tau)

    def first_autocovariances(self, n_lags: int, tau: Scalar) -> LagArray:
        if self.base.has_state_space:
            return _first_autocovariances(self.transition(tau), self.initial_covariance(), n_lags)
        spread = self._averaged(jnp.arange(n_lags + 1, dtype=tau.dtype) * tau)
        around = jnp.concatenate([spread[1:2], spread])
        return 0.5 * self._or_nan(around[2:] - 2 * around[1:-1] + around[:-2], tau)

    def transition(self, interval: Scalar) -> Matrices:
        """State (y, X - y, V) when the shutter closes, for steps of at least E."""
        whole, noise = self._while_open()
        # (X, V) from the state.
        size = whole.shape[1]
        position = jnp.eye(size, size + 1, k=1).at[0, 0].set(1.0)
        propagate, diffuse = self.base.transition(jnp.maximum(interval - self.exposure, 0.0))
        total = whole @ diffuse @ whole.T + noise
        return whole @ propagate @ position, self._or_nan(0.5 * (total + total.T), interval)

    def initial_covariance(self) -> StateMatrix:
        """Covariance after the first exposure, which starts in the stationary state."""
        whole, noise = self._while_open()
        total = whole @ self.base.initial_covariance() @ whole.T + noise
        return (0.5 * (total + total.T)).at[0].set(0.0).at[:, 0].set(0.0)

    def generator(self) -> Matrices:
        raise DriftbayesError(self._no_state_space())

    def mean_square_displacement(self, lag: TimeArray) -> TimeArray:
        return self._averaged(lag) - self._averaged(jnp.zeros_like(lag))

    def motion(self) -> AbstractModel:
        return self.base.motion()

    def simulate(
        self, key: Key, *, n_particles: int, n_steps: int, n_dim: int, tau: ScalarLike
    ) -> Positions:
        """Simulate exact mean positions over each exposure, the first at the origin."""
        if not isinstance(tau, jax.core.Tracer):
            self.check_step(float(tau))
        return AbstractModel.simulate(
            self, key, n_particles=n_particles, n_steps=n_steps, n_dim=n_dim, tau=tau
        )

    def _while_open(
        self,
    ) -> tuple[Float[Array, "state model_state"], StateMatrix]:
        """Map from (X, V) at the start of an exposure to (y, X - y, V) at its end, and noise."""
        drift, intensity = self.base.generator()
        size = len(drift) + 1
        # The first component integrates the position; the exposure is the unit of time.
        matrix = jnp.zeros((size, size)).at[0, 1].set(1.0)
        matrix = matrix.at[1:, 1:].set(drift * self.exposure)
        noise = jnp.zeros((size, size)).at[1:, 1:].set(intensity * self.exposure)
        propagate, covariance = noise_covariance(matrix, noise, n_integrals=2)
        relative = jnp.eye(size).at[1, 0].set(-1.0)
        return relative @ propagate[:, 1:], relative @ covariance @ relative.T

    def _or_nan(self, values: Array, step: Scalar) -> Array:
        """Return NaN, for no density, where exposures overlap."""
        return jnp.where(self._fits(self.exposure, step), values, jnp.nan)

    def _averaged(self, lag: TimeArray) -> TimeArray:
        """Average m(|t + s|) with the triangular weight of s."""
        exposure, flat = self.exposure, lag.reshape(1, -1)
        # The weight has a kink at 0 and m(|t + s|) one at -t; each part between is smooth.
        turn = -jnp.minimum(flat, exposure)
        total = jnp.zeros_like(flat[0])
        for low, high in ((-exposure, turn), (turn, 0.0), (0.0, exposure)):
            width = (high - low) * jnp.ones_like(flat)
            s = low + width * _NODES[:, None]
            value = self.base.mean_square_displacement(jnp.abs(flat + s))
            weight = _WEIGHTS[:, None] * width * (exposure - jnp.abs(s))
            total = total + jnp.sum(weight * value, axis=0)
        return total.reshape(lag.shape) / exposure**2


def _first_step(transition: Matrices, start: Array) -> tuple[Array, Array, Array]:
    """Variance of a step, its covariance with the state after it, and the propagator of that."""
    propagate, diffuse = transition
    covariance = propagate @ start @ propagate.T + diffuse
    # Only the state relative to the fix affects later steps.
    return covariance[0, 0], covariance[1:, 0], propagate[:, 1:]


def _first_autocovariances(transition: Matrices, start: Array, n_lags: int) -> LagArray:
    """Autocovariance of the steps of a state-space form at lags 0, 1, 2, ..."""
    variance, reach, propagate = _first_step(transition, start)

    def later(reach: Array, _: None) -> tuple[Array, Scalar]:
        moved = propagate @ reach
        return moved[1:], moved[0]

    _, apart = jax.lax.scan(later, reach, None, length=n_lags - 1)
    return jnp.concatenate([variance[None], apart])


def _autocovariance_at(transition: Matrices, start: Array, lag: Scalar) -> Scalar:
    """Autocovariance of the steps of a state-space form at one integer lag."""
    variance, reach, propagate = _first_step(transition, start)
    between = jnp.maximum(lag - 1, 0.0).astype(int)

    def double(carry: tuple[Array, Array], bit: Array) -> tuple[tuple[Array, Array], None]:
        power, reach = carry
        reach = jnp.where((between >> bit) & 1, power @ reach, reach)
        return (power @ power, reach), None

    (_, reach), _ = jax.lax.scan(double, (propagate[1:], reach), jnp.arange(31))
    return jnp.where(lag == 0, variance, propagate[0] @ reach)
