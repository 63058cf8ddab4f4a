r"""Passive particles: $\dot{\mathbf x} = \mathbf u(\mathbf x, t)$, with u between grid points.

The velocity is known only at the flow's steps. The classical fourth-order Runge--Kutta scheme over
two of them, $t_n$ to $t_{n+2}$, needs it at $t_n$, $t_{n+1}$ and $t_{n+2}$, and takes half the
evaluations of a scheme over one step.

The paper interpolates the velocity bilinearly. The splines interpolate the stream function and are
differentiated, so that the velocity is divergence-free everywhere: with B-spline coefficients
$c = F^{-1}[\hat\psi / (b(k_x\Delta)\,b(k_y\Delta))]$,
$$u = -\sum_{ij} c_{ij}\,\beta(x/\Delta - i)\,\beta'(y/\Delta - j)/\Delta, \qquad
  v = \sum_{ij} c_{ij}\,\beta'(x/\Delta - i)\,\beta(y/\Delta - j)/\Delta$$
"""

__all__ = ["INTERPOLATIONS", "Interpolation", "Spline", "advect", "seed_particles"]

from abc import abstractmethod
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float, Int, UInt32

from driftbayes.errors import DriftbayesError
from driftbayes.turbulence.flow import Flow
from driftbayes.turbulence.grid import Modes, Points, conjugate_whole, look_up, scaled
from driftbayes.turbulence.noise import key_words, uniform

# Positions x + iy or velocities u + iv of the particles.
Positions: TypeAlias = Complex[Array, " particle"]
# The coefficients of an interpolation at one step; None if it uses the velocity itself.
Coefficients: TypeAlias = Float[Array, "y x"] | None
# The velocity at the points, and the coefficients.
Field: TypeAlias = tuple[Points, Coefficients]


class Interpolation(eqx.Module):
    """Interpolation of the velocity between grid points."""

    @abstractmethod
    def coefficients(
        self, flow: Flow, middle: Modes, end: Modes
    ) -> tuple[Coefficients, Coefficients]:
        """Compute the coefficients from the vorticities of two steps."""

    @abstractmethod
    def velocity(self, flow: Flow, field: Field, x: Positions) -> Positions:
        """Return velocities u + iv at positions x + iy, which may lie outside the square."""


class Bilinear(Interpolation):
    """Bilinear interpolation of the velocity: second order, with divergence."""

    def coefficients(
        self, flow: Flow, middle: Modes, end: Modes
    ) -> tuple[Coefficients, Coefficients]:
        return None, None

    def velocity(self, flow: Flow, field: Field, x: Positions) -> Positions:
        n, at = flow.grid.n, field[0]
        (column, row), (fx, fy) = _cell(flow, x, jnp.real(at).dtype)
        right, up = _wrap(column + 1, n), _wrap(row + 1, n)
        q = (
            scaled((1 - fy) * (1 - fx), look_up(at, row, column))
            + scaled((1 - fy) * fx, look_up(at, row, right))
            + scaled(fy * (1 - fx), look_up(at, up, column))
            + scaled(fy * fx, look_up(at, up, right))
        )
        return jnp.conj(q)


class Spline(Interpolation):
    """B-splines of the stream function, of third or fifth degree.

    Args:
        degree: 3 or 5.
    """

    degree: int = eqx.field(static=True)

    def coefficients(
        self, flow: Flow, middle: Modes, end: Modes
    ) -> tuple[Coefficients, Coefficients]:
        grid = flow.grid
        response = _response(self.degree, grid.kx * grid.spacing) * _response(
            self.degree, grid.ky * grid.spacing
        )
        real = jnp.zeros((), flow.complex_dtype).real.dtype
        factor = jnp.asarray(-grid.inverse_k2 / response / grid.n**2, real)
        # Two real fields as parts of a complex one, so that one transform serves both steps.
        first, second = (
            conjugate_whole(grid, scaled(factor, zeta.astype(flow.complex_dtype)))
            for zeta in (middle, end)
        )
        both = jnp.fft.fft2(first + 1j * second)
        return jnp.real(both), jnp.imag(both)

    def velocity(self, flow: Flow, field: Field, x: Positions) -> Positions:
        n, c = flow.grid.n, field[1]
        assert c is not None
        (column, row), (fx, fy) = _cell(flow, x, c.dtype)
        weights_x, slopes_x = _basis(self.degree, fx)
        weights_y, slopes_y = _basis(self.degree, fy)
        taps = range(self.degree + 1)
        first = (self.degree - 1) // 2
        columns = [_wrap(column + (i - first), n) for i in taps]
        zero = jnp.zeros(row.shape, c.dtype)

        def add_row(j: Array | int, sums: tuple[Array, Array], weight: Array, slope: Array) -> Any:
            line = _wrap(row + (j - first), n)
            values = [look_up(c, line, columns[i]) for i in taps]
            along = sum(weights_x[i] * values[i] for i in taps)
            across = sum(slopes_x[i] * values[i] for i in taps)
            return sums[0] - slope * along, sums[1] + weight * across

        def unrolled() -> tuple[Array, Array]:
            sums = (zero, zero)
            for j in taps:
                sums = add_row(j, sums, weights_y[j], slopes_y[j])
            return sums

        def rolled() -> tuple[Array, Array]:
            weights, slopes = jnp.stack(weights_y), jnp.stack(slopes_y)
            return jax.lax.fori_loop(
                0, len(taps), lambda j, sums: add_row(j, sums, weights[j], slopes[j]), (zero, zero)
            )

        # One array of all taps would need 36 copies of the particles. On a GPU the unrolled loop is
        # one pass; compiling it for a CPU would take minutes.
        u, v = jax.lax.platform_dependent(cpu=rolled, default=unrolled)
        return jax.lax.complex(u / flow.grid.spacing, v / flow.grid.spacing)


INTERPOLATIONS: dict[str, Interpolation] = {
    "bilinear": Bilinear(),
    "cubic": Spline(3),
    "quintic": Spline(5),
}


def _cell(
    flow: Flow, x: Positions, dtype: np.dtype
) -> tuple[tuple[Int[Array, " particle"], ...], tuple[Float[Array, " particle"], ...]]:
    """Return column and row of the cell of each position, and the position in it, from 0 to 1.

    Computed in double precision, because far from the origin few digits are left.
    """
    n = flow.grid.n
    cells, fractions = [], []
    for along in (jnp.real(x), jnp.imag(x)):
        place = along * (1 / flow.grid.spacing)
        whole = jnp.floor(place)
        # A GPU divides floating-point numbers much faster than long integers.
        wrapped = whole - n * jnp.floor(whole * (1 / n))
        cells.append(_wrap(wrapped.astype(jnp.int32), n))
        fractions.append((place - whole).astype(dtype))
    return tuple(cells), tuple(fractions)


def _wrap(index: Int[Array, " particle"], n: int) -> Int[Array, " particle"]:
    """Wrap an index from -n to 2n - 1 to the grid."""
    index = jnp.where(index < 0, index + n, index)
    return jnp.where(index >= n, index - n, index)


def _response(degree: int, theta: np.ndarray) -> np.ndarray:
    """Return the transform of the B-spline's values at integers."""
    if degree == 3:
        return (4 + 2 * np.cos(theta)) / 6
    return (66 + 52 * np.cos(theta) + 2 * np.cos(2 * theta)) / 120


def _basis(degree: int, t: Float[Array, " particle"]) -> tuple[list[Array], list[Array]]:
    """Return values and slopes of the B-splines that are nonzero at a point, left to right."""
    s = 1 - t
    if degree == 3:
        values = [s**3 / 6, (4 - 6 * t**2 + 3 * t**3) / 6, (4 - 6 * s**2 + 3 * s**3) / 6, t**3 / 6]
        slopes = [-(s**2) / 2, (-4 * t + 3 * t**2) / 2, (4 * s - 3 * s**2) / 2, t**2 / 2]
        return values, slopes

    def inner(d: Array) -> tuple[Array, Array]:
        # |distance| d below 1.
        value = 11 / 20 - d**2 / 2 + d**4 / 4 - d**5 / 12
        return value, -d + d**3 - 5 * d**4 / 12

    def middle(d: Array) -> tuple[Array, Array]:
        # From 1 to 2.
        value = 17 / 40 + 5 * d / 8 - 7 * d**2 / 4 + 5 * d**3 / 4 - 3 * d**4 / 8 + d**5 / 24
        return value, 5 / 8 - 7 * d / 2 + 15 * d**2 / 4 - 3 * d**3 / 2 + 5 * d**4 / 24

    def outer(d: Array) -> tuple[Array, Array]:
        # From 2 to 3.
        return (3 - d) ** 5 / 120, -((3 - d) ** 4) / 24

    left = [outer(2 + t), middle(1 + t), inner(t)]
    right = [inner(s), middle(1 + s), outer(2 + s)]
    # To the right of the point the distance grows as the point moves left.
    values = [value for value, _ in (*left, *right)]
    slopes = [slope for _, slope in left] + [-slope for _, slope in right]
    return values, slopes


def seed_particles(n_particles: int, seed: int) -> Float[Array, "particle 2"]:
    """Draw uniform positions in the square; the first n are the same for any larger number.

    Args:
        n_particles: Number of particles.
        seed: Random seed of the run.
    """
    if n_particles != int(n_particles) or not 0 <= n_particles < 2**32:
        msg = f"the number of particles must be a whole number, 0 or more, got {n_particles}"
        raise DriftbayesError(msg)
    count = np.arange(n_particles, dtype=np.uint32)
    return _draw_positions(jnp.asarray(key_words(seed, "particles")), jnp.asarray(count))


@jax.jit
def _draw_positions(
    key: UInt32[Array, " 2"], count: UInt32[Array, " particle"]
) -> Float[Array, "particle 2"]:
    """Draw the positions of particles by number."""
    x, y = uniform(key, jnp.zeros_like(count), count)
    return 2 * jnp.pi * jnp.stack([x, y], axis=-1)


def advect(
    flow: Flow, interpolation: Interpolation, fields: tuple[Field, Field, Field], x: Positions
) -> Positions:
    """Return the positions two steps later.

    Args:
        flow: The flow, for its grid and time step.
        interpolation: Interpolation between grid points.
        fields: Velocity and coefficients at the beginning, in the middle and at the end.
        x: Positions x + iy, unwrapped and in double precision.
    """
    start, middle, end = fields
    h = 2 * flow.dt
    first = interpolation.velocity(flow, start, x)
    second = interpolation.velocity(flow, middle, x + 0.5 * h * first)
    third = interpolation.velocity(flow, middle, x + 0.5 * h * second)
    fourth = interpolation.velocity(flow, end, x + h * third)
    return x + h / 6 * (first + 2 * second + 2 * third + fourth)
