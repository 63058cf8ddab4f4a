"""Diagnostics of trajectories without a model.

`diagnose` returns all of them as one data set, `data_scales` the scales of the default priors.
"""

from typing import TYPE_CHECKING

from driftbayes._aliases import lazy

if TYPE_CHECKING:
    from driftbayes.diagnostics._against_lag import diagnose
    from driftbayes.diagnostics._scales import Scales, data_scales

__all__ = ["Scales", "data_scales", "diagnose"]

__getattr__ = lazy(__name__, {"_against_lag": "diagnose", "_scales": "Scales data_scales"})
