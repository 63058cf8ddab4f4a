r"""Particle filters: unbiased estimates of the likelihood of a stochastic differential equation.

Every step between two fixes is divided into m substeps. `guided` proposes each substep from the
equation linearised at the particle's state, conditioned on the next fix and on what lies beyond it
(see `potentials`); `bootstrap` proposes from the equation itself, and needs fixes with errors.
Weights make up for the difference, so that

$$\operatorname{E} \hat L(\theta) = p(y_{1:N} \mid y_0, \theta)$$

of the equation solved with m substeps, for any number of particles.
"""

__all__ = ["Filter", "log_likelihood"]

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array

from driftbayes.jax_typing import Key
from driftbayes.sde.foresight import Given, foresee, guided_step, linearised
from driftbayes.sde.law import Law
from driftbayes.sde.potentials import LOG_2PI, Ahead, Gaussian, nothing_ahead
from driftbayes.sde.tracks import Tracks

# Particles are resampled where fewer than this share of them are effective.
_EFFECTIVE = 0.5
# Ln of a weight that counts for nothing; of larger numbers rounding leaves too little. And what a
# weight may exceed its bound by.
_NOTHING, _SLACK = -1e10, 1.0


@dataclass(frozen=True)
class Filter:
    """How a likelihood is estimated.

    Args:
        particles: Number of particles of each run.
        guided: Whether particles are guided towards the next fix.
        lookahead: Whether they are guided by the fixes after the next too.
    """

    particles: int = 32
    guided: bool = True
    lookahead: bool = True


class _Particles(NamedTuple):
    """Particles of one run, (particle, dim), and what is summed of their weights."""

    x: Array
    u: Array
    v: Array
    log_w: Array
    log_l: Array


def log_likelihood(law: Law, how: Filter, given: Given, tracks: Tracks, key: Key) -> Array:
    """Estimate ln p of each run.

    Args:
        law: The equation.
        how: The filter.
        given: Parameters and substeps.
        tracks: A block of runs.
        key: Random key; a run's numbers depend on it and on the run's number.

    Returns:
        Ln of the estimates, one for each run; minus infinity where all weights vanish.
    """

    def of_run(track: Tracks) -> Array:
        return _filter_run(law, how, given, track, jax.random.fold_in(key, track.number))

    value = jax.vmap(of_run)(tracks)
    value = jnp.where(jnp.any(tracks.valid, axis=1), value, 0.0)
    return jnp.where(value > 0.5 * _NOTHING, value, -jnp.inf)


def _filter_run(law: Law, how: Filter, given: Given, track: Tracks, key: Key) -> Array:
    theta, variance = given.theta, track.variance + given.variance
    futures = _futures(law, how, given, track)
    key_start, key_steps = jax.random.split(key)
    first = (jax.tree.map(lambda a: a[0], futures), variance[0])
    start = _start(law, how, theta, track, first, key_start)

    def step(particles: _Particles, inputs: Any) -> tuple[_Particles, None]:
        number, t, interval, valid, ahead, is_exact = inputs
        clock = (t, interval, jax.random.fold_in(key_steps, number))
        moved = _step(law, how, given, (particles, track.origin), clock, (ahead, is_exact))
        kept = jax.tree.map(lambda new, old: jnp.where(valid, new, old), moved, particles)
        return kept, None

    n_steps = len(track.interval)
    nexts = jax.tree.map(lambda a: a[1:], futures)
    inputs = (
        *(jnp.arange(n_steps), track.t[:-1], track.interval, track.valid, nexts),
        variance[1:] == 0,
    )
    end, _ = jax.lax.scan(step, start, inputs)
    return end.log_l + _log_mean(end.log_w)


def _futures(law: Law, how: Filter, given: Given, track: Tracks) -> Ahead:
    """Each fix, with what lies beyond it where the filter looks there; (fix, dim)."""
    if how.guided and how.lookahead:
        return foresee(law, given, track)
    error = (track.variance + given.variance)[:, None]
    return jax.vmap(nothing_ahead)(track.y, jnp.broadcast_to(error, track.y.shape))


def _start(
    law: Law, how: Filter, theta: Any, track: Tracks, first: tuple[Ahead, Array], key: Key
) -> _Particles:
    """Particles at the first fix, drawn by what is known of the fixes to come."""
    ahead, variance = first
    n, (n_dim,) = how.particles, track.origin.shape
    kicks = jax.random.normal(key, (n, 2 * n_dim + law.n_hidden))

    def draw(kick: Array) -> _Particles:
        at_start = track.origin
        v = law.initial_hidden(at_start, track.t[0], theta, kick[2 * n_dim :])
        mean, spread = law.initial(at_start, track.t[0], theta, v)
        zero = jnp.zeros_like(mean)
        before = Gaussian(zero, mean, zero + variance, zero, spread)
        after, log_given = before.given(ahead.alpha, zero + 1, ahead.v, ahead.rho)
        after, log_more = after.given(zero + 1, zero, ahead.w, ahead.kappa)
        x, u = after.draw(kick[:n_dim], kick[n_dim : 2 * n_dim])
        log_w = log_given + log_more - ahead.log_beyond(x, u)
        if law.hidden_velocity:
            mean_there, spread_there = law.initial(at_start + x, track.t[0], theta, v)
            change = _log_normal(u - mean_there, spread_there) - _log_normal(u - mean, spread)
            log_w = log_w + jnp.where((spread == 0) & (spread_there == 0), 0.0, change)
        return _Particles(x, u, v, jnp.sum(log_w), jnp.zeros(()))

    found = jax.vmap(draw)(kicks)
    return found._replace(log_l=jnp.zeros(()))


def _step(
    law: Law,
    how: Filter,
    given: Given,
    where: tuple[_Particles, Array],
    clock: tuple[Array, Array, Key],
    goal: tuple[Ahead, Array],
) -> _Particles:
    """Take particles from one fix to the next."""
    (particles, origin), (t, interval, key), (ahead, is_exact) = where, clock, goal
    n, n_dim = particles.x.shape
    theta, m = given.theta, given.substeps.astype(interval.dtype)
    h = interval / m
    key_kicks, key_lot = jax.random.split(key)

    def at(x: Array, u: Array, v: Array, k: Array) -> tuple[Gaussian, Any, Array, Array]:
        """The next substep of a particle, given the future; ln of the future's density, and most.

        Most is what that density is at most, but for what lies beyond the substep.
        """
        if how.guided:
            left = jnp.where(k == m - 1, 0.0, interval - (k + 1) * h)
            state, clock = (x, u, v, origin), (t + k * h, h, left)
            proposal, pseudo, log_g, peak = guided_step(law, given, state, clock, ahead)
            return proposal, pseudo, jnp.where(log_g > _NOTHING, log_g, _NOTHING), peak
        linear = law.solve(linearised(law, given, (x, u, v, origin), t + k * h, 0.5 * h), h)
        free = Gaussian(*linear.mean(x, u), linear.qxx, linear.qxu, linear.quu)
        return free, None, jnp.zeros(()), jnp.zeros(())

    # By what the next fix and those beyond say of them, particles are chosen before they move.
    look = jax.vmap(at, in_axes=(0, 0, 0, None))
    looked = look(*particles[:3], jnp.zeros(()))
    chosen, log_w, log_l = _resample(particles.log_w + looked[2], particles.log_l, key_lot)
    (x, u, v), looked = jax.tree.map(lambda part: part[chosen], (particles[:3], looked))
    # The first substep weighs them by the same again.
    particles = _Particles(x, u, v, log_w - looked[2], log_l)

    def substep(number: Array, state: tuple[_Particles, Any]) -> tuple[_Particles, Any]:
        particles, looked = state
        size = (n, 2 * n_dim + law.n_hidden)
        kicks = _kicks(law, given.paired, jnp.asarray(number), size, key_kicks)
        k = number.astype(h.dtype)
        is_last = k == m - 1

        def move(x: Array, u: Array, v: Array, looked: Any, kick: Array) -> tuple[Array, ...]:
            proposal, pseudo, log_g, peak = looked
            new_x, new_u = proposal.draw(kick[:n_dim], kick[n_dim : 2 * n_dim])
            state = (origin + x, u, v)
            new_v = law.move_hidden(state, t + k * h, h, theta, kick[2 * n_dim :])
            if not how.guided:
                return new_x, new_u, new_v, log_g
            # An exact fix is reached exactly.
            new_x = jnp.where(is_last & is_exact, ahead.y, new_x)
            # The last substep has no density where the fix is exact: it cancels.
            safe = pseudo._replace(variance1=jnp.where(is_last, 1.0, pseudo.variance1))
            log_beyond = ahead.log_beyond(new_x, new_u)
            log_ahead = jnp.where(is_last, log_beyond, safe.log_density(new_x, new_u))
            change = log_g - jnp.sum(log_ahead)
            # The weight is the free density of the new state by the proposed one, so that it is
            # bounded by the latter's exponent. Rounding alone takes it beyond, where a trajectory
            # far from the fixes is brought back by force: it would pass for the best of all.
            most = peak + 0.5 * jnp.sum(kick[: 2 * n_dim] ** 2) + _SLACK
            return new_x, new_u, new_v, jnp.where(change <= most, change, _NOTHING)

        x, u, v, log_w = jax.vmap(move)(*particles[:3], looked, kicks)
        looked = jax.lax.cond(
            number + 1 < given.substeps, lambda: look(x, u, v, k + 1), lambda: looked
        )
        return _Particles(x, u, v, particles.log_w + log_w, particles.log_l), looked

    particles, _ = jax.lax.fori_loop(0, given.substeps, substep, (particles, looked))
    if how.guided:
        log_l = particles.log_l + jnp.sum(ahead.log_constant)
        return particles._replace(log_l=log_l)
    error = jax.vmap(lambda x: jnp.sum(_log_normal(x - ahead.y, ahead.variance)))(particles.x)
    return particles._replace(log_w=particles.log_w + error)


# Share of the kicks of x and u of each of two substeps in those of both: x of x, u of x, x of u and
# u of u; of a velocity without friction and its integral, and of a position without a velocity.
_HALVES = np.array([[2.5, 0.75**0.5, -(0.75**0.5), 0.5], [1.0, 0.0, 3.0**0.5, 2.0]]) / 8**0.5
_SUM = np.array([[1.0, 0.0, 0.0, 1.0]] * 2) / 2**0.5


def _kicks(law: Law, paired: Any, number: Array, size: tuple[int, int], key: Key) -> Array:
    """Standard normal numbers of a substep, or those that two of half its length add up to."""
    n_dim = (size[1] - law.n_hidden) // 2

    def one(number: Array) -> Array:
        return jax.random.normal(jax.random.fold_in(key, number), size)

    def sum_of_two() -> Array:
        total = jnp.zeros(size)
        for j, (xx, xu, ux, uu) in enumerate(_HALVES if law.hidden_velocity else _SUM):
            kicks = one(2 * number + j)
            x, u, v = kicks[:, :n_dim], kicks[:, n_dim : 2 * n_dim], kicks[:, 2 * n_dim :]
            parts = [xx * x + xu * u, ux * x + uu * u, 0.5**0.5 * v]
            total = total + jnp.concatenate(parts, axis=1)
        return total

    return jax.lax.cond(jnp.asarray(paired), sum_of_two, lambda: one(number))


def _log_normal(error: Array, variance: Array) -> Array:
    return -0.5 * (LOG_2PI + jnp.log(variance) + error**2 / variance)


def _log_mean(log_w: Array) -> Array:
    return logsumexp(log_w) - np.log(len(log_w))


def _resample(log_w: Array, log_l: Array, key: Key) -> tuple[Array, Array, Array]:
    """Choose particles systematically if few count; their mean weight then goes to ln L.

    Returns:
        Places of the chosen, ln of their weights, and ln L so far.
    """
    n = len(log_w)
    peak = jnp.max(log_w)
    weights = jnp.where(peak > -jnp.inf, jnp.exp(log_w - peak), 1.0)
    rising = jnp.cumsum(weights)
    is_poor = rising[-1] ** 2 < _EFFECTIVE * n * jnp.sum(weights**2)
    places = (jnp.arange(n, dtype=log_w.dtype) + jax.random.uniform(key)) / n * rising[-1]
    method = "compare_all" if n <= 64 else "sort"
    chosen = jnp.searchsorted(rising, places, side="right", method=method)
    chosen = jnp.where(is_poor, jnp.clip(chosen, 0, n - 1), jnp.arange(n, dtype=chosen.dtype))
    mean = jnp.where(is_poor, _log_mean(log_w), 0.0)
    return chosen, jnp.where(is_poor, 0.0, log_w), log_l + mean
