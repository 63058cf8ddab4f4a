"""Bayes factors, model probabilities, and scans over the sampling time."""

from typing import TYPE_CHECKING

from driftbayes.aliases import lazy
from driftbayes.comparison import describe as _describe  # noqa: F401  (registers descriptions)
from driftbayes.comparison import frames as _frames  # noqa: F401  (registers conversions)
from driftbayes.comparison.bayes import (
    Comparison,
    compare_hypotheses,
    log_bayes_factor,
    model_probabilities,
    strength,
)
from driftbayes.comparison.consistency import ConsistentRange, consistent_range
from driftbayes.comparison.dependence import Dependence, dependence
from driftbayes.comparison.hypotheses import HypothesisSet, make_hypotheses
from driftbayes.comparison.scan import Scan, scan_displacements, scan_hypotheses
from driftbayes.comparison.sensitivity import PriorSensitivity, prior_sensitivity

if TYPE_CHECKING:
    from driftbayes.comparison._bootstrap import Bootstrap, bootstrap, thinned_log_bayes_factor
    from driftbayes.comparison.prunings import Prunings, average_prunings

__getattr__ = lazy(
    __name__,
    {
        "_bootstrap": "Bootstrap bootstrap thinned_log_bayes_factor",
        "prunings": "Prunings average_prunings",
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
