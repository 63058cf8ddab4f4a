"""Predictions from posteriors, and their scores."""

from driftbayes.prediction.forecast import Forecast, ParticleForecast, ensemble, predict_particles
from driftbayes.prediction.lost import LostForecast, LostParticles, Region, predict_lost
from driftbayes.prediction.predict import Prediction, predict
from driftbayes.prediction.presence import PresenceMap
from driftbayes.prediction.scores import (
    Scores,
    TrajectoryScores,
    held_out,
    leave_one_out,
    prequential,
)

__all__ = [
    "Forecast",
    "LostForecast",
    "LostParticles",
    "ParticleForecast",
    "Prediction",
    "PresenceMap",
    "Region",
    "Scores",
    "TrajectoryScores",
    "ensemble",
    "held_out",
    "leave_one_out",
    "predict",
    "predict_lost",
    "predict_particles",
    "prequential",
]
