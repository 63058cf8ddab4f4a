"""Aliases for JAX arrays, which hold what models compute."""

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

AnyArray: TypeAlias = Array | np.ndarray
Scalar: TypeAlias = Float[Array, ""]
Key: TypeAlias = PRNGKeyArray
# Numbers of lags, and covariances at each.
LagArray: TypeAlias = Float[Array, " lag"]
# Times, and values at each.
TimeArray: TypeAlias = Float[Array, "..."]
Positions: TypeAlias = Float[Array, "particle position dim"]
StateMatrix: TypeAlias = Float[Array, "state state"]
# Propagator and noise covariance, or drift and noise intensity.
StateMatrices: TypeAlias = tuple[StateMatrix, StateMatrix]
# A number, which may be a NumPy number until it is computed with.
if TYPE_CHECKING:
    ScalarLike: TypeAlias = Array | float | int
    # A parameter of a model: a number, or a prior or a name that stands for one.
    Leaf: TypeAlias = Any
else:
    ScalarLike: TypeAlias = Float[Array, ""] | Float[np.ndarray, ""] | float | int
    Leaf: TypeAlias = Any
