"""Log-likelihood per trajectory, for many parameter values at once."""

import numpy as np

from driftbayes._typing import FloatArray
from driftbayes.data._sampling import Displacements
from driftbayes.inference._formulas import Rows
from driftbayes.inference._hypothesis import Hypothesis, check_plain
from driftbayes.models._prepare import make_engine

# Memory for the sums of the parameter values in one call, in bytes.
_BYTES = 64 << 20


def log_likelihood_per_trajectory(
    hypothesis: Hypothesis, theta: FloatArray, data: Displacements
) -> FloatArray:
    r"""Compute the log-likelihood of each trajectory.

    $$\ln p(D \mid \theta) = \sum_t \ln p(D_t \mid \theta)$$

    Runs are independent, so the sum is exact. Cross-validation has to leave out whole trajectories,
    not steps: steps of one run depend on each other.

    Args:
        hypothesis: A plain model, with its prior.
        theta: Parameters, (draw, parameter).
        data: Displacements at one tau.

    Returns:
        (draw, trajectory), in ascending order of trajectory number.

    Raises:
        DriftbayesError: The model treats axes, trajectories or steps differently.
    """
    check_plain([hypothesis], "a log-likelihood per trajectory")
    engine = make_engine(data, hypothesis.model, by_trajectory=True)
    n_slots, n_dim = len(np.unique(data.trajectory)), data.n_dim
    found = np.empty((len(theta), n_slots))
    at_once = max(_BYTES // (8 * n_slots * (n_dim**2 + 2)), 1)
    for low in range(0, len(theta), at_once):
        part = slice(low, low + at_once)
        with np.errstate(all="ignore"):
            found[part] = engine.sums(Rows(hypothesis, theta[part])).log_densities(n_dim)
    return found
