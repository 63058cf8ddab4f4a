"""Methods that are aliases of public functions, found by name when they are called."""

__all__ = ["public"]

from collections.abc import Callable
from importlib import import_module
from typing import Any


def public(name: str) -> Callable[..., Any]:
    """A function of the public interface.

    The record whose method calls it does not know the rooms above its own.

    Args:
        name: Name of the function in `driftbayes`.
    """
    function: Callable[..., Any] = getattr(import_module("driftbayes"), name)
    return function
