"""Simulate paths of a stochastic differential equation by small steps."""

__all__ = ["simulate_paths"]

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from driftbayes.jax_typing import Key, ScalarLike
from driftbayes.sde.law import Law
from driftbayes.sde.linear import Linear
from driftbayes.sde.potentials import Gaussian

# Substeps of a sampling time, unless told otherwise.
_SUBSTEPS = 64


def simulate_paths(
    law: Law,
    theta: Any,
    key: Key,
    start: Array,
    *,
    n_steps: int,
    tau: ScalarLike,
    substeps: int = _SUBSTEPS,
    time: ScalarLike = 0.0,
) -> tuple[Array, Array]:
    """Simulate positions and velocities at regular times.

    Args:
        law: The equation.
        theta: Its parameters.
        key: Random key.
        start: Where the particles start, (particle, dim).
        n_steps: Number of steps.
        tau: Duration of a step.
        substeps: Substeps of a step; a linear equation needs one.
        time: Time of the start.

    Returns:
        Positions and velocities, (particle, position, dim).
    """
    clock = (jnp.asarray(time, dtype=float), jnp.asarray(tau, dtype=float))
    sizes = (n_steps, substeps)
    return _paths(law, sizes, theta, key, jnp.asarray(start, dtype=float), clock)


@partial(jax.jit, static_argnums=(0, 1))
def _paths(
    law: Law, sizes: tuple[int, int], theta: Any, key: Key, start: Array, clock: tuple[Array, Array]
) -> tuple[Array, Array]:
    (n_steps, substeps), (time, tau) = sizes, clock
    n, n_dim = start.shape
    h = tau / substeps
    shape = (n, 2 * n_dim + law.n_hidden)
    key_start, key_steps = jax.random.split(key)

    def begin(x: Array, kick: Array) -> tuple[Array, Array, Array]:
        v = law.initial_hidden(x, time, theta, kick[2 * n_dim :])
        mean, variance = law.initial(x, time, theta, v)
        return x, mean + jnp.sqrt(variance) * kick[:n_dim], v

    def move(state: tuple[Array, Array, Array], t: Array, kick: Array) -> tuple[Array, ...]:
        x, u, _ = state
        linear: Linear = law.solve(law.coefficients(state, t, 0.5 * h, theta), h)
        free = Gaussian(*linear.mean(x, u), linear.qxx, linear.qxu, linear.quu)
        new_x, new_u = free.draw(kick[:n_dim], kick[n_dim : 2 * n_dim])
        return new_x, new_u, law.move_hidden(state, t, h, theta, kick[2 * n_dim :])

    def step(state: Any, number: Array) -> tuple[Any, tuple[Array, Array]]:
        kicks = jax.random.normal(jax.random.fold_in(key_steps, number), (substeps, *shape))

        def substep(state: Any, inputs: Any) -> tuple[Any, None]:
            k, kick = inputs
            t = time + number.astype(h.dtype) * tau + k * h
            return jax.vmap(lambda s, e: move(s, t, e))(state, kick), None

        state, _ = jax.lax.scan(substep, state, (jnp.arange(substeps, dtype=h.dtype), kicks))
        return state, state[:2]

    first = jax.vmap(begin)(start, jax.random.normal(key_start, shape))
    _, (x, u) = jax.lax.scan(step, first, jnp.arange(n_steps))
    x, u = (jnp.concatenate([a[None], b]) for a, b in zip(first[:2], (x, u), strict=True))
    return jnp.moveaxis(x, 0, 1), jnp.moveaxis(u, 0, 1)
