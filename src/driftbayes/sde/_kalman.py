"""Extended Kalman filter: a Gaussian approximation, exact for linear equations."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from driftbayes.sde._law import Law
from driftbayes.sde._lookahead import FilterInputs, linearise
from driftbayes.sde._potentials import Gaussian, PseudoObservations
from driftbayes.sde._tracks import Tracks, each_run


def kalman_log_likelihood(law: Law, inputs: FilterInputs, tracks: Tracks) -> Array:
    """Approximate the log-likelihood of each run, linearised at the filtered mean, axis by axis.

    Args:
        law: The equation.
        inputs: Parameters and substeps.
        tracks: A block of runs.
    """
    return each_run(lambda track: _filter_run(law, inputs, track), tracks)


def _filter_run(law: Law, inputs: FilterInputs, track: Tracks) -> Array:
    """Approximate the log-likelihood of one run."""
    theta = inputs.theta
    variance = track.variance + inputs.variance
    zero = jnp.zeros_like(track.origin)
    v = law.initial_hidden(track.origin, track.t[0], theta, jnp.zeros(law.n_hidden))
    mean, variance_u = law.initial(track.origin, track.t[0], theta, v)
    start = (Gaussian(zero, mean, zero + variance[0], zero, variance_u), v, jnp.zeros(()))

    def step(carry: Any, xs: Any) -> tuple[Any, None]:
        state, v, log_l = carry
        t, interval, y, error, valid = xs
        h = interval / inputs.substeps.astype(interval.dtype)

        def substep(number: Array, carry: Any) -> Any:
            state, v = carry
            point, time = (track.origin + state.x, state.u, v), t + number.astype(h.dtype) * h
            around = (state.x, state.u, v, track.origin)
            f = law.solve(linearise(law, inputs, around, time, 0.5 * h), h)
            free = Gaussian.after(f, state.x, state.u)
            cross_x = f.fxx * state.xx + f.fxu * state.xu
            cross_u = f.fxx * state.xu + f.fxu * state.uu
            moved = free._replace(
                xx=f.fxx * cross_x + f.fxu * cross_u + free.xx,
                xu=f.fuu * cross_u + free.xu,
                uu=f.fuu**2 * state.uu + free.uu,
            )
            return moved, law.move_hidden(point, time, h, theta, jnp.zeros(law.n_hidden))

        moved, new_v = jax.lax.fori_loop(0, inputs.substeps, substep, (state, v))
        fix = PseudoObservations(zero + 1, zero, y, zero + error, zero, zero, zero, zero, zero)
        after, log_density = moved.condition_on(fix)
        updated = (after, new_v, log_l + jnp.sum(log_density))
        return jax.tree.map(lambda a, b: jnp.where(valid, a, b), updated, carry), None

    xs = (track.t[:-1], track.interval, track.y[1:], variance[1:], track.valid)
    (_, _, log_l), _ = jax.lax.scan(step, start, xs)
    return log_l
