"""Functions of x = γτ that keep their digits, and those of their derivatives, as x → 0."""

__all__ = ["varphi", "varphi_complement", "varphi_curvature"]

from collections.abc import Callable
from math import factorial

import jax.numpy as jnp
from jaxtyping import Array, Float

# Below this the power series is used: its terms fall fast enough, and above it the closed
# forms and their second derivatives lose no more than two digits.
_SWITCH = 1.0
_N_TERMS = 26

_VARPHI = [(-1) ** n / factorial(n + 1) for n in range(_N_TERMS)]
_COMPLEMENT = [0.0] + [-c for c in _VARPHI[1:]]
_CURVATURE = [0.0, 0.0] + [(2**n - 2) * _VARPHI[n] for n in range(2, _N_TERMS)]

Values = Float[Array, "..."]


def varphi(x: Values) -> Values:
    r"""$\varphi(x) = (1 - e^{-x})/x$, with $\varphi(0) = 1$. Paper: [eq:varphi]."""
    return _joined(x, _VARPHI, lambda y: -jnp.expm1(-y) / y)


def varphi_complement(x: Values) -> Values:
    r"""$1 - \varphi(x)$, which is $x/2$ for small x; `1 - varphi(x)` would lose its digits."""
    return _joined(x, _COMPLEMENT, lambda y: 1 + jnp.expm1(-y) / y)


def varphi_curvature(x: Values) -> Values:
    r"""$1 - 2\varphi(x) + \varphi(2x)$, which is $x^2/3$ for small x.

    The plain expression is negative at x = 1e-8. Paper: [eq:var1-noise].
    """
    return _joined(x, _CURVATURE, lambda y: 1 + (2 * jnp.expm1(-y) - 0.5 * jnp.expm1(-2 * y)) / y)


def _joined(x: Values, series: list[float], closed: Callable[[Values], Values]) -> Values:
    """The series below the switch, the closed form above it, each fed only what it can take.

    Both branches of `where` are evaluated and differentiated: an overflow in the one that is
    discarded would still turn the gradient into NaN, so each sees a harmless value instead.
    """
    small = x < _SWITCH
    low = jnp.where(small, x, 0.0)
    high = jnp.where(small, _SWITCH, x)
    # A rolled loop: unrolled, the two derivatives of the series would dominate compilation.
    total = jnp.polyval(jnp.asarray(series[::-1]), low, unroll=1)
    return jnp.where(small, total, closed(high))
