"""Interface of all models, and the methods that they share."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cache
from math import inf
from typing import Any, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from driftbayes._aliases import public
from driftbayes._jax_typing import (
    Key,
    LagArray,
    Positions,
    Scalar,
    ScalarLike,
    StateMatrices,
    StateMatrix,
    TimeArray,
)
from driftbayes._representation import number
from driftbayes._typing import FloatArray
from driftbayes.data._sampling import Displacements
from driftbayes.errors import DriftbayesError
from driftbayes.likelihood import (
    MEMORY,
    Collected,
    GaussianTerms,
    ReducedDisplacements,
    SummedDisplacements,
    toeplitz_displacements,
)
from driftbayes.likelihood._sums import SlotForms

EngineName = Literal["auto", "moments", "kalman", "dense"]
# How far displacements may be summed beforehand: "summed" over trajectories and axes, "channels"
# over trajectories, "trajectories" over the steps of each, "steps", "jumps" and "sde" not at all;
# "together" and "flow" need all particles at once, "pairs" their separations.
Kind = Literal[
    "summed",
    "channels",
    "trajectories",
    "steps",
    "jumps",
    "together",
    "flow",
    "pairs",
    "sde",
]
# A conditional variance below this share of the unconditional one is taken as zero.
_MIN_VARIANCE = 1e-13


@dataclass(frozen=True)
class Parameter:
    """Symbol, meaning and unit of a parameter; the unit as powers of length and time."""

    symbol: str
    meaning: str
    length_power: int
    time_power: int
    # All parameters are positive; some, such as fractions, also have an upper bound.
    upper: float = inf
    # Whether it is a time that cannot exceed the sampling time.
    within_step: bool = False
    # Whether it is the width of a prior that is integrated out, not a property of the motion.
    is_prior_scale: bool = False
    # Whether it is a distance between places, unrelated to the size of steps.
    is_distance: bool = False

    def of(self, component: str) -> "Parameter":
        """Return the same parameter for one component of a sum."""
        return replace(
            self, symbol=f"{self.symbol}_{component}", meaning=f"{self.meaning}, of {component}"
        )

    def unit(self, length: str = "", time: str = "") -> str:
        """Return the unit as text, for example m²/s."""
        powers = ((length or "length", self.length_power), (time or "time", self.time_power))
        above = [_power(name, power) for name, power in powers if power > 0]
        below = [_power(name, -power) for name, power in powers if power < 0]
        top, bottom = "·".join(above) or "1", "·".join(below)
        if len(below) > 1:
            bottom = f"({bottom})"
        return f"{top}/{bottom}" if below else top


def _power(unit: str, power: int) -> str:
    """Format a unit to a power."""
    return unit + {1: "", 2: "²", 3: "³"}.get(power, f"^{power}")


def fact(of: Callable[[Any], Any]) -> Any:
    """Compute a class attribute from the model that is wrapped."""
    return property(of)


class AbstractModel(eqx.Module):
    r"""A model of particle motion with stationary increments.

    The fields are the parameters θ. They hold numbers, or priors in a hypothesis, or their own
    names in the template of a family, which `template(**values)` turns into a model. A plain model
    is Gaussian with zero mean; its axes and particles are independent and identically distributed.
    Options and populations wrap a model and change that. As $\tau \to \infty$ a model that
    disperses has $\operatorname{Var}(\Delta X_i) = 2 \kappa \tau$ per axis.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    parameters: ClassVar[dict[str, Parameter]]
    # The parameter that multiplies every covariance and can be integrated out exactly.
    scale_parameter: ClassVar[str]
    limit: ClassVar[str]
    # The parameter that is the long-time diffusivity; None if there is none.
    diffusivity: ClassVar[str | None] = None
    # Names of the options around the plain model, the outermost last.
    options: ClassVar[tuple[str, ...]] = ()
    # Whether trajectories belong to several classes.
    is_mixture: ClassVar[bool] = False
    # Whether the density is Gaussian with a covariance that the scale multiplies.
    is_gaussian: ClassVar[bool] = True
    # Whether `transition` and `initial_covariance` exist; otherwise irregular times need the dense
    # engine.
    has_state_space: ClassVar[bool] = True
    # Whether the first component of the state is the position itself, not a time average of it.
    observes_position: ClassVar[bool] = True
    # Whether each covariance is a sum over hundreds of nodes, too slow inside another integral.
    has_many_nodes: ClassVar[bool] = False
    # Number of earlier steps that predict the next one in long regular runs; None for the most that
    # the engines can use.
    memory: ClassVar[int | None] = MEMORY
    # How far the data may be summed beforehand.
    kind: ClassVar[Kind] = "summed"
    # Whether the whole covariance is scaled, which excludes errors of known size.
    exact_positions: ClassVar[bool] = False
    # Whether the density depends on where steps begin.
    needs_positions: ClassVar[bool] = False
    # Whether these positions must lie on one plane.
    needs_plane: ClassVar[bool] = fact(lambda self: self.needs_positions)
    # Whether `transition` is the exponential of `generator`, which engines compute themselves.
    moves_by_generator: ClassVar[bool] = False
    # Whether `derived` returns any quantities.
    has_derived: ClassVar[bool] = False
    # Whether the covariances are complex: velocities that rotate in a plane.
    is_turning: ClassVar[bool] = False
    # Whether a model that distinguishes axes needs the same axes for all particles.
    shares_axes: ClassVar[bool] = True

    @property
    def core(self) -> "AbstractModel":
        """The plain model inside all options."""
        return self

    @property
    def shares_motion(self) -> bool:
        """Whether particles share motion and need a joint likelihood."""
        return self.kind in ("together", "flow")

    @property
    def needs_axes(self) -> bool:
        """Whether all particles need the same axes."""
        return self.kind in ("channels", "together", "flow", "sde") and self.shares_axes

    def leaves(self) -> dict[str, Any]:
        """Return the value of every parameter: a number, a prior or a name."""
        return {name: getattr(self, name) for name in self.parameters}

    def template(self) -> "AbstractModel":
        """Return the same model with the name of each parameter as its value."""
        return as_template(type(self))

    def __repr__(self) -> str:
        """Return the Python expression that makes the model."""
        values = {field.name: getattr(self, field.name, None) for field in fields(self)}
        texts = (
            f"{name}={number(float(value), 6) if isinstance(value, np.ndarray) else repr(value)}"
            for name, value in values.items()
        )
        try:
            return f"{type(self).__name__}({', '.join(texts)})"
        except TypeError:
            # The parameters are arrays of many models.
            return str(eqx.Module.__repr__(self))

    def __call__(self, **values: Any) -> "AbstractModel":
        """Return the same model with these parameter values."""
        return type(self)(**values)

    @abstractmethod
    def increment_autocovariance(self, lags: LagArray, tau: Scalar) -> LagArray:
        """Covariance per axis of two displacements over tau that start `lags` steps apart."""

    def first_autocovariances(self, n_lags: int, tau: Scalar) -> LagArray:
        """Compute the autocovariances at lags 0, 1, 2, ...; some models override this for speed."""
        return self.increment_autocovariance(jnp.arange(n_lags, dtype=tau.dtype), tau)

    def transition(self, interval: Scalar) -> StateMatrices:
        """Propagator A and noise covariance Q of the state per axis, the position first."""
        raise DriftbayesError(self._no_state_space())

    def initial_covariance(self) -> StateMatrix:
        """Stationary covariance of the state given the position."""
        raise DriftbayesError(self._no_state_space())

    def engine_transition(self, interval: Scalar) -> tuple[Array, Array]:
        """Return `transition`, or its complex form for rotating velocities."""
        return self.transition(interval)

    def engine_start(self) -> Array:
        """Return `initial_covariance`, or its complex form for rotating velocities."""
        return self.initial_covariance()

    def engine_autocovariances(self, n_lags: int, tau: Scalar) -> Array:
        """Return `first_autocovariances`, or their complex form for rotating velocities."""
        return self.first_autocovariances(n_lags, tau)

    def generator(self) -> StateMatrices:
        r"""F and D of $\mathrm{d}Y = F Y\,\mathrm{d}t + L\,\mathrm{d}W$, $D = L L^\mathrm{T}$.

        `transition` is the solution of this equation over an interval.
        """
        raise DriftbayesError(self._no_state_space())

    def components(self) -> tuple["AbstractModel", ...]:
        """Return the Gaussian models that an engine evaluates; by default the model itself."""
        return (self,)

    def trajectory_numbers(self) -> tuple[Array, ...]:
        """Return the numbers that `sum_over_trajectories` needs besides sums over steps."""
        return ()

    def sum_over_trajectories(self, numbers: tuple[Any, ...], forms: SlotForms) -> FloatArray:
        """Compute ln p of all trajectories for many parameter values at once.

        This repeats the formula of `log_density` in NumPy. A model with a separate density for each
        trajectory needs one number per parameter value and trajectory, and JAX would pad both to
        fixed sizes.

        Args:
            numbers: `trajectory_numbers` of each parameter value, along the first axis.
            forms: Gaussian terms summed over axes, (point, component, ...).
        """
        raise DriftbayesError(f"{self.name} has no separate density for each trajectory")

    def tail_weight(self) -> ScalarLike:
        r"""Weight w in the sum of $\ln(1 + w |e|^2/v)$ over innovations e; 0 without tails."""
        return 0.0

    def outlier_law(self) -> tuple[ScalarLike, ScalarLike]:
        """Probability that a fix is an outlier, and the variance of its additional error."""
        return 0.0, 0.0

    def fix_variance(self) -> ScalarLike:
        """Variance of the measurement error of every position in the model."""
        return 0.0

    def motion(self) -> "AbstractModel":
        """Return the model of the particle itself, without measurement error and blur."""
        return self

    def _no_state_space(self) -> str:
        return (
            f"the model {self.name!r} has no state-space form; use engine='auto', which takes "
            "another way"
        )

    @abstractmethod
    def mean_square_displacement(self, lag: TimeArray) -> TimeArray:
        """Mean square displacement per axis after a time `lag`."""

    @abstractmethod
    def lvaf(self, lag: TimeArray) -> TimeArray:
        """Lagrangian velocity autocovariance r(lag) per axis. Paper: [eq:lvaf]."""

    def absolute_diffusivity(self, lag: TimeArray) -> TimeArray:
        r"""$\langle \Delta X^2 \rangle / (2t)$ per axis. Paper: [eq:absolute-diffusivity]."""
        return self.mean_square_displacement(lag) / (2 * lag)

    def inverse_shape(self, n_dim: int) -> Float[Array, "dim dim"]:
        """Inverse of the tensor of unit determinant that multiplies the covariance of one axis."""
        return jnp.eye(n_dim)

    def default_priors(self) -> dict[str, Any]:
        """Return the priors that the model defines itself; none by default."""
        return {}

    def value_of(self, name: str) -> ScalarLike:
        """Return the value of a parameter, including those of the wrapped model."""
        value: ScalarLike = self.leaves()[name]
        return value

    def check_step(self, shortest: float) -> None:
        """Raise an error if a parameter is not possible with steps this short.

        Args:
            shortest: Duration of the shortest step.
        """

    def terms(self, sums: Collected) -> GaussianTerms:
        """Count, log-determinant and quadratic form of the Gaussian density of all data.

        Args:
            sums: Sums over steps that an engine computed for this model.
        """
        terms = sums.parts[0]
        n_dim = terms.n_dim
        return GaussianTerms(n_dim * terms.n, n_dim * terms.log_det, jnp.trace(terms.axes))

    def log_density(self, sums: Collected) -> Scalar:
        r"""$\ln p(\Delta\mathcal{X}_\tau \mid \theta)$ from the sums of an engine."""
        return self.terms(sums).log_likelihood()

    def derived(self, sums: Collected) -> dict[str, Scalar]:
        """Compute quantities that follow from parameters and data, by name; none by default."""
        return {}

    def log_likelihood(
        self,
        data: Displacements | ReducedDisplacements | SummedDisplacements,
        *,
        engine: EngineName = "auto",
        noise_sd: float | None = None,
    ) -> float:
        r"""Compute $\ln p(\Delta\mathcal{X}_\tau \mid \theta)$ with its full constant.

        Args:
            data: Displacements at one tau.
            engine: Engine to use; "auto" chooses the fastest that applies.
            noise_sd: Standard deviation of a measurement error of every position, added to the
                errors in the data.

        Example:
            >>> import numpy as np
            >>> from driftbayes import Brownian, Displacements
            >>> steps = Displacements.from_array(np.ones((1, 1, 1)), tau=0.5)
            >>> round(Brownian(kappa=1.0).log_likelihood(steps), 6)
            -1.418939
        """
        compute = public("log_likelihood", "driftbayes.inference")
        value: float = compute(self, data, engine=engine, noise_sd=noise_sd)
        return value

    def positions_from(
        self, kicks: Float[Array, "particle step dim"], tau: ScalarLike
    ) -> Positions:
        """Compute positions at regular times from the whitened innovations of their steps."""
        return _positions_from(self, kicks, jnp.asarray(tau))

    def simulate(
        self, key: Key, *, n_particles: int, n_steps: int, n_dim: int, tau: ScalarLike
    ) -> Positions:
        """Simulate exact positions at times 0, tau, 2 tau, ..., from a stationary start at 0.

        The state is a first-order vector autoregression; without a state-space form, the steps are
        an autoregression on all earlier steps. There is no time-stepping error at any tau.
        """
        if not self.has_state_space:
            kicks = jax.random.normal(key, (n_steps, n_particles, n_dim))
            return self.positions_from(jnp.moveaxis(kicks, 0, 1), tau)
        matrices = _transition_roots(self, jnp.asarray(tau))
        return _walk(key, int(n_steps), (int(n_particles), int(n_dim)), *matrices)


class AbstractUnsolved(AbstractModel):
    """A model whose moments have no closed form."""

    is_gaussian: ClassVar[bool] = False
    has_state_space: ClassVar[bool] = False

    @abstractmethod
    def _no_moments(self) -> str:
        """Say why there are no moments, and what to do."""

    def increment_autocovariance(self, lags: LagArray, tau: Scalar) -> LagArray:
        raise DriftbayesError(self._no_moments())

    def mean_square_displacement(self, lag: TimeArray) -> TimeArray:
        raise DriftbayesError(self._no_moments())

    def lvaf(self, lag: TimeArray) -> TimeArray:
        raise DriftbayesError(self._no_moments())


@cache
def _template_of(family: type[AbstractModel]) -> AbstractModel:
    """Make the template of a family."""
    # Bypasses the converters of the fields, which may accept numbers only.
    template = object.__new__(family)
    for field in fields(family):
        object.__setattr__(template, field.name, field.name)
    return template


def shape_names(model: AbstractModel) -> list[str]:
    """Return the names of all parameters but the scale."""
    return [name for name in model.parameters if name != model.scale_parameter]


def as_template(model: type[AbstractModel] | AbstractModel) -> AbstractModel:
    """Return the template of a family of models, given as its class or any member.

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


# One compiled program per family and shape, instead of one per operation.
@eqx.filter_jit
def _transition_roots(
    model: AbstractModel, tau: Scalar
) -> tuple[StateMatrix, StateMatrix, StateMatrix]:
    """Propagator of the state over tau, and roots of the noise and initial covariances."""
    propagate, diffuse = model.transition(tau)
    return propagate, _factor(diffuse), _factor(model.initial_covariance())


@eqx.filter_jit
def _walk(
    key: Key,
    n_steps: int,
    size: tuple[int, int],
    propagate: StateMatrix,
    noise: StateMatrix,
    initial: StateMatrix,
) -> Positions:
    """Simulate a first-order vector autoregression."""
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
def _positions_from(
    model: AbstractModel, kicks: Float[Array, "particle step dim"], tau: Scalar
) -> Positions:
    """Compute positions from innovations in one compiled program."""
    steps = toeplitz_displacements(model.first_autocovariances(kicks.shape[1], tau), kicks)
    return jnp.pad(jnp.cumsum(steps, axis=1), ((0, 0), (1, 0), (0, 0)))


def _factor(cov: StateMatrix) -> StateMatrix:
    """Factorise a covariance that may have zero rows (a position known exactly)."""
    sd = jnp.sqrt(jnp.diag(cov))
    inverse = jnp.where(sd > 0, 1 / jnp.where(sd > 0, sd, 1.0), 0.0)
    correlation = cov * jnp.outer(inverse, inverse)
    # The zero rows get a unit diagonal too; scaling back makes them zero again.
    correlation = correlation + jnp.diag(jnp.where(sd > 0, 0.0, 1.0))
    return sd[:, None] * _semidefinite_cholesky(correlation)


def _semidefinite_cholesky(
    correlation: StateMatrix,
) -> StateMatrix:
    """Cholesky factor of a correlation matrix that may be singular: a column is then zero."""
    factor = jnp.zeros_like(correlation)
    for column in range(len(correlation)):
        left = correlation[:, column] - factor @ factor[column]
        # The rest is rounding: this component is a function of the earlier ones.
        is_determined = left[column] < _MIN_VARIANCE
        pivot = jnp.sqrt(jnp.where(is_determined, 1.0, left[column]))
        below = jnp.arange(len(correlation)) >= column
        factor = factor.at[:, column].set(jnp.where(below & ~is_determined, left / pivot, 0.0))
    return factor
