"""The conveyor: scans of files that do not fit in memory."""

from driftbayes.streaming.scan import check_streamable, scan_tally, tally_file
from driftbayes.streaming.tally import Recipe, Tally, tally_of
from driftbayes.streaming.workers import Workers

__all__ = [
    "Recipe",
    "Tally",
    "Workers",
    "check_streamable",
    "scan_tally",
    "tally_file",
    "tally_of",
]
