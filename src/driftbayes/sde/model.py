"""A model from a user's own drift and diffusion."""

__all__ = ["SDE", "Hidden", "Law", "with_values"]

from collections import namedtuple
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from driftbayes.errors import DriftbayesError, expect
from driftbayes.jax_typing import Key, Scalar, ScalarLike
from driftbayes.models import AbstractModel, Parameter
from driftbayes.models._base import fact
from driftbayes.models._prepare import Kind
from driftbayes.precision import as_leaf
from driftbayes.priors import AbstractPrior
from driftbayes.sde.linear import Coefficients, Linear, first_order, second_order

Function = Callable[..., Any]


class BareParameter(Parameter):
    """A parameter whose unit was not told."""

    def unit(self, length: str = "", time: str = "") -> str:
        """No unit is known."""
        return ""


@dataclass(frozen=True, eq=False)
class Hidden:
    """Further hidden variables, each with noise of its own and without a direct observation.

    Args:
        size: How many.
        drift: Function of (v, x, u, t, theta) that gives (size,) drifts.
        diffusion: The same for diffusions; positive.
        initial: Function of (x, t, theta) that gives their mean and standard deviation at first.
    """

    size: int
    drift: Function
    diffusion: Function
    initial: Function


@dataclass(frozen=True, eq=False)
class Law:
    """What an SDE is but for the values of its parameters; one object for each law.

    Args:
        name: Name of the model.
        summary: What it is, in a line.
        drift: The user's function.
        diffusion: The user's function.
        parameters: What each parameter is.
        defaults: Priors that came with them.
        hidden_velocity: Whether the functions are those of a velocity.
        initial_velocity: Function of (x, t, theta) that gives the velocity's standard deviation, or
            its mean and standard deviation, at the first fix; None for the linearised steady state.
        hidden: Further hidden variables.
    """

    name: str
    summary: str
    drift: Function
    diffusion: Function
    parameters: Mapping[str, Parameter]
    defaults: Mapping[str, AbstractPrior]
    hidden_velocity: bool
    initial_velocity: Function | None
    hidden: Hidden | None

    @cached_property
    def theta(self) -> Any:
        """The type in which functions are given the parameters: `theta.gamma`."""
        return namedtuple("Theta", self.parameters)

    def drift_at(self, x: Array, u: Array, t: Array, theta: Any, v: Array) -> Array:
        """Drift of each axis, of the velocity if there is one."""
        return _per_axis(self._call(self.drift, x, u, t, theta, v), x)

    def diffusion_at(self, x: Array, u: Array, t: Array, theta: Any, v: Array) -> Array:
        """Diffusion of each axis."""
        return _per_axis(self._call(self.diffusion, x, u, t, theta, v), x)

    def _call(self, function: Function, x: Array, u: Array, t: Array, theta: Any, v: Array) -> Any:
        state = (x, u, t, theta) if self.hidden_velocity else (x, t, theta)
        return function(*state, v) if self.hidden is not None else function(*state)

    def coefficients(
        self, state: tuple[Array, Array, Array], t: Array, ahead: Array, theta: Any
    ) -> Coefficients:
        """Linearise at a state of one particle.

        Coefficients are taken half a step ahead along the present velocity, which makes those that
        depend on place and time right to second order.

        Args:
            state: Position, velocity and further variables.
            t: Time.
            ahead: Half of the step.
            theta: Parameters.
        """
        x, u, v = state
        n_dim = len(x)
        t = t + ahead
        if self.hidden_velocity:
            x = x + ahead * u

            def of_axis(w: Array) -> Array:
                return self.drift_at(x, w, t, theta, v)

            at = u
        else:

            def of_axis(w: Array) -> Array:
                return self.drift_at(w, u, t, theta, v)

            at = x
        columns = [jax.jvp(of_axis, (at,), (jnp.eye(n_dim)[i],)) for i in range(n_dim)]
        drift = columns[0][0]
        rate = -jnp.stack([slope[i] for i, (_, slope) in enumerate(columns)])
        diffusion = self.diffusion_at(x, u, t, theta, v)
        return Coefficients(rate, drift + rate * at, diffusion**2)

    def solve(self, coefficients: Coefficients, duration: Array) -> Linear:
        """Solve the linearised equation over a duration."""
        solver = second_order if self.hidden_velocity else first_order
        return solver(coefficients, duration)

    def initial(self, x: Array, t: Array, theta: Any, v: Array) -> tuple[Array, Array]:
        """Mean and variance of the velocity at the first fix."""
        zero = jnp.zeros_like(x)
        if not self.hidden_velocity:
            return zero, zero
        if self.initial_velocity is None:
            rate, constant, intensity = self.coefficients((x, zero, v), t, zero[0], theta)
            return constant / rate, intensity / (2 * rate)
        found = self.initial_velocity(x, t, theta)
        mean, sd = found if isinstance(found, tuple) else (zero, found)
        return _per_axis(mean, x), _per_axis(sd, x) ** 2

    def initial_hidden(self, x: Array, t: Array, theta: Any, kick: Array) -> Array:
        """Further hidden variables at the first fix, from standard normal numbers."""
        if self.hidden is None:
            return kick
        mean, sd = self.hidden.initial(x, t, theta)
        return mean * jnp.ones_like(kick) + sd * kick

    def move_hidden(
        self, state: tuple[Array, Array, Array], t: Array, step: Array, theta: Any, kick: Array
    ) -> Array:
        """Further hidden variables after a step, linearised each along itself."""
        x, u, v = state
        if self.hidden is None:
            return v
        hidden = self.hidden

        def drift(w: Array) -> Array:
            return jnp.asarray(hidden.drift(w, x, u, t, theta)) * jnp.ones_like(w)

        columns = [jax.jvp(drift, (v,), (jnp.eye(len(v))[i],)) for i in range(len(v))]
        rate = -jnp.stack([slope[i] for i, (_, slope) in enumerate(columns)])
        noise = jnp.asarray(hidden.diffusion(v, x, u, t, theta)) * jnp.ones_like(v)
        linear = first_order(Coefficients(rate, columns[0][0] + rate * v, noise**2), step)
        return linear.fxx * v + linear.ox + jnp.sqrt(linear.qxx) * kick

    @property
    def n_hidden(self) -> int:
        """Number of further hidden variables."""
        return 0 if self.hidden is None else self.hidden.size


def _per_axis(value: Any, x: Array) -> Array:
    """A value for each axis, from one for each or one for all."""
    return jnp.broadcast_to(jnp.asarray(value, dtype=x.dtype), x.shape)


class SDE(AbstractModel):
    r"""A stochastic differential equation, written as Python functions of JAX arrays.

    With a hidden velocity, per axis,

    $$\mathrm{d}X = U\,\mathrm{d}t, \qquad
      \mathrm{d}U = a(X, U, t; \theta)\,\mathrm{d}t + b(X, U, t; \theta)\,\mathrm{d}W,$$

    without, $\mathrm{d}X = a(X, t; \theta)\,\mathrm{d}t + b(X, t; \theta)\,\mathrm{d}W$ (Itô).
    Its likelihood is estimated by particle filters; see `docs/sde.md` for what is approximate.

    Args:
        drift: Function `drift(x, u, t, theta)`, or `drift(x, t, theta)` without a velocity, of one
            particle: x and u are arrays of one number per axis, `theta.name` is a parameter. It
            returns one number per axis.
        diffusion: The same for the diffusion b > 0; one number for all axes will do.
        parameters: For each parameter its prior; or a `Parameter`, which tells its unit and
            leaves the prior to the rules that other models follow; or a pair of both.
        hidden_velocity: Whether the equation is one of the velocity.
        name: Name of the model.
        summary: What it is, in a line.
        initial_velocity: Function `initial_velocity(x, t, theta)` that gives the standard deviation
            of the velocity at the first fix, or its mean and standard deviation; by default the
            steady state of the equation linearised about rest.
        hidden: Further hidden variables that drift and diffusion take as a last argument.

    Raises:
        DriftbayesError: A function fails, or does not return finite numbers of the right shape.

    Example:
        >>> import driftbayes as db
        >>> langevin = db.SDE(
        ...     drift=lambda x, u, t, theta: -theta.gamma * u,
        ...     diffusion=lambda x, u, t, theta: theta.gamma * (2 * theta.k) ** 0.5,
        ...     parameters={"gamma": db.Exponential(1.0), "k": db.Exponential(1.0)},
        ... )
        >>> langevin.parameters.keys()
        dict_keys(['gamma', 'k'])
    """

    law: Law = eqx.field(static=True)
    values: tuple[Any, ...]

    name: ClassVar[str] = fact(lambda self: self.law.name)
    summary: ClassVar[str] = fact(lambda self: self.law.summary)
    parameters: ClassVar[dict[str, Parameter]] = fact(lambda self: dict(self.law.parameters))
    scale_parameter: ClassVar[str] = ""
    limit: ClassVar[str] = "as its equation says"
    is_gaussian: ClassVar[bool] = False
    has_state_space: ClassVar[bool] = False
    kind: ClassVar[Kind] = "sde"
    needs_positions: ClassVar[bool] = True

    def __init__(
        self,
        drift: Function,
        diffusion: Function,
        parameters: Mapping[str, Any],
        *,
        hidden_velocity: bool = True,
        name: str = "sde",
        summary: str = "",
        initial_velocity: Function | None = None,
        hidden: Hidden | None = None,
    ) -> None:
        from driftbayes.sde.validation import check_law

        expect(parameters, Mapping, "parameters", "priors by name, for example Exponential(1.0)")
        about, priors = {}, {}
        for key, given in parameters.items():
            about[key], prior = _told(key, given)
            if prior is not None:
                priors[key] = prior
        law = Law(
            name=name,
            summary=summary or "stochastic differential equation of the user",
            drift=drift,
            diffusion=diffusion,
            parameters=about,
            defaults=priors,
            hidden_velocity=hidden_velocity,
            initial_velocity=initial_velocity,
            hidden=hidden,
        )
        check_law(law)
        self.law = law
        self.values = tuple(priors.get(key, key) for key in about)

    def leaves(self) -> dict[str, Any]:
        return dict(zip(self.law.parameters, self.values, strict=True))

    def template(self) -> "SDE":
        return with_values(self.law, tuple(self.law.parameters))

    def __call__(self, **values: Any) -> "SDE":
        return with_values(self.law, tuple(as_leaf(values[key]) for key in self.law.parameters))

    def __repr__(self) -> str:
        """Name and values."""
        told = ", ".join(f"{key}={value!r}" for key, value in self.leaves().items())
        return f"SDE {self.name}({told})"

    def default_priors(self) -> dict[str, AbstractPrior]:
        """Priors that came with the model."""
        return dict(self.law.defaults)

    def theta(self) -> Any:
        """Parameters as the user's functions take them."""
        return self.law.theta(*(jnp.asarray(value) for value in self.values))

    def _no_form(self) -> DriftbayesError:
        return DriftbayesError(
            f"{self.name} is a stochastic differential equation without a closed form; it can be "
            "compared, scanned and simulated, and nothing else"
        )

    def increment_autocovariance(
        self, lags: Float[Array, " lag"], tau: Scalar
    ) -> Float[Array, " lag"]:
        raise self._no_form()

    def mean_square_displacement(self, lag: Float[Array, "..."]) -> Float[Array, "..."]:
        raise self._no_form()

    def lvaf(self, lag: Float[Array, "..."]) -> Float[Array, "..."]:
        raise self._no_form()

    def simulate(
        self, key: Key, *, n_particles: int, n_steps: int, n_dim: int, tau: ScalarLike
    ) -> Float[Array, "particle position dim"]:
        """Positions at times 0, tau, 2 tau, ..., from the origin, by small steps."""
        from driftbayes.sde.simulate import simulate_paths

        start = jnp.zeros((n_particles, n_dim))
        return simulate_paths(self, key, start, n_steps=n_steps, tau=tau)[0]


def with_values(law: Law, values: tuple[Any, ...]) -> SDE:
    """The model of a law with values: past the checks of a new one."""
    model = object.__new__(SDE)
    object.__setattr__(model, "law", law)
    object.__setattr__(model, "values", values)
    return model


def _told(name: str, given: Any) -> tuple[Parameter, AbstractPrior | None]:
    """What a parameter is, and its prior."""
    parts = given if isinstance(given, tuple) else (given,)
    about = [part for part in parts if isinstance(part, Parameter)]
    priors = [part for part in parts if isinstance(part, AbstractPrior)]
    if not name.isidentifier() or name.startswith("_"):
        msg = f"a parameter's name must be a plain word, got {name!r}"
        raise DriftbayesError(msg)
    if not parts or len(about) + len(priors) != len(parts) or len(about) > 1 or len(priors) > 1:
        msg = (
            f"parameter {name!r} must be a prior, for example Exponential(1.0), a Parameter, or a "
            f"pair of both, got {given!r}"
        )
        raise DriftbayesError(msg)
    bare = BareParameter(name, "parameter of the equation", 0, 0)
    return (about[0] if about else bare), (priors[0] if priors else None)
