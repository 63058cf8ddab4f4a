"""Ratios of gamma functions that keep their digits for large arguments."""

__all__ = ["log_gamma_ratio"]

import jax.numpy as jnp
import jax.scipy.special as jsp
from jaxtyping import Array, Float

# Above this Stirling's series is used; its first neglected term is below 1e-17 there.
_SWITCH = 50.0
# Coefficients of 1/z, 1/z³, ... in the series of ln Γ(z).
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188)


def log_gamma_ratio(a: Float[Array, "..."], m: Float[Array, "..."]) -> Float[Array, "..."]:
    r"""$\ln \Gamma(a + m) - \ln \Gamma(a) - m \ln a$ for positive a and m.

    It tends to 0 as a → ∞, where the difference of the two logarithms would be all rounding.
    """
    small = a < _SWITCH
    low = jnp.where(small, a, 1.0)
    plain = jsp.gammaln(low + m) - jsp.gammaln(low) - m * jnp.log(low)
    high = jnp.where(small, _SWITCH, a)
    series = (high + m - 0.5) * jnp.log1p(m / high) - m
    for i, coefficient in enumerate(_STIRLING):
        power = 2 * i + 1
        series = series + coefficient * ((high + m) ** -power - high**-power)
    return jnp.where(small, plain, series)
