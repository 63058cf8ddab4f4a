"""How kernels are compiled."""

__all__ = ["compiled"]

from collections.abc import Callable
from typing import Any

from numba import njit


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile a function on first use, without the interpreter's lock, and keep it on disk.

    Where neither the package's directory nor the user's cache can be written, it is compiled in
    every process.

    Args:
        **options: Further options of Numba.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        try:
            return njit(function, nogil=True, cache=True, **options)
        except RuntimeError:
            return njit(function, nogil=True, **options)

    return decorate
