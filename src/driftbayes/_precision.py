"""Double precision for the duration of a call, independent of the JAX configuration."""

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import jax
import numpy as np

from driftbayes.errors import DriftbayesError, expect

P = ParamSpec("P")
R = TypeVar("R")


def in_double_precision(function: Callable[P, R]) -> Callable[P, R]:
    """Run a function with JAX in double precision; numbers may underflow to zero."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        # Densities far from a mode underflow, which is no error even if NumPy is set to raise.
        with jax.enable_x64(True), np.errstate(under="ignore"):  # noqa: FBT003
            return function(*args, **kwargs)

    return call


def as_number(value: Any) -> Any:
    """Convert a number to a NumPy array in double precision; JAX arrays are not changed."""
    if isinstance(value, jax.Array):
        return value
    expect(value, int | float | np.generic | np.ndarray, "a number of a prior or model", "a number")
    return np.asarray(value, dtype=np.float64)


def as_float(value: Any) -> float:
    """Convert a single number, also a JAX or NumPy array without axes, to a float.

    Raises:
        DriftbayesError: The value is not a single number.
    """
    array = np.asarray(as_number(value))
    if array.ndim:
        raise DriftbayesError(f"a number of a prior must be a single number, got {array.tolist()}")
    return float(array)


def as_leaf(value: Any) -> Any:
    """Convert a number like `as_number`; priors and names are not changed."""
    return as_number(value) if isinstance(value, int | float | np.generic | np.ndarray) else value
