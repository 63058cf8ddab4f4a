"""Flows and helpers that several tests of the simulator share."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from driftbayes.turbulence import budgets
from driftbayes.turbulence.flow import Dissipation, Flow, ab3_step, rk4_step
from driftbayes.turbulence.forcing import Forcing
from driftbayes.turbulence.grid import Grid
from driftbayes.turbulence.march import begin, evolve
from driftbayes.turbulence.noise import random_start
from driftbayes.turbulence.particles import seed_particles

NO_PARTICLES = jnp.zeros((0, 2))
FIVE_SIGMA = 5.0


def psi_two_waves(x, y):
    """A stream function with E = 6 and Z = 58, and its derivatives in test_vorticity."""
    return np.sin(2 * x) * np.cos(2 * y) + 2 * np.sin(x) * np.cos(3 * y)


def vorticity_modes(grid, psi):
    """Transform of the vorticity of a stream function of x and y."""
    return jnp.asarray(-grid.k2 * np.fft.rfft2(psi(*grid.points)))


# Compiled as a whole: operation by operation they take far longer.
energy_mean = eqx.filter_jit(budgets.energy_mean)
enstrophy_mean = eqx.filter_jit(budgets.enstrophy_mean)
mean_square = eqx.filter_jit(Grid.mean_square)


def components(q):
    """u and v of the packed velocity."""
    q = np.asarray(q)
    return np.real(q), -np.imag(q)


@eqx.filter_jit
def velocity(flow, zeta):
    """`flow.velocity`, compiled as a whole: operation by operation it takes far longer."""
    return flow.velocity(zeta)


def evolved(flow, zeta, n_steps, seed=0):
    """The state after an even number of steps, at least 4, the first two by Runge--Kutta."""
    return evolve(flow, flow.start(zeta, seed), n_steps)


def stepped(step, flow, state, n_steps):
    """The state after a number of unforced steps by one stepper."""
    return _stepped(step, flow, state, jnp.asarray(n_steps))


@eqx.filter_jit
def _stepped(step, flow, state, n_steps):
    # The number is not static: one program serves a whole series of step sizes.
    kick = jnp.zeros(0, jnp.complex128)

    def body(_, carry):
        return step(flow, *carry, kick)

    return jax.lax.fori_loop(0, n_steps, body, (state, flow.velocity(state.zeta)))[0]


def stepped_by_ab3(flow, zeta, n_steps):
    """The state after two steps of Runge--Kutta and the rest by Adams--Bashforth."""
    begun = stepped(rk4_step, flow, flow.start(zeta), 2)
    return stepped(ab3_step, flow, begun, n_steps - 2)


def forced_flow(precision="double"):
    """A small flow with forcing and friction; the same for many tests, to be compiled once."""
    grid = Grid(32)
    return Flow.make(
        grid,
        5e-3,
        dissipation=Dissipation(hypofriction=1.0),
        forcing=Forcing.on_ring(grid, epsilon=0.2, k_f=6, width=1),
        precision=precision,
    )


def begun(flow, interpolation, seed=3):
    """State and particles of that flow after two steps."""
    state = flow.start(random_start(flow.grid, seed=1, energy=0.3), seed)
    return begin(flow, state, seed_particles(20, seed), interpolation)


def observed_orders(errors):
    """Orders of convergence from errors at step sizes that halve."""
    errors = np.asarray(errors)
    return np.log2(errors[:-1] / errors[1:])


def size(modes):
    """Largest modulus."""
    return np.abs(np.asarray(modes)).max()
