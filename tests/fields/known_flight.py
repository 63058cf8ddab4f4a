"""Random flight whose velocity scale and memory time vary, by many small steps."""

import numpy as np

from driftbayes import Displacements

SIGMA, TIME = 0.05, 1.0


def wavy(x, size):
    return 1 + size * np.prod(np.sin(2 * np.pi * x), axis=1)


def wavy_gradient(x, size):
    angle = 2 * np.pi * x
    out = np.empty_like(x)
    for i in range(x.shape[1]):
        parts = np.sin(angle)
        parts[:, i] = 2 * np.pi * np.cos(angle[:, i])
        out[:, i] = size * np.prod(parts, axis=1)
    return out


def flights(rng, n, n_steps, n_dim=1, *, sizes=(0.6, 0.0), tau=0.3, n_sub=30):
    """Tracks that start anywhere in the unit square, at rest with the well-mixed state.

    Thomson's model for U itself, with its quadratic terms: not the form of the likelihood.
    """
    x = rng.uniform(size=(n, n_dim))
    u = SIGMA * wavy(x, sizes[0])[:, None] * rng.normal(size=x.shape)
    fixes, dt = [x.copy()], tau / n_sub
    for step in range(n_steps * n_sub):
        sigma = SIGMA * wavy(x, sizes[0])
        gradient = SIGMA * wavy_gradient(x, sizes[0])
        time = TIME * wavy(x, sizes[1])
        along = np.sum(u * gradient, axis=1) / sigma
        drift = -u / time[:, None] + sigma[:, None] * gradient + u * along[:, None]
        noise = (sigma * np.sqrt(2 * dt / time))[:, None] * rng.normal(size=x.shape)
        x = x + u * dt
        u = u + drift * dt + noise
        if step % n_sub == n_sub - 1:
            fixes.append(x.copy())
    fixes = np.array(fixes)
    dx = np.diff(fixes, axis=0).transpose(1, 0, 2)
    return Displacements.from_array(dx, tau, start=fixes[0])
