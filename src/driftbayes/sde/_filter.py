r"""Particle filters: unbiased estimates of the likelihood of a stochastic differential equation.

The time between two fixes is divided into m substeps. The guided filter proposes each substep from
the equation linearised at the particle's state, conditioned on the next fix and on the fixes after
it (see `potentials`). The bootstrap filter proposes from the equation itself and needs fixes with
measurement errors. Importance weights correct for the proposal, so that

$$\operatorname{E} \hat L(\theta) = p(y_{1:N} \mid y_0, \theta)$$

holds for the equation solved with m substeps and for any number of particles.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array

from driftbayes._jax_typing import Key
from driftbayes.sde._law import Law
from driftbayes.sde._lookahead import FilterInputs, backward_information, guided_step, linearise
from driftbayes.sde._potentials import Gaussian, Lookahead, log_normal, no_lookahead
from driftbayes.sde._tracks import Tracks, each_run

# Particles are resampled when the effective sample size falls below this fraction of their number.
_RESAMPLE_BELOW_ESS = 0.5
# Log of a weight of zero. A more negative number would lose too many digits to rounding.
_LOG_ZERO = -1e10
# A log weight may exceed its upper bound by this much, for rounding.
_ROUNDING_SLACK = 1.0


@dataclass(frozen=True)
class Filter:
    """Configuration of a particle filter.

    Args:
        particles: Number of particles per run.
        guided: Whether proposals are conditioned on the next fix.
        lookahead: Whether proposals are also conditioned on the fixes after the next.
    """

    particles: int = 32
    guided: bool = True
    lookahead: bool = True


class _Particles(NamedTuple):
    """Particles of one run, (particle, dim), their log weights, and ln L up to the present fix."""

    x: Array
    u: Array
    v: Array
    log_w: Array
    log_l: Array


def log_likelihood(
    law: Law, config: Filter, inputs: FilterInputs, tracks: Tracks, key: Key
) -> Array:
    """Estimate the log-likelihood of each run.

    Args:
        law: The equation.
        config: Configuration of the filter.
        inputs: Parameters and substeps.
        tracks: A block of runs.
        key: Random key. The random numbers of a run depend on this key and the run's number.

    Returns:
        Log of the estimate for each run; minus infinity where all weights vanish.
    """

    def filter_one(track: Tracks) -> Array:
        return _filter_run(law, config, inputs, track, jax.random.fold_in(key, track.number))

    value = each_run(filter_one, tracks)
    return jnp.where(value > 0.5 * _LOG_ZERO, value, -jnp.inf)


def _filter_run(law: Law, config: Filter, inputs: FilterInputs, track: Tracks, key: Key) -> Array:
    """Estimate the log-likelihood of one run."""
    theta, variance = inputs.theta, track.variance + inputs.variance
    lookaheads = _lookaheads(law, config, inputs, track)
    key_start, key_steps = jax.random.split(key)
    first = (jax.tree.map(lambda a: a[0], lookaheads), variance[0])
    start = _start(law, config, theta, track, first, key_start)

    def step(particles: _Particles, xs: Any) -> tuple[_Particles, None]:
        number, t, interval, valid, lookahead, is_exact = xs
        clock = (t, interval, jax.random.fold_in(key_steps, number))
        moved = _step(law, config, inputs, (particles, track.origin), clock, (lookahead, is_exact))
        kept = jax.tree.map(lambda new, old: jnp.where(valid, new, old), moved, particles)
        return kept, None

    n_steps = len(track.interval)
    later = jax.tree.map(lambda a: a[1:], lookaheads)
    xs = (
        *(jnp.arange(n_steps), track.t[:-1], track.interval, track.valid, later),
        variance[1:] == 0,
    )
    end, _ = jax.lax.scan(step, start, xs)
    return end.log_l + _log_mean(end.log_w)


def _lookaheads(law: Law, config: Filter, inputs: FilterInputs, track: Tracks) -> Lookahead:
    """Return the look-ahead potential at each fix, (fix, dim)."""
    if config.guided and config.lookahead:
        return backward_information(law, inputs, track)
    error = (track.variance + inputs.variance)[:, None]
    return jax.vmap(no_lookahead)(track.y, jnp.broadcast_to(error, track.y.shape))


def _start(
    law: Law, config: Filter, theta: Any, track: Tracks, first: tuple[Lookahead, Array], key: Key
) -> _Particles:
    """Draw particles at the first fix, conditioned on the look-ahead potential."""
    lookahead, variance = first
    n, (n_dim,) = config.particles, track.origin.shape
    noises = jax.random.normal(key, (n, 2 * n_dim + law.n_hidden))

    def draw(noise: Array) -> _Particles:
        at_start = track.origin
        v = law.initial_hidden(at_start, track.t[0], theta, noise[2 * n_dim :])
        mean, variance_u = law.initial(at_start, track.t[0], theta, v)
        zero = jnp.zeros_like(mean)
        prior = Gaussian(zero, mean, zero + variance, zero, variance_u)
        posterior, log_velocity_factor = prior.condition_on_factor(
            lookahead.alpha, zero + 1, lookahead.v, lookahead.rho
        )
        posterior, log_position_factor = posterior.condition_on_factor(
            zero + 1, zero, lookahead.w, lookahead.kappa
        )
        x, u = posterior.draw(noise[:n_dim], noise[n_dim : 2 * n_dim])
        log_w = log_velocity_factor + log_position_factor - lookahead.log_potential(x, u)
        if law.hidden_velocity:
            mean_at_x, variance_at_x = law.initial(at_start + x, track.t[0], theta, v)
            change = log_normal(u - mean_at_x, variance_at_x) - log_normal(u - mean, variance_u)
            log_w = log_w + jnp.where((variance_u == 0) & (variance_at_x == 0), 0.0, change)
        return _Particles(x, u, v, jnp.sum(log_w), jnp.zeros(()))

    particles = jax.vmap(draw)(noises)
    return particles._replace(log_l=jnp.zeros(()))


def _step(
    law: Law,
    config: Filter,
    inputs: FilterInputs,
    where: tuple[_Particles, Array],
    clock: tuple[Array, Array, Key],
    target: tuple[Lookahead, Array],
) -> _Particles:
    """Propagate particles from one fix to the next."""
    (particles, origin), (t, interval, key), (lookahead, is_exact) = where, clock, target
    n, n_dim = particles.x.shape
    theta, m = inputs.theta, inputs.substeps.astype(interval.dtype)
    h = interval / m
    key_noise, key_resample = jax.random.split(key)

    def propose(x: Array, u: Array, v: Array, k: Array) -> tuple[Gaussian, Any, Array, Array]:
        """Build the proposal for the next substep of one particle.

        Returns:
            The proposal, the pseudo-observations at its end, the log adjustment multiplier (log
            density of the next and later fixes, given the present state), and the log of the
            largest density of the next fix if the substep ends there.
        """
        if config.guided:
            left = jnp.where(k == m - 1, 0.0, interval - (k + 1) * h)
            state, clock = (x, u, v, origin), (t + k * h, h, left)
            proposal, pseudo, log_g, peak = guided_step(law, inputs, state, clock, lookahead)
            return proposal, pseudo, jnp.where(log_g > _LOG_ZERO, log_g, _LOG_ZERO), peak
        linear = law.solve(linearise(law, inputs, (x, u, v, origin), t + k * h, 0.5 * h), h)
        return Gaussian.after(linear, x, u), None, jnp.zeros(()), jnp.zeros(())

    # Auxiliary particle filter: resample by the adjustment multipliers before propagating.
    propose_all = jax.vmap(propose, in_axes=(0, 0, 0, None))
    proposals = propose_all(*particles[:3], jnp.zeros(()))
    ancestors, log_w, log_l = _resample(
        particles.log_w + proposals[2], particles.log_l, key_resample
    )
    (x, u, v), proposals = jax.tree.map(lambda part: part[ancestors], (particles[:3], proposals))
    # The first substep multiplies by the same factor again, so divide by it here.
    particles = _Particles(x, u, v, log_w - proposals[2], log_l)

    def substep(number: Array, state: tuple[_Particles, Any]) -> tuple[_Particles, Any]:
        particles, proposals = state
        size = (n, 2 * n_dim + law.n_hidden)
        noises = _draw_noise(law, inputs.paired, jnp.asarray(number), size, key_noise)
        k = number.astype(h.dtype)
        is_last = k == m - 1

        def move(
            x: Array, u: Array, v: Array, proposal_terms: Any, noise: Array
        ) -> tuple[Array, ...]:
            proposal, pseudo, log_g, peak = proposal_terms
            new_x, new_u = proposal.draw(noise[:n_dim], noise[n_dim : 2 * n_dim])
            state = (origin + x, u, v)
            new_v = law.move_hidden(state, t + k * h, h, theta, noise[2 * n_dim :])
            if not config.guided:
                return new_x, new_u, new_v, log_g
            # The path ends at an exact fix.
            new_x = jnp.where(is_last & is_exact, lookahead.y, new_x)
            # The density of the pseudo-observations cancels in the last substep. Where the fix is
            # exact it would be singular.
            safe = pseudo._replace(variance1=jnp.where(is_last, 1.0, pseudo.variance1))
            log_potential = lookahead.log_potential(new_x, new_u)
            log_ahead = jnp.where(is_last, log_potential, safe.log_density(new_x, new_u))
            change = log_g - jnp.sum(log_ahead)
            # The weight is the transition density over the proposal density, so the exponent of the
            # proposal bounds it. Only rounding exceeds the bound: a particle far from the fixes,
            # which the proposal pulls back, would otherwise get the largest weight.
            bound = peak + 0.5 * jnp.sum(noise[: 2 * n_dim] ** 2) + _ROUNDING_SLACK
            return new_x, new_u, new_v, jnp.where(change <= bound, change, _LOG_ZERO)

        x, u, v, log_w = jax.vmap(move)(*particles[:3], proposals, noises)
        proposals = jax.lax.cond(
            number + 1 < inputs.substeps, lambda: propose_all(x, u, v, k + 1), lambda: proposals
        )
        return _Particles(x, u, v, particles.log_w + log_w, particles.log_l), proposals

    particles, _ = jax.lax.fori_loop(0, inputs.substeps, substep, (particles, proposals))
    if config.guided:
        log_l = particles.log_l + jnp.sum(lookahead.log_constant)
        return particles._replace(log_l=log_l)
    log_fix = log_normal(particles.x - lookahead.y[None], lookahead.variance[None])
    return particles._replace(log_w=particles.log_w + jnp.sum(log_fix, axis=1))


# Weights by which the standard normal numbers of two half substeps add up to those of the whole
# substep: x in x, u in x, x in u and u in u. `_HALVES` is for a velocity without friction and its
# integral, `_SUM` for a position without a velocity.
_HALVES = np.array([[2.5, 0.75**0.5, -(0.75**0.5), 0.5], [1.0, 0.0, 3.0**0.5, 2.0]]) / 8**0.5
_SUM = np.array([[1.0, 0.0, 0.0, 1.0]] * 2) / 2**0.5


def _draw_noise(law: Law, paired: Any, number: Array, size: tuple[int, int], key: Key) -> Array:
    """Draw standard normal numbers for a substep, or add up those of two half substeps."""
    n_dim = (size[1] - law.n_hidden) // 2

    def draw(number: Array) -> Array:
        return jax.random.normal(jax.random.fold_in(key, number), size)

    def sum_of_two() -> Array:
        total = jnp.zeros(size)
        for j, (xx, xu, ux, uu) in enumerate(_HALVES if law.hidden_velocity else _SUM):
            noises = draw(2 * number + j)
            x, u, v = noises[:, :n_dim], noises[:, n_dim : 2 * n_dim], noises[:, 2 * n_dim :]
            parts = [xx * x + xu * u, ux * x + uu * u, 0.5**0.5 * v]
            total = total + jnp.concatenate(parts, axis=1)
        return total

    return jax.lax.cond(jnp.asarray(paired), sum_of_two, lambda: draw(number))


def _log_mean(log_w: Array) -> Array:
    """Compute ln of the mean weight."""
    return logsumexp(log_w) - np.log(len(log_w))


def _resample(log_w: Array, log_l: Array, key: Key) -> tuple[Array, Array, Array]:
    """Resample systematically if the effective sample size is low, and add the mean weight to ln L.

    Returns:
        Ancestor indices, log weights, and ln L so far.
    """
    n = len(log_w)
    peak = jnp.max(log_w)
    weights = jnp.where(peak > -jnp.inf, jnp.exp(log_w - peak), 1.0)
    cumulative = jnp.cumsum(weights)
    is_degenerate = cumulative[-1] ** 2 < _RESAMPLE_BELOW_ESS * n * jnp.sum(weights**2)
    positions = (jnp.arange(n, dtype=log_w.dtype) + jax.random.uniform(key)) / n * cumulative[-1]
    method = "compare_all" if n <= 64 else "sort"
    ancestors = jnp.searchsorted(cumulative, positions, side="right", method=method)
    ancestors = jnp.where(
        is_degenerate, jnp.clip(ancestors, 0, n - 1), jnp.arange(n, dtype=ancestors.dtype)
    )
    mean = jnp.where(is_degenerate, _log_mean(log_w), 0.0)
    return ancestors, jnp.where(is_degenerate, 0.0, log_w), log_l + mean
