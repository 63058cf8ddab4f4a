"""Aliases for NumPy arrays, which hold data, and for functions that report progress.

JAX arrays, which hold what models compute, have theirs in `jax_typing`, so that reading a file
does not wait for JAX.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
StrArray: TypeAlias = NDArray[Any]
# Called with the stage, the number done and the total.
Progress: TypeAlias = Callable[[str, int, int], None]
