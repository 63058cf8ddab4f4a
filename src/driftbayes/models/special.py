r"""Functions of x = γτ that keep full precision, with their derivatives, as x → 0.

For small x they use one family of series, $E_n(x) = \sum_k (-x)^k / (k+n)!$, which is closed under
differentiation, $E_n' = n E_{n+1} - E_n$. For large x the closed forms are accurate.
"""

__all__ = ["varphi", "varphi_complement", "varphi_curvature"]

from collections.abc import Callable
from functools import partial
from math import factorial
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

# The series are used below this. Above it the closed forms and their second derivatives lose at
# most two digits.
_SWITCH = 1.0
_N_TERMS = 26

Values: TypeAlias = Float[Array, "..."]


def varphi(x: Values) -> Values:
    r"""$\varphi(x) = (1 - e^{-x})/x$, with $\varphi(0) = 1$. Paper: [eq:varphi]."""
    return _switch(x, lambda y: _series(y, 1), lambda y: -jnp.expm1(-y) / y)


def varphi_complement(x: Values) -> Values:
    r"""$1 - \varphi(x)$, which is $x/2$ for small x, where `1 - varphi(x)` would cancel."""
    return _switch(x, lambda y: y * _series(y, 2), lambda y: 1 + jnp.expm1(-y) / y)


def varphi_curvature(x: Values) -> Values:
    r"""$1 - 2\varphi(x) + \varphi(2x)$, which is $x^2/3$ for small x.

    The plain expression is negative at x = 1e-8. Paper: [eq:var1-noise].
    """
    return _switch(
        x,
        lambda y: 2 * y**2 * (2 * _series(2 * y, 3) - _series(y, 3)),
        lambda y: 1 + (2 * jnp.expm1(-y) - 0.5 * jnp.expm1(-2 * y)) / y,
    )


def _switch(
    x: Values, small: Callable[[Values], Values], large: Callable[[Values], Values]
) -> Values:
    """Evaluate one form below the switch and the other above it.

    `where` evaluates and differentiates both branches, and an overflow in the discarded one would
    make the gradient NaN. Each form therefore gets a harmless value in the range of the other.
    """
    is_small = x < _SWITCH
    low = small(jnp.where(is_small, x, 0.0))
    return jnp.where(is_small, low, large(jnp.where(is_small, _SWITCH, x)))


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def _series(x: Values, n: int) -> Values:
    """E_n(x) for x up to twice the switch."""
    coefficients = np.array([(-1.0) ** k / factorial(k + n) for k in range(_N_TERMS)])
    # A rolled loop, since an unrolled one would dominate compilation.
    return jnp.polyval(jnp.asarray(coefficients[::-1]), x, unroll=1)


@_series.defjvp
def _series_jvp(n: int, primals: tuple[Values], tangents: tuple[Values]) -> tuple[Values, Values]:
    (x,), (dx,) = primals, tangents
    value = _series(x, n)
    return value, (n * _series(x, n + 1) - value) * dx
