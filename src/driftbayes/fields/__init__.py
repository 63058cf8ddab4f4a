"""Diffusivities and flows that vary in space, and the probability of presence under them."""

from driftbayes.fields import describe as _describe  # noqa: F401  (registers descriptions)
from driftbayes.fields.fit import FieldFit, FieldPriors, fit_field
from driftbayes.fields.fokker_planck import FokkerPlanck, Grid
from driftbayes.fields.splines import Splines

__all__ = ["FieldFit", "FieldPriors", "FokkerPlanck", "Grid", "Splines", "fit_field"]
