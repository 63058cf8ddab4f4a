"""What a stochastic differential equation is, but for the values of its parameters."""

__all__ = ["Function", "Hidden", "Law"]

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
from driftbayes.sde.linear import Coefficients, Linear, first_order, second_order

Function = Callable[..., Any]


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
