r"""Passive particles: $\dot{\mathbf x} = \mathbf u(\mathbf x, t)$.

The velocity is known at the flow's steps only. Classical Runge--Kutta over two of them,
$t_n$ to $t_{n+2}$, asks for it at $t_n$, $t_{n+1}$ and $t_{n+2}$: fourth order, at half the
evaluations of a scheme over one step.
"""

__all__ = ["advect", "seed_particles"]

import jax.numpy as jnp
from jaxtyping import Array, Complex, Float

from driftbayes.errors import DriftbayesError
from driftbayes.turbulence.flow import Flow
from driftbayes.turbulence.interpolation import Field, Interpolation
from driftbayes.turbulence.threefry import key_words, uniform


def seed_particles(n_particles: int, seed: int) -> Float[Array, "particle 2"]:
    """Positions drawn uniformly over the square; the first n are the same for every number.

    Args:
        n_particles: How many.
        seed: Of the run.
    """
    if n_particles != int(n_particles) or not 0 <= n_particles < 2**32:
        msg = f"the number of particles must be a whole number, 0 or more, got {n_particles}"
        raise DriftbayesError(msg)
    count = jnp.arange(n_particles, dtype=jnp.uint32)
    x, y = uniform(jnp.asarray(key_words(seed, "particles")), jnp.zeros_like(count), count)
    return 2 * jnp.pi * jnp.stack([x, y], axis=-1)


def advect(
    flow: Flow,
    interpolation: Interpolation,
    fields: tuple[Field, Field, Field],
    x: Complex[Array, " particle"],
) -> Complex[Array, " particle"]:
    """Positions two steps later.

    Args:
        flow: The flow, for its grid and time step.
        interpolation: How to see it between grid points.
        fields: What is looked up, at the beginning, in the middle and at the end.
        x: Positions x + iy, unwrapped and in double precision.
    """
    start, middle, end = fields
    h = 2 * flow.dt
    first = interpolation.velocity(flow, start, x)
    second = interpolation.velocity(flow, middle, x + 0.5 * h * first)
    third = interpolation.velocity(flow, middle, x + 0.5 * h * second)
    fourth = interpolation.velocity(flow, end, x + h * third)
    return x + h / 6 * (first + 2 * second + 2 * third + fourth)
