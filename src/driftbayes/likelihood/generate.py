"""Displacements from their innovations: the engines run backwards, exact at any times."""

__all__ = ["kalman_displacements", "toeplitz_displacements"]

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from driftbayes.jax_typing import ScalarLike
from driftbayes.likelihood.kalman import PaddedSteps, Transition
from driftbayes.likelihood.toeplitz import durbin_levinson


def toeplitz_displacements(
    autocovariance: Float[Array, " step"], kicks: Float[Array, "run step dim"]
) -> Float[Array, "run step dim"]:
    """Regular displacements whose whitened innovations are the kicks.

    Args:
        autocovariance: Of the displacements, at lags 0, 1, ...
        kicks: Of unit variance; what follows the end of a shorter run does not matter to it.
    """
    filters = durbin_levinson(autocovariance)
    n_runs, n_steps, n_dim = kicks.shape
    columns = jnp.moveaxis(kicks, 1, 0).reshape(n_steps, -1)
    # The root of the covariance first: solving for thousands of columns takes ten times as long.
    scale = jnp.diag(jnp.sqrt(filters.variances))
    root = solve_triangular(filters.forward, scale, lower=True, unit_diagonal=True)
    return jnp.moveaxis((root @ columns).reshape(n_steps, n_runs, n_dim), 0, 1)


def kalman_displacements(
    transition: Transition,
    initial_covariance: Float[Array, "state state"],
    data: PaddedSteps,
    kicks: Float[Array, "run step dim"],
    noise_variance: ScalarLike = 0.0,
) -> Float[Array, "run step dim"]:
    """Displacements whose whitened innovations are the kicks; `kalman_innovations` undone.

    Measurement errors are part of the innovations, so that nothing has to be drawn for them.

    Args:
        transition: Maps an interval to $(A, Q)$.
        initial_covariance: Covariance of the state at the first fix, given the position.
        data: Intervals and errors of the positions; its displacements are not looked at.
        kicks: Of unit variance.
        noise_variance: Variance of the measurement error of every fix, added to the data's own.
    """
    noise = data.noise_variance + noise_variance
    n_dim = kicks.shape[-1]

    def run(kicks: Array, interval: Array, errors: Array) -> Array:
        def step(
            carry: tuple[Array, Array], inputs: tuple[Array, Array, Array]
        ) -> tuple[tuple[Array, Array], Array]:
            mean, cov = carry
            kick, step_interval, error = inputs
            a, q = transition(step_interval)
            mean = mean @ a.T
            cov = a @ cov @ a.T + q
            variance = cov[0, 0] + error
            innovation = jnp.sqrt(variance) * kick
            dx = mean[:, 0] + innovation
            gain = cov[:, 0] / variance
            mean = (mean + innovation[:, None] * gain[None, :]).at[:, 0].add(-dx)
            cov = cov - jnp.outer(gain, gain) * variance
            return (mean, cov), dx

        start_cov = initial_covariance.at[0, 0].add(errors[0])
        start = (jnp.zeros((n_dim, start_cov.shape[0])), start_cov)
        _, found = jax.lax.scan(step, start, (kicks, interval, errors[1:]))
        return found

    return jax.vmap(run)(kicks, data.interval, noise)
