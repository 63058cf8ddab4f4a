"""Ratios of gamma functions, accurate for large arguments."""

from typing import Any

import jax.numpy as jnp
import jax.scipy.special as jsp
import numpy as np
from jaxtyping import Float
from scipy.special import gammaln

# Stirling's series is used above this, where its first neglected term is below 1e-17.
_SWITCH = 50.0
# Coefficients of 1/z, 1/z³, ... in the series of ln Γ(z).
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188)


def log_gamma_ratio(a: Float[Any, "..."], m: Float[Any, "..."], xp: Any = jnp) -> Any:
    r"""$\ln \Gamma(a + m) - \ln \Gamma(a) - m \ln a$ for positive a and m.

    It tends to 0 as a → ∞, where the difference of the logarithms would be all rounding error.

    Args:
        a: First argument.
        m: Second argument, of the same shape.
        xp: Module of the arrays, `jax.numpy` or `numpy`.
    """
    log_gamma = gammaln if xp is np else jsp.gammaln
    small = a < _SWITCH
    low = xp.where(small, a, 1.0)
    plain = log_gamma(low + m) - log_gamma(low) - m * xp.log(low)
    high = xp.where(small, _SWITCH, a)
    series = (high + m - 0.5) * xp.log1p(m / high) - m
    for i, coefficient in enumerate(_STIRLING):
        power = 2 * i + 1
        series = series + coefficient * ((high + m) ** -power - high**-power)
    return xp.where(small, plain, series)
