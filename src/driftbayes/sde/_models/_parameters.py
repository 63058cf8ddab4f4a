"""Parameters and terms of Langevin's equation, common to several equations."""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from driftbayes.errors import DriftbayesError, expect
from driftbayes.models import Parameter

LANGEVIN = {
    "gamma": Parameter("γ", "inverse decorrelation time of the velocity", 0, -1),
    "k": Parameter("k", "long-time diffusivity, Var(Δx_i) → 2kτ per axis", 2, -1),
}


def friction(x: Array, u: Array, t: Array, theta: Any, *v: Array) -> Array:
    """Return the drift of Langevin's equation."""
    return -theta.gamma * u


def white_noise(x: Array, u: Array, t: Array, theta: Any, *v: Array) -> Array:
    """Return the diffusion of Langevin's equation."""
    return theta.gamma * jnp.sqrt(2 * theta.k)


def merged(own: Mapping[str, Any], further: Mapping[str, Any] | None) -> dict[str, Any]:
    """Merge the parameters of an equation with those of a user's function.

    Args:
        own: Parameters of the equation.
        further: Parameters of the user's function, by name.

    Raises:
        DriftbayesError: Two parameters have the same name.
    """
    further = {} if further is None else further
    expect(further, Mapping, "parameters", "priors by name, for example Exponential(1.0)")
    duplicates = [name for name in further if name in own]
    if duplicates:
        raise DriftbayesError(
            f"parameter {duplicates[0]!r} is one of the equation itself ({', '.join(own)}); give "
            "yours another name"
        )
    return {**own, **further}
