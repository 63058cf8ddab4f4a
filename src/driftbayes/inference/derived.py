"""What follows from the posterior mode and the data: a mean flow, a tensor, weights of classes."""

__all__ = ["derived_at"]

import numpy as np

from driftbayes.inference._batch import Batch
from driftbayes.inference.density import Density
from driftbayes.inference.hypothesis import Hypothesis
from driftbayes.typing import FloatArray


def derived_at(
    hypothesis: Hypothesis, batch: Batch, index: int, theta: FloatArray
) -> dict[str, float]:
    """The model's derived quantities at θ for one data set of a batch."""
    model = hypothesis.model
    if not model.has_derived:
        return {}
    return Density(hypothesis, batch.engine(index, model)).derived(np.asarray(theta))
