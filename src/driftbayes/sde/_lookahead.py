"""Backward information filter: look-ahead potentials of the state at each fix.

The potentials come from a linearised equation. They affect the efficiency of a particle filter,
not the expectation of its estimate.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from driftbayes.likelihood._gaussian import LOG_2PI
from driftbayes.sde._law import Law
from driftbayes.sde._linear import Coefficients, Linear
from driftbayes.sde._potentials import (
    Gaussian,
    Lookahead,
    PseudoObservations,
    no_lookahead,
    propagate_backward,
    pseudo_observations,
)
from driftbayes.sde._tracks import Tracks

# Smallest precision of a velocity, as a fraction of that under the linearised equation.
_MIN_PRECISION_FRACTION = 1e-3


class FilterInputs(NamedTuple):
    """Inputs of a filter besides the data.

    Args:
        theta: Parameters.
        variance: Variance of the measurement error that the model adds to each fix.
        substeps: Substeps between two fixes. The value is traced: a new one compiles no program.
        paired: Whether each substep sums the random numbers of two half substeps.
    """

    theta: Any
    variance: Array
    substeps: Array
    paired: Array | bool = False


def linearise(
    law: Law, inputs: FilterInputs, state: tuple[Array, ...], t: Array, half_step: Array
) -> Coefficients:
    """Linearise the equation at a state, for positions relative to an origin.

    A branch that is always taken encloses the computation. The compiler would otherwise repeat the
    user's functions in every loop that needs part of the result, which doubles the time.

    Args:
        law: The equation.
        inputs: Parameters.
        state: Position relative to an origin, velocity, hidden variables, and the origin.
        t: Time.
        half_step: Half of the step.
    """
    x, u, v, origin = state

    def compute() -> Coefficients:
        return law.coefficients((origin + x, u, v), t, half_step, inputs.theta)

    def skip() -> Coefficients:
        return Coefficients(*[jnp.zeros_like(x)] * 3)

    coefficients = jax.lax.cond(inputs.substeps > 0, compute, skip)
    if law.hidden_velocity:
        return coefficients
    return coefficients._replace(constant=coefficients.constant - coefficients.rate * origin)


def guided_step(
    law: Law,
    inputs: FilterInputs,
    state: tuple[Array, ...],
    clock: tuple[Array, ...],
    lookahead: Lookahead,
) -> tuple[Gaussian, PseudoObservations, Array, Array]:
    """Build the guided proposal for a substep of one particle.

    Args:
        law: The equation.
        inputs: Parameters.
        state: Position relative to an origin, velocity, hidden variables, and the origin.
        clock: Time, duration of the substep, and time from its end to the next fix.
        lookahead: Look-ahead potential at the next fix.

    Returns:
        Distribution of the state after the substep, given the next and later fixes;
        pseudo-observations of that state; log density of the next and later fixes, given the
        present state; and, if the substep ends at the fix, the log of the largest density of the
        fix, otherwise 0.
    """
    (x, u, *_), (t, h, time_left) = state, clock
    coefficients = linearise(law, inputs, state, t, 0.5 * h)
    linear = law.solve(coefficients, h)
    free = Gaussian.after(linear, x, u)
    pseudo = pseudo_observations(law.solve(coefficients, time_left), lookahead)
    proposal, log_density = free.condition_on(pseudo)
    spread = jnp.where(lookahead.variance > 0, lookahead.variance, free.xx)
    peak = -jnp.sum(0.5 * (LOG_2PI + jnp.log(spread)) + lookahead.log_constant)
    return proposal, pseudo, jnp.sum(log_density), jnp.where(time_left == 0, peak, 0.0)


def backward_information(law: Law, inputs: FilterInputs, track: Tracks) -> Lookahead:
    """Compute the look-ahead potential at each fix of a run, (fix, dim).

    A first backward pass linearises the equation at the mean velocity of each step. With a hidden
    velocity, a second pass fits parabolas to the log density of the later fixes, around the
    velocity expected at each fix.
    """
    theta = inputs.theta
    variance = track.variance + inputs.variance
    error = jnp.broadcast_to(variance[:, None], track.y.shape)
    step = track.y[1:] - track.y[:-1]
    middle = 0.5 * (track.y[1:] + track.y[:-1])
    speed = step / track.interval[:, None]
    times = 0.5 * (track.t[1:] + track.t[:-1])
    hidden = jax.vmap(
        lambda y, t: law.initial_hidden(track.origin + y, t, theta, jnp.zeros(law.n_hidden))
    )(middle, times)

    def linear_solution(x: Array, u: Array, v: Array, t: Array, interval: Array) -> Linear:
        coefficients = linearise(law, inputs, (x, u, v, track.origin), t, jnp.zeros(()))
        return law.solve(coefficients, interval)

    linears = jax.vmap(linear_solution)(middle, speed, hidden, times, track.interval)

    def step_backward(lookahead: Lookahead, xs: Any) -> tuple[Lookahead, Lookahead]:
        linear, y, error, valid = xs
        potential = propagate_backward(linear, lookahead, y, error)
        potential = _finite_or_fix_only(potential, y, error, valid)
        return potential, potential

    last = no_lookahead(track.y[-1], error[-1])
    fixes = (track.y[:-1], error[:-1], track.valid)
    _, first = jax.lax.scan(step_backward, last, (linears, *fixes), reverse=True)
    if not law.hidden_velocity:
        return _append(first, last)
    velocities = _smoothed_velocity(law, theta, track, (linears, hidden), _append(first, last))
    m = inputs.substeps.astype(track.interval.dtype)

    def fit_parabola(lookahead: Lookahead, xs: Any) -> tuple[Lookahead, Lookahead]:
        linear, y, error, valid, (u, width), v, t, interval = xs
        linear_potential = propagate_backward(linear, lookahead, y, error)

        def log_g(u: Array) -> Array:
            clock = (t, interval / m, interval - interval / m)
            return guided_step(law, inputs, (y, u, v, track.origin), clock, lookahead)[2]

        n_dim = len(u)
        axes = jnp.eye(n_dim) * width[:, None]
        shifts = jnp.concatenate([jnp.zeros((1, n_dim)), axes, -axes])
        values = jax.vmap(lambda shift: log_g(u + shift))(shifts)
        at_centre, above, below = values[0], values[1 : n_dim + 1], values[n_dim + 1 :]
        rho = (2 * at_centre - above - below) / width**2
        rho = jnp.maximum(rho, _MIN_PRECISION_FRACTION * linear_potential.rho)
        centre = u + 0.5 * (above - below) / width / rho
        refined = linear_potential._replace(rho=rho, v=centre, alpha=jnp.zeros_like(rho))
        # With a measurement error the position is uncertain too: a parabola in the velocity alone
        # does not suffice.
        potential = jax.tree.map(lambda a, b: jnp.where(error > 0, b, a), refined, linear_potential)
        potential = _finite_or_fix_only(potential, y, error, valid)
        return potential, potential

    xs = (linears, *fixes, velocities, hidden, track.t[:-1], track.interval)
    _, second = jax.lax.scan(fit_parabola, last, xs, reverse=True)
    return _append(second, last)


def _smoothed_velocity(
    law: Law, theta: Any, track: Tracks, linears: tuple[Linear, Array], lookaheads: Lookahead
) -> tuple[Array, Array]:
    """Return the smoothed velocity at each fix but the last, and its standard deviation."""
    steps, hidden = linears
    mean, variance_u = law.initial(track.origin, track.t[0], theta, hidden[0])
    first = jax.tree.map(lambda a: a[0], lookaheads)
    zero = jnp.zeros_like(mean)
    before = Gaussian(zero, mean, zero, zero, variance_u)
    start, _ = before.condition_on_factor(first.alpha, zero + 1, first.v, first.rho)

    def forward(state: tuple[Array, Array], xs: Any) -> tuple[Any, Any]:
        linear, y, lookahead = xs
        u, variance = state
        free = Gaussian.after(linear, y, u)
        predicted = free._replace(
            xx=free.xx + linear.fxu**2 * variance,
            xu=free.xu + linear.fxu * linear.fuu * variance,
            uu=free.uu + linear.fuu**2 * variance,
        )
        fix = pseudo_observations(_identity_solution(linear), lookahead)
        after, _ = predicted.condition_on(fix)
        return (after.u, after.uu), state

    later = jax.tree.map(lambda a: a[1:], lookaheads)
    _, (u, variance) = jax.lax.scan(forward, (start.u, start.uu), (steps, track.y[:-1], later))
    return u, jnp.sqrt(jnp.maximum(variance, 1e-12 * (variance_u[None] + variance)))


def _identity_solution(linear: Linear) -> Linear:
    """Return the solution over a duration of zero."""
    one, zero = jnp.ones_like(linear.fxx), jnp.zeros_like(linear.fxx)
    return Linear(one, zero, one, zero, zero, zero, zero, zero)


def _finite_or_fix_only(potential: Lookahead, y: Array, error: Array, valid: Array) -> Lookahead:
    """Replace a potential by that of the fix alone where the run has ended or it is not finite."""
    is_usable = valid & jnp.all(jnp.stack([jnp.all(jnp.isfinite(a)) for a in potential]))
    fix_only = no_lookahead(y, error)
    return jax.tree.map(lambda a, b: jnp.where(is_usable, a, b), potential, fix_only)


def _append(before: Lookahead, last: Lookahead) -> Lookahead:
    """Append the potential of the last fix to those of the others."""
    return jax.tree.map(lambda a, b: jnp.concatenate([a, b[None]]), before, last)
