r"""Transition density of a separation whose relative diffusivity is a power law.

If the separation r of two particles diffuses with $K(r) = \kappa r^\xi$ in d dimensions,

$$Y = \frac{2\, r^h}{\kappa h^2}, \qquad h = 2 - \xi, \qquad \delta = 2d/h,$$

is a squared Bessel process of dimension δ, so that $Y_t/t$ given $Y_0$ has a noncentral chi-square
distribution with δ degrees of freedom and noncentrality $Y_0/t$. ξ = 0 is diffusion with a constant
diffusivity (Rayleigh), ξ = 4/3 Richardson's law, and as ξ → 2 (Lundgren) ln r is normal with mean
$\ln r_0 + \kappa d t$ and variance $2\kappa t$.
"""

from functools import cache

import numpy as np
from numpy.polynomial import Polynomial
from scipy.special import gammaln, ive

from driftbayes._kernels.debye import debye_polynomials
from driftbayes._typing import FloatArray
from driftbayes.likelihood._gaussian import LOG_2PI

# Debye's expansion is used from this order on, with this many terms. Below it, Hankel's expansion
# is used from this argument on, or from the square of the order: the first omitted term is below
# 1e-14.
_DEBYE_ORDER, _N_DEBYE = 40.0, 8
_HANKEL_ARGUMENT, _N_HANKEL = 32.0, 16
# The power series is used below this argument.
_SMALL, _N_SERIES = 1e-2, 4


@cache
def _debye_terms() -> list[Polynomial]:
    """Return the polynomials u_k(p) of Debye's expansion."""
    return [
        Polynomial([float(u.get(power, 0)) for power in range(3 * k + 1)])
        for k, u in enumerate(debye_polynomials(_N_DEBYE))
    ]


def log_bessel_i(order: float, z: FloatArray) -> FloatArray:
    r"""Compute $\ln (e^{-z} I_\nu(z))$ for ν > -1 and z > 0, without under- or overflow.

    Args:
        order: Order ν.
        z: Arguments.
    """
    if order >= _DEBYE_ORDER:
        root = np.hypot(order, z)
        p = order / root
        sums = sum(term(p) / order**k for k, term in enumerate(_debye_terms()))
        # sqrt(ν² + z²) - z without cancellation.
        exponent = order**2 / (root + z) - order * np.arcsinh(order / z)
        return exponent - 0.5 * LOG_2PI - 0.5 * np.log(root) + np.log(sums)
    out = np.empty_like(z)
    small, large = z < _SMALL, z > max(_HANKEL_ARGUMENT, order**2)
    rest = ~(small | large)
    out[rest] = np.log(ive(order, z[rest]))
    if small.any():
        quarter = 0.25 * z[small] ** 2
        term, total = np.ones_like(quarter), np.ones_like(quarter)
        for k in range(1, _N_SERIES):
            term = term * quarter / (k * (order + k))
            total = total + term
        log_first = order * np.log(0.5 * z[small]) - gammaln(order + 1)
        out[small] = log_first + np.log(total) - z[small]
    if large.any():
        inverse = 1 / z[large]
        term, total = np.ones_like(inverse), np.ones_like(inverse)
        for k in range(1, _N_HANKEL):
            term *= ((2 * k - 1) ** 2 - 4 * order**2) / (8 * k) * inverse
            total += term
        out[large] = np.log(total) - 0.5 * (LOG_2PI + np.log(z[large]))
    return out


def log_separation_density(
    first: FloatArray, last: FloatArray, time: FloatArray, exponent: float, kappa: float, n_dim: int
) -> FloatArray:
    r"""Compute ln p(r | r_0) of separations after a time, with respect to dr.

    Args:
        first: Separations r_0, positive.
        last: Separations r, positive.
        time: Time between both.
        exponent: Exponent ξ, from 0 to 2.
        kappa: Coefficient κ.
        n_dim: Number of dimensions d.
    """
    growth = np.log(last / first)
    h = 2.0 - exponent
    if h == 0.0:
        variance = 2 * kappa * time
        away = growth - kappa * n_dim * time
        return -0.5 * (LOG_2PI + np.log(variance) + away**2 / variance) - np.log(last)
    order = n_dim / h - 1
    # Square roots of x = Y/t and λ = Y_0/t, and their difference.
    root = np.sqrt(2 / (kappa * time)) / h * first ** (0.5 * h)
    apart = root * np.expm1(0.5 * h * growth)
    z = root**2 * np.exp(0.5 * h * growth)
    return (
        0.5 * order * h * growth
        - 0.5 * apart**2
        + log_bessel_i(order, z)
        # Half of the derivative dx/dr = h x / r.
        + np.log(0.5 * h * (root * np.exp(0.5 * h * growth)) ** 2 / last)
    )
