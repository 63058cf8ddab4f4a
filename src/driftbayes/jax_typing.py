"""Aliases for JAX arrays, which hold what models compute."""

__all__ = ["Key", "Scalar", "ScalarLike"]

from typing import TypeAlias

import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

Scalar: TypeAlias = Float[Array, ""]
ScalarLike: TypeAlias = Float[Array, ""] | Float[np.ndarray, ""] | float | int
Key: TypeAlias = PRNGKeyArray
