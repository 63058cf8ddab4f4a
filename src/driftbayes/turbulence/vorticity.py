r"""Advection: the nonlinear term $-\mathbf{u}\cdot\nabla\zeta$, by two complex transforms.

Both components of the velocity travel in one complex field $q = u - iv$. Its values are
a *forward* transform, $q = F[\hat q]$ with
$$\hat q(\mathbf k) = \frac{k_x - ik_y}{k^2 N^2}\,\hat\zeta^*(\mathbf k)$$
on the whole plane, and the transform $Q$ of $q^2 = (u^2 - v^2) - 2iuv$ holds all that
advection needs:
$$\hat N(\mathbf k) = \frac{(k_x - ik_y)^2\, Q^*(-\mathbf k) - (k_x + ik_y)^2\, Q(\mathbf k)}{4i}$$
This is as much work as two real transforms each way, in half the calls, without the pass over
memory that scales an inverse transform; and q is the particles' velocity for nothing.
"""

__all__ = ["advection", "advection_basdevant", "velocity"]

import jax
import jax.numpy as jnp
from jaxtyping import Array

from driftbayes.turbulence.grid import Grid, Modes, Points, conjugate_whole, mirrored_half
from driftbayes.typing import FloatArray


def velocity(grid: Grid, zeta: Modes) -> Points:
    """The velocity at the points, packed as q = u - iv, in the precision of `zeta`.

    Args:
        grid: The grid.
        zeta: Transform of the vorticity on the half-plane.
    """
    # On the other half-plane zeta(k) is the conjugate of zeta(-k).
    whole = conjugate_whole(grid, zeta)
    kx, ky = _wavenumbers(grid, grid.kx_whole, zeta)
    inverse = jnp.asarray(1 / grid.n**2, kx.dtype) / jnp.maximum(kx**2 + ky**2, 1)
    return jnp.fft.fft2(jax.lax.complex(kx * inverse, -ky * inverse) * whole)


def advection(grid: Grid, q: Points) -> Modes:
    r"""Transform of $-\mathbf{u}\cdot\nabla\zeta$ on the half-plane.

    Args:
        grid: The grid.
        q: Velocity u - iv at the points.
    """
    square = jnp.fft.fft2(q * q)
    here, there = square[:, : grid.n // 2 + 1], mirrored_half(grid, square)
    kx, ky = _wavenumbers(grid, grid.kx, q)
    # (kx ± i ky)² = a ± ib, both divided by 4.
    a, b = 0.25 * (kx**2 - ky**2), 0.5 * kx * ky
    difference, total = jnp.conj(there) - here, jnp.conj(there) + here
    # -i a difference - b total, in real parts.
    return jax.lax.complex(
        a * jnp.imag(difference) - b * jnp.real(total),
        -a * jnp.real(difference) - b * jnp.imag(total),
    )


def advection_basdevant(grid: Grid, zeta: Modes) -> Modes:
    r"""The same from four real transforms, as a check.

    $$\hat N = (k_x^2 - k_y^2)\,F[uv] + k_x k_y\,F[v^2 - u^2]$$
    """
    psi = jnp.asarray(-grid.inverse_k2) * zeta
    kx, ky = _wavenumbers(grid, grid.kx, zeta)
    u, v = grid.to_points(-1j * ky * psi), grid.to_points(1j * kx * psi)
    first, second = grid.to_modes(u * v), grid.to_modes(v**2 - u**2)
    return (kx**2 - ky**2) * first + kx * ky * second


def _wavenumbers(grid: Grid, kx: FloatArray, like: Array) -> tuple[Array, Array]:
    real = jnp.real(like).dtype
    return jnp.asarray(kx, real), jnp.asarray(grid.ky, real)
