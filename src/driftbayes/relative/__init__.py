"""Relative dispersion: pairs of particles and how they separate."""

from driftbayes.relative._analysis import (
    PairComparison,
    PairScan,
    compare_pairs,
    pairs,
    scan_pairs,
)
from driftbayes.relative._density import log_separation_density
from driftbayes.relative._models import LAWS, Lundgren, PowerLaw, Rayleigh, Richardson
from driftbayes.relative._replicas import replicate
from driftbayes.relative._separations import Separations, separations
from driftbayes.relative._statistics import PairStatistics, pair_statistics

__all__ = [
    "LAWS",
    "Lundgren",
    "PairComparison",
    "PairScan",
    "PairStatistics",
    "PowerLaw",
    "Rayleigh",
    "Richardson",
    "Separations",
    "compare_pairs",
    "log_separation_density",
    "pair_statistics",
    "pairs",
    "replicate",
    "scan_pairs",
    "separations",
]
