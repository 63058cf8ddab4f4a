r"""Spread and autocovariance of steps for a velocity autocovariance of Gaussian shape.

With $r(t) = e^{-(zt)^2}$ and t in steps, the covariance of two steps that are l apart is
$\int_{-1}^{1} (1 - |v|)\,e^{-(l+v)^2 z^2}\,\mathrm{d}v$. An autocovariance that is a mixture of
such shapes, for example Matérn's, leads to the same mixture of these covariances.
"""

from math import factorial, pi, sqrt

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erf, erfc
from jaxtyping import Array, Float

Values = Float[Array, "..."]

# Series and quadrature are used below this, closed forms above.
_SWITCH = 1.0
_N_TERMS = 19
# Gauss-Legendre nodes on (0, 1), enough for a Gaussian at least as wide as the interval.
_N_NODES = 9


def gaussian_spread(z: Values) -> Values:
    r"""$G(z) = \sqrt\pi\,\mathrm{erf}(z)/z - (1 - e^{-z^2})/z^2$, with $G(0) = 1$.

    It is the mean square displacement after one unit of time.
    """
    is_small = z < _SWITCH
    low = jnp.where(is_small, z, 0.0)
    high = jnp.where(is_small, _SWITCH, z)
    coefficients = [(-1.0) ** n / (factorial(n) * (2 * n + 1) * (n + 1)) for n in range(_N_TERMS)]
    series = jnp.polyval(jnp.asarray(coefficients[::-1]), low**2, unroll=1)
    closed = sqrt(pi) * erf(high) / high + jnp.expm1(-(high**2)) / high**2
    return jnp.where(is_small, series, closed)


def gaussian_step_covariance(lag: Values, z: Values) -> Values:
    """Covariance of two steps of unit duration that start `lag` > 0 steps apart."""
    is_small = z < _SWITCH
    low = jnp.where(is_small, z, 0.0)
    high = jnp.where(is_small, _SWITCH, z)
    nodes, weights = np.polynomial.legendre.leggauss(_N_NODES)
    quadrature = jnp.zeros(jnp.broadcast_shapes(lag.shape, z.shape))
    for node, weight in zip(0.5 * (nodes + 1), 0.5 * weights, strict=True):
        after, before = ((lag + sign * node) * low for sign in (1, -1))
        values = jnp.exp(-(after**2)) + jnp.exp(-(before**2))
        quadrature = quadrature + weight * (1 - node) * values

    def nonlinear_spread(t: Values) -> Values:
        """Spread without its parts linear in time, whose second difference is zero."""
        return jnp.exp(-((t * high) ** 2)) / high**2 - sqrt(pi) * t * erfc(t * high) / high

    closed = 0.5 * (
        nonlinear_spread(lag + 1) - 2 * nonlinear_spread(lag) + nonlinear_spread(lag - 1)
    )
    return jnp.where(is_small, quadrature, closed)
