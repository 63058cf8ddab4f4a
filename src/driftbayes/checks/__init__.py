"""Goodness of fit of single models."""

from driftbayes.checks._calibrate import Deviation
from driftbayes.checks._check import FitCheck, ModelCheck, check_fit
from driftbayes.checks._statistics import Quantity

__all__ = ["Deviation", "FitCheck", "ModelCheck", "Quantity", "check_fit"]
