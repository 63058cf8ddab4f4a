"""Dense Gaussians of observed motion, in NumPy and SciPy: what forecasts and scores must give.

Every plain model has its mean square displacement m(t) here a second time: in closed form, from the
matrix exponential of its equation of motion, or by quadrature of its velocity autocovariance.
"""

from functools import lru_cache
from itertools import pairwise

import numpy as np
from scipy.integrate import quad
from scipy.linalg import expm, solve_continuous_lyapunov
from scipy.special import gamma as gamma_function
from scipy.special import kv
from scipy.stats import multivariate_normal

from driftbayes.prediction._forecast import _Past, rows_of


def _langevin(t, gamma, k):
    return 2 * k * (t + np.expm1(-gamma * t) / gamma)


def _from_equation(t, rates, intensity):
    """2 ∫ (t - s) r(s) ds for the first component of dV = B V dt + L dW, with D = L Lᵀ."""
    n = len(rates)
    stationary = solve_continuous_lyapunov(rates, -intensity)
    block = np.zeros((3 * n, 3 * n))
    block[:n, :n], block[:n, n : 2 * n], block[n : 2 * n, 2 * n :] = rates, np.eye(n), np.eye(n)
    return 2 * (expm(block * t)[:n, 2 * n :] @ stationary)[0, 0]


def _second_order(t, gamma, accel, k):
    rates = np.array([[0.0, 1.0], [-gamma * accel, -accel]])
    return _from_equation(t, rates, np.diag([0.0, 2 * k * (gamma * accel) ** 2]))


def _oscillating(t, gamma, omega, k):
    rates = np.array([[-gamma, -omega], [omega, -gamma]])
    return _from_equation(t, rates, 2 * k * (gamma**2 + omega**2) * np.eye(2))


def _confined(t, gamma, well, k):
    rates = np.array([[-gamma, -gamma * well], [1.0, 0.0]])
    return _from_equation(t, rates, np.diag([2 * k * gamma**2, 0.0]))


def _matern(t, gamma, smoothness, k):
    nu = smoothness
    rate = gamma * np.sqrt(np.pi) * gamma_function(nu + 0.5) / gamma_function(nu)

    def velocity(s):
        x = rate * s
        return 1.0 if x == 0 else 2 ** (1 - nu) / gamma_function(nu) * x**nu * kv(nu, x)

    return 2 * k * gamma * quad(lambda s: (t - s) * velocity(s), 0, t, epsabs=0, epsrel=1e-12)[0]


SPREADS = {
    "brownian": lambda t, kappa: 2 * kappa * t,
    "langevin": _langevin,
    "fractional": lambda t, hurst, kappa, reference: (
        2 * kappa * reference * (t / reference) ** (2 * hurst)
    ),
    "confined_brownian": lambda t, well, kappa: 2 * kappa / well * -np.expm1(-well * t),
    "second_order": _second_order,
    "matern": _matern,
    "oscillating": _oscillating,
    "confined": _confined,
    "two_scale": lambda t, gamma, ratio, share, k: (
        _langevin(t, gamma, k * (1 - share)) + _langevin(t, gamma * ratio, k * share)
    ),
}


class Motion:
    """A plain model by its m(t), and how it is observed.

    Args:
        name: Of the model, with `+noise` and `+blur` at most.
        theta: Its parameters.
    """

    def __init__(self, name, theta):
        base, *self.options = name.split("+")
        theta = dict(theta)
        self.sigma = theta.pop("sigma", 0.0)
        self.exposure = theta.pop("exposure", 0.0)
        spread = SPREADS[base]
        self._spread = lru_cache(lambda t: float(spread(t, **theta)) if t > 0 else 0.0)

    def spread(self, times):
        """Mean square displacement per axis of the particle itself."""
        return np.vectorize(lambda t: self._spread(round(abs(t), 12)), otypes=[float])(times)

    def observed_spread(self, times):
        """The same between two fixes, each a mean over the exposure, without their errors."""
        if not self.exposure:
            return self.spread(times)
        return np.vectorize(lambda t: self._blurred(t) - self._blurred(0.0), otypes=[float])(times)

    def _blurred(self, t):
        e = self.exposure
        breaks = sorted({-e, max(-t, -e), 0.0, e})
        parts = [
            quad(lambda s: (e - abs(s)) * self._spread(abs(t + s)), low, high, epsrel=1e-11)[0]
            for low, high in pairwise(breaks)
        ]
        return sum(parts) / e**2

    def log_density(self, times, x, sd):
        """Ln p of the displacements of one run, positions (fix, dim), all axes."""
        apart = np.abs(times[:, None] - times[None, :])
        steps = np.diff(np.eye(len(times)), axis=0)
        errors = np.diag(self.sigma**2 + np.broadcast_to(sd, len(times)) ** 2)
        cov = steps @ (-0.5 * self.observed_spread(apart) + errors) @ steps.T
        return sum(
            multivariate_normal.logpdf(np.diff(axis), np.zeros(len(cov)), cov) for axis in x.T
        )

    def future(self, times, x, sd, horizons):
        """Mean (time, dim) and covariance of the particle's place after its last fix."""
        n, every = len(times), np.concatenate([times, times[-1] + horizons])
        places = -0.5 * self.spread(every[:, None] - every[None, :])
        errors = np.zeros(len(every))
        errors[:n] = self.sigma**2 + np.broadcast_to(sd, n) ** 2
        # Displacements between fixes, and places to come less the last fix.
        seen = np.zeros((n - 1, len(every)))
        seen[np.arange(n - 1), np.arange(n - 1)] = -1.0
        seen[np.arange(n - 1), np.arange(1, n)] = 1.0
        ahead = np.eye(len(every))[n:]
        ahead[:, n - 1] -= 1.0
        # A fix is a place and its error; a place to come has none.
        joint = places + np.diag(errors)
        gain = np.linalg.solve(seen @ joint @ seen.T, seen @ joint @ ahead.T).T
        mean = x[-1] + gain @ np.diff(x, axis=0)
        return mean, ahead @ joint @ ahead.T - gain @ (seen @ joint @ ahead.T)


def state_at_the_end(model, tracks, tau, intervals):
    """State of a forecast at the last fixes, and its motion over intervals."""
    (state,) = _Past.of(tracks, tau).states(rows_of([model]), np.asarray(intervals))
    return state
