"""Stochastic differential equations that come with the package."""

__all__ = ["langevin"]

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from driftbayes.models import Parameter
from driftbayes.sde.model import SDE


def _drift(x: Array, u: Array, t: Array, theta: Any) -> Array:
    return -theta.gamma * u


def _diffusion(x: Array, u: Array, t: Array, theta: Any) -> Array:
    return theta.gamma * jnp.sqrt(2 * theta.k)


def langevin() -> SDE:
    """Langevin's equation written as an SDE: the example, and a check of the filters."""
    return SDE(
        _drift,
        _diffusion,
        {
            "gamma": Parameter("γ", "inverse decorrelation time of the velocity", 0, -1),
            "k": Parameter("k", "long-time diffusivity, Var(Δx_i) → 2kτ per axis", 2, -1),
        },
        name="sde_langevin",
        summary="langevin, written as an SDE and computed by particle filters",
    )
