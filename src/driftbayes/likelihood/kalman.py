"""The state-space engine: irregular times, gaps and measurement error, in one pass of O(N)."""

__all__ = ["PaddedSteps", "innovation_terms", "kalman_innovations", "kalman_terms"]

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from driftbayes.data.sampling import Displacements
from driftbayes.jax_typing import ScalarLike
from driftbayes.likelihood.terms import GaussianTerms

Transition = Callable[[Array], tuple[Array, Array]]


class PaddedSteps(eqx.Module):
    """Displacements as rectangular arrays, for a scan along the steps of all runs at once.

    Args:
        dx: Steps, zero where a run has ended.
        interval: Duration of each step, tau where a run has ended.
        valid: 1 where there is a step, else 0.
        noise_variance: Variance of the error of each position, one more per run than steps.
        tau: Nominal sampling time.
        noisy: Whether any position has an error.
    """

    dx: Float[Array, "run step dim"]
    interval: Float[Array, "run step"]
    valid: Float[Array, "run step"]
    noise_variance: Float[Array, "run position"]
    tau: Float[Array, ""]
    noisy: bool = eqx.field(static=True)

    @classmethod
    def from_displacements(cls, data: Displacements) -> "PaddedSteps":
        """Rectangular arrays from ragged ones.

        Sizes are rounded up to powers of two, so that a scan over tau compiles a handful of
        programs and not one per tau.
        """
        n_runs, n_steps = _round_up(len(data.row_sizes)), _round_up(int(data.row_sizes.max()))
        row_sizes = np.zeros(n_runs, dtype=np.int64)
        row_sizes[: len(data.row_sizes)] = data.row_sizes
        valid = np.arange(n_steps) < row_sizes[:, None]
        dx = np.zeros((n_runs, n_steps, data.n_dim))
        dx[valid] = data.dx
        interval = np.full((n_runs, n_steps), data.tau)
        interval[valid] = data.interval
        noise = np.zeros((n_runs, n_steps + 1))
        if data.position_sd is not None:
            real = (np.arange(n_steps + 1) < row_sizes[:, None] + 1) & (row_sizes[:, None] > 0)
            noise[real] = data.position_sd**2
        return cls(
            dx=jnp.asarray(dx),
            interval=jnp.asarray(interval),
            valid=jnp.asarray(valid, dtype=np.float64),
            noise_variance=jnp.asarray(noise),
            tau=jnp.asarray(data.tau),
            noisy=bool(np.any(noise > 0)),
        )


def _product(left: Array, right: Array) -> Array:
    """A product of matrices of two or three rows, written out so that a batch of them fuses."""
    return jnp.sum(left[:, :, None] * right[None, :, :], axis=1)


def _round_up(n: int) -> int:
    return 1 << (n - 1).bit_length()


def kalman_terms(
    transition: Transition,
    initial_covariance: Float[Array, "state state"],
    data: PaddedSteps,
    noise_variance: ScalarLike = 0.0,
) -> GaussianTerms:
    """Gaussian terms of displacements under a linear state-space model, axis by axis.

    The arguments are those of `kalman_innovations`.
    """
    found = kalman_innovations(transition, initial_covariance, data, noise_variance)
    return innovation_terms(*found, data)


def innovation_terms(
    innovation: Float[Array, "run step dim"],
    variance: Float[Array, "run step"],
    data: PaddedSteps,
) -> GaussianTerms:
    """Gaussian terms of all runs from the innovations of their steps."""
    n_dim = data.dx.shape[-1]
    return GaussianTerms(
        n=n_dim * jnp.sum(data.valid),
        log_det=n_dim * jnp.sum(data.valid * jnp.log(variance)),
        quadratic=jnp.sum(data.valid * jnp.sum(innovation**2, axis=-1) / variance),
    )


def kalman_innovations(
    transition: Transition,
    initial_covariance: Float[Array, "state state"],
    data: PaddedSteps,
    noise_variance: ScalarLike = 0.0,
) -> tuple[Float[Array, "run step dim"], Float[Array, "run step"]]:
    r"""What of each displacement the earlier ones of its run do not predict, and its variance.

    $$Y_{n+1} = A(\Delta t)\, Y_n + \varepsilon_n, \quad \varepsilon_n \sim N(0, Q(\Delta t)),
      \qquad y_n = X_n + \eta_n$$

    The state Y starts with the position X. The first position has a flat prior, so that only
    displacements carry information.

    Args:
        transition: Maps an interval to $(A, Q)$.
        initial_covariance: Covariance of the state at the first fix, given the position.
        data: Displacements.
        noise_variance: Variance of the measurement error of every fix, added to the data's own.
    """
    noise = data.noise_variance + noise_variance
    n_dim = data.dx.shape[-1]

    def run(dx: Array, interval: Array, errors: Array) -> tuple[Array, Array]:
        def step(
            carry: tuple[Array, Array], inputs: tuple[Array, Array, Array]
        ) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
            mean, cov = carry
            step_dx, step_interval, error = inputs
            # Here and not before the scan: the matrices of all steps would fill the memory.
            a, q = transition(step_interval)
            mean = _product(mean, a.T)
            cov = _product(_product(a, cov), a.T) + q
            # Positions are counted from the latest fix: no digits are lost far from the origin.
            innovation = step_dx - mean[:, 0]
            variance = cov[0, 0] + error
            gain = cov[:, 0] / variance
            mean = mean + innovation[:, None] * gain[None, :]
            mean = mean.at[:, 0].add(-step_dx)
            cov = cov - jnp.outer(gain, gain) * variance
            return (mean, cov), (innovation, variance)

        start_cov = initial_covariance.at[0, 0].add(errors[0])
        start = (jnp.zeros((n_dim, start_cov.shape[0])), start_cov)
        _, found = jax.lax.scan(step, start, (dx, interval, errors[1:]))
        return found

    return jax.vmap(run)(data.dx, data.interval, noise)
