"""Density of a 1-D random flight by the Fokker--Planck equation, without any particle.

For σ = σ_0/(1 + a cos x) the coordinate s = (x + a sin x)/σ_0 = ∫dx/σ and w = u/σ obey

    ds = w dt,  dw = (-w/T + F(s)) dt + sqrt(2/T) dW,  F = dσ/dx.

The density of (s, w) is expanded in Hermite functions of w and Fourier modes of s,

    dc_n/dt = -n/T c_n - sqrt(n) (∂/∂s - F) c_{n-1} - sqrt(n+1) ∂c_{n+1}/∂s,

and an exact fix cuts it down to one s. Steps must be short of the period 2π of x.
"""

import numpy as np


def log_likelihood(sigma, a, rate, fixes, tau, *, n_s=65, n_w=64, n_t=400):
    """Ln p of the fixes after the first; n_s is odd, as the mode between has no slope."""
    period = 2 * np.pi / sigma
    s = period * np.arange(n_s) / n_s
    x = s * sigma
    for _ in range(60):
        x = x - (x + a * np.sin(x) - s * sigma) / (1 + a * np.cos(x))
    force = sigma * a * np.sin(x) / (1 + a * np.cos(x)) ** 2
    waves = np.fft.fftfreq(n_s, 1 / n_s) * 2 * np.pi / period
    n = np.arange(n_w)
    up, down = np.sqrt(n)[:, None], np.sqrt(n + 1.0)[:, None]

    def change(c):
        slope = np.fft.ifft(1j * waves * np.fft.fft(c, axis=-1), axis=-1).real
        found = -rate * n[:, None] * c
        found[1:] -= up[1:] * (slope[:-1] - force * c[:-1])
        found[:-1] -= down[:-1] * slope[1:]
        return found

    at_fix, total, h = np.eye(n_w)[0], 0.0, tau / n_t
    places = (np.asarray(fixes) + a * np.sin(fixes)) / sigma
    for start, end, fix in zip(places[:-1], places[1:], fixes[1:], strict=True):
        delta = np.exp(1j * np.multiply.outer(s - start, waves)).sum(axis=1).real / period
        c = np.multiply.outer(at_fix, delta)
        for _ in range(n_t):
            k1 = change(c)
            k2 = change(c + 0.5 * h * k1)
            k3 = change(c + 0.5 * h * k2)
            c = c + h / 6 * (k1 + 2 * k2 + 2 * k3 + change(c + h * k3))
        there = (np.fft.fft(c, axis=1) @ np.exp(1j * waves * end)).real / n_s
        # The lowest coefficient is the density of s, whatever the velocity.
        total += np.log(there[0] * (1 + a * np.cos(fix)) / sigma)
        at_fix = there / there[0]
    return total
