"""What every sampler returns, before it becomes an `Evidence`."""

__all__ = ["Estimate"]

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from driftbayes.errors import Status
from driftbayes.typing import FloatArray


@dataclass(frozen=True, eq=False)
class Estimate:
    """An evidence with its error, and the posterior as weighted draws.

    Args:
        log_evidence: ln Z.
        log_evidence_err: Its error, one sigma in nats; NaN if the method has none.
        z: Draws in unconstrained coordinates, (draw, parameter).
        log_weights: Logarithms of their weights, not normalised; zeros if all count the same.
        log_likelihoods: ln L of each draw.
        n_evaluations: Evaluations of the likelihood, gradients counted as one each.
        status: How the computation ended.
        diagnostics: Named numbers by which to judge it, such as "pareto_k" or "rhat".
        warnings: What a reader should know, in words.
    """

    log_evidence: float
    log_evidence_err: float
    z: FloatArray
    log_weights: FloatArray
    log_likelihoods: FloatArray
    n_evaluations: int
    status: Status = Status.OK
    diagnostics: Mapping[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def weights(self) -> FloatArray:
        """Weights that sum to one."""
        shifted = np.exp(self.log_weights - np.max(self.log_weights))
        return shifted / shifted.sum()
