"""Aliases for NumPy arrays, which hold data: trajectories, displacements, results.

JAX arrays, which hold what models compute, have theirs in `jax_typing`, so that reading a file
does not wait for JAX.
"""

__all__ = ["FloatArray", "IntArray", "StrArray"]

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
StrArray: TypeAlias = NDArray[Any]
