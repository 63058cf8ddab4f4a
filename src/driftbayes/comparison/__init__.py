"""Bayes factors, model probabilities, and scans over the sampling time."""

from typing import TYPE_CHECKING

from driftbayes._aliases import lazy

if TYPE_CHECKING:
    from driftbayes.comparison._bayes import (
        Comparison,
        compare_hypotheses,
        log_bayes_factor,
        model_probabilities,
        strength,
    )
    from driftbayes.comparison._bootstrap import Bootstrap, bootstrap, thinned_log_bayes_factor
    from driftbayes.comparison._consistency import ConsistentRange, consistent_range
    from driftbayes.comparison._dependence import Dependence, dependence
    from driftbayes.comparison._hypotheses import HypothesisSet, make_hypotheses
    from driftbayes.comparison._prunings import Prunings, average_prunings
    from driftbayes.comparison._scan import Scan, scan_displacements, scan_hypotheses
    from driftbayes.comparison._sensitivity import PriorSensitivity, prior_sensitivity

__getattr__ = lazy(
    __name__,
    {
        "_bayes": "Comparison compare_hypotheses log_bayes_factor model_probabilities strength",
        "_hypotheses": "HypothesisSet make_hypotheses",
        "_consistency": "ConsistentRange consistent_range",
        "_dependence": "Dependence dependence",
        "_scan": "Scan scan_displacements scan_hypotheses",
        "_sensitivity": "PriorSensitivity prior_sensitivity",
        "_bootstrap": "Bootstrap bootstrap thinned_log_bayes_factor",
        "_prunings": "Prunings average_prunings",
    },
)

__all__ = [
    "Bootstrap",
    "Comparison",
    "ConsistentRange",
    "Dependence",
    "HypothesisSet",
    "PriorSensitivity",
    "Prunings",
    "Scan",
    "average_prunings",
    "bootstrap",
    "compare_hypotheses",
    "consistent_range",
    "dependence",
    "log_bayes_factor",
    "make_hypotheses",
    "model_probabilities",
    "prior_sensitivity",
    "scan_displacements",
    "scan_hypotheses",
    "strength",
    "thinned_log_bayes_factor",
]
