"""Single precision: of transforms and tendencies only, and good enough."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from workshop import begun, evolved, forced_flow, size, vorticity_modes

from driftbayes.turbulence.flow import Dissipation, Flow
from driftbayes.turbulence.grid import Grid
from driftbayes.turbulence.march import begin, march
from driftbayes.turbulence.particles import INTERPOLATIONS

BILINEAR = INTERPOLATIONS["bilinear"]


def test_slow_friction_survives_single_precision():
    # A single-precision factor exp(-dt/k²) would be that of A = 0.954.
    grid, dt, n_steps = Grid(64), 2.5e-4, 10_000
    flow = Flow.make(
        grid, dt, dissipation=Dissipation(hypofriction=1.0), precision="single", advects=False
    )
    zeta = vorticity_modes(grid, lambda x, y: np.cos(12 * x + 16 * y))
    end, zeta = np.asarray(evolved(flow, zeta, n_steps).zeta), np.asarray(zeta)
    friction = -np.log(np.abs(end[16, 12] / zeta[16, 12])) * 20**2 / (n_steps * dt)
    assert_allclose(friction, 1.0, rtol=1e-6)
    wrong = np.log(np.float64(np.exp(np.float32(-dt / 400))))
    assert_allclose(-wrong * 400 / dt, 0.954, atol=5e-4)


@pytest.fixture(scope="module")
def ends():
    """The same forced flow, with particles, in both precisions."""
    found = {}
    for precision in ("double", "single"):
        flow = forced_flow(precision)
        end = begun(flow, BILINEAR)
        for _ in range(3):
            *end, records = march(flow, *end, BILINEAR, 2, 4)
        found[precision] = jax.device_get((*end, records))
    return found


@pytest.mark.slow
def test_precisions_agree_after_fifty_forced_steps(ends):
    double, single = ends["double"], ends["single"]
    assert size(single[0].zeta - double[0].zeta) < 1e-5 * size(double[0].zeta)
    assert_allclose(single[1], double[1], atol=1e-5)
    # They are not one and the same.
    assert size(single[0].zeta - double[0].zeta) > 1e-10 * size(double[0].zeta)


def _types(precision):
    """Types and shapes of such a flow's end, which need no numbers."""
    flow = forced_flow(precision)
    state = flow.start(np.zeros(flow.grid.shape, np.complex128))

    def end(state, x):
        return march(flow, *begin(flow, state, x, BILINEAR), BILINEAR, 2, 4)

    return eqx.filter_eval_shape(end, state, np.zeros((20, 2)))


def test_vorticity_and_positions_stay_double_and_tendencies_are_single():
    state, x, records = _types("single")
    assert state.zeta.dtype == jnp.complex128
    assert {older.dtype for older in state.older} == {jnp.dtype(jnp.complex64)}
    assert x.dtype == records.dtype == jnp.float64


def test_tendencies_of_a_double_flow_are_double():
    assert {older.dtype for older in _types("double")[0].older} == {jnp.dtype(jnp.complex128)}
