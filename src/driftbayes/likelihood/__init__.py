"""Engines that compute Gaussian log-densities; they contain no physics of the models."""

from driftbayes.likelihood._channels import (
    ChannelMoments,
    ChannelTerms,
    Collected,
    channel_moments,
    channel_moments_of,
)
from driftbayes.likelihood._engines import Engine
from driftbayes.likelihood._gaussian import GaussianTerms
from driftbayes.likelihood._moments import (
    MEMORY,
    SecondMoments,
    second_moments,
    second_moments_of,
)
from driftbayes.likelihood._reduced import ReducedDisplacements, SummedDisplacements
from driftbayes.likelihood._runs import Context
from driftbayes.likelihood._sums import Formulas, SlotForms, Sums
from driftbayes.likelihood._toeplitz import (
    PredictionFilters,
    durbin_levinson,
    toeplitz_displacements,
)

__all__ = [
    "MEMORY",
    "ChannelMoments",
    "ChannelTerms",
    "Collected",
    "Context",
    "Engine",
    "Formulas",
    "GaussianTerms",
    "PredictionFilters",
    "ReducedDisplacements",
    "SecondMoments",
    "SlotForms",
    "SummedDisplacements",
    "Sums",
    "channel_moments",
    "channel_moments_of",
    "durbin_levinson",
    "second_moments",
    "second_moments_of",
    "toeplitz_displacements",
]
