"""Predictions from posteriors, and their scores."""

from driftbayes.prediction.forecast import Forecast, ParticleForecast, ensemble, predict_particles
from driftbayes.prediction.lost import LostForecast, LostParticles, Region, predict_lost
from driftbayes.prediction.predict import Prediction, predict
from driftbayes.prediction.presence import PresenceMap
from driftbayes.prediction.scores import (
    Scores,
    TrajectoryScores,
    by_fold,
    held_out,
    leave_one_out,
    prequential,
)
from driftbayes.prediction.tables import LearnedScores

__all__ = [
    "Forecast",
    "LearnedScores",
    "LostForecast",
    "LostParticles",
    "ParticleForecast",
    "Prediction",
    "PresenceMap",
    "Region",
    "Scores",
    "TrajectoryScores",
    "by_fold",
    "ensemble",
    "held_out",
    "leave_one_out",
    "predict",
    "predict_lost",
    "predict_particles",
    "prequential",
]
