"""Langevin's equation as an SDE."""

__all__ = ["langevin"]

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from driftbayes.sde.model import SDE
from driftbayes.sde.models._parameters import LANGEVIN


def _drift(x: Array, u: Array, t: Array, theta: Any) -> Array:
    return -theta.gamma * u


def _diffusion(x: Array, u: Array, t: Array, theta: Any) -> Array:
    return theta.gamma * jnp.sqrt(2 * theta.k)


def langevin() -> SDE:
    """Return Langevin's equation written as an SDE, as an example and to check the filters."""
    return SDE(
        _drift,
        _diffusion,
        LANGEVIN,
        name="sde_langevin",
        summary="langevin, written as an SDE and computed by particle filters",
    )
