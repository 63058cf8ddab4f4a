r"""Wavenumbers, transforms and sign conventions of the doubly periodic square $[0, 2\pi)^2$.

Fields are arrays (y, x); their transforms are unnormalised, on the half-plane (ky, kx >= 0) of a
real transform. Vorticity is $\zeta = v_x - u_y = +\nabla^2\psi$ and $(u, v) = (-\psi_y, \psi_x)$.
"""

__all__ = ["Grid", "scaled"]

from functools import cached_property

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float

from driftbayes.errors import DriftbayesError
from driftbayes.typing import FloatArray

_SMALLEST = 8


def scaled(factor: Array | FloatArray, modes: Array) -> Array:
    """A factor times complex numbers; a real factor is not made complex first: half the work."""
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
        if not isinstance(self.n, int) or self.n < _SMALLEST or self.n % 2:
            msg = (
                f"the grid must have an even number of points, {_SMALLEST} or more, along each "
                f"side, got {self.n}; powers of two are fastest"
            )
            raise DriftbayesError(msg)

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

    @property
    def kx(self) -> FloatArray:
        """Wavenumbers along x on the half-plane, as a row."""
        return np.arange(self.n // 2 + 1, dtype=np.float64)[None, :]

    @property
    def kx_whole(self) -> FloatArray:
        """Wavenumbers along x on the whole plane, as a row."""
        return self.ky.T

    @property
    def ky(self) -> FloatArray:
        """Wavenumbers along y, as a column."""
        return np.fft.fftfreq(self.n, 1 / self.n).astype(np.float64)[:, None]

    @property
    def k2(self) -> FloatArray:
        """|k|² on the half-plane."""
        return self.kx**2 + self.ky**2

    @property
    def kmag(self) -> FloatArray:
        """|k| on the half-plane."""
        return np.sqrt(self.k2)

    @property
    def inverse_k2(self) -> FloatArray:
        """1/|k|² on the half-plane, 0 at k = 0."""
        return 1 / np.where(self.k2 > 0, self.k2, np.inf)

    @property
    def weights(self) -> FloatArray:
        """How many modes of the whole plane each column stands for, as a row: 1, 2, ..., 2, 1."""
        weights = np.full((1, self.n // 2 + 1), 2.0)
        weights[:, [0, -1]] = 1.0
        return weights

    @property
    def resolved(self) -> FloatArray:
        """1 for the modes that a field may hold: not the mean, not the Nyquist row and column."""
        mask = (self.k2 > 0) & (np.abs(self.ky) < self.n // 2) & (self.kx < self.n // 2)
        return mask.astype(np.float64)

    @cached_property
    def points(self) -> tuple[FloatArray, FloatArray]:
        """Coordinates x and y of the points, as (y, x) arrays."""
        line = self.spacing * np.arange(self.n)
        x, y = np.meshgrid(line, line)
        return x, y

    def to_modes(self, field: Float[Array, "y x"]) -> Complex[Array, "ky kx"]:
        """Transform of a real field."""
        return jnp.fft.rfft2(field)

    def to_points(self, modes: Complex[Array, "ky kx"]) -> Float[Array, "y x"]:
        """The real field of a transform."""
        return jnp.fft.irfft2(modes, s=(self.n, self.n))

    def mean_square(
        self, modes: Complex[Array, "ky kx"], factor: FloatArray | float = 1.0
    ) -> Array:
        r"""$\langle f^2 \rangle$ of the field of a transform, each mode multiplied by `factor`."""
        power = jnp.real(modes) ** 2 + jnp.imag(modes) ** 2
        return jnp.sum(self.weights * factor * power, axis=(-2, -1)) / self.n**4
