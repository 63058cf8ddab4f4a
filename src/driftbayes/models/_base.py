"""What every model promises, and what follows from it."""

__all__ = ["AbstractModel", "Data", "Parameter", "prepare"]

from abc import abstractmethod
from dataclasses import dataclass
from math import inf
from typing import ClassVar, Literal, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from driftbayes.errors import DriftbayesError
from driftbayes.jax_typing import Key, Scalar, ScalarLike
from driftbayes.likelihood import (
    GaussianTerms,
    PaddedSteps,
    ReducedDisplacements,
    SecondMoments,
    dense_terms,
    durbin_levinson,
    kalman_terms,
    moments_terms,
    second_moments,
)
from driftbayes.likelihood.moments import MEMORY
from driftbayes.sampling import Displacements

Engine = Literal["auto", "moments", "kalman", "dense"]
Data: TypeAlias = SecondMoments | PaddedSteps | Displacements

# Below this a conditional variance, relative to the unconditional one, is taken as zero.
_SPENT = 1e-13


@dataclass(frozen=True)
class Parameter:
    """What a parameter is: symbol, meaning, and the powers of length and time in its unit."""

    symbol: str
    meaning: str
    length_power: int
    time_power: int
    # All are positive; some, such as shares of a whole, have to stay below a bound.
    upper: float = inf

    def unit(self, length: str = "", time: str = "") -> str:
        """The unit in words, for example m²/s."""
        powers = ((length or "length", self.length_power), (time or "time", self.time_power))
        above = [_power(name, power) for name, power in powers if power > 0]
        below = [_power(name, -power) for name, power in powers if power < 0]
        top, bottom = "·".join(above) or "1", "·".join(below)
        if len(below) > 1:
            bottom = f"({bottom})"
        return f"{top}/{bottom}" if below else top


def _power(unit: str, power: int) -> str:
    return unit + {1: "", 2: "²", 3: "³"}.get(power, f"^{power}")


class AbstractModel(eqx.Module):
    r"""A zero-mean Gaussian model of particle motion with stationary increments.

    Its fields are the parameters θ. Axes and particles are independent and alike. Of a model that
    disperses as a diffusion, $\operatorname{Var}(\Delta X_i) \to 2 \kappa \tau$ per axis as
    $\tau \to \infty$.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    parameters: ClassVar[dict[str, Parameter]]
    # The parameter that multiplies every covariance, so that it can be integrated out exactly.
    scale_parameter: ClassVar[str]
    limit: ClassVar[str]
    # Whether `transition` and `initial_covariance` exist. Without them irregular times take the
    # dense engine.
    has_state_space: ClassVar[bool] = True
    # From how many earlier steps the next one is predicted in long regular runs; None: from all.
    memory: ClassVar[int | None] = MEMORY

    @abstractmethod
    def increment_autocovariance(
        self, lags: Float[Array, " lag"], tau: Scalar
    ) -> Float[Array, " lag"]:
        """Covariance, per axis, of two displacements over tau that start `lags` steps apart."""

    def transition(
        self, interval: Scalar
    ) -> tuple[Float[Array, "state state"], Float[Array, "state state"]]:
        """State-space form, per axis, position first: propagator A and noise covariance Q."""
        raise DriftbayesError(self._no_state_space())

    def initial_covariance(self) -> Float[Array, "state state"]:
        """Stationary covariance of the state, given the position."""
        raise DriftbayesError(self._no_state_space())

    def _no_state_space(self) -> str:
        return (
            f"the model {self.name!r} has no state-space form; use engine='moments' for regular "
            "exact data, engine='dense' for the rest"
        )

    @abstractmethod
    def mean_square_displacement(self, lag: Float[Array, "..."]) -> Float[Array, "..."]:
        """Mean square displacement per axis after a time `lag`."""

    @abstractmethod
    def lvaf(self, lag: Float[Array, "..."]) -> Float[Array, "..."]:
        """Lagrangian velocity autocovariance r(lag) per axis. Paper: [eq:lvaf]."""

    def absolute_diffusivity(self, lag: Float[Array, "..."]) -> Float[Array, "..."]:
        r"""$\langle \Delta X^2 \rangle / (2t)$ per axis. Paper: [eq:absolute-diffusivity]."""
        return self.mean_square_displacement(lag) / (2 * lag)

    def terms(self, data: Data, noise_variance: ScalarLike = 0.0) -> GaussianTerms:
        """Count, log-determinant and quadratic form of the data's density under this model.

        The type of the data chooses the engine; see `prepare`.
        """
        if isinstance(data, SecondMoments):
            tau = jnp.asarray(data.tau)
            lags = jnp.arange(data.forms.shape[-1], dtype=tau.dtype)
            return moments_terms(self.increment_autocovariance(lags, tau), data)
        if isinstance(data, PaddedSteps):
            return kalman_terms(self.transition, self.initial_covariance(), data, noise_variance)
        return dense_terms(self.mean_square_displacement, data, noise_variance)

    def log_likelihood(
        self, data: Data, *, engine: Engine = "auto", noise_sd: ScalarLike | None = None
    ) -> Scalar:
        r"""$\ln p(\Delta\mathcal{X}_\tau \mid \theta)$ with its full constant.

        Args:
            data: Displacements, or what an engine made of them.
            engine: Which engine to use; "auto" takes the fastest that applies.
            noise_sd: Standard deviation of the measurement error of every position.
        """
        if isinstance(data, Displacements):
            if engine == "auto" and (noise_sd is not None or not data.is_regular):
                engine = "kalman" if self.has_state_space else "dense"
            data = prepare(data, engine=engine, memory=self.memory)
        if noise_sd is not None and isinstance(data, SecondMoments):
            other = "kalman" if self.has_state_space else "dense"
            msg = f"measurement noise needs the state-space engine: pass engine={other!r}"
            raise DriftbayesError(msg)
        noise_variance = jnp.zeros(()) if noise_sd is None else jnp.asarray(noise_sd) ** 2
        if isinstance(data, Displacements):
            return self.terms(data, noise_variance).log_likelihood()
        return _log_likelihood(self, data, noise_variance)

    def simulate(
        self, key: Key, *, n_particles: int, n_steps: int, n_dim: int, tau: ScalarLike
    ) -> Float[Array, "particle position dim"]:
        """Exact positions at times 0, tau, 2 tau, ..., from a stationary start at the origin.

        A first-order vector autoregression, or without a state-space form one of as high an order
        as there are steps: no time-stepping error at any tau.
        """
        if not self.has_state_space:
            lags = jnp.arange(float(n_steps))
            autocovariance = self.increment_autocovariance(lags, as_parameter(tau))
            kicks = jax.random.normal(key, (n_steps, n_particles, n_dim))
            return jnp.moveaxis(_colour(autocovariance, kicks), 0, 1)
        propagate, diffuse = self.transition(as_parameter(tau))
        noise = _factor(diffuse)
        initial = _factor(self.initial_covariance())
        n_state = propagate.shape[0]
        key_start, key_steps = jax.random.split(key)
        shape = (n_particles, n_dim, n_state)
        state = jax.random.normal(key_start, shape) @ initial.T
        kicks = jax.random.normal(key_steps, (n_steps, *shape))
        positions = _walk(state, kicks, propagate, noise)
        return jnp.moveaxis(positions, 0, 1)


def prepare(
    data: Displacements | ReducedDisplacements,
    *,
    engine: Engine = "auto",
    memory: int | None = MEMORY,
) -> Data:
    """What the chosen engine needs to know of the data, computed once.

    Args:
        data: Displacements at one tau.
        engine: "moments" for regular exact data, "kalman" for gaps, irregular times or measurement
            error, "dense" for the slow reference; "auto" takes the first that applies.
        memory: For "moments": from how many steps, less one, the next is predicted; None: all.
    """
    if not jax.config.read("jax_enable_x64"):
        msg = (
            "evidence needs double precision, which JAX has switched off: call "
            'jax.config.update("jax_enable_x64", True) first, or set JAX_ENABLE_X64=1'
        )
        raise DriftbayesError(msg)
    if isinstance(data, ReducedDisplacements):
        if engine not in ("auto", "moments"):
            msg = f"of reduced displacements only the second moments are left, not for {engine!r}"
            raise DriftbayesError(msg)
        return data.second_moments()
    if engine == "auto":
        engine = "moments" if data.is_regular else "kalman"
    if engine == "moments":
        return second_moments(data, int(data.row_sizes.max()) if memory is None else memory)
    if engine == "kalman":
        return PaddedSteps.from_displacements(data)
    if engine == "dense":
        return data
    msg = f"engine must be 'auto', 'moments', 'kalman' or 'dense', got {engine!r}"
    raise DriftbayesError(msg)


# Compiled once per shape: left to itself, JAX compiles a loop anew at every call.
@eqx.filter_jit
def _walk(
    state: Float[Array, "particle dim state"],
    kicks: Float[Array, "step particle dim state"],
    propagate: Float[Array, "state state"],
    noise: Float[Array, "state state"],
) -> Float[Array, "position particle dim"]:
    def step(state: Array, kick: Array) -> tuple[Array, Array]:
        state = state @ propagate.T + kick @ noise.T
        return state, state[..., 0]

    _, positions = jax.lax.scan(step, state, kicks)
    return jnp.concatenate([state[None, ..., 0], positions])


@eqx.filter_jit
def _colour(
    autocovariance: Float[Array, " step"], kicks: Float[Array, "step particle dim"]
) -> Float[Array, "position particle dim"]:
    """Positions whose steps have that autocovariance: each its prediction and an innovation."""
    filters = durbin_levinson(autocovariance)
    innovations = jnp.sqrt(filters.variances)[:, None] * kicks.reshape(len(kicks), -1)
    steps = solve_triangular(filters.forward, innovations, lower=True, unit_diagonal=True)
    positions = jnp.cumsum(steps.reshape(kicks.shape), axis=0)
    return jnp.concatenate([jnp.zeros_like(positions[:1]), positions])


@eqx.filter_jit
def _log_likelihood(model: AbstractModel, data: Data, noise_variance: Scalar) -> Scalar:
    return model.terms(data, noise_variance).log_likelihood()


def _factor(cov: Float[Array, "state state"]) -> Float[Array, "state state"]:
    """A square root of a covariance that may have zero rows (a position known exactly)."""
    sd = jnp.sqrt(jnp.diag(cov))
    inverse = jnp.where(sd > 0, 1 / jnp.where(sd > 0, sd, 1.0), 0.0)
    correlation = cov * jnp.outer(inverse, inverse)
    # Unit diagonal for the zero rows too; scaling back makes them zero again.
    correlation = correlation + jnp.diag(jnp.where(sd > 0, 0.0, 1.0))
    return sd[:, None] * _semidefinite_cholesky(correlation)


def _semidefinite_cholesky(
    correlation: Float[Array, "state state"],
) -> Float[Array, "state state"]:
    """A Cholesky factor of a correlation matrix that may be singular: a column is then zero."""
    factor = jnp.zeros_like(correlation)
    for column in range(len(correlation)):
        left = correlation[:, column] - factor @ factor[column]
        # What is left of the variance is rounding: this component follows from those before it.
        spent = left[column] < _SPENT
        pivot = jnp.sqrt(jnp.where(spent, 1.0, left[column]))
        below = jnp.arange(len(correlation)) >= column
        factor = factor.at[:, column].set(jnp.where(below & ~spent, left / pivot, 0.0))
    return factor


def as_parameter(value: ScalarLike) -> Array:
    """A model field from a number: float64 where it is enabled, tracers untouched."""
    return jnp.asarray(value, dtype=None if isinstance(value, jax.Array) else np.float64)
