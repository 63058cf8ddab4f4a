"""Scores of ensembles of simulated trajectories against observed ones."""

from driftbayes.verification import describe
from driftbayes.verification.cases import Cases, match_cases
from driftbayes.verification.scores import EnsembleScore, EnsembleScores, score_cases

__all__ = ["Cases", "EnsembleScore", "EnsembleScores", "describe", "match_cases", "score_cases"]
