"""Double precision for the duration of a call, whatever JAX is set to."""

__all__ = ["as_leaf", "as_number", "in_double_precision"]

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import jax
import numpy as np

from driftbayes.errors import expect

P = ParamSpec("P")
R = TypeVar("R")


def in_double_precision(function: Callable[P, R]) -> Callable[P, R]:
    """Run a function with JAX in double precision, which the caller's own code need not be in."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        with jax.enable_x64(True):  # noqa: FBT003
            return function(*args, **kwargs)

    return call


def as_number(value: Any) -> Any:
    """A number that keeps all its digits until it is computed with; JAX arrays as they are."""
    if isinstance(value, jax.Array):
        return value
    expect(value, int | float | np.generic | np.ndarray, "a number of a prior or model", "a number")
    return np.asarray(value, dtype=np.float64)


def as_leaf(value: Any) -> Any:
    """A number as `as_number` gives it; what stands for a number, a prior or a name, as it is."""
    return as_number(value) if isinstance(value, int | float | np.generic | np.ndarray) else value
