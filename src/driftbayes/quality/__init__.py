"""The gate: what looks wrong in trajectories, reported, and mended only if asked to."""

from driftbayes.quality.drogue import Drogue
from driftbayes.quality.finding import AbstractCheck, Finding
from driftbayes.quality.gaps import Gaps
from driftbayes.quality.repeats import Repeats
from driftbayes.quality.report import (
    CHECKS,
    DEFAULT,
    QualityReport,
    applied,
    apply,
    fixed_by,
    inspect,
    merged,
    parse_checks,
)
from driftbayes.quality.short import Short
from driftbayes.quality.spikes import Spikes
from driftbayes.quality.stuck import Stuck

__all__ = [
    "CHECKS",
    "DEFAULT",
    "AbstractCheck",
    "Drogue",
    "Finding",
    "Gaps",
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
