"""Langevin motion with friction that grows with the speed."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from driftbayes.models import Parameter
from driftbayes.sde._model import SDE
from driftbayes.sde._models._parameters import white_noise

# Gauss–Legendre rule over speeds, in units of the width of their density.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
_NODES, _WEIGHTS = 4.5 * (1 + _NODES), 4.5 * _WEIGHTS


def _drift(x: Array, u: Array, t: Array, theta: Any) -> Array:
    """Return the drift with friction that grows with the speed."""
    nonlinear_term = theta.nonlinearity * jnp.sum(u**2) / (theta.gamma * theta.k)
    return -theta.gamma * u * (1 + nonlinear_term)


def _steady_spread(x: Array, t: Array, theta: Any) -> Array:
    """Return the standard deviation of the stationary velocity per axis, by quadrature."""
    beta, n_dim = theta.nonlinearity, len(x)
    width = 1 / jnp.sqrt(jnp.sqrt(1 + beta))
    r = width * _NODES
    mass = _WEIGHTS * r ** (n_dim - 1) * jnp.exp(-(r**2) / 2 - beta * r**4 / 4)
    variance = jnp.sum(r**2 * mass) / jnp.sum(mass) / n_dim
    return jnp.sqrt(theta.gamma * theta.k * variance)


def nonlinear_friction() -> SDE:
    r"""Langevin motion whose friction grows with the square of the speed.

    $$\mathrm{d}X = U\,\mathrm{d}t, \qquad \mathrm{d}U = -\gamma U \Bigl[1 +
      \beta\,\frac{|U|^2}{\gamma k}\Bigr]\mathrm{d}t + \gamma\sqrt{2k}\,\mathrm{d}W$$

    Stationary velocities have the density
    $\propto \exp[-r^2/2 - \beta r^4/4]$, $r = |u|/\sqrt{\gamma k}$, with lighter tails than a
    Gaussian. With β = 0 it is `Langevin(gamma, k)`. The velocity at the first fix is Gaussian with
    the variance of that density.

    Example:
        >>> from driftbayes.sde import nonlinear_friction
        >>> list(nonlinear_friction().parameters)
        ['gamma', 'k', 'nonlinearity']
    """
    return SDE(
        _drift,
        white_noise,
        {
            "gamma": Parameter("γ", "friction rate of slow particles", 0, -1),
            "k": Parameter("k", "long-time diffusivity without the nonlinearity", 2, -1),
            "nonlinearity": Parameter("β", "growth of friction at |u|² = γk", 0, 0),
        },
        name="nonlinear_friction",
        summary="langevin with friction that grows with the square of the speed",
        initial_velocity=_steady_spread,
    )
