"""Whole runs: restart, batches, chunks, and a vortex pair that swims at its exact speed."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import j0, j1, jn_zeros
from workshop import NO_PARTICLES, begun, evolved, forced_flow, size, velocity

from driftbayes.errors import DriftbayesError
from driftbayes.turbulence import march as module
from driftbayes.turbulence.flow import Flow, ab3_step
from driftbayes.turbulence.grid import Grid
from driftbayes.turbulence.march import look, march
from driftbayes.turbulence.particles import INTERPOLATIONS, advect

BILINEAR = INTERPOLATIONS["bilinear"]
# Records, and pairs of steps before each: few different ones, since each is compiled anew.
SHORT, LONG = (2, 4), (4, 4)


def _saved_and_loaded(tree, path):
    leaves, structure = jax.tree.flatten(tree)
    np.savez(path, *leaves)
    with np.load(path) as file:
        loaded = [jnp.asarray(file[name]) for name in file.files]
    return jax.tree.unflatten(structure, loaded)


def _assert_identical(one, other):
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert a.dtype == b.dtype
        assert_array_equal(a, b)


def _assert_restart_is_exact(flow, interpolation, path):
    state, x = begun(flow, interpolation)
    *whole, records = march(flow, state, x, interpolation, *LONG)
    *first, early = march(flow, state, x, interpolation, *SHORT)
    state, x = _saved_and_loaded(first, path)
    *second, late = march(flow, state, x, interpolation, *SHORT)
    assert int(second[0].step) == 2 + 2 * 16
    _assert_identical(second, whole)
    assert_array_equal(np.concatenate([early, late]), records)


def test_a_run_cut_in_two_is_the_whole_run_bit_by_bit(tmp_path):
    _assert_restart_is_exact(forced_flow(), BILINEAR, tmp_path / "state.npz")


# Not with splines, whose coefficients for two steps share a transform: a march begins with
# coefficients of its own. A run does so at fixed steps, and tests of it cover splines.
@pytest.mark.slow
def test_so_it_is_in_single_precision(tmp_path):
    precision, name = "single", "bilinear"
    _assert_restart_is_exact(forced_flow(precision), INTERPOLATIONS[name], tmp_path / "state.npz")


def test_the_number_of_kicks_drawn_at_once_changes_nothing():
    # Of 72 pairs 36 are drawn at a time, of 4 pairs all at once.
    flow = forced_flow()
    state, _ = begun(flow, BILINEAR)
    together = march(flow, state, NO_PARTICLES, BILINEAR, 1, 72)[0]
    for _ in range(9):
        state = march(flow, state, NO_PARTICLES, BILINEAR, *SHORT)[0]
    _assert_identical(state, together)


def _step(flow, state, q):
    return ab3_step(flow, state, q, flow.kicks(state, 1)[0])


def test_the_march_is_the_steps_one_by_one():
    flow = forced_flow()
    state, x = begun(flow, BILINEAR)
    found, places, records = march(flow, state, x, BILINEAR, *SHORT)
    step, seen = eqx.filter_jit(_step), eqx.filter_jit(BILINEAR.velocity)
    move = eqx.filter_jit(advect)
    fields, z = [(velocity(flow, state.zeta), None)], np.asarray(x) @ [1, 1j]
    for _ in range(2 * SHORT[0] * SHORT[1]):
        state, q = step(flow, state, fields[-1][0])
        fields.append((q, None))
        if len(fields) == 3:
            z = move(flow, BILINEAR, tuple(fields), z)
            fields = fields[-1:]
    z, places, records = np.asarray(z), np.asarray(places), np.asarray(records)
    assert size(np.asarray(found.zeta) - state.zeta) < 1e-13 * size(state.zeta)
    assert_allclose(places, np.stack([z.real, z.imag], axis=-1), atol=1e-13)
    assert_array_equal(records[-1, :, :2], places)
    w = np.asarray(seen(flow, fields[-1], z))
    assert_allclose(records[-1, :, 2:], np.stack([w.real, w.imag], axis=-1), atol=1e-12)
    assert_allclose(look(flow, found, places, BILINEAR), records[-1, :, 2:], atol=1e-14)


def test_a_batch_of_flows_is_its_members_one_by_one():
    flow = forced_flow()
    singles = [begun(flow, BILINEAR, seed=seed) for seed in (3, 4, 5)]
    batch = jax.tree.map(lambda *leaves: np.stack(leaves), *singles)

    def run(state, x):
        return march(flow, state, x, BILINEAR, *SHORT)

    ends = jax.device_get(jax.vmap(run)(*batch))
    for index, single in enumerate(singles):
        member = jax.tree.map(lambda leaf, i=index: leaf[i], ends)
        for found, alone in zip(
            jax.tree.leaves(member), jax.tree.leaves(run(*single)), strict=True
        ):
            assert size(found - np.asarray(alone)) <= 1e-12 * size(alone)
    # The members differ: their noise does.
    assert size(ends[0].zeta[0] - ends[0].zeta[1]) > 1e-3 * size(ends[0].zeta)


def test_particles_do_not_act_on_the_flow():
    flow = forced_flow()
    state, x = begun(flow, BILINEAR)
    without = march(flow, state, NO_PARTICLES, BILINEAR, *SHORT)
    with_them = march(flow, state, x, BILINEAR, *SHORT)
    apart, together = (np.asarray(each[0].zeta) for each in (without, with_them))
    assert size(apart - together) < 1e-14 * size(apart)
    assert without[2].shape == (2, 0, 4)


def test_the_order_of_many_particles_changes_no_path(monkeypatch):
    flow = forced_flow()
    state, x = begun(flow, BILINEAR)
    plain = jax.device_get(march(flow, state, x, BILINEAR, *SHORT))
    monkeypatch.setattr(module, "_MIN_SORTED", 2)
    # Compiled anew: a program from before would not ask for the number again.
    found = eqx.filter_jit(lambda *args: march.__wrapped__(*args))(flow, state, x, BILINEAR, *SHORT)
    assert_array_equal(found[1], plain[1])
    assert_array_equal(found[2], plain[2])


def _lamb_dipole(grid, radius):
    """Vorticity at the points of a circular vortex pair that moves along x at speed 1."""
    x, y = (along - np.pi for along in grid.points)
    r = np.hypot(x, y)
    k = jn_zeros(1, 1)[0] / radius
    # Positive vorticity to the left of the motion, at y > 0: sin(theta) = y/r.
    sine = y / np.where(r > 0, r, 1)
    return np.where(r < radius, -2 * k / j0(k * radius) * j1(k * r) * sine, 0.0)


def test_a_lamb_dipole_moves_at_its_exact_speed():
    grid, t, n_steps = Grid(256), 0.19, 202
    flow = Flow.make(grid, t / n_steps)
    field = _lamb_dipole(grid, 2 * np.pi / 20)
    end = np.fft.irfft2(evolved(flow, np.fft.rfft2(field), n_steps).zeta)

    def centre(vorticity):
        return np.sum(grid.points[0] * vorticity**2) / np.sum(vorticity**2)

    assert_allclose((centre(end) - centre(field)) / t, 1.0, rtol=0.01)


def test_single_precision_of_jax_is_refused():
    with jax.enable_x64(False), pytest.raises(DriftbayesError, match="needs JAX in double precis"):
        Flow.make(Grid(8), 0.1)
