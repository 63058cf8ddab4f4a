"""Names that are looked up when they are used: public functions, and rooms loaded in part."""

__all__ = ["lazy", "public"]

from collections.abc import Callable, Mapping
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


def lazy(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package that imports a module when one of its names is used.

    Args:
        package: Name of the package.
        homes: For each module of the package its names, separated by spaces.
    """
    home_of = {name: home for home, names in homes.items() for name in names.split()}

    def get(name: str) -> Any:
        if name not in home_of:
            msg = f"module {package!r} has no attribute {name!r}"
            # With these Python itself says which name may have been meant.
            raise AttributeError(msg, name=name, obj=import_module(package))
        value = getattr(import_module(f"{package}.{home_of[name]}"), name)
        setattr(import_module(package), name, value)
        return value

    return get
