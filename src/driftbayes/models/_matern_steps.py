r"""Autocovariance of the steps of a Matérn velocity at all lags 0, 1, 2, ... together.

Up to a smoothness of 24 it is a mixture of Gaussian shapes,
$\frac{1}{\Gamma(\nu)} \int s^\nu e^{-s}\,E_l(y / 2\sqrt s)\,\mathrm{d}\ln s$ with y the length of a
step in units of $1/\lambda$ and $E_l(z)$ the covariance of steps under one shape, by the trapezoid
rule. Most of the cost is in $E_l$, and the nodes of the rule may be shifted freely. With nodes on a
fixed lattice of z, and not of s, the $E_l$ are tabulated once; parameters change only the weights.

The lattice is too coarse for the narrower mixtures at higher smoothness. There Debye's series in
1/ν gives the Bessel function, which is smooth enough for a few quadrature nodes per step.
"""

from functools import cache
from math import log, pi

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jaxtyping import Array, Float

from driftbayes._jax_typing import LagArray, Scalar, TimeArray
from driftbayes._kernels.debye import debye_polynomials
from driftbayes._typing import FloatArray
from driftbayes.models._gamma_ratio import log_gamma_ratio
from driftbayes.models._gaussian_mixture import gaussian_spread, gaussian_step_covariance

# Debye's series is used above this smoothness.
_SWITCH = 24.0
# The lattice of ln z. Its spacing is set by the narrowest mixture: the error of the rule is
# exp(-2πθ/h) / (cos θ)^ν at the best θ, with h the spacing of ln s, which is twice this.
_SPACING = 0.0625
_MIN_LOG_Z, _N_LATTICE = -52.0, 1488
# The shortest step that the lattice covers, and the step beyond which a diffusion with correlated
# neighbours is exact to rounding, since the rest falls as exp(-y).
_MIN_STEP, _MAX_STEP = 1e-21, 80.0
# Terms of Debye's series after the first: the next one is below 2e-15.
_N_TERMS = 10
# Gauss-Legendre nodes per step, and integral times after which the velocity is uncorrelated.
_N_NODES = 24
_REACH = 8.6


def matern_first_covariances(nu: Scalar, x: Scalar, n_lags: int) -> LagArray:
    r"""Compute the covariances of steps in units of $k \gamma \tau^2$.

    Args:
        nu: Smoothness ν > 0.
        x: Length of a step in integral times of the velocity, $\gamma\tau$ > 0.
        n_lags: Number of lags, from 0.
    """
    is_smooth = nu > _SWITCH
    rough = _by_lattice(jnp.where(is_smooth, _SWITCH, nu), x, n_lags)
    smooth = _by_series(jnp.where(is_smooth, nu, _SWITCH), x, n_lags)
    return jnp.where(is_smooth, smooth, rough)


def _rate(nu: Scalar) -> Scalar:
    """λ/γ."""
    return jnp.sqrt(pi * nu) * jnp.exp(log_gamma_ratio(nu, jnp.asarray(0.5)))


def _by_lattice(nu: Scalar, x: Scalar, n_lags: int) -> LagArray:
    """Compute the covariances from tabulated Gaussian shapes."""
    y = _rate(nu) * x
    is_long = y > _MAX_STEP
    log_s = 2 * jnp.log(jnp.clip(y, _MIN_STEP, _MAX_STEP)) - jnp.asarray(2 * (_log_z() + log(2)))
    weights = 2 * _SPACING * jnp.exp(nu * log_s - jnp.exp(log_s) - gammaln(nu))
    mixed = weights @ jnp.asarray(_table(n_lags))
    # Mixtures of √π/z - 1/z² and of 1/2z².
    neighbour = 2 * nu / jnp.where(is_long, y, _MAX_STEP) ** 2
    diffusion = jnp.stack([2 / x - 2 * neighbour, neighbour])[:n_lags]
    return jnp.where(is_long, jnp.pad(diffusion, (0, max(n_lags - 2, 0))), mixed)


def _log_z() -> FloatArray:
    """Return the nodes of the lattice."""
    return _MIN_LOG_Z + _SPACING * np.arange(_N_LATTICE, dtype=np.float64)


@cache
def _table(n_lags: int) -> FloatArray:
    """E at each node of the lattice, (node, lag)."""
    # Evaluated also while a program is being traced.
    with jax.ensure_compile_time_eval(), jax.enable_x64(new_val=True):
        return np.asarray(_tabulate(_log_z(), np.arange(1, n_lags, dtype=np.float64)))


# One program; otherwise JAX would compile two dozen operations.
@jax.jit
def _tabulate(log_z: Float[Array, " node"], lags: LagArray) -> Float[Array, "node _"]:
    """Compute E at nodes and lags."""
    z = jnp.exp(log_z)[:, None]
    apart = gaussian_step_covariance(lags[None, :], z)
    return jnp.concatenate([gaussian_spread(z), apart], axis=1)


def _by_series(nu: Scalar, x: Scalar, n_lags: int) -> LagArray:
    """Compute the covariances by Debye's series and quadrature within steps."""
    nodes, weights = np.polynomial.legendre.leggauss(_N_NODES)
    place, weight = jnp.asarray(0.5 * (nodes + 1)), jnp.asarray(0.5 * weights)
    # Only the beginning of a long first step contributes.
    width = jnp.where(jnp.arange(n_lags) == 0, jax.lax.stop_gradient(jnp.minimum(_REACH / x, 1)), 1)
    inside = width[:, None] * place[None, :]
    start = jnp.arange(float(n_lags))[:, None]
    correlation = _correlation(nu, _rate(nu) * x * (start + inside))
    falling = width * ((correlation * (1 - inside)) @ weight)
    rising = width * ((correlation * inside) @ weight)
    return falling + jnp.concatenate([falling[:1], rising[:-1]])


def _correlation(nu: Scalar, y: TimeArray) -> TimeArray:
    r"""$2^{1-\nu} y^\nu K_\nu(y) / \Gamma(\nu)$, normalised by the same series at y = 0."""
    w2 = (y / nu) ** 2
    q = w2 / (1 + jnp.sqrt(1 + w2))
    p = 1 / (1 + q)
    # Coefficients of the powers of p, the highest first.
    powers = (-1 / nu) ** jnp.arange(float(_N_TERMS + 1))
    coefficients = jnp.asarray(_debye_table()) @ powers
    series = jnp.polyval(coefficients, p, unroll=8) / jnp.sum(coefficients)
    return jnp.sqrt(p) * jnp.exp(-nu * (q - jnp.log1p(0.5 * q))) * series


@cache
def _debye_table() -> FloatArray:
    """Coefficients of the polynomials u_k(p) of Debye's series, (falling power, k)."""
    table = np.zeros((3 * _N_TERMS + 1, _N_TERMS + 1))
    for k, u in enumerate(debye_polynomials(_N_TERMS + 1)):
        for power, value in u.items():
            table[-1 - power, k] = float(value)
    return table
