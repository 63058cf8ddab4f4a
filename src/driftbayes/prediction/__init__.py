"""Predictions from posteriors, and their scores."""

from driftbayes.prediction.forecast import ParticleForecast, ensemble, predict_particles
from driftbayes.prediction.predict import Prediction, predict
from driftbayes.prediction.scores import TrajectoryScores, held_out, leave_one_out, prequential

__all__ = [
    "ParticleForecast",
    "Prediction",
    "TrajectoryScores",
    "ensemble",
    "held_out",
    "leave_one_out",
    "predict",
    "predict_particles",
    "prequential",
]
