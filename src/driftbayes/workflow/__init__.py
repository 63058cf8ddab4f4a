"""What a user does with trajectories: one function for each command."""

from driftbayes.workflow.analyses import compare, scan, suggested_taus
from driftbayes.workflow.reading import read
from driftbayes.workflow.scans import open_scan
from driftbayes.workflow.setup import Cut, Scales

__all__ = ["Cut", "Scales", "compare", "open_scan", "read", "scan", "suggested_taus"]
