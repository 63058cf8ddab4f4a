"""Phase-space density of a 1-D random flight by the Fokker--Planck equation, without any particle.

Thomson's (1987) well-mixed random flight with velocity scale σ(x) and time scale T(x) has, with
w = u/σ and s = ∫dx/σ, the equations

    ds = w dt,  dw = (-w/T + F) dt + sqrt(2/T) dW,  F = dσ/dx.

As Ramli & Esler (2016) do to validate particle schemes, the density of place and velocity is
expanded in Hermite functions of w; here with Fourier derivatives along s:

    dc_n/dt = -n/T c_n - sqrt(n) (∂/∂s - F) c_{n-1} - sqrt(n+1) ∂c_{n+1}/∂s.

Reflection at the ends of an interval is an even and periodic continuation of σ and T. Fixes have
Gaussian errors, or none; positions are not wrapped, so that tracks and errors must be short of the
period.
"""

from dataclasses import dataclass

import numpy as np


def _places(sigma, period, n_s, n_fine=256):
    """Places at which s takes equidistant values, and the period of s."""
    x = period * np.arange(n_fine) / n_fine
    values = np.fft.fft(1 / (np.ones(n_fine) * sigma(x))) / n_fine
    mean, waves = values[0].real, np.fft.fftfreq(n_fine, 1 / n_fine) * 2 * np.pi / period
    rest = np.divide(values, 1j * waves, out=np.zeros_like(values), where=waves != 0)

    def s_of(x):
        wiggle = (np.exp(1j * np.multiply.outer(x, waves)) - 1) @ rest
        return mean * x + wiggle.real

    s = mean * period * np.arange(n_s) / n_s
    x = s / mean
    for _ in range(20):
        x = x - (s_of(x) - s) * sigma(x)
    return x, s_of, mean * period


@dataclass(frozen=True)
class Flight:
    """A random flight at points of equidistant s; make it with `flight`.

    `length` is the period of x, `period` that of s.
    """

    x: np.ndarray
    sigma: np.ndarray
    rate: np.ndarray
    slope: np.ndarray
    s_of: object
    length: float
    period: float
    n_w: int
    n_t: int

    def change(self, c):
        """Rate of change of the coefficients, (n, x)."""
        n = np.arange(self.n_w)
        root = np.sqrt(n[1:])[:, None]
        slope = c @ self.slope.T
        found = -n[:, None] * self.rate * c
        force = self.slope @ self.sigma / self.sigma
        found[1:] -= root * (slope[:-1] - force * c[:-1])
        found[:-1] -= root * slope[1:]
        return found

    def advance(self, c, duration):
        """The coefficients after a duration, by the method of Runge and Kutta."""
        # The method is stable up to 2.7 over the largest rate of friction and transport.
        fastest = self.n_w * self.rate.max()
        fastest += 2 * np.sqrt(self.n_w) * np.pi * len(self.x) / self.period
        n_t = max(self.n_t, int(np.ceil(duration * fastest / 2)))
        h = duration / n_t
        for _ in range(n_t):
            k1 = self.change(c)
            k2 = self.change(c + 0.5 * h * k1)
            k3 = self.change(c + 0.5 * h * k2)
            c = c + h / 6 * (k1 + 2 * k2 + 2 * k3 + self.change(c + h * k3))
        return c

    def spread_at(self, start, sd):
        """Coefficients of particles about a place, their velocities in the steady state."""
        return np.multiply.outer(np.eye(self.n_w)[0], self.sigma * self.given(start, sd))

    def given(self, fix, sd):
        """Density of a fix, given each place; of an exact one the sharpest that the points have."""
        if sd > 0:
            apart = self.x - fix
            apart -= self.length * np.round(apart / self.length)
            return np.exp(-0.5 * (apart / sd) ** 2) / (sd * np.sqrt(2 * np.pi))
        return self._waves(fix).sum(axis=1).real / self.period / self.sigma

    def integral(self, c):
        """Integral of a density of s over the period."""
        return c.sum(axis=-1) * self.period / len(self.x)

    def at(self, c, place):
        """Coefficients of a density of s, at a place between the points."""
        return c @ self._waves(place).sum(axis=1).real / len(self.x)

    def _waves(self, place):
        n = len(self.x)
        apart = 2 * np.pi * (np.arange(n) / n - self.s_of(np.array([place])) / self.period)
        return np.exp(1j * np.multiply.outer(apart, np.fft.fftfreq(n, 1 / n)))

    def shares(self, c, edges):
        """Probabilities between places that rise along one period at most."""
        n = len(self.x)
        waves = np.fft.fftfreq(n, 1 / n) * 2j * np.pi / self.period
        modes = np.fft.fft(c[0]) / n
        rest = np.divide(modes, waves, out=np.zeros_like(modes), where=waves != 0)
        s = self.s_of(np.asarray(edges))
        return np.diff(modes[0].real * s + (np.exp(np.multiply.outer(s, waves)) @ rest).real)

    def log_likelihood(self, fixes, tau, sd=0.0):
        """Ln p of the fixes after the first, given it: predict with the equation, update."""
        c, total = self.spread_at(fixes[0], sd), 0.0
        for fix in fixes[1:]:
            c = self.advance(c, tau)
            if sd > 0:
                c = c * self.given(fix, sd)
                chance = self.integral(c[0])
            else:
                there = self.at(c, fix)
                sigma = self.at(self.sigma, fix)
                # The lowest coefficient is the density of s, whatever the velocity.
                chance = there[0] / sigma
                c = np.multiply.outer(there / sigma, self.sigma * self.given(fix, 0.0))
            total += np.log(chance)
            c = c / chance
        return total


def flight(sigma, time_scale, period, *, n_s=121, n_w=32, n_t=100):
    """A random flight with functions σ(x) and T(x) of a period.

    Args:
        sigma: Standard deviation of the velocity at places.
        time_scale: Decorrelation time there.
        period: Period of both.
        n_s: Number of points, odd, as the mode between has no slope.
        n_w: Number of Hermite functions.
        n_t: Least number of steps of time from one fix to the next.
    """
    x, s_of, s_period = _places(sigma, period, n_s)
    waves = np.fft.fftfreq(n_s, 1 / n_s) * 2j * np.pi / s_period
    slope = np.fft.ifft(waves[:, None] * np.fft.fft(np.eye(n_s), axis=0), axis=0).real
    ones = np.ones(n_s)
    return Flight(x, ones * sigma(x), ones / time_scale(x), slope, s_of, period, s_period, n_w, n_t)
