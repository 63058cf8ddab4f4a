r"""Velocities that rotate: steps in a plane as complex numbers z = x + iy.

Steps whose law no rotation of the plane changes are a proper complex Gaussian sequence, and their
covariance is Hermitian. With $c_l = \tfrac12 \mathrm{E}[z_{n+l} z_n^*]$, of which the real part is
the covariance of an axis with itself and the imaginary part that of y with x, all is as for one
real axis, with conjugates.
"""

__all__ = [
    "HermitianTerms",
    "hermitian_column_terms",
    "hermitian_innovations",
    "hermitian_moments_terms",
    "hermitian_steps_terms",
    "hermitian_walk",
]

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Complex, Float

from driftbayes.jax_typing import Scalar, ScalarLike
from driftbayes.likelihood.channels import ChannelMoments, ChannelSteps, ChannelTerms
from driftbayes.likelihood.kalman import GaussianTerms, PaddedSteps

ComplexTransition = Callable[[Array], tuple[Array, Array]]


class HermitianTerms(eqx.Module):
    r"""Whitened products of the complex steps z and their durations t, for one sense of rotation.

    Args:
        n: Number of steps.
        log_det: $\ln\det S$ of the Hermitian covariance.
        steps: $z^\dagger S^{-1} z$.
        cross: $t^\mathrm{T} S^{-1} z$.
        durations: $t^\mathrm{T} S^{-1} t$.
    """

    n: Scalar
    log_det: Scalar
    steps: Scalar
    cross: Complex[Array, ""]
    durations: Scalar

    def gaussian(self, flow: ScalarLike = 0.0) -> GaussianTerms:
        """Gaussian terms with a mean flow integrated out, each component of it N(0, flow²)."""
        gain = flow**2 * self.durations
        seen = self.cross.real**2 + self.cross.imag**2
        return GaussianTerms(
            n=2 * self.n,
            log_det=2 * (self.log_det + jnp.log1p(gain)),
            quadratic=self.steps - flow**2 * seen / (1 + gain),
        )

    def flow_posterior(self, flow: ScalarLike) -> tuple[Float[Array, "2"], Scalar]:
        """Posterior mean of the flow's two components, and the variance of each."""
        variance = flow**2 / (1 + flow**2 * self.durations)
        return variance * jnp.stack([self.cross.real, self.cross.imag]), variance


def hermitian_moments_terms(
    autocovariance: Complex[Array, " step"], data: ChannelMoments
) -> tuple[HermitianTerms, HermitianTerms]:
    """Whitened products of all runs; then the same for the opposite sense of rotation.

    As `moments_terms`, of which the notation is: a and b are complex, T is Hermitian.
    """
    forward, backward, variances = _levinson(autocovariance)
    data = jax.tree.map(jnp.asarray, data)
    own = backward[data.orders]
    other = jnp.roll(forward, 1, axis=1).at[:, 0].set(0.0)[data.orders]
    f = data.forms
    steps = jax.lax.complex(f[:, 0, 0] + f[:, 1, 1], f[:, 1, 0] - f[:, 0, 1])
    cross = jax.lax.complex(f[:, 0, 2], f[:, 1, 2])
    durations = jnp.asarray(f[:, 2, 2], dtype=cross.dtype)
    # A window that is run through backwards has the filter of the other direction.
    own = jnp.where(data.paired[:, None] > 0, own, own.conj())
    weight = 1 / variances[data.orders]

    def product(form: Array) -> Complex[Array, ""]:
        gain = jnp.einsum("gp,gpq,gq->g", own, form, own.conj())
        loss = jnp.einsum("gp,gpq,gq->g", other, form, other.conj())
        whole = gain - data.paired.astype(gain.dtype) * loss
        return jnp.sum(whole * weight.astype(gain.dtype))

    n = jnp.sum(data.predicted)
    log_det = jnp.sum(data.predicted * jnp.log(variances))
    between = product(durations).real

    def terms(steps: Array, cross: Complex[Array, ""]) -> HermitianTerms:
        return HermitianTerms(n, log_det, product(steps).real, cross, between)

    # The opposite sense is that of the mirror image.
    return terms(steps, product(cross)), terms(steps.conj(), product(cross.conj()).conj())


def hermitian_steps_terms(
    transition: ComplexTransition,
    initial_covariance: Complex[Array, "state state"],
    data: ChannelSteps,
    noise_variance: ScalarLike = 0.0,
) -> tuple[HermitianTerms, HermitianTerms]:
    """The same from the state-space engine, for irregular times, gaps and errors of positions.

    Args:
        transition: Maps an interval to the complex $(A, Q)$ of the state, position first.
        initial_covariance: Hermitian covariance of the state, given the position.
        data: Steps.
        noise_variance: Variance of the measurement error of every fix, added to the data's own.
    """
    steps = data.steps
    x, y = steps.dx[..., 0], steps.dx[..., 1]
    # The opposite sense is that of the mirror image; both have the same variances.
    duration = steps.dx[..., 2].astype(initial_covariance.dtype)
    columns = jnp.stack([jax.lax.complex(x, y), jax.lax.complex(x, -y), duration], axis=-1)
    innovation, variance = hermitian_innovations(
        transition, initial_covariance, steps, columns, noise_variance
    )
    weight = (steps.valid / variance).astype(innovation.dtype)
    products = jnp.einsum("rs,rsa,rsb->ab", weight, innovation, innovation.conj())
    n, log_det = jnp.sum(steps.valid), jnp.sum(steps.valid * jnp.log(variance))
    return hermitian_column_terms(ChannelTerms(n, log_det, products, 2))


def hermitian_column_terms(terms: ChannelTerms) -> tuple[HermitianTerms, HermitianTerms]:
    """Terms of both senses from whitened products of x + iy, x - iy and the duration."""
    n, log_det, products = terms.n, terms.log_det, terms.products
    first, second, between = jnp.diag(products).real
    return (
        HermitianTerms(n, log_det, first, products[0, 2], between),
        HermitianTerms(n, log_det, second, products[1, 2].conj(), between),
    )


def hermitian_innovations(
    transition: ComplexTransition,
    initial_covariance: Complex[Array, "state state"],
    steps: PaddedSteps,
    columns: Complex[Array, "run step column"],
    noise_variance: ScalarLike = 0.0,
) -> tuple[Complex[Array, "run step column"], Float[Array, "run step"]]:
    """What the earlier steps do not predict of each complex step, and its variance per axis.

    Args:
        transition: Maps an interval to the complex $(A, Q)$ of the state, position first.
        initial_covariance: Hermitian covariance of the state, given the position.
        steps: Intervals and errors of the positions; its displacements are not looked at.
        columns: Complex steps; each column is filtered by itself.
        noise_variance: Variance of the measurement error of every fix, added to the data's own.
    """
    n_state, n_columns = initial_covariance.shape[0], columns.shape[-1]

    def run(column: Array, interval: Array, errors: Array) -> tuple[Array, Array]:
        def step(
            carry: tuple[Array, Array], inputs: tuple[Array, Array, Array]
        ) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
            mean, cov = carry
            dz, step_interval, error = inputs
            a, q = transition(step_interval)
            mean, cov = mean @ a.T, a @ cov @ a.conj().T + q
            variance = cov[0, 0].real + error
            innovation = dz - mean[:, 0]
            gain = cov[:, 0] / variance.astype(cov.dtype)
            mean = (mean + innovation[:, None] * gain[None, :]).at[:, 0].add(-dz)
            cov = cov - jnp.outer(gain, gain.conj()) * variance.astype(cov.dtype)
            return (mean, cov), (innovation, variance)

        cov = initial_covariance.at[0, 0].add(errors[0].astype(initial_covariance.dtype))
        start = (jnp.zeros((n_columns, n_state), dtype=column.dtype), cov)
        _, found = jax.lax.scan(step, start, (column, interval, errors[1:]))
        return found

    noise = steps.noise_variance + noise_variance
    return jax.vmap(run)(columns, steps.interval, noise)


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
