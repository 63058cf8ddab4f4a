"""Parameters common to several equations, with the units and prior rules of Langevin's equation."""

__all__ = ["LANGEVIN", "merged"]

from collections.abc import Mapping
from typing import Any

from driftbayes.errors import DriftbayesError, expect
from driftbayes.models import Parameter

LANGEVIN = {
    "gamma": Parameter("γ", "inverse decorrelation time of the velocity", 0, -1),
    "k": Parameter("k", "long-time diffusivity, Var(Δx_i) → 2kτ per axis", 2, -1),
}


def merged(own: Mapping[str, Any], further: Mapping[str, Any] | None) -> dict[str, Any]:
    """Merge the parameters of an equation with those of a user's function.

    Args:
        own: Parameters of the equation.
        further: Parameters of the user's function, by name.

    Raises:
        DriftbayesError: Two parameters have the same name.
    """
    further = {} if further is None else further
    expect(further, Mapping, "parameters", "priors by name, for example Exponential(1.0)")
    duplicates = [name for name in further if name in own]
    if duplicates:
        raise DriftbayesError(
            f"parameter {duplicates[0]!r} is one of the equation itself ({', '.join(own)}); give "
            "yours another name"
        )
    return {**own, **further}
