"""Langevin motion with fluctuating forcing."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from driftbayes.models import Parameter
from driftbayes.sde._law import Hidden
from driftbayes.sde._model import SDE
from driftbayes.sde._models._parameters import LANGEVIN, friction, white_noise


def _diffusion(x: Array, u: Array, t: Array, theta: Any, v: Array) -> Array:
    """Return the diffusion at the present dissipation."""
    scatter = theta.intermittency
    return white_noise(x, u, t, theta) * jnp.exp(0.5 * scatter * v[0] - 0.25 * scatter**2)


def relaxation(v: Array, x: Array, u: Array, t: Array, theta: Any) -> Array:
    """Return the drift of a hidden variable that decorrelates at the rate `renewal`."""
    return -theta.renewal * v


def renewal_noise(v: Array, x: Array, u: Array, t: Array, theta: Any) -> Array:
    """Return the diffusion that keeps the hidden variable at unit variance."""
    return jnp.sqrt(2 * theta.renewal)


def steady(x: Array, t: Array, theta: Any) -> tuple[Array, Array]:
    """Return mean and standard deviation of the stationary hidden variable."""
    return jnp.zeros(()), jnp.ones(())


def fluctuating_dissipation() -> SDE:
    r"""Langevin motion driven by a dissipation that fluctuates along each trajectory.

    $$\mathrm{d}U = -\gamma U\,\mathrm{d}t + \gamma\sqrt{2k\,\varepsilon(t)}\,\mathrm{d}W, \qquad
      \ln\varepsilon = \Lambda Z - \tfrac12\Lambda^2, \qquad
      \mathrm{d}Z = -\beta Z\,\mathrm{d}t + \sqrt{2\beta}\,\mathrm{d}W'$$

    The relative dissipation ε is log-normal with mean 1 and common to the axes of a particle:
    superstatistics that evolve in time. Second moments of displacements are those of
    `Langevin(gamma, k)`; the tails are heavier. The model is `Langevin(gamma, k)` for Λ = 0 and in
    the limit β → ∞. Z starts in its stationary state, and the velocity at the first fix is Gaussian
    with variance γkε for the initial dissipation.

    Example:
        >>> from driftbayes.sde import fluctuating_dissipation
        >>> list(fluctuating_dissipation().parameters)
        ['gamma', 'k', 'intermittency', 'renewal']
    """
    return SDE(
        friction,
        _diffusion,
        {
            **LANGEVIN,
            "intermittency": Parameter("Λ", "standard deviation of ln ε", 0, 0),
            "renewal": Parameter("β", "decorrelation rate of ln ε", 0, -1),
        },
        name="fluctuating_dissipation",
        summary="langevin with a log-normal dissipation that fluctuates in time",
        hidden=Hidden(1, relaxation, renewal_noise, steady),
    )
