"""The touchstone: does a fitted model explain the data at all, not only better than another?"""

import driftbayes.checks.describe  # noqa: F401  (registers descriptions)
from driftbayes.checks.check import FitCheck, ModelCheck, check_fit

__all__ = ["FitCheck", "ModelCheck", "check_fit"]
