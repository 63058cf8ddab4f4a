"""What all fixes to come say of the state at each fix, by an approximate linear equation.

Only how well a filter is guided depends on it, not what it estimates.
"""

__all__ = ["Given", "foresee", "guided_step", "linearised", "relative"]

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from driftbayes.sde.law import Law
from driftbayes.sde.linear import Coefficients, Linear
from driftbayes.sde.potentials import (
    LOG_2PI,
    Ahead,
    Gaussian,
    Pseudo,
    look_back,
    nothing_ahead,
    pseudo_of,
)
from driftbayes.sde.tracks import Tracks

# A velocity is known to no less than this share of the precision by a straight line.
_MIN_SHARE = 1e-3


class Given(NamedTuple):
    """What a likelihood is computed for.

    Args:
        theta: Parameters.
        variance: Variance of an error that the model adds to each fix.
        substeps: Substeps between two fixes; a number that no program is compiled for.
        paired: Whether each substep takes the random numbers of two of half its length.
    """

    theta: Any
    variance: Array
    substeps: Array
    paired: Array | bool = False


def relative(law: Law, coefficients: Coefficients, origin: Array) -> Coefficients:
    """Coefficients for positions relative to an origin."""
    if law.hidden_velocity:
        return coefficients
    shift = coefficients.constant - coefficients.rate * origin
    return coefficients._replace(constant=shift)


def linearised(
    law: Law, given: Given, state: tuple[Array, ...], t: Array, ahead: Array
) -> Coefficients:
    """Coefficients at a state, for positions relative to an origin.

    They are computed in a branch that is always taken: the compiler would otherwise repeat the
    user's functions in every loop that needs a part of them, which takes twice the time.

    Args:
        law: The equation.
        given: Parameters.
        state: Position relative to an origin, velocity, further variables, and the origin.
        t: Time.
        ahead: Half of the step.
    """
    x, u, v, origin = state

    def found() -> Coefficients:
        return law.coefficients((origin + x, u, v), t, ahead, given.theta)

    def nothing() -> Coefficients:
        return Coefficients(*[jnp.zeros_like(x)] * 3)

    return relative(law, jax.lax.cond(given.substeps > 0, found, nothing), origin)


def guided_step(
    law: Law, given: Given, state: tuple[Array, ...], clock: tuple[Array, ...], ahead: Ahead
) -> tuple[Gaussian, Pseudo, Array, Array]:
    """Propose a substep of one particle.

    Args:
        law: The equation.
        given: Parameters.
        state: Position relative to an origin, velocity, further variables, and the origin.
        clock: Time, duration of the substep, and time left from its end to the next fix.
        ahead: The next fix.

    Returns:
        Law of the state after the substep, given the fix, what the fix says of that state, ln of
        the density of the fix and what lies beyond it, given the present state, and the largest
        ln of the density of the fix if the substep ends there, or 0.
    """
    (x, u, *_), (t, h, left) = state, clock
    found = linearised(law, given, state, t, 0.5 * h)
    linear = law.solve(found, h)
    free = Gaussian(*linear.mean(x, u), linear.qxx, linear.qxu, linear.quu)
    pseudo = pseudo_of(law.solve(found, left), ahead)
    proposal, log_density = free.observed(pseudo)
    spread = jnp.where(ahead.variance > 0, ahead.variance, free.xx)
    peak = -jnp.sum(0.5 * (LOG_2PI + jnp.log(spread)) + ahead.log_constant)
    return proposal, pseudo, jnp.sum(log_density), jnp.where(left == 0, peak, 0.0)


def foresee(law: Law, given: Given, track: Tracks) -> Ahead:
    """Each fix of a run with what lies beyond it, (fix, dim).

    First by the equation linearised at the mean velocity of each step, then by parabolas through
    the density of what follows each fix, about the velocity expected there.
    """
    theta = given.theta
    variance = track.variance + given.variance
    error = jnp.broadcast_to(variance[:, None], track.y.shape)
    step = track.y[1:] - track.y[:-1]
    middle = 0.5 * (track.y[1:] + track.y[:-1])
    speed = step / track.interval[:, None]
    times = 0.5 * (track.t[1:] + track.t[:-1])
    hidden = jax.vmap(
        lambda y, t: law.initial_hidden(track.origin + y, t, theta, jnp.zeros(law.n_hidden))
    )(middle, times)

    def linear_of(x: Array, u: Array, v: Array, t: Array, interval: Array) -> Linear:
        found = linearised(law, given, (x, u, v, track.origin), t, jnp.zeros(()))
        return law.solve(found, interval)

    linears = jax.vmap(linear_of)(middle, speed, hidden, times, track.interval)

    def back(ahead: Ahead, inputs: Any) -> tuple[Ahead, Ahead]:
        linear, y, error, valid = inputs
        found = look_back(linear, ahead, y, error)
        found = _or_nothing(found, y, error, valid)
        return found, found

    last = nothing_ahead(track.y[-1], error[-1])
    fixes = (track.y[:-1], error[:-1], track.valid)
    _, first = jax.lax.scan(back, last, (linears, *fixes), reverse=True)
    if not law.hidden_velocity:
        return _joined(first, last)
    expected = _expected(law, theta, track, (linears, hidden), _joined(first, last))
    m = given.substeps.astype(track.interval.dtype)

    def parabola(ahead: Ahead, inputs: Any) -> tuple[Ahead, Ahead]:
        linear, y, error, valid, (u, width), v, t, interval = inputs
        plain = look_back(linear, ahead, y, error)

        def log_g(u: Array) -> Array:
            clock = (t, interval / m, interval - interval / m)
            return guided_step(law, given, (y, u, v, track.origin), clock, ahead)[2]

        n_dim = len(u)
        axes = jnp.eye(n_dim) * width[:, None]
        shifts = jnp.concatenate([jnp.zeros((1, n_dim)), axes, -axes])
        values = jax.vmap(lambda shift: log_g(u + shift))(shifts)
        here, above, below = values[0], values[1 : n_dim + 1], values[n_dim + 1 :]
        rho = (2 * here - above - below) / width**2
        rho = jnp.maximum(rho, _MIN_SHARE * plain.rho)
        centre = u + 0.5 * (above - below) / width / rho
        better = plain._replace(rho=rho, v=centre, alpha=jnp.zeros_like(rho))
        # Of a fix with an error the position is not known, and parabolas would need another axis.
        found = jax.tree.map(lambda a, b: jnp.where(error > 0, b, a), better, plain)
        found = _or_nothing(found, y, error, valid)
        return found, found

    inputs = (linears, *fixes, expected, hidden, track.t[:-1], track.interval)
    _, second = jax.lax.scan(parabola, last, inputs, reverse=True)
    return _joined(second, last)


def _expected(
    law: Law, theta: Any, track: Tracks, linears: tuple[Linear, Array], futures: Ahead
) -> tuple[Array, Array]:
    """Velocity that all fixes let expect at each fix but the last, and its standard deviation."""
    steps, hidden = linears
    mean, spread = law.initial(track.origin, track.t[0], theta, hidden[0])
    first = jax.tree.map(lambda a: a[0], futures)
    zero = jnp.zeros_like(mean)
    before = Gaussian(zero, mean, zero, zero, spread)
    start, _ = before.given(first.alpha, zero + 1, first.v, first.rho)

    def forward(state: tuple[Array, Array], inputs: Any) -> tuple[Any, Any]:
        linear, y, ahead = inputs
        u, variance = state
        mean_x, mean_u = linear.mean(y, u)
        free = Gaussian(mean_x, mean_u, linear.qxx, linear.qxu, linear.quu)
        reach = Gaussian(
            free.x,
            free.u,
            free.xx + linear.fxu**2 * variance,
            free.xu + linear.fxu * linear.fuu * variance,
            free.uu + linear.fuu**2 * variance,
        )
        fix = pseudo_of(_standing(linear), ahead)
        after, _ = reach.observed(fix)
        return (after.u, after.uu), state

    nexts = jax.tree.map(lambda a: a[1:], futures)
    _, (u, variance) = jax.lax.scan(forward, (start.u, start.uu), (steps, track.y[:-1], nexts))
    return u, jnp.sqrt(jnp.maximum(variance, 1e-12 * (spread[None] + variance)))


def _standing(linear: Linear) -> Linear:
    """The solution over no time."""
    one, zero = jnp.ones_like(linear.fxx), jnp.zeros_like(linear.fxx)
    return Linear(one, zero, one, zero, zero, zero, zero, zero)


def _or_nothing(found: Ahead, y: Array, error: Array, valid: Array) -> Ahead:
    """What lies ahead, or nothing where a run has ended or the reference is not finite."""
    is_good = valid & jnp.all(jnp.stack([jnp.all(jnp.isfinite(a)) for a in found]))
    nothing = nothing_ahead(y, error)
    return jax.tree.map(lambda a, b: jnp.where(is_good, a, b), found, nothing)


def _joined(before: Ahead, last: Ahead) -> Ahead:
    return jax.tree.map(lambda a, b: jnp.concatenate([a, b[None]]), before, last)
