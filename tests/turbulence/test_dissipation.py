"""Linear terms against exact solutions, and the filter against its formula."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from workshop import energy_mean, evolved, psi_two_waves, size, vorticity_modes

from driftbayes.turbulence.flow import Dissipation, Flow, exponential_filter
from driftbayes.turbulence.grid import Grid


def test_taylor_green_decays_at_its_exact_rate():
    grid = Grid(32)
    nu, a = 1e-2, 1.0
    # Not in more steps: the factor of a step is rounded, and a hundred of them would show it.
    flow = Flow.make(grid, 0.02, dissipation=Dissipation(viscosity=nu, hypofriction=a))
    zeta = flow.start(vorticity_modes(grid, lambda x, y: np.sin(4 * x) * np.sin(4 * y))).zeta
    end, zeta = np.asarray(evolved(flow, zeta, 50).zeta), np.asarray(zeta)
    expected = np.exp(-(32 * nu + a / 32) * 1.0) * zeta
    assert size(end - expected) < 3e-15 * size(expected)


def test_hypofriction_is_plus_a_psi_and_takes_energy_out():
    grid = Grid(32)
    a = 0.7
    zeta = np.asarray(vorticity_modes(grid, psi_two_waves))
    tendency = Dissipation(hypofriction=a).rate(grid) * zeta
    expected = a * np.fft.rfft2(psi_two_waves(*grid.points))
    assert size(tendency - expected) < 1e-14 * size(expected)
    flow = Flow.make(grid, 0.1, dissipation=Dissipation(hypofriction=a), advects=False)
    state = evolved(flow, zeta, 6)
    assert energy_mean(grid, state.zeta) < energy_mean(grid, zeta)


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ({"hypofriction": 2.0}, -2 / 25),
        ({"drag": 0.3}, -0.3),
        ({"viscosity": 0.01}, -0.25),
        ({"hyperviscosity": 1e-6, "hyperviscosity_power": 3}, -0.015625),
        ({"beta": 5.0}, 5j * 3 / 25),
        ({"drag": 0.3, "viscosity": 0.01, "beta": 5.0}, -0.55 + 0.6j),
    ],
)
def test_each_term_at_one_wavenumber(terms, expected):
    # At k = (3, -4): |k| = 5.
    rate = Dissipation(**terms).rate(Grid(16))
    assert_allclose(rate[-4, 3], expected, rtol=1e-15)
    assert rate[0, 0] == 0


@pytest.mark.parametrize(("kx", "ky"), [(1, 0), (2, 3), (3, -2)])
def test_a_rossby_wave_moves_west_at_its_exact_speed(kx, ky):
    grid, beta, t = Grid(16), 3.0, 1.9
    flow = Flow.make(grid, 0.05, dissipation=Dissipation(beta=beta))

    def wave(x, y):
        return np.cos(kx * x + ky * y + 0.3)

    speed = -beta / (kx**2 + ky**2)
    found = np.asarray(evolved(flow, vorticity_modes(grid, wave), 38).zeta)
    expected = np.asarray(vorticity_modes(grid, lambda x, y: wave(x - speed * t, y)))
    assert size(found - expected) < 1e-13 * size(expected)


def test_the_filter_is_the_papers_formula():
    grid = Grid(64)
    found = exponential_filter(grid)
    # 0.65 pi / spacing is 20.8: k = 20 is left alone.
    assert found[0, 20] == 1
    assert found[0, 21] < 1
    corner = np.sqrt(2) * np.pi - 0.65 * np.pi
    assert_allclose(found[32, 32], np.exp(-23.6 * corner**4), rtol=1e-12)
    # The edge of the grid along an axis: 0.35 pi beyond.
    assert_allclose(found[0, 32], np.exp(-23.6 * (0.35 * np.pi) ** 4), rtol=1e-12)


def _damping_over_unit_time(dt, filter):
    flow = Flow.make(Grid(32), dt, dissipation=Dissipation(filter=filter, filter_dt=0.1))
    return np.asarray(flow.damping) ** (1 / dt)


def test_a_filter_by_rate_damps_the_same_whatever_the_time_step():
    whole = _damping_over_unit_time(0.1, "rate")
    assert_allclose(_damping_over_unit_time(0.05, "rate"), whole, rtol=1e-12)
    assert_array_equal(_damping_over_unit_time(0.1, "per-step"), whole)


def test_a_filter_per_step_damps_twice_as_much_at_half_the_time_step():
    whole, halved = (_damping_over_unit_time(dt, "per-step") for dt in (0.1, 0.05))
    assert_allclose(halved, whole**2, rtol=1e-12)
    assert halved[0, 12] < 0.9 * whole[0, 12]


def test_the_filter_acts_once_per_step():
    grid = Grid(32)
    flow = Flow.make(grid, 0.1, advects=False)
    zeta = flow.start(np.ones(grid.shape, np.complex128)).zeta
    # Compiled: there, as in the flow, the smallest numbers are 0.
    expected = jax.jit(lambda zeta, damping: zeta * damping**6)(zeta, flow.damping)
    assert_allclose(evolved(flow, zeta, 6).zeta, expected, rtol=1e-13)


def test_without_filter_or_truncation_only_unresolved_modes_are_removed():
    grid = Grid(24)
    assert_array_equal(
        Flow.make(grid, 0.1, dissipation=Dissipation(filter="none")).damping, grid.resolved
    )


def test_truncation_keeps_wavenumbers_below_a_third_of_the_points():
    grid = Grid(24)
    kept = np.asarray(Dissipation(filter="none", truncate=True).damping(grid, 0.1))
    expected = (np.abs(grid.ky) < 8) & (grid.kx < 8) & (grid.k2 > 0)
    assert_array_equal(kept, expected)
