"""From k to -k: the half-plane of a real field's transform as part of the whole plane.

On a GPU a look-up at mirrored indices becomes part of the pass over memory that uses it, where
pieces that are joined take passes of their own; on a CPU it is the other way round. The numbers
are the same.
"""

__all__ = ["conjugate_whole", "mirrored_half"]

import jax
import jax.numpy as jnp
from jaxtyping import Array, Complex, Int

from driftbayes.turbulence.grid import Grid


def conjugate_whole(grid: Grid, modes: Complex[Array, "ky kx"]) -> Complex[Array, "ky kx_whole"]:
    """The conjugate of a real field's transform on the whole plane, from the half-plane."""
    n, half = grid.n, grid.n // 2

    def joined(modes: Array) -> Array:
        mirrored = _reversed_rows(modes[:, half - 1 : 0 : -1])
        return jnp.concatenate([jnp.conj(modes), mirrored], axis=1)

    def looked_up(modes: Array) -> Array:
        row, column = _indices(n, n)
        is_mirrored = column > half
        row = jnp.where(is_mirrored & (row > 0), n - row, row)
        column = jnp.where(is_mirrored, n - column, column)
        value = _flat_look_up(modes, row, column)
        return jnp.where(is_mirrored, value, jnp.conj(value))

    return jax.lax.platform_dependent(modes, cpu=joined, default=looked_up)


def mirrored_half(grid: Grid, modes: Complex[Array, "ky kx_whole"]) -> Complex[Array, "ky kx"]:
    """Values at -k for all k of the half-plane, from the whole plane."""
    n, half = grid.n, grid.n // 2

    def joined(modes: Array) -> Array:
        # kx = 0, 1, ..., n/2: columns 0, n - 1, ..., n/2.
        pieces = [modes[:, :1], modes[:, n - 1 : half - 1 : -1]]
        return _reversed_rows(jnp.concatenate(pieces, axis=1))

    def looked_up(modes: Array) -> Array:
        row, column = _indices(n, half + 1)
        row, column = jnp.where(row > 0, n - row, 0), jnp.where(column > 0, n - column, 0)
        return _flat_look_up(modes, row, column)

    return jax.lax.platform_dependent(modes, cpu=joined, default=looked_up)


def _flat_look_up(modes: Array, row: Array, column: Array) -> Array:
    """`modes[row, column]`; pairs of indices would be written to memory before they are used."""
    return modes.ravel().at[row * modes.shape[1] + column].get(mode="promise_in_bounds")


def _indices(n_rows: int, n_columns: int) -> tuple[Int[Array, "ky kx"], Int[Array, "ky kx"]]:
    """Row and column of every element, made where they are used and not read from memory."""
    shape = (n_rows, n_columns)
    return (
        jax.lax.broadcasted_iota(jnp.int32, shape, 0),
        jax.lax.broadcasted_iota(jnp.int32, shape, 1),
    )


def _reversed_rows(modes: Complex[Array, "ky kx"]) -> Complex[Array, "ky kx"]:
    """Row ky becomes row -ky."""
    return jnp.concatenate([modes[:1], modes[:0:-1]], axis=0)
