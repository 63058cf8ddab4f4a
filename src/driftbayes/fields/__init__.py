"""Diffusivities and flows that vary in space, and the probability of presence under them."""

from driftbayes.fields import _describe  # noqa: F401  (registers descriptions)
from driftbayes.fields._averages import AveragedFit
from driftbayes.fields._fit import FieldFit, fit_field
from driftbayes.fields._flight import FlightPriors
from driftbayes.fields._flight_fit import FlightFit, fit_flight
from driftbayes.fields._fokker_planck import FokkerPlanck, Grid
from driftbayes.fields._local import FieldPriors
from driftbayes.fields._problem import Block, Member
from driftbayes.fields._splines import Splines

__all__ = [
    "AveragedFit",
    "Block",
    "FieldFit",
    "FieldPriors",
    "FlightFit",
    "FlightPriors",
    "FokkerPlanck",
    "Grid",
    "Member",
    "Splines",
    "fit_field",
    "fit_flight",
]
