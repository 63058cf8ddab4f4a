r"""Look-ahead potentials: the likelihood of later fixes as a function of the present state.

Under a linear equation, two Gaussian factors per axis summarise the fixes after each fix,

$$\psi(x, u) = \exp\bigl[-\tfrac12 \rho\,(v - \alpha x - u)^2 - \tfrac12 \kappa\,(w - x)^2\bigr].$$

They are computed backwards from the last fix. Proposals conditioned on them make the weights of a
linear model constant: the estimate of its likelihood has no variance, and that of a nearly linear
model has little.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array

from driftbayes.likelihood._gaussian import LOG_2PI
from driftbayes.sde._linear import Linear


def log_normal(error: Array, variance: Array) -> Array:
    """Evaluate the log density of a normal error."""
    return -0.5 * (LOG_2PI + jnp.log(variance) + error**2 / variance)


class Lookahead(NamedTuple):
    """A fix and the potential ψ of the fixes after it, per axis.

    Args:
        y: Position of the fix, merged with the information on x from later fixes.
        variance: Its error variance, 0 if exact.
        v: Mean v of αx + u under ψ.
        alpha: Coefficient α.
        rho: Precision ρ of αx + u; 0 without information.
        w: Mean w of x under ψ.
        kappa: Precision κ of x.
        log_constant: Log of the constant factor that merging leaves.
    """

    y: Array
    variance: Array
    v: Array
    alpha: Array
    rho: Array
    w: Array
    kappa: Array
    log_constant: Array

    def log_potential(self, x: Array, u: Array) -> Array:
        """Evaluate ln ψ at a state."""
        velocity_term = self.rho * (self.v - self.alpha * x - u) ** 2
        return -0.5 * (velocity_term + self.kappa * (self.w - x) ** 2)


class PseudoObservations(NamedTuple):
    """Two independent pseudo-observations $e = a x + b u$ of a state, with errors.

    The first has a variance, the second a precision. `log_constant` belongs to the second.
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
        """Evaluate the log density of the pseudo-observations at a state; `variance1` > 0."""
        first = self.e1 - self.a1 * x - self.b1 * u
        second = self.e2 - self.a2 * x - self.b2 * u
        log_second = self.log_constant - 0.5 * self.precision2 * second**2
        return log_second + log_normal(first, self.variance1)


class Gaussian(NamedTuple):
    """Mean and covariance of (x, u) per axis."""

    x: Array
    u: Array
    xx: Array
    xu: Array
    uu: Array

    @classmethod
    def after(cls, linear: Linear, x: Array, u: Array) -> "Gaussian":
        """Return the distribution of the state that starts at (x, u)."""
        return cls(*linear.mean(x, u), linear.qxx, linear.qxu, linear.quu)

    def condition_on_factor(
        self, a: Array, b: Array, e: Array, precision: Array
    ) -> tuple["Gaussian", Array]:
        """Condition on $e = a x + b u$ with a precision; also return the log mean of the factor."""
        gx, gu = a * self.xx + b * self.xu, a * self.xu + b * self.uu
        variance, error = a * gx + b * gu, e - a * self.x - b * self.u
        gain = precision / (1 + precision * variance)
        log_mean = -0.5 * (gain * error**2 + jnp.log1p(precision * variance))
        return self._updated(gx, gu, error, gain), log_mean

    def condition_on(self, pseudo: PseudoObservations) -> tuple["Gaussian", Array]:
        """Condition on pseudo-observations; also return their log density."""
        a, b = pseudo.a1, pseudo.b1
        gx, gu = a * self.xx + b * self.xu, a * self.xu + b * self.uu
        total = pseudo.variance1 + a * gx + b * gu
        error = pseudo.e1 - a * self.x - b * self.u
        updated, log_second = self._updated(gx, gu, error, 1 / total).condition_on_factor(
            pseudo.a2, pseudo.b2, pseudo.e2, pseudo.precision2
        )
        return updated, log_normal(error, total) + log_second + pseudo.log_constant

    def _updated(self, gx: Array, gu: Array, error: Array, gain: Array) -> "Gaussian":
        """Return the distribution after an observation, given covariances, error and gain."""
        return Gaussian(
            self.x + gain * gx * error,
            self.u + gain * gu * error,
            jnp.maximum(self.xx - gain * gx**2, 0.0),
            self.xu - gain * gx * gu,
            jnp.maximum(self.uu - gain * gu**2, 0.0),
        )

    def draw(self, noise_x: Array, noise_u: Array) -> tuple[Array, Array]:
        """Transform two standard normal numbers per axis into a state."""
        is_known = self.xx <= 0
        slope = jnp.where(is_known, 0.0, self.xu / jnp.where(is_known, 1.0, self.xx))
        shift = jnp.sqrt(self.xx) * noise_x
        residual = jnp.maximum(self.uu - slope * self.xu, 0.0)
        return self.x + shift, self.u + slope * shift + jnp.sqrt(residual) * noise_u


def no_lookahead(y: Array, variance: Array) -> Lookahead:
    """Return the potential of a fix without information from later fixes."""
    zero = jnp.zeros_like(y)
    return Lookahead(y, variance, zero, zero, zero, zero, zero, zero)


def pseudo_observations(linear: Linear, lookahead: Lookahead) -> PseudoObservations:
    """Express a later fix as pseudo-observations of the present state.

    Args:
        linear: Solution over the time until the fix.
        lookahead: Look-ahead potential at the fix.
    """
    alpha = lookahead.alpha
    variance1 = linear.qxx + lookahead.variance
    covariance = alpha * linear.qxx + linear.qxu
    # The errors of both are correlated; subtract the regression on the first from the second.
    slope = jnp.where(variance1 > 0, covariance / jnp.where(variance1 > 0, variance1, 1.0), 0.0)
    e1 = lookahead.y - linear.ox
    residual = alpha**2 * linear.qxx + 2 * alpha * linear.qxu + linear.quu - slope * covariance
    residual = jnp.maximum(residual, 0.0)
    return PseudoObservations(
        a1=linear.fxx,
        b1=linear.fxu,
        e1=e1,
        variance1=variance1,
        a2=(alpha - slope) * linear.fxx,
        b2=(alpha - slope) * linear.fxu + linear.fuu,
        e2=lookahead.v - alpha * linear.ox - linear.ou - slope * e1,
        precision2=lookahead.rho / (1 + lookahead.rho * residual),
        log_constant=-0.5 * jnp.log1p(lookahead.rho * residual),
    )


def propagate_backward(
    linear: Linear, lookahead: Lookahead, y: Array, variance: Array
) -> Lookahead:
    """Propagate a look-ahead potential to the fix before.

    Args:
        linear: Solution over the interval between both fixes.
        lookahead: Potential at the later fix.
        y: Position of the earlier fix.
        variance: Its error variance.
    """
    pseudo = pseudo_observations(linear, lookahead)
    p1, p2 = 1 / pseudo.variance1, pseudo.precision2
    xx = p1 * pseudo.a1**2 + p2 * pseudo.a2**2
    xu = p1 * pseudo.a1 * pseudo.b1 + p2 * pseudo.a2 * pseudo.b2
    uu = p1 * pseudo.b1**2 + p2 * pseudo.b2**2
    hx = p1 * pseudo.a1 * pseudo.e1 + p2 * pseudo.a2 * pseudo.e2
    hu = p1 * pseudo.b1 * pseudo.e1 + p2 * pseudo.b2 * pseudo.e2
    has_velocity = uu > 0
    safe_uu = jnp.where(has_velocity, uu, 1.0)
    alpha = jnp.where(has_velocity, xu / safe_uu, 0.0)
    determinant = p1 * p2 * (pseudo.a1 * pseudo.b2 - pseudo.a2 * pseudo.b1) ** 2
    kappa = jnp.where(has_velocity, determinant / safe_uu, xx)
    # The position of an exact fix is known; later fixes add no information on it.
    kappa = jnp.where(variance > 0, kappa, 0.0)
    w = jnp.where(kappa > 0, (hx - alpha * hu) / jnp.where(kappa > 0, kappa, 1.0), 0.0)
    shrink = 1 / (1 + kappa * variance)
    return Lookahead(
        y=(y + variance * kappa * w) * shrink,
        variance=variance * shrink,
        v=jnp.where(has_velocity, hu / safe_uu, 0.0),
        alpha=alpha,
        rho=uu,
        w=w,
        kappa=kappa,
        log_constant=-0.5 * (jnp.log1p(kappa * variance) + kappa * shrink * (y - w) ** 2),
    )
