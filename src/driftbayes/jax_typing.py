"""Aliases for JAX arrays, which hold what models compute."""

__all__ = ["Key", "Scalar", "ScalarLike"]

from typing import TypeAlias

from jaxtyping import Array, Float, PRNGKeyArray

Scalar: TypeAlias = Float[Array, ""]
ScalarLike: TypeAlias = Float[Array, ""] | float | int
Key: TypeAlias = PRNGKeyArray
