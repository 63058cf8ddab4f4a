r"""Local linearisation of a stochastic differential equation over a short time, axis by axis.

Drift and diffusion are frozen at the state, except for the derivative of the drift along its own
axis. The equation is then an Ornstein--Uhlenbeck process, whose solution over any duration is
Gaussian:

$$\mathrm{d}X = U\,\mathrm{d}t, \qquad \mathrm{d}U = (c - \lambda U)\,\mathrm{d}t + b\,\mathrm{d}W$$

A linear equation is solved without time-stepping error.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

# Below this exponent series are used, with coefficients (2^k - 2) / (k! (k + 1)), k = 2, 3, ...
_SERIES_BELOW = 0.2
_FACTORIALS = np.cumprod(np.arange(1.0, 24.0))
_POSITION_SERIES = [(2.0**k - 2) / (_FACTORIALS[k - 1] * (k + 1)) for k in range(2, 14)]
_OFFSET_SERIES = [1 / _FACTORIALS[k + 1] for k in range(11)]
# Exponents are clipped to this; larger ones make no difference.
_MAX_EXPONENT = 300.0


class Coefficients(NamedTuple):
    """Rate λ, constant c and squared diffusion b² of each axis."""

    rate: Array
    constant: Array
    intensity: Array


class Linear(NamedTuple):
    """Solution over a duration: propagator, offset and covariance of (x, u), per axis."""

    fxx: Array
    fxu: Array
    fuu: Array
    ox: Array
    ou: Array
    qxx: Array
    qxu: Array
    quu: Array

    def mean(self, x: Array, u: Array) -> tuple[Array, Array]:
        """Return the mean of the state that starts at (x, u)."""
        return self.fxx * x + self.fxu * u + self.ox, self.fuu * u + self.ou


def _series(x: Array, coefficients: list[float]) -> Array:
    """Evaluate an alternating series in x."""
    total = jnp.zeros_like(x)
    for coefficient in reversed(coefficients):
        total = coefficient - x * total
    return total


def _phi(x: Array) -> tuple[Array, Array]:
    """Compute (1 - exp(-x)) / x, and exp(-x)."""
    fall = -jnp.expm1(-x)
    safe = jnp.where(x == 0, 1.0, x)
    return jnp.where(x == 0, 1.0, fall / safe), 1 - fall


def second_order(coefficients: Coefficients, duration: Array) -> Linear:
    """Solve the equation of a velocity and its integral.

    Args:
        coefficients: Coefficients of each axis.
        duration: Scalar, not negative.
    """
    rate, constant, intensity = coefficients
    x = jnp.clip(rate * duration, -_MAX_EXPONENT, None)
    phi, decay = _phi(x)
    is_small = jnp.abs(x) < _SERIES_BELOW
    small, large = jnp.where(is_small, x, 0.0), jnp.where(is_small, 1.0, x)
    # (1 - phi) / x and the mean of (s phi(x s))² over s from 0 to 1.
    offset = jnp.where(is_small, _series(small, _OFFSET_SERIES), (1 - phi) / large)
    fall = phi * large
    spread = jnp.where(
        is_small,
        _series(small, _POSITION_SERIES),
        (large - fall - 0.5 * fall**2) / large**3,
    )
    noise = intensity * duration
    one = jnp.ones_like(x)
    return Linear(
        fxx=one,
        fxu=duration * phi,
        fuu=decay,
        ox=constant * duration**2 * offset,
        ou=constant * duration * phi,
        qxx=noise * duration**2 * spread,
        qxu=0.5 * noise * duration * phi**2,
        # phi(2x) = phi(x) (1 + exp(-x)) / 2
        quu=0.5 * noise * phi * (1 + decay),
    )


def first_order(coefficients: Coefficients, duration: Array) -> Linear:
    """Solve the equation of a position without a velocity; the velocity is zero.

    The arguments are those of `second_order`, with rate and constant of the position.
    """
    rate, constant, intensity = coefficients
    phi, decay = _phi(jnp.clip(rate * duration, -_MAX_EXPONENT, None))
    zero = jnp.zeros_like(phi)
    return Linear(
        fxx=decay,
        fxu=zero,
        fuu=zero,
        ox=constant * duration * phi,
        ou=zero,
        qxx=0.5 * intensity * duration * phi * (1 + decay),
        qxu=zero,
        quu=zero,
    )
