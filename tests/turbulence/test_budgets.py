"""Energy and enstrophy: known amounts, and a budget that closes at every step."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from workshop import (
    components,
    energy_mean,
    enstrophy_mean,
    evolved,
    psi_two_waves,
    size,
    velocity,
    vorticity_modes,
)

from driftbayes.turbulence import budgets
from driftbayes.turbulence.flow import Dissipation, Flow, ab3_step
from driftbayes.turbulence.forcing import Forcing
from driftbayes.turbulence.grid import Grid
from driftbayes.turbulence.noise import random_start

step_budget = eqx.filter_jit(budgets.step_budget)
flow_statistics = eqx.filter_jit(budgets.flow_statistics)


def _forced(grid, dt=2e-3):
    return Flow.make(
        grid,
        dt,
        dissipation=Dissipation(hypofriction=1.0, viscosity=1e-3),
        forcing=Forcing.on_ring(grid, epsilon=0.3, k_f=8, width=1),
    )


@pytest.fixture(scope="module")
def forced():
    """A flow after a thousand forced steps."""
    grid = Grid(64)
    flow = _forced(grid)
    return flow, evolved(flow, random_start(grid, seed=2, energy=0.3), 1000, seed=2)


@pytest.mark.parametrize("n", [16, 64])
def test_two_waves_have_energy_6_and_enstrophy_58(n):
    grid = Grid(n)
    zeta = vorticity_modes(grid, psi_two_waves)
    assert_allclose(energy_mean(grid, zeta), 6.0, rtol=1e-14)
    assert_allclose(enstrophy_mean(grid, zeta), 58.0, rtol=1e-14)


@pytest.mark.slow
def test_a_thousand_forced_steps_leave_the_field_real(forced):
    zeta = np.asarray(forced[1].zeta)
    column = zeta[:, 0]
    mirrored = np.conj(column[-np.arange(len(column))])
    assert size(column - mirrored) < 1e-13 * size(zeta)


def test_energy_of_the_modes_is_that_of_the_points(forced):
    flow, state = forced
    u, v = components(velocity(flow, state.zeta))
    expected = 0.5 * np.mean(u**2 + v**2)
    assert_allclose(energy_mean(flow.grid, state.zeta), expected, rtol=1e-13)


def _step(flow, state, q):
    return ab3_step(flow, state, q, flow.kicks(state, 1)[0])


def test_the_budget_closes_at_every_step(forced):
    flow, state = forced
    step = eqx.filter_jit(_step)
    q = velocity(flow, state.zeta)
    for _ in range(10):
        both = jax.device_get(step_budget(flow, state, q))
        for budget, quantity in zip(both, (energy_mean, enstrophy_mean), strict=True):
            amount = np.asarray(quantity(flow.grid, state.zeta))
            assert abs(budget.residual) < 1e-12 * amount
            # No cause is lost in the rounding of the others.
            for cause in (budget.linear, budget.advection, budget.filter, budget.injection):
                assert abs(cause) > 1e-11 * amount
        before = state
        state, q = step(flow, state, q)
        change = np.subtract(*(enstrophy_mean(flow.grid, s.zeta) for s in (state, before)))
        assert_allclose(change, budget.total, rtol=1e-9)


def test_linear_terms_and_filter_only_take_out(forced):
    flow, state = forced
    for budget in jax.device_get(step_budget(flow, state, velocity(flow, state.zeta))):
        assert budget.linear < 0
        assert budget.filter < 0


def test_the_linear_part_of_a_single_wave_is_exact():
    grid = Grid(16)
    flow = Flow.make(grid, 0.1, dissipation=Dissipation(hypofriction=2.0, drag=0.3))
    zeta = vorticity_modes(grid, lambda x, y: np.cos(x + 2 * y))
    both = step_budget(flow, flow.start(zeta), velocity(flow, zeta))
    energy, enstrophy = jax.device_get(both)
    # psi of amplitude 1 at k² = 5: E = 5/4 and Z = 25/4, which decay at twice 2/5 + 0.3.
    lost = np.expm1(-2 * (2 / 5 + 0.3) * 0.1)
    assert_allclose(energy.linear, 5 / 4 * lost, rtol=1e-12)
    assert_allclose(enstrophy.linear, 25 / 4 * lost, rtol=1e-12)
    for budget in (energy, enstrophy):
        assert budget.injection == 0
        assert abs(budget.filter) + abs(budget.advection) < 1e-13


def test_injection_is_epsilon_on_average_from_rest():
    grid, dt, members = Grid(32), 0.01, 400
    flow = _forced(grid, dt)

    def injected(seed):
        state = flow.start(jnp.zeros(grid.shape, jnp.complex128))
        state = eqx.tree_at(lambda s: s.key, state, jnp.stack([seed, state.key[1]]))
        return budgets.step_budget(flow, state, velocity(flow, state.zeta))[0].injection

    found = np.asarray(jax.jit(jax.vmap(injected))(jnp.arange(members, dtype=jnp.uint32)))
    error = found.std(ddof=1) / np.sqrt(members)
    assert abs(found.mean() - 0.3 * dt) < 5 * error
    assert error < 0.02 * 0.3 * dt


def test_statistics_of_taylor_green_vortices():
    grid = Grid(32)
    flow = Flow.make(grid, 0.01)
    zeta = vorticity_modes(grid, lambda x, y: np.sin(4 * x) * np.sin(4 * y))
    found = flow_statistics(flow, zeta, velocity(flow, zeta))
    assert_allclose(found.energy_mean, 4.0, rtol=1e-14)
    assert_allclose(found.enstrophy_mean, 128.0, rtol=1e-14)
    assert_allclose(found.energy_total, 4 * np.pi**2 * 4, rtol=1e-14)
    assert_allclose(found.enstrophy_total, 4 * np.pi**2 * 128, rtol=1e-14)
    assert_allclose(found.u_rms, np.sqrt(8), rtol=1e-14)
    assert_allclose(found.u_max, 4.0, rtol=1e-13)
    # 2 pi over the root of the integrated enstrophy is one over that of the mean.
    assert_allclose(found.eddy_turnover_time, 1 / np.sqrt(128), rtol=1e-14)
    assert_allclose(found.cfl, 4.0 * 0.01 * 32 / (2 * np.pi), rtol=1e-13)
    # <sin⁴>² / <sin²>⁴ = (3/8)² 2⁴.
    assert_allclose([found.kurtosis_u, found.kurtosis_zeta], 9 / 4, rtol=1e-13)


def test_statistics_of_the_points_agree_with_numpy(forced):
    flow, state = forced
    q = velocity(flow, state.zeta)
    found, (u, v) = flow_statistics(flow, state.zeta, q), components(q)
    parts = np.stack([u, v])
    vorticity = np.fft.irfft2(state.zeta)
    assert_allclose(found.u_max, np.hypot(u, v).max(), rtol=1e-12)
    assert_allclose(found.kurtosis_u, np.mean(parts**4) / np.mean(parts**2) ** 2, rtol=1e-12)
    expected = np.mean(vorticity**4) / np.mean(vorticity**2) ** 2
    assert_allclose(found.kurtosis_zeta, expected, rtol=1e-12)


def test_a_flow_at_rest_has_no_shape_and_turns_over_never():
    flow = Flow.make(Grid(32), 0.01)
    zeta = jnp.zeros(flow.grid.shape, jnp.complex128)
    found = flow_statistics(flow, zeta, velocity(flow, zeta))
    assert found.kurtosis_u == found.kurtosis_zeta == found.cfl == 0
    assert np.isinf(found.eddy_turnover_time)
