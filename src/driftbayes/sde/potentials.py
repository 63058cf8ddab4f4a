r"""What the next fix and those after it say of the present state, under a linear equation.

At each fix the future is summarised per axis by two Gaussian factors of the state,

$$\psi(x, u) = \exp\bigl[-\tfrac12 \rho\,(v - \alpha x - u)^2 - \tfrac12 \kappa\,(w - x)^2\bigr],$$

found backwards from the last fix. Proposals that are conditioned on them make the weights of a
linear model constant: the estimate of its likelihood has no variance, and that of a nearly linear
model little.
"""

__all__ = ["Ahead", "Gaussian", "Pseudo", "look_back", "nothing_ahead", "pseudo_of"]

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array

from driftbayes.sde.linear import Linear

LOG_2PI = 1.8378770664093453


class Ahead(NamedTuple):
    """A fix and what lies beyond it, per axis.

    Args:
        y: Position of the fix, merged with what lies beyond.
        variance: Its error variance, 0 if exact.
        v: Value of αx + u beyond the fix.
        alpha: α.
        rho: Precision ρ of that; 0 if nothing is known.
        w: Value of x beyond the fix.
        kappa: Precision κ of that.
        log_constant: What merging left over.
    """

    y: Array
    variance: Array
    v: Array
    alpha: Array
    rho: Array
    w: Array
    kappa: Array
    log_constant: Array

    def log_beyond(self, x: Array, u: Array) -> Array:
        """Ln ψ of what lies beyond the fix."""
        later = self.rho * (self.v - self.alpha * x - u) ** 2
        return -0.5 * (later + self.kappa * (self.w - x) ** 2)


class Pseudo(NamedTuple):
    """Two independent pseudo-observations of a state: $e = a x + b u$ with an error, twice.

    The first has a variance, the second a precision; `log_constant` belongs to the second.
    """

    a1: Array
    b1: Array
    e1: Array
    variance1: Array
    a2: Array
    b2: Array
    e2: Array
    precision2: Array
    log_constant: Array

    def log_density(self, x: Array, u: Array) -> Array:
        """Ln of the density of the pseudo-observations, given the state; where it has one."""
        first = self.e1 - self.a1 * x - self.b1 * u
        second = self.e2 - self.a2 * x - self.b2 * u
        return self.log_constant - 0.5 * (
            LOG_2PI
            + jnp.log(self.variance1)
            + first**2 / self.variance1
            + self.precision2 * second**2
        )


class Gaussian(NamedTuple):
    """Mean and covariance of (x, u) per axis."""

    x: Array
    u: Array
    xx: Array
    xu: Array
    uu: Array

    def given(self, a: Array, b: Array, e: Array, precision: Array) -> tuple["Gaussian", Array]:
        """Condition on $e = a x + b u$ with a precision; and ln of the factor's mean."""
        gx, gu = a * self.xx + b * self.xu, a * self.xu + b * self.uu
        spread = a * gx + b * gu
        gain = precision / (1 + precision * spread)
        return self._moved(gx, gu, e - a * self.x - b * self.u, gain), -0.5 * (
            gain * (e - a * self.x - b * self.u) ** 2 + jnp.log1p(precision * spread)
        )

    def observed(self, pseudo: Pseudo) -> tuple["Gaussian", Array]:
        """Condition on pseudo-observations; and ln of their density."""
        a, b = pseudo.a1, pseudo.b1
        gx, gu = a * self.xx + b * self.xu, a * self.xu + b * self.uu
        total = pseudo.variance1 + a * gx + b * gu
        error = pseudo.e1 - a * self.x - b * self.u
        moved = self._moved(gx, gu, error, 1 / total)
        log_first = -0.5 * (LOG_2PI + jnp.log(total) + error**2 / total)
        moved, log_second = moved.given(pseudo.a2, pseudo.b2, pseudo.e2, pseudo.precision2)
        return moved, log_first + log_second + pseudo.log_constant

    def _moved(self, gx: Array, gu: Array, error: Array, gain: Array) -> "Gaussian":
        return Gaussian(
            self.x + gain * gx * error,
            self.u + gain * gu * error,
            jnp.maximum(self.xx - gain * gx**2, 0.0),
            self.xu - gain * gx * gu,
            jnp.maximum(self.uu - gain * gu**2, 0.0),
        )

    def draw(self, kick_x: Array, kick_u: Array) -> tuple[Array, Array]:
        """Turn two standard normal numbers per axis into a state."""
        known = self.xx <= 0
        slope = jnp.where(known, 0.0, self.xu / jnp.where(known, 1.0, self.xx))
        shift = jnp.sqrt(self.xx) * kick_x
        left = jnp.maximum(self.uu - slope * self.xu, 0.0)
        return self.x + shift, self.u + slope * shift + jnp.sqrt(left) * kick_u


def nothing_ahead(y: Array, variance: Array) -> Ahead:
    """The last fix, or one whose future is not looked at."""
    zero = jnp.zeros_like(y)
    return Ahead(y, variance, zero, zero, zero, zero, zero, zero)


def pseudo_of(linear: Linear, ahead: Ahead) -> Pseudo:
    """What a fix after a duration says of the state now, by the linear solution over it."""
    alpha = ahead.alpha
    variance1 = linear.qxx + ahead.variance
    covariance = alpha * linear.qxx + linear.qxu
    # Errors of both have a common part; the second is freed of it.
    share = jnp.where(variance1 > 0, covariance / jnp.where(variance1 > 0, variance1, 1.0), 0.0)
    e1 = ahead.y - linear.ox
    left = alpha**2 * linear.qxx + 2 * alpha * linear.qxu + linear.quu - share * covariance
    left = jnp.maximum(left, 0.0)
    return Pseudo(
        a1=linear.fxx,
        b1=linear.fxu,
        e1=e1,
        variance1=variance1,
        a2=(alpha - share) * linear.fxx,
        b2=(alpha - share) * linear.fxu + linear.fuu,
        e2=ahead.v - alpha * linear.ox - linear.ou - share * e1,
        precision2=ahead.rho / (1 + ahead.rho * left),
        log_constant=-0.5 * jnp.log1p(ahead.rho * left),
    )


def look_back(linear: Linear, ahead: Ahead, y: Array, variance: Array) -> Ahead:
    """Carry the future from one fix to the fix before it.

    Args:
        linear: Solution over the interval between them.
        ahead: The later fix.
        y: Position of the earlier fix.
        variance: Its error variance.
    """
    pseudo = pseudo_of(linear, ahead)
    p1, p2 = 1 / pseudo.variance1, pseudo.precision2
    xx = p1 * pseudo.a1**2 + p2 * pseudo.a2**2
    xu = p1 * pseudo.a1 * pseudo.b1 + p2 * pseudo.a2 * pseudo.b2
    uu = p1 * pseudo.b1**2 + p2 * pseudo.b2**2
    hx = p1 * pseudo.a1 * pseudo.e1 + p2 * pseudo.a2 * pseudo.e2
    hu = p1 * pseudo.b1 * pseudo.e1 + p2 * pseudo.b2 * pseudo.e2
    has_velocity = uu > 0
    safe = jnp.where(has_velocity, uu, 1.0)
    alpha = jnp.where(has_velocity, xu / safe, 0.0)
    determinant = p1 * p2 * (pseudo.a1 * pseudo.b2 - pseudo.a2 * pseudo.b1) ** 2
    kappa = jnp.where(has_velocity, determinant / safe, xx)
    # Of an exact fix the position is known, and what lies beyond says nothing more of it.
    kappa = jnp.where(variance > 0, kappa, 0.0)
    w = jnp.where(kappa > 0, (hx - alpha * hu) / jnp.where(kappa > 0, kappa, 1.0), 0.0)
    shrink = 1 / (1 + kappa * variance)
    return Ahead(
        y=(y + variance * kappa * w) * shrink,
        variance=variance * shrink,
        v=jnp.where(has_velocity, hu / safe, 0.0),
        alpha=alpha,
        rho=uu,
        w=w,
        kappa=kappa,
        log_constant=-0.5 * (jnp.log1p(kappa * variance) + kappa * shrink * (y - w) ** 2),
    )
