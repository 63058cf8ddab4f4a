"""The likelihood as a function of θ alone, and what is special about the scale."""

__all__ = ["is_noise_free", "log_likelihood_function"]

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array

from driftbayes.inference.hypothesis import Hypothesis
from driftbayes.jax_typing import Scalar
from driftbayes.likelihood import PaddedSteps
from driftbayes.models import Data


def is_noise_free(data: Data) -> bool:
    """Whether positions are exact, so that the scale parameter multiplies the whole covariance."""
    return not (isinstance(data, PaddedSteps) and data.noisy)


def log_likelihood_function(hypothesis: Hypothesis, data: Data) -> Callable[[Array], Scalar]:
    """The log-likelihood as a function of θ, with all that does not depend on θ done once."""
    if len(hypothesis.names) > 1 or not is_noise_free(data):
        return lambda theta: hypothesis.log_likelihood(theta, data)
    # The scale is the only parameter: the engine need run but once.
    terms = hypothesis.at(jnp.ones(1)).terms(data)
    return lambda theta: terms.log_likelihood(theta[0])
