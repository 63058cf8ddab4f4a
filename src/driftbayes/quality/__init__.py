"""Quality control of trajectories: findings are reported, and repaired only on request."""

from driftbayes.quality.checks import (
    CHECKS,
    AbstractCheck,
    Drogue,
    Finding,
    Gaps,
    Outliers,
    Repeats,
    Short,
    Spikes,
    Stuck,
)
from driftbayes.quality.report import (
    DEFAULT,
    QualityReport,
    applied,
    apply,
    fixed_by,
    inspect,
    merged,
    parse_checks,
)

__all__ = [
    "CHECKS",
    "DEFAULT",
    "AbstractCheck",
    "Drogue",
    "Finding",
    "Gaps",
    "Outliers",
    "QualityReport",
    "Repeats",
    "Short",
    "Spikes",
    "Stuck",
    "applied",
    "apply",
    "fixed_by",
    "inspect",
    "merged",
    "parse_checks",
]
