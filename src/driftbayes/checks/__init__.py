"""Goodness of fit of single models."""

from driftbayes.checks import describe as _describe  # noqa: F401  (registers descriptions)
from driftbayes.checks.check import FitCheck, ModelCheck, check_fit

__all__ = ["FitCheck", "ModelCheck", "check_fit"]
