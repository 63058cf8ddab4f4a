"""Spectra: sums over rings, and the transfer between them."""

import equinox as eqx
import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from workshop import energy_mean, enstrophy_mean, velocity, vorticity_modes

from driftbayes.turbulence import budgets as module
from driftbayes.turbulence.budgets import shells
from driftbayes.turbulence.flow import Dissipation, Flow
from driftbayes.turbulence.grid import Grid
from driftbayes.turbulence.noise import random_start

spectra = eqx.filter_jit(module.spectra)


@pytest.fixture(scope="module")
def case():
    """A truncated flow, in which advection conserves energy and enstrophy."""
    grid = Grid(48)
    flow = Flow.make(grid, 0.01, dissipation=Dissipation(filter="none", truncate=True))
    zeta = flow.start(random_start(grid, seed=5)).zeta
    return flow, zeta, jax.device_get(spectra(flow, zeta, velocity(flow, zeta)))


def test_the_rings_sum_to_the_whole(case):
    flow, zeta, found = case
    assert_allclose(found.energy.sum(), energy_mean(flow.grid, zeta), rtol=1e-15)
    assert_allclose(found.enstrophy.sum(), enstrophy_mean(flow.grid, zeta), rtol=1e-15)


def test_rings_are_half_a_wavenumber_wide_on_either_side():
    ring = shells(Grid(16))
    # |k| = 0, 5, sqrt(2) = 1.41, sqrt(8) = 2.83 and the corner, sqrt(128) = 11.3.
    found = [ring[0, 0], ring[4, 3], ring[-1, 1], ring[2, 2], ring[8, 8]]
    assert_array_equal(found, [0, 5, 1, 3, 11])


def test_a_wave_lies_in_its_ring():
    grid = Grid(16)
    flow = Flow.make(grid, 0.1)
    zeta = vorticity_modes(grid, lambda x, y: np.cos(3 * x - 4 * y))
    found = spectra(flow, zeta, velocity(flow, zeta))
    expected = np.zeros(12)
    expected[5] = 25 / 4
    assert_allclose(found.energy, expected, atol=1e-14)
    assert_allclose(found.enstrophy, 25 * expected, atol=1e-12)


def test_advection_moves_energy_without_making_any(case):
    found = case[2]
    transfer = np.asarray(found.transfer)
    assert abs(transfer.sum()) < 1e-13 * np.abs(transfer).sum()
    assert_allclose(found.flux[-1], 0.0, atol=1e-13 * np.abs(transfer).sum())
    assert np.abs(found.flux).max() > 1e-3 * np.abs(transfer).sum()


def test_the_flux_through_k_is_what_the_larger_scales_lose(case):
    flow, zeta, found = case
    grid = flow.grid
    dt = 1e-6
    tendency = eqx.filter_jit(Flow.tendency)(flow, velocity(flow, zeta))
    zeta = np.asarray(zeta)
    later = zeta + dt * np.asarray(tendency) * grid.resolved
    inside = shells(grid) <= 6
    lost = np.subtract(*(energy_mean(grid, each * inside) for each in (zeta, later)))
    assert_allclose(found.flux[6], lost / dt, rtol=1e-3)
