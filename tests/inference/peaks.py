"""Normalised densities, for tests of integration: each integrates to one in any dimension."""

import numpy as np
from scipy.special import gammaln

LOG_2PI = np.log(2 * np.pi)


def gaussian(z):
    return -0.5 * np.sum(z**2, axis=1) - 0.5 * z.shape[1] * LOG_2PI


def narrow(z):
    """A Gaussian of width 0.6 where one is expected."""
    return gaussian(z / 0.6) - z.shape[1] * np.log(0.6)


def covariance(n_dim):
    return 0.4 * np.eye(n_dim) + 0.6


def correlated(z):
    n_dim = z.shape[1]
    whitened = np.linalg.solve(np.linalg.cholesky(covariance(n_dim)), z.T).T
    return gaussian(whitened) - 0.5 * np.linalg.slogdet(covariance(n_dim))[1]


def log_gamma(shape):
    """Logarithms of gamma variables, each of unit width at its mode, at 0."""

    def log_density(z):
        x = z / np.sqrt(shape)
        constant = shape * np.log(shape) - gammaln(shape) - 0.5 * np.log(shape)
        return np.sum(shape * (x - np.exp(x)) + constant, axis=1)

    return log_density


def student(nu):
    def log_density(z):
        constant = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * np.log(nu * np.pi)
        return np.sum(constant - (nu + 1) / 2 * np.log1p(z**2 / nu), axis=1)

    return log_density


def banana(z):
    """A curved ridge: each coordinate follows the square of the one before."""
    bent = z.copy()
    bent[:, 1:] -= 0.5 * (z[:, :-1] ** 2 - 1)
    return gaussian(bent)


def may_vanish(z):
    """An exponential tail towards zero along the first axis, a Gaussian along the others."""
    return z[:, 0] - np.exp(z[:, 0]) + gaussian(z[:, 1:])


def two_bumps(z):
    """A second peak, narrower, four widths away along each axis."""
    second = gaussian((z - 4) / 0.7) - z.shape[1] * np.log(0.7)
    return np.logaddexp(gaussian(z) + np.log(0.7), second + np.log(0.3))


def logistic(z):
    return -np.sum(np.logaddexp(0, z) + np.logaddexp(0, -z), axis=1)


def oblique(z):
    """A Gaussian with a ridge at 45° to the first two axes."""
    across, along = (z[:, 0] + z[:, 1]) / np.sqrt(2), (z[:, 0] - z[:, 1]) / np.sqrt(2)
    turned = np.concatenate([(across / 0.4)[:, None], (along / 2)[:, None], z[:, 2:]], axis=1)
    return gaussian(turned) - np.log(0.8)


def with_sum(log_density):
    """Turn a log-density into an integrand that also returns the sum of the coordinates."""
    return lambda z: (log_density(z), np.sum(z, axis=1, keepdims=True))
