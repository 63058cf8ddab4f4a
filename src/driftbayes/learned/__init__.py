"""Transition densities learned from displacements, and their scores relative to models."""

from driftbayes.learned._scores import score_learned
from driftbayes.learned._training import Training

__all__ = ["Training", "score_learned"]
