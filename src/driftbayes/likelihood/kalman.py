"""Gaussian terms of single steps: by the Kalman filter, and by the dense reference."""

__all__ = [
    "GaussianTerms",
    "PaddedSteps",
    "dense_innovations",
    "dense_terms",
    "gaussian_log_density",
    "innovation_terms",
    "kalman_innovations",
    "kalman_terms",
]

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np
from jaxtyping import Array, Float

from driftbayes.data.sampling import Displacements
from driftbayes.jax_typing import Scalar, ScalarLike

Transition = Callable[[Array], tuple[Array, Array]]


class GaussianTerms(eqx.Module):
    r"""Count, log-determinant and quadratic form of a zero-mean Gaussian density.

    $$\ln L(c) = -\tfrac12 \left( n \ln 2\pi + n \ln c + \ln\det S + Q / c \right)$$

    where the covariance is $c\,S$ and $Q = x^\mathrm{T} S^{-1} x$. Kept apart because an overall
    scale c then costs nothing, and can be integrated out analytically.

    Args:
        n: Number of scalar data.
        log_det: $\ln\det S$, summed over independent blocks.
        quadratic: Q, summed over independent blocks.
    """

    # Scalars of JAX while a program is traced, batches of NumPy once it has run.
    n: Float[Any, "*batch"]
    log_det: Float[Any, "*batch"]
    quadratic: Float[Any, "*batch"]

    def log_likelihood(self, scale: ScalarLike = 1.0) -> Float[Array, "*batch"]:
        """The log-density with covariance scaled by `scale`, full constant included."""
        value = gaussian_log_density(self.n, self.log_det, self.quadratic, scale, jnp)
        # A covariance that lost its positivity to rounding gives NaN in log_det: no density there.
        return jnp.where(jnp.isnan(value), -jnp.inf, value)


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
        # `jnp.asarray` would compile a program for each new shape.
        return cls(
            dx=jax.device_put(dx),
            interval=jax.device_put(interval),
            valid=jax.device_put(valid.astype(np.float64)),
            noise_variance=jax.device_put(noise),
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


LOG_2PI = float(np.log(2 * np.pi))


def gaussian_log_density(n: Any, log_det: Any, quadratic: Any, scale: Any, xp: Any) -> Any:
    """The formula itself, for broadcastable arrays of NumPy or JAX (`xp`)."""
    constant = n * (LOG_2PI + xp.log(scale))
    return -0.5 * (constant + log_det + quadratic / scale)


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
    noise_variance = jnp.asarray(noise_variance)
    start, start_sd = 0, 0
    for n_steps in data.row_sizes:
        dx, interval = (part[start : start + n_steps] for part in (data.dx, data.interval))
        own = np.zeros(n_steps + 1)
        if data.position_sd is not None:
            own = data.position_sd[start_sd : start_sd + n_steps + 1] ** 2
        dx, interval, own = jax.device_put((dx, interval, own))
        run = _dense_run(mean_square_displacement, dx, interval, own, noise_variance)
        log_det, quadratic = log_det + run[0], quadratic + run[1]
        start, start_sd = start + n_steps, start_sd + n_steps + 1
    return GaussianTerms(
        n=jnp.asarray(float(data.n_displacements)), log_det=log_det, quadratic=quadratic
    )


# One program for each length of a run: operation by operation, JAX would compile dozens.
@eqx.filter_jit
def _dense_run(
    mean_square_displacement: Callable[[Array], Array],
    dx: Float[Array, "step dim"],
    interval: Float[Array, " step"],
    own_variance: Float[Array, " fix"],
    noise_variance: Scalar,
) -> tuple[Scalar, Scalar]:
    """Log-determinant and quadratic form of one run."""
    times = jnp.concatenate([jnp.zeros(1), jnp.cumsum(interval)])
    spread = mean_square_displacement(jnp.abs(times[:, None] - times[None, :]))
    steps = -0.5 * jnp.diff(jnp.diff(spread, axis=0), axis=1)
    noise = own_variance + noise_variance
    cov = steps + jnp.diff(jnp.diff(jnp.diag(noise), axis=0), axis=1)
    factor = jnp.linalg.cholesky(cov)
    white = jax.scipy.linalg.solve_triangular(factor, dx, lower=True)
    log_det = 2 * dx.shape[1] * jnp.sum(jnp.log(jnp.diag(factor)))
    return log_det, jnp.sum(white**2)


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
