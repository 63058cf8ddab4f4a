"""Particles in known fields of diffusivity, simulated by many small steps between walls."""

import numpy as np

from driftbayes import Displacements

KAPPA = 1e-2


def wave(x):
    """κ that varies by 70 % over the unit interval or square."""
    return KAPPA * (1 + 0.7 * np.prod(np.sin(2 * np.pi * x), axis=1))


def wave_gradient(x):
    angle = 2 * np.pi * x
    out = np.empty_like(x)
    for i in range(x.shape[1]):
        parts = np.sin(angle)
        parts[:, i] = 2 * np.pi * np.cos(angle[:, i])
        out[:, i] = 0.7 * KAPPA * np.prod(parts, axis=1)
    return out


def constant(x):
    return np.full(len(x), KAPPA)


def no_gradient(x):
    return np.zeros_like(x)


def steps(rng, n, n_dim=1, *, kappa=wave, gradient=wave_gradient, tau=0.01, flow=None, n_sub=20):
    """Displacements of particles that start anywhere in the unit square, one step each."""
    first = rng.uniform(size=(n, n_dim))
    x, dt = first.copy(), tau / n_sub
    for _ in range(n_sub):
        u = 0.0 if flow is None else flow(x)
        noise = np.sqrt(2 * kappa(x) * dt)[:, None] * rng.normal(size=x.shape)
        x = x + (gradient(x) + u) * dt + noise
        x = 1 - np.abs(1 - np.abs(x))
    return Displacements.from_array((x - first)[:, None], tau, start=first)
