"""Flows and helpers that several tests of the simulator share."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from driftbayes.turbulence.interpolation import INTERPOLATIONS
from driftbayes.turbulence.march import begin, march

NO_PARTICLES = jnp.zeros((0, 2))
FIVE_SIGMA = 5.0


def psi_two_waves(x, y):
    """A stream function with E = 6 and Z = 58, and its derivatives in test_vorticity."""
    return np.sin(2 * x) * np.cos(2 * y) + 2 * np.sin(x) * np.cos(3 * y)


def vorticity_modes(grid, psi):
    """Transform of the vorticity of a stream function of x and y."""
    return jnp.asarray(-grid.k2 * np.fft.rfft2(psi(*grid.points)))


def components(q):
    """u and v of the packed velocity."""
    return np.real(q), -np.imag(q)


def evolved(flow, zeta, n_steps, seed=0):
    """The state after an even number of steps, at least 4, the first two by Runge--Kutta."""
    interpolation = INTERPOLATIONS["bilinear"]
    state, _ = begin(flow, flow.start(zeta, seed), NO_PARTICLES, interpolation)
    return march(flow, state, NO_PARTICLES, interpolation, 1, n_steps // 2 - 1)[0]


@eqx.filter_jit
def stepped(step, flow, state, n_steps):
    """The state after a number of unforced steps by one stepper."""
    kick = jnp.zeros(0, jnp.complex128)

    def body(_, carry):
        return step(flow, *carry, kick)

    return jax.lax.fori_loop(0, n_steps, body, (state, flow.velocity(state.zeta)))[0]


def observed_orders(errors):
    """Orders of convergence from errors at step sizes that halve."""
    errors = np.asarray(errors)
    return np.log2(errors[:-1] / errors[1:])


def size(modes):
    """Largest modulus."""
    return np.abs(np.asarray(modes)).max()
