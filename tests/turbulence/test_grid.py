"""Wavenumbers, transforms and the mirror from k to -k."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from workshop import mean_square

from driftbayes.errors import DriftbayesError
from driftbayes.turbulence.grid import Grid, conjugate_whole, mirrored_half, scaled


def _field(n, seed=0):
    return np.random.default_rng(seed).normal(size=(n, n))


@pytest.mark.parametrize("n", [8, 12])
def test_mean_square_of_modes_is_that_of_the_points(n):
    # Noise fills the Nyquist row and column, where a wrong weight would show.
    field = _field(n)
    found = mean_square(Grid(n), np.fft.rfft2(field))
    assert_allclose(found, np.mean(field**2), rtol=1e-14)


def test_mean_square_takes_a_stack_of_fields():
    grid, fields = Grid(8), np.stack([_field(8, seed) for seed in range(3)])
    found = mean_square(grid, np.fft.rfft2(fields))
    assert_allclose(found, np.mean(fields**2, axis=(1, 2)), rtol=1e-14)


def test_points_and_modes_are_inverse():
    grid, field = Grid(12), jnp.asarray(_field(12))
    assert_allclose(grid.to_points(grid.to_modes(field)), field, atol=1e-14)


def test_a_wave_lands_on_its_wavenumber():
    grid = Grid(16)
    x, y = grid.points
    modes = grid.to_modes(jnp.asarray(np.cos(3 * x - 5 * y)))
    modes = np.asarray(modes)
    (row,), (column,) = np.nonzero(np.abs(modes) > 1e-10)
    assert (grid.kx[0, column], grid.ky[row, 0]) == (3, -5)
    assert_allclose(modes[row, column], 16**2 / 2, rtol=1e-14)


def test_the_mean_and_the_nyquist_modes_are_not_resolved():
    grid = Grid(8)
    expected = np.ones((8, 5))
    expected[0, 0] = 0
    expected[4, :] = 0
    expected[:, 4] = 0
    assert_array_equal(grid.resolved, expected)


def test_inverse_of_squared_wavenumber_is_zero_for_the_mean():
    grid = Grid(8)
    product = grid.k2 * grid.inverse_k2
    assert product[0, 0] == 0
    assert_allclose(np.delete(product.ravel(), 0), 1.0, rtol=1e-15)


@pytest.mark.parametrize("n", [8, 14])
def test_the_whole_plane_is_that_of_a_complex_transform(n):
    field = _field(n)
    found = eqx.filter_jit(conjugate_whole)(Grid(n), np.fft.rfft2(field))
    assert_allclose(found, np.conj(np.fft.fft2(field)), atol=1e-12)


@pytest.mark.parametrize("n", [8, 14])
def test_the_mirrored_half_plane_holds_the_modes_at_minus_k(n):
    whole = _field(n, 1) + 1j * _field(n, 2)
    index = -np.arange(n) % n
    expected = whole[np.ix_(index, index)][:, : n // 2 + 1]
    assert_array_equal(eqx.filter_jit(mirrored_half)(Grid(n), whole), expected)


def test_gpu_branches_of_the_mirror_give_identical_numbers(request):
    grid, half = Grid(14), jnp.asarray(np.fft.rfft2(_field(14)))
    whole = jnp.asarray(_field(14, 1) + 1j * _field(14, 2))

    def both():
        # Compiled anew: a program from before would not ask for the platform again.
        return jax.jit(lambda: (conjugate_whole(grid, half), mirrored_half(grid, whole)))()

    on_cpu = both()
    request.getfixturevalue("gpu_branches")
    for cpu, gpu in zip(on_cpu, both(), strict=True):
        assert_array_equal(gpu, cpu)


@pytest.mark.parametrize("dtype", [jnp.complex64, jnp.complex128])
def test_scaling_is_multiplication_in_the_precision_of_the_modes(dtype):
    modes = (_field(8, 1) + 1j * _field(8, 2)).astype(dtype)
    real = _field(8, 3).astype(modes.real.dtype)
    turn = (real + 0.5j * real).astype(dtype)
    for factor in (real, turn):
        found = jax.jit(scaled)(factor, modes)
        assert found.dtype == dtype
        assert_allclose(found, factor * modes, rtol=1e-6)


@pytest.mark.parametrize("n", [15, 6, 0, -8, 16.5])
def test_a_grid_that_is_odd_or_tiny_is_refused(n):
    with pytest.raises(DriftbayesError, match=f"even number of points, 8 or more.*got {n}"):
        Grid(n)
