"""Quality control of trajectories: findings are reported, and repaired only on request."""

from driftbayes.quality._checks import (
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
from driftbayes.quality._report import (
    DEFAULT,
    QualityReport,
    applied,
    apply,
    fix_limits,
    inspect,
    merge_records,
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
    "fix_limits",
    "inspect",
    "merge_records",
    "parse_checks",
]
