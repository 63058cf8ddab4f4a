"""Predictions from posteriors, and their scores."""

from driftbayes.prediction import _describe  # noqa: F401  (registers descriptions)
from driftbayes.prediction._arrival import Arrival, Arrivals
from driftbayes.prediction._first_passage import brownian_arrival
from driftbayes.prediction._forecast import Forecast, ParticleForecast, ensemble, predict_particles
from driftbayes.prediction._lost import LostForecast, LostParticles, Region, predict_lost
from driftbayes.prediction._predict import Prediction, ScaleMixture, Spread, predict
from driftbayes.prediction._presence import PresenceMap
from driftbayes.prediction._scores import Scores, by_fold, held_out, leave_one_out, prequential
from driftbayes.prediction._tables import LearnedScores, TrajectoryScores

__all__ = [
    "Arrival",
    "Arrivals",
    "Forecast",
    "LearnedScores",
    "LostForecast",
    "LostParticles",
    "ParticleForecast",
    "Prediction",
    "PresenceMap",
    "Region",
    "ScaleMixture",
    "Scores",
    "Spread",
    "TrajectoryScores",
    "brownian_arrival",
    "by_fold",
    "ensemble",
    "held_out",
    "leave_one_out",
    "predict",
    "predict_lost",
    "predict_particles",
    "prequential",
]
