"""Sums of one parameter value, as a model takes them to make its density."""

__all__ = ["Collected"]

import equinox as eqx
from jaxtyping import Array, Float

from driftbayes.jax_typing import Scalar
from driftbayes.likelihood.channels import ChannelTerms


class Collected(eqx.Module):
    """What an engine found for each component of a model, of all data or of one trajectory.

    Args:
        parts: Terms of each component of a mixture; of one model, one.
        excess: Sum over steps that a heavy tail asks for, else zero.
        centre: Mean position at which steps begin; zero where no model asks for it.
        turning: Angle by which the axes turn clockwise per length along x, on the earth.
        tau: Sampling time.
        is_lonlat: Whether `centre` is a longitude and a latitude.
    """

    parts: tuple[ChannelTerms, ...]
    excess: Scalar
    centre: Float[Array, " dim"]
    turning: Scalar
    tau: Scalar
    is_lonlat: bool = eqx.field(static=True)

    def component(self, index: int) -> "Collected":
        """The same with one component only."""
        return eqx.tree_at(lambda one: one.parts, self, (self.parts[index],))
