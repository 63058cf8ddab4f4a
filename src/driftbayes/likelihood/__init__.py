"""The engine room: Gaussian log-densities from structure. It knows no physics."""

from driftbayes.likelihood.dense import dense_terms
from driftbayes.likelihood.kalman import PaddedSteps, kalman_terms
from driftbayes.likelihood.moments import SecondMoments, moments_terms, second_moments
from driftbayes.likelihood.reduced import ReducedDisplacements
from driftbayes.likelihood.terms import GaussianTerms
from driftbayes.likelihood.toeplitz import durbin_levinson

__all__ = [
    "GaussianTerms",
    "PaddedSteps",
    "ReducedDisplacements",
    "SecondMoments",
    "dense_terms",
    "durbin_levinson",
    "kalman_terms",
    "moments_terms",
    "second_moments",
]
