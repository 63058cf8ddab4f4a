"""Equations that the tests of stochastic differential equations share."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from driftbayes import SDE, Displacements, Exponential
from driftbayes.models._named import SDES
from driftbayes.testing.reference import simulate_langevin

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
def wells():
    """A position drawn back at rate w and between two wells, with noise that grows outwards."""
    return SDE(
        lambda x, t, theta: theta.a * (x - x**3) - theta.w * x,
        lambda x, t, theta: jnp.sqrt(2 * theta.kappa * (1 + theta.growth * x**2)),
        {"a": UNIT, "w": UNIT, "kappa": UNIT, "growth": UNIT},
        hidden_velocity=False,
        name="own_wells",
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


def langevin_data(gamma=1.3, k=0.7, *, n_particles=4, n_steps=12, n_dim=2, tau=0.4, start=100.0):
    """Displacements of Langevin's equation by its exact solution, without compiling a program."""
    rng = np.random.default_rng(0)
    dx = simulate_langevin(rng, n_particles, n_steps, n_dim, tau, gamma, k)
    return Displacements.from_array(dx, tau, start=np.full((n_particles, n_dim), start))


def ornstein_data(w, kappa, *, n_particles=4, n_steps=12, n_dim=2, tau=0.4, start=1.5):
    """The same of a position that is drawn back to the origin."""
    decay = np.exp(-w * tau)
    sd = np.sqrt(kappa / w * (1 - decay**2))
    x = [np.full((n_particles, n_dim), start)]
    for noise in np.random.default_rng(0).normal(size=(n_steps, n_particles, n_dim)):
        x.append(decay * x[-1] + sd * noise)
    return Displacements.from_array(np.diff(np.stack(x, axis=1), axis=1), tau, start=x[0])
