"""Goodness of fit: whether a fitted model explains the data, not only better than another."""

from driftbayes.checks import describe as _describe  # noqa: F401  (registers descriptions)
from driftbayes.checks.check import FitCheck, ModelCheck, check_fit

__all__ = ["FitCheck", "ModelCheck", "check_fit"]
