"""What follows from the posterior mode and the data: a mean flow, a tensor, weights of classes."""

__all__ = ["derived_at"]

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from driftbayes.inference._batch import Batch
from driftbayes.inference.hypothesis import Hypothesis
from driftbayes.models import AbstractModel, Data
from driftbayes.typing import FloatArray


def derived_at(
    hypothesis: Hypothesis, batch: Batch, index: int, theta: Array | FloatArray
) -> dict[str, float]:
    """The model's derived quantities at θ for one data set of a batch."""
    if hypothesis.model.derived is AbstractModel.derived:
        return {}
    found = _derived(hypothesis, batch[index].data, jnp.asarray(theta))
    return {name: float(value) for name, value in found.items()}


@eqx.filter_jit
def _derived(hypothesis: Hypothesis, data: Data, theta: Array) -> dict[str, jax.Array]:
    return hypothesis.at(theta).derived(data)
