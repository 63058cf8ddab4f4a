"""Aliases for JAX arrays, which hold what models compute."""

__all__ = ["Key", "Leaf", "Number", "Scalar", "ScalarLike"]

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

Scalar: TypeAlias = Float[Array, ""]
Key: TypeAlias = PRNGKeyArray
# A field that keeps a NumPy number until it is computed with, and then behaves as JAX's.
if TYPE_CHECKING:
    Number: TypeAlias = Array
    ScalarLike: TypeAlias = Array | float | int
    # A parameter of a model: a number, or a prior or a name that stands for one.
    Leaf: TypeAlias = Any
else:
    Number: TypeAlias = Float[Array, ""] | Float[np.ndarray, ""] | float
    ScalarLike: TypeAlias = Float[Array, ""] | Float[np.ndarray, ""] | float | int
    Leaf: TypeAlias = Any
