"""What every model promises, and what follows from it."""

__all__ = ["AbstractModel", "Parameter", "as_template", "fact"]

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cache
from math import inf
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from driftbayes.data.sampling import Displacements
from driftbayes.errors import DriftbayesError
from driftbayes.jax_typing import Key, Scalar, ScalarLike
from driftbayes.likelihood import (
    ChannelMoments,
    ChannelSteps,
    ChannelTerms,
    Collected,
    GaussianTerms,
    PaddedSteps,
    SecondMoments,
    TrajectoryPieces,
    channel_moments_terms,
    channel_steps_terms,
    dense_innovations,
    dense_terms,
    innovation_terms,
    kalman_innovations,
    moments_terms,
    toeplitz_displacements,
    trajectory_terms,
)
from driftbayes.likelihood.kalman import Transition
from driftbayes.likelihood.moments import MEMORY
from driftbayes.likelihood.sums import SlotForms
from driftbayes.models._prepare import (
    Data,
    EngineName,
    Kind,
    Needs,
    check_double,
    judged_together,
    prepare,
)
from driftbayes.precision import in_double_precision
from driftbayes.representation import number
from driftbayes.typing import FloatArray

# Data of which the axes are kept apart.
Channels = ChannelMoments | ChannelSteps | Collected
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
    # Whether it is a time that cannot exceed the sampling time.
    within_step: bool = False
    # Whether it is no property of the motion but the width of a prior that was integrated out.
    is_prior_scale: bool = False
    # Whether it is a distance between places, and says nothing of the size of steps.
    is_distance: bool = False

    def of(self, component: str) -> "Parameter":
        """The same parameter, of one component of a sum."""
        return replace(
            self, symbol=f"{self.symbol}_{component}", meaning=f"{self.meaning}, of {component}"
        )

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


def fact(of: Callable[[Any], Any]) -> Any:
    """A fact of a model that wraps others, which follows from these."""
    return property(of)


class AbstractModel(eqx.Module):
    r"""A model of particle motion with stationary increments.

    Its fields are the parameters θ: numbers; or priors, of a hypothesis; or their names, of the
    template that stands for the family, and gives `template(**values)`. A plain model is Gaussian
    of zero mean, its axes and particles independent and alike; options and populations, which wrap
    others, change that. As $\tau \to \infty$ a model that disperses has
    $\operatorname{Var}(\Delta X_i) = 2 \kappa \tau$ per axis.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    parameters: ClassVar[dict[str, Parameter]]
    # The parameter that multiplies every covariance, so that it can be integrated out exactly.
    scale_parameter: ClassVar[str]
    limit: ClassVar[str]
    # Whether the density is Gaussian with a covariance that the scale multiplies.
    is_gaussian: ClassVar[bool] = True
    # Whether `transition` and `initial_covariance` exist. Without them irregular times take the
    # dense engine.
    has_state_space: ClassVar[bool] = True
    # Whether the first component of the state is the particle's position, and not a mean of it.
    observes_position: ClassVar[bool] = True
    # Whether a covariance is a sum over hundreds of nodes, which another integral multiplies.
    has_many_nodes: ClassVar[bool] = False
    # From how many earlier steps the next one is predicted in long regular runs; None: from as
    # many as the engines can take.
    memory: ClassVar[int | None] = MEMORY
    # How far the data may be summed before the model sees them.
    kind: ClassVar[Kind] = "summed"
    # Whether all of the covariance is scaled, so that errors of known size have no place in it.
    exact_positions: ClassVar[bool] = False
    # Whether it matters where a step begins.
    needs_positions: ClassVar[bool] = False
    # Whether these positions must be on one plane.
    needs_plane: ClassVar[bool] = fact(lambda self: self.needs_positions)
    # Whether `transition` is the exponential of `generator`, which engines then compute themselves.
    moves_by_generator: ClassVar[bool] = False
    # Whether `derived` tells more than the parameters.
    has_derived: ClassVar[bool] = False
    # Whether its covariances are complex: steps in a plane that rotate.
    is_turning: ClassVar[bool] = False
    # Whether a model that tells axes apart must see all particles along the same ones.
    shares_axes: ClassVar[bool] = True

    @property
    def shares_motion(self) -> bool:
        """Whether particles share motion, so that they are judged together."""
        return self.kind in ("together", "flow")

    def leaves(self) -> dict[str, Any]:
        """The value of every parameter: a number, a prior or a name."""
        return {name: getattr(self, name) for name in self.parameters}

    def template(self) -> "AbstractModel":
        """The same model with the name of each parameter in place of its value."""
        return as_template(type(self))

    def __repr__(self) -> str:
        """As it is written in Python."""
        values = {field.name: getattr(self, field.name, None) for field in fields(self)}
        texts = (
            f"{name}={number(float(value), 6) if isinstance(value, np.ndarray) else repr(value)}"
            for name, value in values.items()
        )
        try:
            return f"{type(self).__name__}({', '.join(texts)})"
        except TypeError:
            # Many models side by side.
            return str(eqx.Module.__repr__(self))

    def __call__(self, **values: Any) -> "AbstractModel":
        """The same model with these values of its parameters."""
        return type(self)(**values)

    @abstractmethod
    def increment_autocovariance(
        self, lags: Float[Array, " lag"], tau: Scalar
    ) -> Float[Array, " lag"]:
        """Covariance, per axis, of two displacements over tau that start `lags` steps apart."""

    def first_autocovariances(self, n_lags: int, tau: Scalar) -> Float[Array, " lag"]:
        """The former at lags 0, 1, 2, ...; a model may know a shorter way to all of them."""
        return self.increment_autocovariance(jnp.arange(n_lags, dtype=tau.dtype), tau)

    def transition(
        self, interval: Scalar
    ) -> tuple[Float[Array, "state state"], Float[Array, "state state"]]:
        """State-space form, per axis, position first: propagator A and noise covariance Q."""
        raise DriftbayesError(self._no_state_space())

    def stepper(self) -> Transition:
        """`transition`, with all computed beforehand that does not depend on the interval."""
        return self.transition

    def initial_covariance(self) -> Float[Array, "state state"]:
        """Stationary covariance of the state, given the position."""
        raise DriftbayesError(self._no_state_space())

    def engine_transition(self, interval: Scalar) -> tuple[Array, Array]:
        """`transition`, or the complex one of a model that rotates."""
        return self.transition(interval)

    def engine_start(self) -> Array:
        """`initial_covariance`, or the complex one of a model that rotates."""
        return self.initial_covariance()

    def engine_autocovariances(self, n_lags: int, tau: Scalar) -> Array:
        """`first_autocovariances`, or the complex ones of a model that rotates."""
        return self.first_autocovariances(n_lags, tau)

    def generator(self) -> tuple[Float[Array, "state state"], Float[Array, "state state"]]:
        r"""F and D of $\mathrm{d}Y = F Y\,\mathrm{d}t + L\,\mathrm{d}W$, $D = L L^\mathrm{T}$.

        The equation whose solution over an interval is `transition`.
        """
        raise DriftbayesError(self._no_state_space())

    def innovations(
        self, steps: PaddedSteps, noise_variance: ScalarLike = 0.0
    ) -> tuple[Float[Array, "run step dim"], Float[Array, "run step"]]:
        """What the earlier steps of its run do not predict of each step, and its variance.

        Every likelihood of single steps goes through here: by the Kalman filter where the model has
        a state-space form, else by one dense factorisation per run.

        Args:
            steps: Steps of any duration; each column of `dx` is whitened by itself.
            noise_variance: Variance of the error of every position, added to the data's and to the
                model's own.
        """
        noise = noise_variance + self.fix_variance()
        if self.has_state_space:
            return kalman_innovations(self.stepper(), self.initial_covariance(), steps, noise)
        return dense_innovations(self.mean_square_displacement, steps, noise)

    def components(self) -> tuple["AbstractModel", ...]:
        """The Gaussian models whose sums an engine has to find; of most models itself."""
        return (self,)

    def trajectory_numbers(self) -> tuple[Array, ...]:
        """What `sum_over_trajectories` has to know of the model beside sums over steps."""
        return ()

    def sum_over_trajectories(self, numbers: tuple[Any, ...], forms: SlotForms) -> FloatArray:
        """Ln p of all trajectories, for many parameter values at once.

        The formula of `log_density` once more, in NumPy: of a model that judges every trajectory by
        itself there is one number for each parameter value and trajectory, and trajectories are
        many. JAX would compute it for a fixed number of both, filled up.

        Args:
            numbers: `trajectory_numbers` of each parameter value, along the first axis.
            forms: Gaussian terms of all axes together, (point, component, ...).
        """
        raise DriftbayesError(f"{self.name} does not judge every trajectory by itself")

    def tail_weight(self) -> ScalarLike:
        r"""W of the sum of $\ln(1 + w |e|^2/v)$ over innovations e that heavy tails ask for."""
        return 0.0

    def outlier_law(self) -> tuple[ScalarLike, ScalarLike]:
        """Probability that a fix is an outlier, and the variance of its additional error."""
        return 0.0, 0.0

    def fix_variance(self) -> ScalarLike:
        """Variance of the error of every position, as far as the model knows of it."""
        return 0.0

    def motion(self) -> "AbstractModel":
        """The model of the particle itself, without errors and blur of its fixes."""
        return self

    def _no_state_space(self) -> str:
        return (
            f"the model {self.name!r} has no state-space form; use engine='auto', which takes "
            "another way"
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
        if self.shares_motion and not isinstance(data, Collected):
            raise DriftbayesError(judged_together(self.name))
        if isinstance(data, SecondMoments):
            return moments_terms(self._autocovariance(data), data)
        if isinstance(data, TrajectoryPieces):
            return trajectory_terms(self, data, noise_variance)
        if isinstance(data, Channels):
            terms = self.channel_terms(data)
            n_dim = terms.n_dim
            return GaussianTerms(n_dim * terms.n, n_dim * terms.log_det, jnp.trace(terms.axes))
        if isinstance(data, Displacements):
            noise = noise_variance + self.fix_variance()
            return dense_terms(self.mean_square_displacement, data, noise)
        return innovation_terms(*self.innovations(data, noise_variance), data)

    def channel_terms(self, data: Data) -> ChannelTerms:
        """Cross-products of whitened displacements, axis against axis and with the duration."""
        if isinstance(data, Collected):
            return data.parts[0]
        if isinstance(data, ChannelMoments):
            return channel_moments_terms(self._autocovariance(data), data)
        if isinstance(data, ChannelSteps):
            return channel_steps_terms(*self.innovations(data.steps), data)
        raise DriftbayesError(f"{self.name} needs displacements by axis; prepare them for it")

    def inverse_shape(self, n_dim: int) -> Float[Array, "dim dim"]:
        """Inverse of the tensor of unit determinant by which the axes' covariances differ."""
        return jnp.eye(n_dim)

    def default_priors(self) -> dict[str, Any]:
        """Priors that come with the model; of most models none, and a rule gives them."""
        return {}

    def value_of(self, name: str) -> ScalarLike:
        """The value of a parameter, also where an option wraps the model that holds it."""
        value: ScalarLike = self.leaves()[name]
        return value

    def check_step(self, shortest: float) -> None:
        """Refuse parameters that data with steps as short as this cannot have.

        Args:
            shortest: Duration of the shortest step.
        """

    def derived(self, data: Data) -> dict[str, Scalar]:
        """What follows from the parameters and the data, by name; of a plain model, nothing."""
        return {}

    def log_density(self, data: Data) -> Scalar:
        r"""$\ln p(\Delta\mathcal{X}_\tau \mid \theta)$ of data prepared for this model."""
        return self.terms(data).log_likelihood()

    @in_double_precision
    def log_likelihood(
        self, data: Data, *, engine: EngineName = "auto", noise_sd: ScalarLike | None = None
    ) -> Scalar:
        r"""$\ln p(\Delta\mathcal{X}_\tau \mid \theta)$ with its full constant.

        Args:
            data: Displacements, or what an engine made of them.
            engine: Which engine to use; "auto" takes the fastest that applies.
            noise_sd: Standard deviation of the measurement error of every position.
        """
        check_double(jax.tree.leaves(self))
        if noise_sd is not None and self.kind != "summed":
            msg = f"{self.name} takes no noise_sd; add the option +noise to the model, if it can be"
            raise DriftbayesError(msg)
        if isinstance(data, Displacements):
            self.check_step(float(data.interval.min()))
            if engine == "kalman" and not self.has_state_space:
                raise DriftbayesError(self._no_state_space())
            if engine == "auto" and noise_sd is not None:
                engine = "kalman" if self.has_state_space else "dense"
            data = prepare(data, self.needs(), engine=engine)
        if noise_sd is not None and isinstance(data, SecondMoments):
            other = "kalman" if self.has_state_space else "dense"
            msg = f"measurement noise needs the state-space engine: pass engine={other!r}"
            raise DriftbayesError(msg)
        noise_variance = jnp.zeros(()) if noise_sd is None else jnp.asarray(noise_sd) ** 2
        if noise_sd is None and not isinstance(data, Displacements):
            return _log_density(self, data)
        if isinstance(data, Displacements):
            return self.terms(data, noise_variance).log_likelihood()
        return _log_likelihood(self, data, noise_variance)

    def positions_from(
        self, kicks: Float[Array, "particle step dim"], tau: ScalarLike
    ) -> Float[Array, "particle position dim"]:
        """Positions at regular times whose steps have these whitened innovations."""
        return _summed(self, kicks, jnp.asarray(tau))

    def needs(self) -> Needs:
        """What the model needs of the data."""
        return Needs(
            self.name,
            self.kind,
            self.has_state_space,
            self.memory,
            self.exact_positions,
            self.needs_positions,
            self.kind in ("channels", "together", "flow", "sde") and self.shares_axes,
            self.needs_plane,
            self.has_state_space and self.moves_by_generator,
        )

    def _autocovariance(self, data: SecondMoments | ChannelMoments) -> Float[Array, " step"]:
        return self.first_autocovariances(data.forms.shape[-1], jnp.asarray(data.tau))

    def simulate(
        self, key: Key, *, n_particles: int, n_steps: int, n_dim: int, tau: ScalarLike
    ) -> Float[Array, "particle position dim"]:
        """Exact positions at times 0, tau, 2 tau, ..., from a stationary start at the origin.

        A first-order vector autoregression, or without a state-space form one of as high an order
        as there are steps: no time-stepping error at any tau.
        """
        if not self.has_state_space:
            kicks = jax.random.normal(key, (n_steps, n_particles, n_dim))
            return self.positions_from(jnp.moveaxis(kicks, 0, 1), tau)
        law = _law(self, jnp.asarray(tau))
        return _walk(key, int(n_steps), (int(n_particles), int(n_dim)), *law)


@cache
def _template_of(family: type[AbstractModel]) -> AbstractModel:
    # Past the converters of the fields, which may take numbers only.
    template = object.__new__(family)
    for field in fields(family):
        object.__setattr__(template, field.name, field.name)
    return template


def as_template(model: type[AbstractModel] | AbstractModel) -> AbstractModel:
    """The template of a family of models, given as its class or as any member.

    Example:
        >>> from driftbayes.models import Brownian
        >>> as_template(Brownian).leaves()
        {'kappa': 'kappa'}
    """
    if isinstance(model, AbstractModel):
        return model.template()
    if isinstance(model.parameters, property):
        raise DriftbayesError(
            f"{model.__name__} wraps a model; give for example {model.__name__}(Langevin(...), ...)"
        )
    return _template_of(model)


# Compiled once per family and once per shape: left to itself, JAX compiles every operation.
@eqx.filter_jit
def _law(
    model: AbstractModel, tau: Scalar
) -> tuple[Float[Array, "state state"], Float[Array, "state state"], Float[Array, "state state"]]:
    """Propagator of the state over tau, and roots of the covariances of a step and of the start."""
    propagate, diffuse = model.transition(tau)
    return propagate, _factor(diffuse), _factor(model.initial_covariance())


@eqx.filter_jit
def _walk(
    key: Key,
    n_steps: int,
    size: tuple[int, int],
    propagate: Float[Array, "state state"],
    noise: Float[Array, "state state"],
    initial: Float[Array, "state state"],
) -> Float[Array, "particle position dim"]:
    key_start, key_steps = jax.random.split(key)
    shape = (*size, len(propagate))
    state = jax.random.normal(key_start, shape) @ initial.T
    kicks = jax.random.normal(key_steps, (n_steps, *shape))

    def step(state: Array, kick: Array) -> tuple[Array, Array]:
        state = state @ propagate.T + kick @ noise.T
        return state, state[..., 0]

    _, positions = jax.lax.scan(step, state, kicks)
    return jnp.moveaxis(jnp.concatenate([state[None, ..., 0], positions]), 0, 1)


@eqx.filter_jit
def _log_density(model: AbstractModel, data: Data) -> Scalar:
    return model.log_density(data)


@eqx.filter_jit
def _summed(
    model: AbstractModel, kicks: Float[Array, "particle step dim"], tau: Scalar
) -> Float[Array, "particle position dim"]:
    steps = toeplitz_displacements(model.first_autocovariances(kicks.shape[1], tau), kicks)
    return jnp.pad(jnp.cumsum(steps, axis=1), ((0, 0), (1, 0), (0, 0)))


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
