"""The slow reference: one dense covariance matrix per run, from the mean square displacement."""

__all__ = ["dense_innovations", "dense_terms"]

from collections.abc import Callable

import jax
import jax.numpy as jnp
import jax.scipy.linalg
from jaxtyping import Array, Float

from driftbayes.data.sampling import Displacements
from driftbayes.jax_typing import ScalarLike
from driftbayes.likelihood.kalman import PaddedSteps
from driftbayes.likelihood.terms import GaussianTerms


def dense_terms(
    mean_square_displacement: Callable[[Array], Array],
    data: Displacements,
    noise_variance: ScalarLike = 0.0,
) -> GaussianTerms:
    r"""Gaussian terms from the law of a process with stationary increments.

    With $m(t)$ the mean square displacement per axis, for positions a, b, c, d,

    $$\operatorname{Cov}(X_b - X_a, X_d - X_c) =
      \tfrac12 \left[ m(b-c) + m(a-d) - m(b-d) - m(a-c) \right].$$

    It loses digits where steps are many and small, uses $O(N^2)$ memory and one
    factorisation per run: for tests, not for use.

    Args:
        mean_square_displacement: m(t), of non-negative times.
        data: Displacements, regular or not.
        noise_variance: Variance of the measurement error of every fix, added to the data's own.
    """
    log_det = jnp.asarray(0.0)
    quadratic = jnp.asarray(0.0)
    start, start_sd = 0, 0
    for n_steps in data.row_sizes:
        dx = jnp.asarray(data.dx[start : start + n_steps])
        times = jnp.concatenate(
            [jnp.zeros(1), jnp.cumsum(jnp.asarray(data.interval[start : start + n_steps]))]
        )
        spread = mean_square_displacement(jnp.abs(times[:, None] - times[None, :]))
        steps = -0.5 * jnp.diff(jnp.diff(spread, axis=0), axis=1)
        noise = jnp.zeros(n_steps + 1) + noise_variance
        if data.position_sd is not None:
            noise = noise + jnp.asarray(data.position_sd[start_sd : start_sd + n_steps + 1]) ** 2
        cov = steps + jnp.diff(jnp.diff(jnp.diag(noise), axis=0), axis=1)
        factor = jnp.linalg.cholesky(cov)
        white = jax.scipy.linalg.solve_triangular(factor, dx, lower=True)
        log_det = log_det + 2 * data.n_dim * jnp.sum(jnp.log(jnp.diag(factor)))
        quadratic = quadratic + jnp.sum(white**2)
        start, start_sd = start + n_steps, start_sd + n_steps + 1
    return GaussianTerms(
        n=jnp.asarray(float(data.n_displacements)), log_det=log_det, quadratic=quadratic
    )


def dense_innovations(
    mean_square_displacement: Callable[[Array], Array],
    data: PaddedSteps,
    noise_variance: ScalarLike = 0.0,
) -> tuple[Float[Array, "run step dim"], Float[Array, "run step"]]:
    r"""What `kalman_innovations` gives, for models that have no state-space form.

    With $S = L L^\mathrm{T}$ the covariance of the steps of a run, the innovations are the elements
    of $L^{-1} x$ times the diagonal of L, whose squares are their variances. One factorisation of
    $O(N^3)$ per run of N steps.
    """
    noise = data.noise_variance + noise_variance

    def run(dx: Array, interval: Array, valid: Array, errors: Array) -> tuple[Array, Array]:
        times = jnp.concatenate([jnp.zeros(1), jnp.cumsum(interval)])
        # Row by row: a model may need many numbers for each of its own.
        spread = jax.lax.map(lambda t: mean_square_displacement(jnp.abs(t - times)), times)
        cov = -0.5 * jnp.diff(jnp.diff(spread, axis=0), axis=1)
        cov = cov + jnp.diff(jnp.diff(jnp.diag(errors), axis=0), axis=1)
        # Steps after the end of a run are independent, of variance one, and zero.
        both = valid[:, None] * valid[None, :]
        factor = jnp.linalg.cholesky(both * cov + jnp.diag(1 - valid))
        white = jax.scipy.linalg.solve_triangular(factor, valid[:, None] * dx, lower=True)
        sd = jnp.diag(factor)
        return sd[:, None] * white, sd**2

    # One after another: the matrices of all runs would fill the memory.
    found: tuple[Array, Array] = jax.lax.map(
        lambda one: run(*one), (data.dx, data.interval, data.valid, noise)
    )
    return found
