"""Velocity and advection against calculus and against a second form."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy import cos, sin
from numpy.testing import assert_allclose, assert_array_equal
from workshop import components, psi_two_waves, size, vorticity_modes

from driftbayes.turbulence import flow
from driftbayes.turbulence.grid import Grid
from driftbayes.turbulence.noise import random_start


def _compiled(function):
    """A function as one program; what follows is NumPy's."""
    program = eqx.filter_jit(function)
    return lambda *arguments: np.asarray(program(*arguments))


velocity = _compiled(flow.velocity)
advection = _compiled(flow.advection)


@_compiled
def advection_basdevant(grid, zeta):
    """The same from four real transforms: (kx² - ky²) F[uv] + kx ky F[v² - u²]."""
    psi = jnp.asarray(-grid.inverse_k2) * zeta
    kx, ky = jnp.asarray(grid.kx), jnp.asarray(grid.ky)
    u, v = grid.to_points(-1j * ky * psi), grid.to_points(1j * kx * psi)
    return (kx**2 - ky**2) * grid.to_modes(u * v) + kx * ky * grid.to_modes(v**2 - u**2)


def test_velocity_is_minus_psi_y_and_psi_x():
    grid = Grid(16)
    x, y = grid.points
    u, v = components(velocity(grid, vorticity_modes(grid, psi_two_waves)))
    psi_x = 2 * cos(2 * x) * cos(2 * y) + 2 * cos(x) * cos(3 * y)
    psi_y = -2 * sin(2 * x) * sin(2 * y) - 6 * sin(x) * sin(3 * y)
    assert size(u + psi_y) < 1e-14 * size(u)
    assert size(v - psi_x) < 1e-14 * size(u)


def test_a_cyclone_turns_anticlockwise():
    # Positive vorticity at the centre; to the east of it the flow goes north.
    grid = Grid(16)
    q = velocity(grid, vorticity_modes(grid, lambda x, y: -cos(x - np.pi) - cos(y - np.pi)))
    u, v = components(q)
    east, north = (8, 11), (11, 8)
    assert v[east] > 0.5
    assert u[north] < -0.5


def test_advection_is_minus_u_dot_gradient_of_vorticity():
    grid = Grid(16)
    x, y = grid.points
    zeta = vorticity_modes(grid, psi_two_waves)
    u, v = components(velocity(grid, zeta))
    # The vorticity is -8 of the first wave and -10 of the second.
    zeta_x = -16 * cos(2 * x) * cos(2 * y) - 20 * cos(x) * cos(3 * y)
    zeta_y = 16 * sin(2 * x) * sin(2 * y) + 60 * sin(x) * sin(3 * y)
    found = np.fft.irfft2(advection(grid, velocity(grid, zeta)))
    expected = -(u * zeta_x + v * zeta_y)
    assert size(expected) > 10
    # Velocity and gradient are nearly at right angles; rounding knows only their sizes.
    assert size(found - expected) < 1e-14 * size(u) * size(zeta_y)


def test_packed_advection_equals_basdevants_form():
    # Without truncation: aliased modes, too, must be the same.
    grid = Grid(64)
    zeta = random_start(grid, seed=3)
    reference = advection_basdevant(grid, zeta)
    found = advection(grid, velocity(grid, zeta))
    inside = grid.resolved > 0
    assert size((found - reference)[inside]) < 1e-14 * size(reference)


def test_advection_conserves_energy_and_enstrophy_when_truncated():
    grid = Grid(64)
    kept = (np.abs(grid.ky) < 21) & (grid.kx < 21)
    zeta = random_start(grid, seed=4) * kept
    tendency = advection(grid, velocity(grid, zeta))
    gained = grid.weights * np.real(np.conj(zeta) * tendency) / grid.n**4
    for factor in (grid.inverse_k2, np.ones(grid.shape)):
        assert abs(np.sum(factor * gained)) < 1e-13 * np.sum(factor * np.abs(gained))


def test_a_shift_of_the_field_shifts_its_tendency():
    grid = Grid(32)
    kept = (np.abs(grid.ky) < 10) & (grid.kx < 10)
    zeta = random_start(grid, seed=5) * kept
    # Not by whole cells, so that no copying of points could pass.
    turn = np.exp(1j * (0.123 * grid.kx + 0.456 * grid.ky)) * kept
    moved = advection(grid, velocity(grid, zeta * turn))
    expected = turn * advection(grid, velocity(grid, zeta))
    assert size((moved - expected) * kept) < 1e-13 * size(expected)


def test_gpu_branches_of_velocity_and_advection_give_identical_numbers(request):
    grid = Grid(18)
    zeta = jnp.asarray(random_start(grid, seed=6))

    def both():
        # Compiled anew: a program from before would not ask for the platform again.
        q = jax.jit(lambda zeta: flow.velocity(grid, zeta))(zeta)
        return q, jax.jit(lambda q: flow.advection(grid, q))(q)

    on_cpu = both()
    request.getfixturevalue("gpu_branches")
    for cpu, gpu in zip(on_cpu, both(), strict=True):
        assert_array_equal(gpu, cpu)


def test_single_precision_stays_single_and_is_right_to_its_digits():
    grid = Grid(64)
    zeta = random_start(grid, seed=7)
    q = velocity(grid, zeta)
    tendency = advection(grid, q)
    q_single = velocity(grid, zeta.astype(np.complex64))
    tendency_single = advection(grid, q_single)
    assert q_single.dtype == tendency_single.dtype == jnp.complex64
    assert_allclose(q_single, q, atol=1e-6 * size(q))
    assert_allclose(tendency_single, tendency, atol=2e-6 * size(tendency))
