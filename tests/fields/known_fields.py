"""Simulation of particles in known fields of dispersion, in many small steps.

Particles without memory have a diffusivity on the unit interval or square, with reflecting walls.
Particles with memory follow a random flight with varying velocity scale, memory time or mean flow,
without walls.
"""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from driftbayes._typing import FloatArray
from driftbayes.data._sampling import Displacements

KAPPA = 1e-2
SIGMA, TIME = 0.05, 1.0

Function: TypeAlias = Callable[[FloatArray], FloatArray]


def wavy(x: FloatArray, size: float) -> FloatArray:
    """Evaluate a sine wave along each axis around one.

    Args:
        x: Points (point, dim).
        size: Amplitude.
    """
    out: FloatArray = 1 + size * np.prod(np.sin(2 * np.pi * x), axis=1)
    return out


def wavy_gradient(x: FloatArray, size: float) -> FloatArray:
    """Evaluate the gradient of `wavy`, (point, dim).

    Args:
        x: Points (point, dim).
        size: Amplitude.
    """
    angle = 2 * np.pi * x
    out = np.empty_like(x)
    for i in range(x.shape[1]):
        parts = np.sin(angle)
        parts[:, i] = 2 * np.pi * np.cos(angle[:, i])
        out[:, i] = size * np.prod(parts, axis=1)
    return out


def wave(x: FloatArray) -> FloatArray:
    """Evaluate a κ that varies by 70 % over the unit interval or square."""
    return KAPPA * wavy(x, 0.7)


def wave_gradient(x: FloatArray) -> FloatArray:
    """Evaluate the gradient of `wave`."""
    return KAPPA * wavy_gradient(x, 0.7)


def constant(x: FloatArray) -> FloatArray:
    """Return a constant κ."""
    return np.full(len(x), KAPPA)


def no_gradient(x: FloatArray) -> FloatArray:
    """Return the gradient of a constant κ."""
    return np.zeros_like(x)


def steps(
    rng: np.random.Generator,
    n: int,
    n_dim: int = 1,
    *,
    fields: tuple[Function, Function] = (wave, wave_gradient),
    tau: float = 0.01,
    flow: Function | None = None,
    n_sub: int = 20,
) -> Displacements:
    """Simulate one displacement each of particles that start anywhere in the unit square.

    Args:
        rng: Random number generator.
        n: Number of particles.
        n_dim: Number of axes.
        fields: κ and its gradient as functions of positions.
        tau: Sampling time.
        flow: Flow (point, dim) as a function of positions.
        n_sub: Small steps per sampling time.
    """
    kappa, gradient = fields
    first = rng.uniform(size=(n, n_dim))
    x, dt = first.copy(), tau / n_sub
    for _ in range(n_sub):
        u = 0.0 if flow is None else flow(x)
        noise = np.sqrt(2 * kappa(x) * dt)[:, None] * rng.normal(size=x.shape)
        x = x + (gradient(x) + u) * dt + noise
        x = 1 - np.abs(1 - np.abs(x))
    return Displacements.from_array((x - first)[:, None], tau, start=first)


def flights(
    rng: np.random.Generator,
    shape: tuple[int, int],
    n_dim: int = 1,
    *,
    sizes: tuple[float, float] = (0.6, 0.0),
    tau: float = 0.3,
    flow: Function | None = None,
    n_sub: int = 30,
) -> Displacements:
    """Simulate tracks that start anywhere in the unit square, with well-mixed velocities.

    Uses Thomson's model for U minus the flow, with its quadratic terms, which differs from the form
    of the likelihood.

    Args:
        rng: Random number generator.
        shape: Number of tracks, and of steps in each.
        n_dim: Number of axes.
        sizes: Amplitudes of the velocity scale and the memory time.
        tau: Sampling time.
        flow: Flow (point, dim) as a function of positions.
        n_sub: Small steps per sampling time.
    """
    n, n_steps = shape
    x = rng.uniform(size=(n, n_dim))
    u = SIGMA * wavy(x, sizes[0])[:, None] * rng.normal(size=x.shape)
    fixes, dt = [x.copy()], tau / n_sub
    for step in range(n_steps * n_sub):
        sigma = SIGMA * wavy(x, sizes[0])
        gradient = SIGMA * wavy_gradient(x, sizes[0])
        time = TIME * wavy(x, sizes[1])
        moved = u if flow is None else u + flow(x)
        along = np.sum(moved * gradient, axis=1) / sigma
        drift = -u / time[:, None] + sigma[:, None] * gradient + u * along[:, None]
        noise = (sigma * np.sqrt(2 * dt / time))[:, None] * rng.normal(size=x.shape)
        x = x + moved * dt
        u = u + drift * dt + noise
        if step % n_sub == n_sub - 1:
            fixes.append(x.copy())
    dx = np.diff(np.array(fixes), axis=0).transpose(1, 0, 2)
    return Displacements.from_array(dx, tau, start=fixes[0])
