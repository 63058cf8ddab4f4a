r"""Velocities that rotate: steps in a plane as complex numbers z = x + iy.

Steps whose law no rotation of the plane changes are a proper complex Gaussian sequence, and their
covariance is Hermitian. With $c_l = \tfrac12 \mathrm{E}[z_{n+l} z_n^*]$, of which the real part is
the covariance of an axis with itself and the imaginary part that of y with x, all is as for one
real axis, with conjugates.
"""

__all__ = ["hermitian_moments_terms", "hermitian_steps_terms", "hermitian_walk"]

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Complex, Float

from driftbayes.jax_typing import Scalar, ScalarLike
from driftbayes.likelihood.channels import ChannelMoments, ChannelSteps
from driftbayes.likelihood.terms import GaussianTerms

ComplexTransition = Callable[[Array], tuple[Array, Array]]


def hermitian_moments_terms(
    autocovariance: Complex[Array, " step"], data: ChannelMoments
) -> tuple[GaussianTerms, GaussianTerms]:
    """Gaussian terms of all runs; then the same for the opposite sense of rotation.

    As `moments_terms`, of which the notation is: a and b are complex, T is Hermitian.
    """
    forward, backward, variances = _levinson(autocovariance)
    data = jax.tree.map(jnp.asarray, data)
    own = backward[data.orders]
    other = jnp.roll(forward, 1, axis=1).at[:, 0].set(0.0)[data.orders]
    f = data.forms
    form = jax.lax.complex(f[:, 0, 0] + f[:, 1, 1], f[:, 1, 0] - f[:, 0, 1])
    # A window that is run through backwards has the filter of the other direction.
    own = jnp.where(data.paired[:, None] > 0, own, own.conj())

    def terms(form: Array) -> GaussianTerms:
        gain = jnp.einsum("gp,gpq,gq->g", own, form, own.conj()).real
        loss = jnp.einsum("gp,gpq,gq->g", other, form, other.conj()).real
        return GaussianTerms(
            n=2 * jnp.sum(data.predicted),
            log_det=2 * jnp.sum(data.predicted * jnp.log(variances)),
            quadratic=jnp.sum((gain - data.paired * loss) / variances[data.orders]),
        )

    return terms(form), terms(form.conj())


def hermitian_steps_terms(
    transition: ComplexTransition,
    initial_variance: Scalar,
    data: ChannelSteps,
    noise_variance: ScalarLike = 0.0,
) -> tuple[GaussianTerms, GaussianTerms]:
    """The same from the state-space engine, for irregular times, gaps and errors of positions.

    Args:
        transition: Maps an interval to the complex $(A, Q)$ of the state (position, velocity).
        initial_variance: Variance of each component of the velocity.
        data: Steps.
        noise_variance: Variance of the measurement error of every fix, added to the data's own.
    """
    steps = data.steps
    noise = steps.noise_variance + noise_variance
    x, y = steps.dx[..., 0], steps.dx[..., 1]
    # The opposite sense is that of the mirror image; both have the same variances.
    both = jnp.stack([jax.lax.complex(x, y), jax.lax.complex(x, -y)], axis=-1)

    def run(dz: Array, interval: Array, errors: Array) -> tuple[Array, Array]:
        def step(
            carry: tuple[Array, Array], inputs: tuple[Array, Array, Array]
        ) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
            mean, cov = carry
            step_dz, step_interval, error = inputs
            a, q = transition(step_interval)
            mean, cov = mean @ a.T, a @ cov @ a.conj().T + q
            innovation = step_dz - mean[:, 0]
            variance = cov[0, 0].real + error
            gain = cov[:, 0] / variance.astype(cov.dtype)
            mean = (mean + innovation[:, None] * gain[None, :]).at[:, 0].add(-step_dz)
            cov = cov - jnp.outer(gain, gain.conj()) * variance.astype(cov.dtype)
            return (mean, cov), (innovation, variance)

        cov = jnp.diag(jnp.stack([errors[0], initial_variance])).astype(dz.dtype)
        start = (jnp.zeros((2, 2), dtype=dz.dtype), cov)
        _, found = jax.lax.scan(step, start, (dz, interval, errors[1:]))
        return found

    innovation, variance = jax.vmap(run)(both, steps.interval, noise)
    square = innovation.real**2 + innovation.imag**2
    square = square * (steps.valid / variance)[..., None]
    n, log_det = 2 * jnp.sum(steps.valid), 2 * jnp.sum(steps.valid * jnp.log(variance))
    first, second = jnp.sum(square, axis=(0, 1))
    return GaussianTerms(n, log_det, first), GaussianTerms(n, log_det, second)


@eqx.filter_jit
def hermitian_walk(
    propagate: Complex[Array, "2 2"],
    noise: Complex[Array, "2 2"],
    velocity: Complex[Array, " particle"],
    kicks: Complex[Array, "step particle 2"],
) -> Float[Array, "particle position 2"]:
    """Positions in the plane, from the origin.

    Args:
        propagate: A of the state (position, velocity).
        noise: A square root of Q.
        velocity: Of each particle at the start.
        kicks: Random numbers of unit variance in their real and imaginary parts.
    """

    def step(state: Array, kick: Array) -> tuple[Array, Array]:
        state = state @ propagate.T + kick @ noise.T
        return state, state[:, 0]

    start = jnp.stack([jnp.zeros_like(velocity), velocity], axis=1)
    _, z = jax.lax.scan(step, start, kicks)
    z = jnp.concatenate([start[None, :, 0], z]).T
    return jnp.stack([z.real, z.imag], axis=-1)


def _levinson(autocovariance: Complex[Array, " step"]) -> tuple[Array, Array, Array]:
    """Filters and variances as those of `durbin_levinson`, of a Hermitian Toeplitz matrix."""
    first = jnp.zeros_like(autocovariance).at[0].set(1.0)

    def step(
        carry: tuple[Array, Array, Array], _: None
    ) -> tuple[tuple[Array, Array, Array], tuple[Array, Array, Array]]:
        forward, backward, variance = carry
        shifted = jnp.roll(forward, 1).at[0].set(0.0)
        reflection = jnp.sum(shifted * autocovariance) / variance.astype(shifted.dtype)
        forward = shifted - reflection * backward
        backward = backward - reflection.conj() * shifted
        real, imaginary = reflection.real, reflection.imag
        variance = variance * ((1 - real) * (1 + real) - imaginary**2)
        return (forward, backward, variance), (forward, backward, variance)

    start = (first, first, autocovariance[0].real)
    _, rows = jax.lax.scan(step, start, None, length=autocovariance.shape[0] - 1)
    forward, backward, variances = (
        jnp.concatenate([head[None], tail]) for head, tail in zip(start, rows, strict=True)
    )
    return forward, backward, variances
