"""Diffusivities and flows that vary in space, and the probability of presence under them."""

from driftbayes.fields import describe as _describe  # noqa: F401  (registers descriptions)
from driftbayes.fields.averages import AveragedFit
from driftbayes.fields.fit import FieldFit, fit_field
from driftbayes.fields.flight import FlightPriors
from driftbayes.fields.flight_fit import FlightFit, fit_flight
from driftbayes.fields.fokker_planck import FokkerPlanck, Grid
from driftbayes.fields.local import FieldPriors
from driftbayes.fields.problem import Block, Member
from driftbayes.fields.splines import Splines

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
