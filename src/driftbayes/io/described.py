"""What a dataset says of itself, without its numbers."""

__all__ = ["Description", "described"]

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import xarray as xr


class Description(NamedTuple):
    """Names, dimensions and attributes.

    Args:
        names: Of the variables.
        dims: Dimensions of each.
        attributes: Of the whole.
        variable_attributes: Of each variable.
    """

    names: tuple[str, ...]
    dims: Mapping[str, tuple[str, ...]]
    attributes: Mapping[str, Any]
    variable_attributes: Mapping[str, Mapping[str, Any]]


def described(dataset: "xr.Dataset") -> Description:
    """Names, dimensions and attributes of a dataset."""
    variables = {str(name): variable for name, variable in dataset.variables.items()}
    return Description(
        tuple(variables),
        {name: tuple(map(str, variable.dims)) for name, variable in variables.items()},
        dict(dataset.attrs),
        {name: dict(variable.attrs) for name, variable in variables.items()},
    )
