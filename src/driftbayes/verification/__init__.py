"""Scores of ensembles of simulated trajectories against observed ones."""

from driftbayes.verification._cases import Cases, match_cases
from driftbayes.verification._scores import EnsembleScore, EnsembleScores, score_cases

__all__ = ["Cases", "EnsembleScore", "EnsembleScores", "match_cases", "score_cases"]
