"""Langevin motion in a potential."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from driftbayes.models import Parameter
from driftbayes.sde._model import SDE
from driftbayes.sde._models._parameters import friction, merged, white_noise

_OWN = {
    "gamma": Parameter("γ", "inverse decorrelation time of the velocity without force", 0, -1),
    "k": Parameter("k", "diffusivity without force", 2, -1),
}


def in_potential(
    potential: Callable[[Array, Any], Array],
    parameters: Mapping[str, Any],
    *,
    name: str = "in_potential",
    summary: str = "",
) -> SDE:
    r"""Langevin motion in a user-defined potential.

    $$\mathrm{d}X = U\,\mathrm{d}t, \qquad \mathrm{d}U = -\gamma U\,\mathrm{d}t - \nabla
      V(X; \theta)\,\mathrm{d}t + \gamma\sqrt{2k}\,\mathrm{d}W$$

    V is an energy per unit mass, in length²/time². Stationary velocities have variance γk per axis
    and positions the density $\propto \exp[-V/(\gamma k)]$. Positions are conditioned on the first
    fix, and the velocity there is Gaussian with variance γk. With V = 0 it is `Langevin(gamma, k)`;
    with $V = \frac12\gamma\lambda|x - c|^2$ it has the motion of `ConfinedLangevin(gamma, λ, k)`,
    which also integrates over the centre c and includes the density of the first fix.

    Args:
        potential: Function `potential(x, theta)` of one particle, in JAX; the force is its
            derivative.
        parameters: Priors, or `Parameter`s, of the parameters of the potential.
        name: Name of the model.
        summary: Description in one line.

    Raises:
        DriftbayesError: The potential fails or does not return a number, or a parameter has the
            name of one of the equation.

    Example:
        >>> import driftbayes as db
        >>> from driftbayes.sde import in_potential
        >>> trap = in_potential(
        ...     lambda x, theta: 0.5 * theta.stiffness * x @ x,
        ...     {"stiffness": db.Exponential(2.0)},
        ...     name="trap",
        ... )
        >>> list(trap.parameters)
        ['gamma', 'k', 'stiffness']
    """

    def drift(x: Array, u: Array, t: Array, theta: Any) -> Array:
        return friction(x, u, t, theta) - jax.grad(potential)(x, theta)

    def thermal(x: Array, t: Array, theta: Any) -> Array:
        return jnp.sqrt(theta.gamma * theta.k)

    return SDE(
        drift,
        white_noise,
        merged(_OWN, parameters),
        name=name,
        summary=summary or "langevin motion in a potential",
        initial_velocity=thermal,
    )


def _two_wells(x: Array, theta: Any) -> Array:
    """Return the potential of two wells."""
    return theta.barrier * ((x[0] / theta.separation) ** 2 - 1) ** 2


def double_well() -> SDE:
    r"""Langevin motion between two wells on the first axis, at ±ℓ from the origin.

    $$V(x) = B\,[(x_1/\ell)^2 - 1]^2$$

    B is the height of the barrier between the wells, per unit mass. Motion along other axes is
    free. As B → 0 it becomes `Langevin(gamma, k)`.

    Example:
        >>> from driftbayes.sde import double_well
        >>> list(double_well().parameters)
        ['gamma', 'k', 'barrier', 'separation']
    """
    return in_potential(
        _two_wells,
        {
            "barrier": Parameter("B", "height of the barrier per unit mass", 2, -2),
            "separation": Parameter("ℓ", "distance of the wells from the barrier", 1, 0),
        },
        name="double_well",
        summary="langevin motion between two wells at ±ℓ on the first axis",
    )
