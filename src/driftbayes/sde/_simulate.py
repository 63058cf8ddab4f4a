"""Simulate paths of a stochastic differential equation by small steps."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from driftbayes._jax_typing import Key, ScalarLike
from driftbayes.errors import DriftbayesError
from driftbayes.sde._law import Law
from driftbayes.sde._potentials import Gaussian

# Default number of substeps per step.
_SUBSTEPS = 64
# Substeps per time scale of the drift, for 90 % of the particles. The mean square speed under cubic
# friction is then accurate to within the sampling error of 40,000 particles, 0.6 %.
_PER_TIME_SCALE = 40
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
        start: Initial positions, (particle, dim).
        n_steps: Number of steps.
        tau: Duration of a step.
        substeps: Substeps per step; a linear equation needs one.
        time: Initial time.

    Returns:
        Positions and velocities, (particle, position, dim).
    """
    clock = (jnp.asarray(time, dtype=float), jnp.asarray(tau, dtype=float))
    sizes = (n_steps, substeps)
    return _paths(law, sizes, theta, key, jnp.asarray(start, dtype=float), clock)


def resolved_substeps(law: Law, theta: Any, key: Key, n_dim: int, tau: ScalarLike) -> int:
    """Choose a number of substeps that resolves the time scale of the drift on a few pilot paths.

    Args:
        law: The equation.
        theta: Its parameters.
        key: Random key of the pilot paths.
        n_dim: Number of axes.
        tau: Duration of a step.

    Raises:
        DriftbayesError: The step is too long, or a path diverges.
    """
    x, u = simulate_paths(law, theta, key, jnp.zeros((_N_PILOT, n_dim)), n_steps=2, tau=tau)
    rates = np.asarray(_rates(law, theta, key, x.reshape(-1, n_dim), u.reshape(-1, n_dim)))
    if not np.isfinite(rates).all():
        raise DriftbayesError(
            f"simulated paths of {law.name!r} are not finite within two steps of {float(tau):.4g}; "
            "use a smaller sampling time, or check the parameters"
        )
    n_substeps = int(np.ceil(_PER_TIME_SCALE * float(tau) * np.quantile(rates, 0.9)))
    if n_substeps > _MAX_SUBSTEPS:
        ratio, limit = n_substeps / _PER_TIME_SCALE, _MAX_SUBSTEPS // _PER_TIME_SCALE
        raise DriftbayesError(
            f"a step of {float(tau):.4g} is {ratio:.0f} times the time scale of the drift of "
            f"{law.name!r}, at most {limit} can be simulated; use a smaller sampling time"
        )
    return max(n_substeps, _SUBSTEPS)


@partial(jax.jit, static_argnums=0)
def _rates(law: Law, theta: Any, key: Key, x: Array, u: Array) -> Array:
    """Return the inverse time scale of the drift at each state.

    A drift of the velocity that is linear in the velocity alone has rate zero: it is solved
    exactly.
    """
    zero, hidden = jnp.zeros(()), law.hidden
    noise = jax.random.normal(key, (law.n_hidden,))

    def jacobian(x: Array, u: Array) -> tuple[Array, Array, Array]:
        v = law.initial_hidden(x, zero, theta, noise)
        slopes = jax.jacfwd(lambda x, u: law.drift_at(x, u, zero, theta, v), (0, 1))(x, u)
        if hidden is None:
            return *slopes, zero
        # Coefficients that depend on hidden variables change at the rate of these variables.
        slope = jax.jacfwd(lambda v: jnp.asarray(hidden.drift(v, x, u, zero, theta)))(v)
        return *slopes, jnp.sqrt(jnp.sum(slope**2))

    position_rate, velocity_slopes, hidden_rate = jax.vmap(jacobian)(x, u)
    position_rate = jnp.sqrt(jnp.sum(position_rate**2, axis=(1, 2)))
    if not law.hidden_velocity:
        return position_rate + hidden_rate
    # Linear friction is solved exactly for any step.
    is_nonlinear = jnp.max(jnp.ptp(velocity_slopes, axis=0)) > 1e-9 * jnp.max(
        jnp.abs(velocity_slopes)
    )
    friction = jnp.sqrt(jnp.sum(velocity_slopes**2, axis=(1, 2)))
    return jnp.sqrt(position_rate) + jnp.where(is_nonlinear, friction, 0.0) + hidden_rate


@partial(jax.jit, static_argnums=(0, 1))
def _paths(
    law: Law, sizes: tuple[int, int], theta: Any, key: Key, start: Array, clock: tuple[Array, Array]
) -> tuple[Array, Array]:
    """Simulate positions and velocities; `sizes` are the numbers of steps and substeps."""
    (n_steps, substeps), (time, tau) = sizes, clock
    n, n_dim = start.shape
    h = tau / substeps
    shape = (n, 2 * n_dim + law.n_hidden)
    key_start, key_steps = jax.random.split(key)

    def draw_initial(x: Array, noise: Array) -> tuple[Array, Array, Array]:
        v = law.initial_hidden(x, time, theta, noise[2 * n_dim :])
        mean, variance = law.initial(x, time, theta, v)
        return x, mean + jnp.sqrt(variance) * noise[:n_dim], v

    def move(state: tuple[Array, Array, Array], t: Array, noise: Array) -> tuple[Array, ...]:
        x, u, _ = state
        linear = law.solve(law.coefficients(state, t, 0.5 * h, theta), h)
        new = Gaussian.after(linear, x, u).draw(noise[:n_dim], noise[n_dim : 2 * n_dim])
        return *new, law.move_hidden(state, t, h, theta, noise[2 * n_dim :])

    def step(state: Any, number: Array) -> tuple[Any, tuple[Array, Array]]:
        noises = jax.random.normal(jax.random.fold_in(key_steps, number), (substeps, *shape))

        def substep(state: Any, inputs: Any) -> tuple[Any, None]:
            k, noise = inputs
            t = time + number.astype(h.dtype) * tau + k * h
            return jax.vmap(lambda s, e: move(s, t, e))(state, noise), None

        state, _ = jax.lax.scan(substep, state, (jnp.arange(substeps, dtype=h.dtype), noises))
        return state, state[:2]

    first = jax.vmap(draw_initial)(start, jax.random.normal(key_start, shape))
    _, (x, u) = jax.lax.scan(step, first, jnp.arange(n_steps))
    x, u = (jnp.concatenate([a[None], b]) for a, b in zip(first[:2], (x, u), strict=True))
    return jnp.moveaxis(x, 0, 1), jnp.moveaxis(u, 0, 1)
