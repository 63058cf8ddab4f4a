"""Extended Kalman filter: a Gaussian approximation of the likelihood, exact where it is linear."""

__all__ = ["kalman_log_likelihood"]

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from driftbayes.sde.foresight import Given, relative
from driftbayes.sde.law import Law
from driftbayes.sde.potentials import Gaussian, Pseudo
from driftbayes.sde.tracks import Tracks


def kalman_log_likelihood(law: Law, given: Given, tracks: Tracks) -> Array:
    """Approximate ln p of each run, linearised along the filtered mean, each axis by itself.

    Args:
        law: The equation.
        given: Parameters and substeps.
        tracks: A block of runs.
    """
    value = jax.vmap(lambda track: _filter_run(law, given, track))(tracks)
    value = jnp.where(jnp.any(tracks.valid, axis=1), value, 0.0)
    return jnp.where(jnp.isnan(value), -jnp.inf, value)


def _filter_run(law: Law, given: Given, track: Tracks) -> Array:
    theta = given.theta
    variance = track.variance + given.variance
    zero = jnp.zeros_like(track.origin)
    v = law.initial_hidden(track.origin, track.t[0], theta, jnp.zeros(law.n_hidden))
    mean, spread = law.initial(track.origin, track.t[0], theta, v)
    start = (Gaussian(zero, mean, zero + variance[0], zero, spread), v, jnp.zeros(()))

    def step(carry: Any, inputs: Any) -> tuple[Any, None]:
        state, v, log_l = carry
        t, interval, y, error, valid = inputs
        h = interval / given.substeps.astype(interval.dtype)

        def substep(number: Array, now: Any) -> Any:
            state, v = now
            at, when = (track.origin + state.x, state.u, v), t + number.astype(h.dtype) * h
            found = relative(law, law.coefficients(at, when, 0.5 * h, theta), track.origin)
            f = law.solve(found, h)
            x, u = f.mean(state.x, state.u)
            ahead_x, ahead_u = (
                f.fxx * state.xx + f.fxu * state.xu,
                f.fxx * state.xu + f.fxu * state.uu,
            )
            moved = Gaussian(
                x,
                u,
                f.fxx * ahead_x + f.fxu * ahead_u + f.qxx,
                f.fuu * ahead_u + f.qxu,
                f.fuu**2 * state.uu + f.quu,
            )
            return moved, law.move_hidden(at, when, h, theta, jnp.zeros(law.n_hidden))

        moved, new_v = jax.lax.fori_loop(0, given.substeps, substep, (state, v))
        fix = Pseudo(zero + 1, zero, y, zero + error, zero, zero, zero, zero, zero)
        after, log_density = moved.observed(fix)
        found = (after, new_v, log_l + jnp.sum(log_density))
        return jax.tree.map(lambda a, b: jnp.where(valid, a, b), found, carry), None

    inputs = (track.t[:-1], track.interval, track.y[1:], variance[1:], track.valid)
    (_, _, log_l), _ = jax.lax.scan(step, start, inputs)
    return log_l
