"""Definition of a stochastic differential equation, without parameter values."""

from collections import namedtuple
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from driftbayes.models import Parameter
from driftbayes.priors import AbstractPrior
from driftbayes.sde._linear import Coefficients, Linear, first_order, second_order

Function = Callable[..., Any]


@dataclass(frozen=True, eq=False)
class Hidden:
    """Further hidden variables, unobserved, each driven by independent noise.

    Args:
        size: Number of variables.
        drift: Function of (v, x, u, t, theta) that returns (size,) drifts.
        diffusion: Function of the same arguments that returns positive diffusions.
        initial: Function of (x, t, theta) that returns mean and standard deviation at the first
            fix.
    """

    size: int
    drift: Function
    diffusion: Function
    initial: Function


@dataclass(frozen=True, eq=False)
class Law:
    """Definition of an SDE without parameter values; compared by identity.

    Args:
        name: Name of the model.
        summary: Description in one line.
        drift: The user's function.
        diffusion: The user's function.
        parameters: Symbol, meaning and dimensions of each parameter.
        defaults: Default priors.
        hidden_velocity: Whether drift and diffusion are those of a velocity.
        initial_velocity: Function of (x, t, theta) that returns the velocity's standard deviation,
            or its mean and standard deviation, at the first fix; None for the linearised steady
            state.
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
        """Type of the parameters that functions take: `theta.gamma`."""
        return namedtuple("Theta", self.parameters)

    def __getstate__(self) -> dict[str, Any]:
        # The type of the parameters cannot be pickled, and is made again.
        return {name: value for name, value in vars(self).items() if name != "theta"}

    def __deepcopy__(self, memo: dict[int, Any]) -> "Law":
        # It does not change, and is compared by identity.
        return self

    def drift_at(self, x: Array, u: Array, t: Array, theta: Any, v: Array) -> Array:
        """Evaluate the drift of each axis, of the velocity if there is one."""
        return _per_axis(self.call(self.drift, x, u, t, theta, v), x)

    def diffusion_at(self, x: Array, u: Array, t: Array, theta: Any, v: Array) -> Array:
        """Evaluate the diffusion of each axis."""
        return _per_axis(self.call(self.diffusion, x, u, t, theta, v), x)

    def call(self, function: Function, x: Array, u: Array, t: Array, theta: Any, v: Array) -> Any:
        """Call the user's drift or diffusion with the arguments that it takes."""
        state = (x, u, t, theta) if self.hidden_velocity else (x, t, theta)
        return function(*state, v) if self.hidden is not None else function(*state)

    def coefficients(
        self, state: tuple[Array, Array, Array], t: Array, half_step: Array, theta: Any
    ) -> Coefficients:
        """Linearise the equation at the state of one particle.

        Coefficients are evaluated half a step ahead along the present velocity. Their dependence on
        position and time is then accurate to second order.

        Args:
            state: Position, velocity and hidden variables.
            t: Time.
            half_step: Half of the step.
            theta: Parameters.
        """
        x, u, v = state
        n_dim = len(x)
        t = t + half_step
        if self.hidden_velocity:
            x = x + half_step * u

            def drift_of(w: Array) -> Array:
                return self.drift_at(x, w, t, theta, v)

            point = u
        else:

            def drift_of(w: Array) -> Array:
                return self.drift_at(w, u, t, theta, v)

            point = x
        columns = [jax.jvp(drift_of, (point,), (jnp.eye(n_dim)[i],)) for i in range(n_dim)]
        drift = columns[0][0]
        rate = -jnp.stack([slope[i] for i, (_, slope) in enumerate(columns)])
        diffusion = self.diffusion_at(x, u, t, theta, v)
        return Coefficients(rate, drift + rate * point, diffusion**2)

    def solve(self, coefficients: Coefficients, duration: Array) -> Linear:
        """Solve the linearised equation over a duration."""
        solver = second_order if self.hidden_velocity else first_order
        return solver(coefficients, duration)

    def initial(self, x: Array, t: Array, theta: Any, v: Array) -> tuple[Array, Array]:
        """Return mean and variance of the velocity at the first fix."""
        zero = jnp.zeros_like(x)
        if not self.hidden_velocity:
            return zero, zero
        if self.initial_velocity is None:
            rate, constant, intensity = self.coefficients((x, zero, v), t, zero[0], theta)
            return constant / rate, intensity / (2 * rate)
        moments = self.initial_velocity(x, t, theta)
        mean, sd = moments if isinstance(moments, tuple) else (zero, moments)
        return _per_axis(mean, x), _per_axis(sd, x) ** 2

    def initial_hidden(self, x: Array, t: Array, theta: Any, noise: Array) -> Array:
        """Draw the hidden variables at the first fix from standard normal numbers."""
        if self.hidden is None:
            return noise
        mean, sd = self.hidden.initial(x, t, theta)
        return mean * jnp.ones_like(noise) + sd * noise

    def move_hidden(
        self, state: tuple[Array, Array, Array], t: Array, step: Array, theta: Any, noise: Array
    ) -> Array:
        """Propagate the hidden variables over a step, each linearised in itself."""
        x, u, v = state
        if self.hidden is None:
            return v
        hidden = self.hidden

        def drift(value: Array) -> Array:
            return jnp.asarray(hidden.drift(value, x, u, t, theta)) * jnp.ones_like(value)

        columns = [jax.jvp(drift, (v,), (jnp.eye(len(v))[i],)) for i in range(len(v))]
        rate = -jnp.stack([slope[i] for i, (_, slope) in enumerate(columns)])
        diffusion = jnp.asarray(hidden.diffusion(v, x, u, t, theta)) * jnp.ones_like(v)
        linear = first_order(Coefficients(rate, columns[0][0] + rate * v, diffusion**2), step)
        return linear.fxx * v + linear.ox + jnp.sqrt(linear.qxx) * noise

    @property
    def n_hidden(self) -> int:
        """Number of further hidden variables."""
        return 0 if self.hidden is None else self.hidden.size


def _per_axis(value: Any, x: Array) -> Array:
    """Broadcast one value for all axes, or one per axis, to all axes."""
    return jnp.broadcast_to(jnp.asarray(value, dtype=x.dtype), x.shape)
