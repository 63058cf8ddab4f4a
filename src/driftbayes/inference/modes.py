"""The two modes of a posterior: of the density of θ, and of that of its coordinates z."""

__all__ = ["Modes", "find_modes"]

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from driftbayes.inference.hypothesis import Hypothesis
from driftbayes.inference.joint import LogJoint
from driftbayes.inference.newton import Mode, climb
from driftbayes.inference.start import start_points
from driftbayes.jax_typing import Scalar
from driftbayes.models import Data


class Modes(NamedTuple):
    """Both in unconstrained coordinates.

    Args:
        natural: Of the density of the natural parameters: θ*, where the Occam factor is taken. It
            may lie at a bound, at infinity of z.
        free: Of the density of z, around which to integrate and to sample.
    """

    natural: Mode
    free: Mode


def find_modes(hypothesis: Hypothesis, data: Data) -> Modes:
    """Both modes, one after the other by one program."""

    def search(task: tuple[Scalar, Array]) -> Mode:
        weight, start = task

        def slope(z: Array) -> Scalar:
            return weight * hypothesis.log_jacobian(z)

        return climb(LogJoint(hypothesis, data, slope).sweep, start)

    both = jax.lax.map(search, (jnp.asarray([0.0, 1.0]), start_points(hypothesis, data)))
    return Modes(*(jax.tree.map(lambda leaf, i=i: leaf[i], both) for i in range(2)))
