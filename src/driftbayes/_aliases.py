"""Names that are imported on demand: public functions, and members of lazy packages."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, ClassVar


def public(name: str, package: str = "driftbayes") -> Callable[..., Any]:
    """Look up a public function when a method calls it.

    A class need not import the layers above its own.

    Args:
        name: Name of the function.
        package: Name of the package that has it.
    """
    function: Callable[..., Any] = getattr(import_module(package), name)
    return function


class Saved(ABC):
    """A result that can be written as NetCDF."""

    # Kind of the file, which `driftbayes.io.read_dataset` checks.
    kind: ClassVar[str]

    @abstractmethod
    def to_dataset(self) -> Any:
        """Return the numbers of the result as an xarray Dataset."""

    def save(self, path: Any) -> None:
        """Write the result as NetCDF, to a name ending in .nc; xarray opens it."""
        public("write_dataset", "driftbayes.io")(self.to_dataset(), path, kind=self.kind)


def lazy(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a `__getattr__` for a package that imports a module when one of its names is used.

    Args:
        package: Name of the package.
        homes: Names in each module of the package, separated by spaces.
    """
    module_of = {name: module for module, names in homes.items() for name in names.split()}

    def get(name: str) -> Any:
        if name not in module_of:
            msg = f"module {package!r} has no attribute {name!r}"
            # Python uses these arguments to suggest a similar name.
            raise AttributeError(msg, name=name, obj=import_module(package))
        value = getattr(import_module(f"{package}.{module_of[name]}"), name)
        setattr(import_module(package), name, value)
        return value

    return get
