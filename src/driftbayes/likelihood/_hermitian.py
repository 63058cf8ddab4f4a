r"""Rotating velocities: steps in a plane as complex numbers z = x + iy.

Steps whose distribution is invariant under rotation of the plane are a proper complex Gaussian
sequence with a Hermitian covariance. In $c_l = \tfrac12 \mathrm{E}[z_{n+l} z_n^*]$ the real part is
the covariance of an axis with itself and the imaginary part that of y with x. The formulas are
those of one real axis, with complex conjugates.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Complex, Float

from driftbayes._jax_typing import Scalar, ScalarLike
from driftbayes.likelihood._channels import ChannelTerms
from driftbayes.likelihood._gaussian import GaussianTerms


class HermitianTerms(eqx.Module):
    r"""Whitened products of complex steps z and their durations t for one sense of rotation.

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
        """Compute Gaussian terms with a mean flow integrated out, each component N(0, flow²)."""
        gain = flow**2 * self.durations
        seen = self.cross.real**2 + self.cross.imag**2
        return GaussianTerms(
            n=2 * self.n,
            log_det=2 * (self.log_det + jnp.log1p(gain)),
            quadratic=self.steps - flow**2 * seen / (1 + gain),
        )

    def flow_posterior(self, flow: ScalarLike) -> tuple[Float[Array, "2"], Scalar]:
        """Compute the posterior mean of both components of the flow, and their variance."""
        variance = flow**2 / (1 + flow**2 * self.durations)
        return variance * jnp.stack([self.cross.real, self.cross.imag]), variance


def hermitian_column_terms(terms: ChannelTerms) -> tuple[HermitianTerms, HermitianTerms]:
    """Extract the terms of both senses from products of x + iy, x - iy and the duration."""
    n, log_det, products = terms.n, terms.log_det, terms.products
    first, second, durations = jnp.diag(products).real
    return (
        HermitianTerms(n, log_det, first, products[0, 2], durations),
        HermitianTerms(n, log_det, second, products[1, 2].conj(), durations),
    )


@eqx.filter_jit
def hermitian_walk(
    propagate: Complex[Array, "2 2"],
    noise: Complex[Array, "2 2"],
    velocity: Complex[Array, " particle"],
    kicks: Complex[Array, "step particle 2"],
) -> Float[Array, "particle position 2"]:
    """Simulate positions in the plane, from the origin.

    Args:
        propagate: A of the state (position, velocity).
        noise: A square root of Q.
        velocity: Initial velocity of each particle.
        kicks: Random numbers with real and imaginary parts of unit variance.
    """

    def step(state: Array, kick: Array) -> tuple[Array, Array]:
        state = state @ propagate.T + kick @ noise.T
        return state, state[:, 0]

    start = jnp.stack([jnp.zeros_like(velocity), velocity], axis=1)
    _, z = jax.lax.scan(step, start, kicks)
    z = jnp.concatenate([start[None, :, 0], z]).T
    return jnp.stack([z.real, z.imag], axis=-1)
