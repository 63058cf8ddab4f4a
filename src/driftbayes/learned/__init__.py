"""Transition densities learned from displacements, and their scores relative to models."""

from driftbayes.learned import describe as _describe  # noqa: F401  (registers descriptions)
from driftbayes.learned.scores import score_learned
from driftbayes.learned.training import Training

__all__ = ["Training", "score_learned"]
