"""Equations that the tests of stochastic differential equations share."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from driftbayes import SDE, Displacements, Exponential
from driftbayes.models._named import SDES

UNIT = Exponential(1.0)


def langevin():
    """The equation that comes with the package: its programs are compiled once for all tests."""
    return SDES["sde_langevin"]


@cache
def brownian():
    return SDE(
        lambda x, t, theta: jnp.zeros_like(x),
        lambda x, t, theta: jnp.sqrt(2 * theta.kappa),
        {"kappa": UNIT},
        hidden_velocity=False,
        name="own_brownian",
    )


@cache
def ornstein():
    """A position that is drawn back to the origin, at rate w, with diffusivity kappa."""
    return SDE(
        lambda x, t, theta: -theta.w * x,
        lambda x, t, theta: jnp.sqrt(2 * theta.kappa),
        {"w": UNIT, "kappa": UNIT},
        hidden_velocity=False,
        name="own_ornstein",
    )


@cache
def cubic():
    """Friction that grows with the square of the velocity."""
    return SDE(
        lambda x, u, t, theta: -theta.gamma * u * (1 + theta.beta * u**2),
        lambda x, u, t, theta: jnp.sqrt(2 * theta.gamma) * theta.s,
        {"gamma": UNIT, "beta": UNIT, "s": UNIT},
        name="cubic",
    )


def data_of(model, values, *, n_particles=4, n_steps=12, n_dim=2, tau=0.4, seed=0, start=100.0):
    """Displacements of a simulated model, away from the origin."""
    x = np.asarray(
        model(**values).simulate(
            jax.random.key(seed), n_particles=n_particles, n_steps=n_steps, n_dim=n_dim, tau=tau
        )
    )
    return Displacements.from_array(np.diff(x, axis=1), tau, start=x[:, 0] + start)
