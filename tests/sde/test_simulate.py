"""Simulated paths of stochastic differential equations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad

from driftbayes import SDE, Exponential
from driftbayes.errors import DriftbayesError
from driftbayes.models._named import SDES
from driftbayes.sde._simulate import resolved_substeps, simulate_paths

_KEY = jax.random.key(0)


def _cubic(bend):
    """Friction that grows with the speed, and a steady density exp(-u²/2 - bend u⁴/4)."""
    return SDE(
        lambda x, u, t, theta: -theta.gamma * (u + bend * u**3),
        lambda x, u, t, theta: jnp.sqrt(2 * theta.gamma),
        {"gamma": Exponential(1.0)},
        name="cubic",
    )(gamma=1.0)


def test_linear_friction_needs_no_more_substeps_however_long_the_step():
    model = _cubic(0.0)
    assert resolved_substeps(model.law, model.theta(), _KEY, 1, 1e6) == 64


def test_steps_too_long_for_nonlinear_friction_are_refused():
    with pytest.raises(DriftbayesError, match=r"1e\+04 is \d+ times the time scale"):
        _cubic(2.0).simulate(_KEY, n_particles=2, n_steps=1, n_dim=1, tau=1e4)


@pytest.mark.slow
@pytest.mark.parametrize("tau", [0.1, 1.0, 10.0])
def test_speed_under_cubic_friction_is_that_of_its_steady_density(tau):
    def density(u):
        return np.exp(-(u**2) / 2 - u**4 / 2)

    exact = quad(lambda u: u**2 * density(u), -9, 9)[0] / quad(density, -9, 9)[0]
    model = _cubic(2.0)
    law, theta, start = model.law, model.theta(), jnp.zeros((40_000, 1))
    _, u = simulate_paths(
        *(law, theta, _KEY, start),
        n_steps=max(1, int(5 / tau)),
        tau=tau,
        substeps=resolved_substeps(law, theta, _KEY, 1, tau),
    )
    squares = np.asarray(u)[:, -1, 0] ** 2
    assert abs(squares.mean() - exact) < 4 * squares.std() / np.sqrt(len(squares))


def test_fast_hidden_variables_need_substeps_of_their_own():
    model = SDES["fluctuating_dissipation"]
    values = dict.fromkeys(model.law.parameters, 1.0)
    slow, fast = model(**values), model(**{**values, "renewal": 50.0})
    assert resolved_substeps(slow.law, slow.theta(), _KEY, 1, 1.0) == 64
    assert resolved_substeps(fast.law, fast.theta(), _KEY, 1, 1.0) == 2000
