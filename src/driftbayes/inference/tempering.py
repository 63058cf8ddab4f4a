r"""Islands of particles taken from the prior to the posterior by raising the likelihood's power.

$$\ln Z = \sum_t \ln \big\langle L^{\beta_{t+1} - \beta_t} \big\rangle_{\beta_t},
  \qquad p_\beta(z) \propto L(z)^\beta\, \pi(z), \qquad 0 = \beta_0 < \dots < \beta_T = 1$$
"""

__all__ = ["MAX_TEMPERATURES", "Run", "smc_core"]

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, Bool, Float, Int

from driftbayes.inference.metropolis import (
    Chains,
    fit_cloud,
    log_likelihoods,
    log_priors,
    move,
    n_lots,
)
from driftbayes.inference.schedule import Schedule, Tuning
from driftbayes.inference.target import AbstractTarget
from driftbayes.jax_typing import Key, Scalar

# A step in temperature leaves this share of the particles effective.
_EFFECTIVE = 0.5
MAX_TEMPERATURES = 200


class Run(eqx.Module):
    """What the compiled part finds.

    Args:
        log_evidence: ln Z of each island.
        thermodynamic: The same by the integral of the mean of ln L over β.
        z: Particles at the end, equally weighted within an island.
        log_likelihoods: ln L of each.
        beta: β that was reached; 1 if all went well.
        n_temperatures: Number of steps from the prior to there.
        n_evaluations: Evaluations of the likelihood, of all islands.
        n_alive: Draws from the prior, of all islands, where the likelihood is above zero.
        acceptance: Share of moves accepted at the temperature where it was least.
        memory: Correlation of a coordinate before and after the moves at one temperature, for
            the coordinate and the temperature where it was largest.
        n_chains: Chains of all islands together that temperatures and proposals were adapted to; 0
            if it is not known.
        schedule: Temperatures and proposals, if they were asked for.
    """

    log_evidence: Float[Array, " island"]
    thermodynamic: Float[Array, " island"]
    z: Float[Array, "island particle parameter"]
    log_likelihoods: Float[Array, "island particle"]
    beta: Scalar
    n_temperatures: Int[Array, ""]
    n_evaluations: Int[Array, ""]
    n_alive: Int[Array, ""]
    acceptance: Scalar
    memory: Scalar
    n_chains: int = 0
    schedule: Schedule | None = None


class _State(eqx.Module):
    """What goes from one temperature to the next."""

    key: Key
    z: Float[Array, "island particle parameter"]
    log_l: Float[Array, "island particle"]
    beta: Scalar
    log_z: Float[Array, " island"]
    thermodynamic: Float[Array, " island"]
    log_scale: Scalar
    fit: Scalar
    n_temperatures: Int[Array, ""]
    acceptance: Scalar
    memory: Scalar
    schedule: Schedule | None


def smc_core(
    target: AbstractTarget,
    key: Key,
    n_particles: int,
    n_islands: int,
    n_moves: int,
    schedule: Schedule | None = None,
) -> Run:
    """All islands from prior to posterior; pure, may be compiled and mapped over targets.

    At each temperature n_particles / n_moves particles of an island are drawn by weight. Each
    makes n_moves moves, and every place on its way is a particle of the next cloud, so that no
    evaluation is wasted (Dau and Chopin, 2022).

    Islands resample and move on their own. Temperatures and proposals come from all particles
    together: they are adapted to the very particles they then serve, and the bias from that goes
    down with the number of all of them instead of with that of one island. By a schedule that was
    recorded by an earlier run there is no adaptation, and no bias.
    """
    key_prior, key = jax.random.split(key)
    z = jax.vmap(target.sample_prior)(jax.random.split(key_prior, n_islands * n_particles))
    # A draw at the very edge of the prior has no place in unconstrained coordinates.
    inside = jnp.all(jnp.isfinite(z), axis=1)
    z = jnp.where(inside[:, None], z, 0.0)
    log_l = jnp.where(inside, log_likelihoods(target, z), -jnp.inf)
    alive = jnp.isfinite(log_l)
    zero, zeros = jnp.zeros((), dtype=log_l.dtype), jnp.zeros(n_islands, dtype=log_l.dtype)
    # Without a live particle there is nowhere to go, and Z is zero.
    log_z = jnp.where(jnp.any(alive), zeros, -jnp.inf)
    start = _State(
        key=key,
        z=z.reshape(n_islands, n_particles, -1),
        log_l=log_l.reshape(n_islands, n_particles),
        beta=zero,
        log_z=log_z,
        thermodynamic=log_z,
        log_scale=zero,
        fit=zero + 0.5,
        n_temperatures=jnp.zeros((), dtype=int),
        acceptance=zero + 1,
        memory=zero,
        schedule=schedule,
    )

    def is_on_the_way(state: _State) -> Bool[Array, ""]:
        may_go_on = (state.beta < 1) & (state.n_temperatures < MAX_TEMPERATURES)
        return may_go_on & jnp.any(jnp.isfinite(state.log_z))

    end = jax.lax.while_loop(is_on_the_way, lambda state: _cool(target, state, n_moves), start)
    return Run(
        log_evidence=end.log_z,
        thermodynamic=end.thermodynamic,
        z=end.z,
        log_likelihoods=end.log_l,
        beta=end.beta,
        n_temperatures=end.n_temperatures,
        n_evaluations=len(log_l) * (1 + end.n_temperatures),
        n_alive=jnp.sum(alive),
        acceptance=end.acceptance,
        memory=end.memory,
        n_chains=n_islands * (n_particles // n_moves),
        schedule=end.schedule,
    )


def _cool(target: AbstractTarget, state: _State, n_moves: int) -> _State:
    r"""One step in temperature: reweight, resample, move.

    The thermodynamic integral is taken over the first half of the step by the particles before it,
    over the second by those after:

    $$\int_{\beta}^{\beta+\delta} \langle \ln L \rangle\, \mathrm d\beta
      = \ln \big\langle L^{\delta/2} \big\rangle_\beta
      - \ln \big\langle L^{-\delta/2} \big\rangle_{\beta+\delta}$$

    A trapezoid of the means would not do: under an exponential prior of a diffusivity, and wherever
    L may be zero, the mean of ln L at β = 0 is minus infinity. Both means here have finite variance
    whatever the likelihood.
    """
    n_islands, n_particles, n_dim = state.z.shape
    n_chains = n_particles // n_moves
    n_rows, n_columns = n_moves * n_lots(n_dim), n_islands * n_chains
    lots = jax.random.uniform(
        jax.random.fold_in(state.key, state.n_temperatures), (n_rows * n_columns + n_islands,)
    )
    step = _next_step(state.log_l.ravel(), state.beta)
    # By adding, the last might stop short of 1 by a rounding.
    beta = jnp.where(step < 1 - state.beta, state.beta + step, 1.0)
    log_w = step * state.log_l
    cloud = fit_cloud(state.z.reshape(-1, n_dim), jax.nn.softmax(log_w.ravel()))
    tuning = Tuning(beta, cloud, state.log_scale, state.fit)
    schedule = state.schedule
    if schedule is not None:
        tuning = schedule.tuning(state.n_temperatures, tuning)
        beta = tuning.beta
        step = beta - state.beta
        log_w = step * state.log_l
    chosen = jax.vmap(lambda lot, log_w: _resample(lot, log_w, n_chains))(lots[-n_islands:], log_w)
    z = jnp.take_along_axis(state.z, chosen[:, :, None], axis=1).reshape(-1, n_dim)
    log_l = jnp.take_along_axis(state.log_l, chosen, axis=1).ravel()
    chains = Chains(z, log_l, log_priors(target, z), tuning.log_scale, tuning.fit)

    def make_move(chains: Chains, lots: Array) -> tuple[Chains, tuple[Array, Array, Array]]:
        moved, accepted = move(target, chains, tuning.cloud, beta, lots)
        if schedule is not None:
            kept = schedule.is_fixed
            log_scale = jnp.where(kept, chains.log_scale, moved.log_scale)
            fit = jnp.where(kept, chains.fit, moved.fit)
            moved = Chains(moved.z, moved.log_l, moved.log_prior, log_scale, fit)
        return moved, (moved.z, moved.log_l, accepted)

    lots_of_moves = lots[:-n_islands].reshape(n_moves, -1, n_columns)
    last, paths = jax.lax.scan(make_move, chains, lots_of_moves)
    # All of one chain, then the next: systematic resampling then takes from each chain its due.
    path_z = jnp.moveaxis(paths[0].reshape(n_moves, n_islands, n_chains, n_dim), 0, 2)
    path_log_l = jnp.moveaxis(paths[1].reshape(n_moves, n_islands, n_chains), 0, 2)
    new_log_l = path_log_l.reshape(n_islands, n_particles)
    if schedule is not None:
        used = tuning._replace(log_scale=last.log_scale, fit=last.fit)
        schedule = schedule.recorded(state.n_temperatures, used)
    return _State(
        key=state.key,
        z=path_z.reshape(n_islands, n_particles, n_dim),
        log_l=new_log_l,
        beta=beta,
        log_z=state.log_z + _log_mean(log_w),
        thermodynamic=state.thermodynamic
        + (_log_mean(0.5 * log_w) - _log_mean(-0.5 * step * new_log_l)),
        log_scale=last.log_scale,
        fit=last.fit,
        n_temperatures=state.n_temperatures + 1,
        acceptance=jnp.minimum(state.acceptance, jnp.mean(paths[2])),
        memory=jnp.maximum(state.memory, _correlation(z, last.z)),
        schedule=schedule,
    )


def _next_step(log_l: Float[Array, " particle"], beta: Scalar) -> Scalar:
    r"""The largest step that leaves $(\sum w)^2 / \sum w^2$ a given share of the live particles.

    By bisection in the logarithm of the step: from a vague prior the first may be 1e-9.
    """
    relative = log_l - jnp.max(log_l)
    goal = _EFFECTIVE * jnp.sum(jnp.isfinite(log_l), dtype=log_l.dtype)

    def is_small_enough(log_step: Scalar) -> Bool[Array, ""]:
        w = jnp.exp(jnp.exp(log_step) * relative)
        return jnp.sum(w) ** 2 >= goal * jnp.sum(w**2)

    def halve(_: Int[Array, ""], interval: tuple[Scalar, Scalar]) -> tuple[Scalar, Scalar]:
        low, high = interval
        middle = 0.5 * (low + high)
        small = is_small_enough(middle)
        return jnp.where(small, middle, low), jnp.where(small, high, middle)

    whole = jnp.log(1 - beta)
    low, _ = jax.lax.fori_loop(0, 24, halve, (whole - 70.0, whole))
    return jnp.where(is_small_enough(whole), 1 - beta, jnp.exp(low))


def _resample(lot: Scalar, log_w: Float[Array, " particle"], n: int) -> Int[Array, " chain"]:
    """Systematic: a start by lot, then n equal strides along the summed weights."""
    total = jnp.cumsum(jnp.exp(log_w - jnp.max(log_w)))
    places = (jnp.arange(n, dtype=total.dtype) + lot) / n * total[-1]
    # An island without a live particle is NaN here; whatever it takes counts for nothing.
    return jnp.clip(jnp.searchsorted(total, places, side="right"), 0, len(total) - 1)


def _correlation(a: Float[Array, "chain parameter"], b: Float[Array, "chain parameter"]) -> Scalar:
    """Largest correlation of a coordinate of a with the same of b."""
    a, b = (x - jnp.mean(x, axis=0)[None, :] for x in (a, b))
    scale = jnp.sqrt(jnp.mean(a**2, axis=0) * jnp.mean(b**2, axis=0))
    return jnp.max(jnp.mean(a * b, axis=0) / jnp.where(scale > 0, scale, 1.0))


def _log_mean(log_w: Float[Array, "island particle"]) -> Float[Array, " island"]:
    return logsumexp(log_w, axis=1) - np.log(log_w.shape[1])
