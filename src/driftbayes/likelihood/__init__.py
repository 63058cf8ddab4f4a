"""Engines that compute Gaussian log-densities; they contain no physics of the models."""

from driftbayes.likelihood.channels import (
    ChannelMoments,
    ChannelTerms,
    Collected,
    channel_moments,
    channel_moments_of,
)
from driftbayes.likelihood.engines import Engine
from driftbayes.likelihood.gaussian import GaussianTerms
from driftbayes.likelihood.moments import (
    MEMORY,
    SecondMoments,
    second_moments,
    second_moments_of,
)
from driftbayes.likelihood.reduced import ReducedDisplacements, SummedDisplacements
from driftbayes.likelihood.runs import Context
from driftbayes.likelihood.sums import Formulas, Sums
from driftbayes.likelihood.toeplitz import durbin_levinson, toeplitz_displacements

__all__ = [
    "MEMORY",
    "ChannelMoments",
    "ChannelTerms",
    "Collected",
    "Context",
    "Engine",
    "Formulas",
    "GaussianTerms",
    "ReducedDisplacements",
    "SecondMoments",
    "SummedDisplacements",
    "Sums",
    "channel_moments",
    "channel_moments_of",
    "durbin_levinson",
    "second_moments",
    "second_moments_of",
    "toeplitz_displacements",
]
