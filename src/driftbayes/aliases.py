"""Names that are found when they are used: aliases of public functions, lazy packages."""

__all__ = ["lazy", "public"]

from collections.abc import Callable, Mapping, Sequence
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


def lazy(package: str, homes: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """The `__getattr__` of a package whose modules are imported when a name is first used.

    Args:
        package: Name of the package.
        homes: Names under the module that defines them.
    """
    home_of = {name: home for home, names in homes.items() for name in names}

    def load(name: str) -> Any:
        if name not in home_of:
            msg = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(msg)
        return getattr(import_module(f"{package}.{home_of[name]}"), name)

    return load
