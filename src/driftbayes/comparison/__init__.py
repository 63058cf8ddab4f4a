"""The verdict: which model, at which tau, how sure."""

from driftbayes.comparison.bayes import (
    Comparison,
    compare,
    log_bayes_factor,
    model_probabilities,
    strength,
)
from driftbayes.comparison.consistency import ConsistentRange, consistent_range
from driftbayes.comparison.hypotheses import Setup, make_hypotheses
from driftbayes.comparison.scan import Scan, scan, scan_displacements

__all__ = [
    "Comparison",
    "ConsistentRange",
    "Scan",
    "Setup",
    "compare",
    "consistent_range",
    "log_bayes_factor",
    "make_hypotheses",
    "model_probabilities",
    "scan",
    "scan_displacements",
    "strength",
]
