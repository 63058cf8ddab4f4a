r"""Wavenumbers, transforms and sign conventions of the doubly periodic square $[0, 2\pi)^2$.

Fields are arrays (y, x); their transforms are unnormalised, on the half-plane (ky, kx >= 0) of a
real transform. Vorticity is $\zeta = v_x - u_y = +\nabla^2\psi$ and $(u, v) = (-\psi_y, \psi_x)$.
"""

__all__ = ["Grid", "Modes", "Points", "conjugate_whole", "mirrored_half", "scaled"]

from functools import cached_property
from typing import TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float, Int

from driftbayes._typing import FloatArray
from driftbayes.errors import DriftbayesError

_MIN_POINTS = 8
# Transform on the half-plane; velocity or another complex field at the points.
Modes: TypeAlias = Complex[Array, "ky kx"]
Points: TypeAlias = Complex[Array, "y x"]


def scaled(factor: Array | FloatArray, modes: Array) -> Array:
    """Multiply complex numbers by a factor, with half the work if the factor is real."""
    if jnp.iscomplexobj(factor):
        return jnp.asarray(factor) * modes
    return jax.lax.complex(factor * jnp.real(modes), factor * jnp.imag(modes))


class Grid(eqx.Module):
    """A square of side 2π with n by n points.

    Args:
        n: Points along each side, an even number.
    """

    n: int = eqx.field(static=True)

    def __check_init__(self) -> None:
        if not isinstance(self.n, int) or self.n < _MIN_POINTS or self.n % 2:
            raise DriftbayesError(
                f"the grid must have an even number of points, {_MIN_POINTS} or more, along each "
                f"side, got {self.n}; powers of two are fastest"
            )

    @property
    def spacing(self) -> float:
        """Distance between neighbouring points."""
        return 2 * np.pi / self.n

    @property
    def area(self) -> float:
        """Area of the domain."""
        return 4 * np.pi**2

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of a transform on the half-plane."""
        return self.n, self.n // 2 + 1

    @cached_property
    def kx(self) -> FloatArray:
        """Wavenumbers along x on the half-plane, as a row."""
        return np.arange(self.n // 2 + 1, dtype=np.float64)[None, :]

    @property
    def kx_whole(self) -> FloatArray:
        """Wavenumbers along x on the whole plane, as a row."""
        return self.ky.T

    @cached_property
    def ky(self) -> FloatArray:
        """Wavenumbers along y, as a column."""
        return np.fft.fftfreq(self.n, 1 / self.n).astype(np.float64)[:, None]

    @cached_property
    def k2(self) -> FloatArray:
        """|k|² on the half-plane."""
        return self.kx**2 + self.ky**2

    @property
    def kmag(self) -> FloatArray:
        """|k| on the half-plane."""
        return np.sqrt(self.k2)

    @cached_property
    def inverse_k2(self) -> FloatArray:
        """1/|k|² on the half-plane, 0 at k = 0."""
        return 1 / np.where(self.k2 > 0, self.k2, np.inf)

    @cached_property
    def weights(self) -> FloatArray:
        """Number of modes of the whole plane per column of the half-plane: 1, 2, ..., 2, 1."""
        weights = np.full((1, self.n // 2 + 1), 2.0)
        weights[:, [0, -1]] = 1.0
        return weights

    @cached_property
    def resolved(self) -> FloatArray:
        """1 for resolved modes: not the mean, not the Nyquist row and column."""
        mask = (self.k2 > 0) & (np.abs(self.ky) < self.n // 2) & (self.kx < self.n // 2)
        return mask.astype(np.float64)

    @cached_property
    def points(self) -> tuple[FloatArray, FloatArray]:
        """Coordinates x and y of the points, as (y, x) arrays."""
        line = self.spacing * np.arange(self.n)
        x, y = np.meshgrid(line, line)
        return x, y

    def to_modes(self, field: Float[Array, "y x"]) -> Modes:
        """Transform a real field."""
        return jnp.fft.rfft2(field)

    def to_points(self, modes: Modes) -> Float[Array, "y x"]:
        """Return the real field of a transform."""
        return jnp.fft.irfft2(modes, s=(self.n, self.n))

    def mean_square(self, modes: Modes, factor: FloatArray | float = 1.0) -> Array:
        r"""Return $\langle f^2 \rangle$ of a transform's field, with each mode times `factor`."""
        power = jnp.real(modes) ** 2 + jnp.imag(modes) ** 2
        return jnp.sum(self.weights * factor * power, axis=(-2, -1)) / self.n**4


# Two ways from k to -k with equal results: on a GPU a look-up at mirrored indices is fused into the
# pass over memory that uses it, and concatenation takes extra passes; on a CPU it is the reverse.


def conjugate_whole(grid: Grid, modes: Modes) -> Complex[Array, "ky kx_whole"]:
    """Return the conjugate of a real field's transform on the whole plane."""
    n, half = grid.n, grid.n // 2

    def joined(modes: Array) -> Array:
        mirrored = _reversed_rows(modes[:, half - 1 : 0 : -1])
        return jnp.concatenate([jnp.conj(modes), mirrored], axis=1)

    def looked_up(modes: Array) -> Array:
        row, column = _indices(n, n)
        is_mirrored = column > half
        row = jnp.where(is_mirrored & (row > 0), n - row, row)
        column = jnp.where(is_mirrored, n - column, column)
        value = look_up(modes, row, column)
        return jnp.where(is_mirrored, value, jnp.conj(value))

    return jax.lax.platform_dependent(modes, cpu=joined, default=looked_up)


def mirrored_half(grid: Grid, modes: Complex[Array, "ky kx_whole"]) -> Modes:
    """Return the values at -k for all k of the half-plane, from the whole plane."""
    n, half = grid.n, grid.n // 2

    def joined(modes: Array) -> Array:
        # kx = 0, 1, ..., n/2: columns 0, n - 1, ..., n/2.
        pieces = [modes[:, :1], modes[:, n - 1 : half - 1 : -1]]
        return _reversed_rows(jnp.concatenate(pieces, axis=1))

    def looked_up(modes: Array) -> Array:
        row, column = _indices(n, half + 1)
        row, column = jnp.where(row > 0, n - row, 0), jnp.where(column > 0, n - column, 0)
        return look_up(modes, row, column)

    return jax.lax.platform_dependent(modes, cpu=joined, default=looked_up)


def look_up(modes: Array, row: Array, column: Array) -> Array:
    """Return `modes[row, column]` by a single index; pairs of indices would use more memory."""
    return modes.ravel().at[row * modes.shape[1] + column].get(mode="promise_in_bounds")


def _indices(n_rows: int, n_columns: int) -> tuple[Int[Array, "ky kx"], Int[Array, "ky kx"]]:
    """Return row and column of every element, computed without an array in memory."""
    shape = (n_rows, n_columns)
    return (
        jax.lax.broadcasted_iota(jnp.int32, shape, 0),
        jax.lax.broadcasted_iota(jnp.int32, shape, 1),
    )


def _reversed_rows(modes: Modes) -> Modes:
    """Move row ky to row -ky."""
    return jnp.concatenate([modes[:1], modes[:0:-1]], axis=0)
