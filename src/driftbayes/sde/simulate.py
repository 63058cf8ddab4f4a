"""Simulate paths of a stochastic differential equation by small steps."""

__all__ = ["resolved_substeps", "simulate_paths"]

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from driftbayes.errors import DriftbayesError
from driftbayes.jax_typing import Key, ScalarLike
from driftbayes.sde.law import Law
from driftbayes.sde.linear import Linear
from driftbayes.sde.potentials import Gaussian

# Substeps of a sampling time, unless told otherwise.
_SUBSTEPS = 64
# Substeps within the time in which the drift of nine particles out of ten changes. The mean square
# speed under cubic friction is then right within the error of 40,000 particles, 0.6 %.
_PER_CHANGE = 40
_MAX_SUBSTEPS = 8192
_N_PILOT = 64


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


def resolved_substeps(law: Law, theta: Any, key: Key, n_dim: int, tau: ScalarLike) -> int:
    """Substeps that resolve how fast the drift changes along a few paths.

    Args:
        law: The equation.
        theta: Its parameters.
        key: Random key of these paths.
        n_dim: Number of axes.
        tau: Duration of a step.

    Raises:
        DriftbayesError: The step is too long, or a path leaves all bounds.
    """
    x, u = simulate_paths(law, theta, key, jnp.zeros((_N_PILOT, n_dim)), n_steps=2, tau=tau)
    rates = np.asarray(_rates(law, theta, key, x.reshape(-1, n_dim), u.reshape(-1, n_dim)))
    if not np.isfinite(rates).all():
        msg = (
            f"simulated paths of {law.name!r} are not finite within two steps of {float(tau):.4g}; "
            "use a smaller sampling time, or check the parameters"
        )
        raise DriftbayesError(msg)
    wanted = int(np.ceil(_PER_CHANGE * float(tau) * np.quantile(rates, 0.9)))
    if wanted > _MAX_SUBSTEPS:
        msg = (
            f"a step of {float(tau):.4g} is {wanted / _PER_CHANGE:.0f} times as long as the drift "
            f"of {law.name!r} takes to change, at most {_MAX_SUBSTEPS // _PER_CHANGE} can be "
            "simulated; use a smaller sampling time"
        )
        raise DriftbayesError(msg)
    return max(wanted, _SUBSTEPS)


@partial(jax.jit, static_argnums=0)
def _rates(law: Law, theta: Any, key: Key, x: Array, u: Array) -> Array:
    """How fast the drift changes at each state; zero where the velocity's is linear in it alone."""
    zero, hidden = jnp.zeros(()), law.hidden
    kick = jax.random.normal(key, (law.n_hidden,))

    def jacobian(x: Array, u: Array) -> tuple[Array, Array, Array]:
        v = law.initial_hidden(x, zero, theta, kick)
        slopes = jax.jacfwd(lambda x, u: law.drift_at(x, u, zero, theta, v), (0, 1))(x, u)
        if hidden is None:
            return *slopes, zero
        # Hidden variables change the coefficients as fast as they change themselves.
        own = jax.jacfwd(lambda v: jnp.asarray(hidden.drift(v, x, u, zero, theta)))(v)
        return *slopes, jnp.sqrt(jnp.sum(own**2))

    by_place, by_velocity, of_hidden = jax.vmap(jacobian)(x, u)
    by_place = jnp.sqrt(jnp.sum(by_place**2, axis=(1, 2)))
    if not law.hidden_velocity:
        return by_place + of_hidden
    # Linear friction is solved exactly, whatever the step.
    bent = jnp.max(jnp.ptp(by_velocity, axis=0)) > 1e-9 * jnp.max(jnp.abs(by_velocity))
    friction = jnp.sqrt(jnp.sum(by_velocity**2, axis=(1, 2)))
    return jnp.sqrt(by_place) + jnp.where(bent, friction, 0.0) + of_hidden


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
