"""The engine room: Gaussian log-densities from structure. It knows no physics."""

from driftbayes.likelihood.channels import (
    ChannelMoments,
    ChannelSteps,
    ChannelTerms,
    Collected,
    channel_moments,
    channel_moments_of,
    channel_moments_terms,
    channel_steps,
    channel_steps_terms,
)
from driftbayes.likelihood.engines import Engine
from driftbayes.likelihood.kalman import (
    GaussianTerms,
    PaddedSteps,
    dense_innovations,
    dense_terms,
    innovation_terms,
    kalman_innovations,
    kalman_terms,
)
from driftbayes.likelihood.moments import (
    MEMORY,
    SecondMoments,
    moments_terms,
    second_moments,
    second_moments_of,
)
from driftbayes.likelihood.per_trajectory import (
    TrajectoryPieces,
    trajectory_pieces,
    trajectory_terms,
)
from driftbayes.likelihood.reduced import ReducedDisplacements, SummedDisplacements
from driftbayes.likelihood.runs import Context
from driftbayes.likelihood.sums import Formulas, Sums
from driftbayes.likelihood.toeplitz import durbin_levinson, toeplitz_displacements

__all__ = [
    "MEMORY",
    "ChannelMoments",
    "ChannelSteps",
    "ChannelTerms",
    "Collected",
    "Context",
    "Engine",
    "Formulas",
    "GaussianTerms",
    "PaddedSteps",
    "ReducedDisplacements",
    "SecondMoments",
    "SummedDisplacements",
    "Sums",
    "TrajectoryPieces",
    "channel_moments",
    "channel_moments_of",
    "channel_moments_terms",
    "channel_steps",
    "channel_steps_terms",
    "dense_innovations",
    "dense_terms",
    "durbin_levinson",
    "innovation_terms",
    "kalman_innovations",
    "kalman_terms",
    "moments_terms",
    "second_moments",
    "second_moments_of",
    "toeplitz_displacements",
    "trajectory_pieces",
    "trajectory_terms",
]
