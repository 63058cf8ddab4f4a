"""Any stochastic differential equation: particle filters, evidence and simulation."""

from typing import TYPE_CHECKING

from driftbayes.aliases import lazy

if TYPE_CHECKING:
    from driftbayes.sde.filter import Filter
    from driftbayes.sde.likelihood import KalmanDensity, ParticleDensity
    from driftbayes.sde.model import SDE, Hidden

__getattr__ = lazy(
    __name__,
    {
        "filter": "Filter",
        "likelihood": "KalmanDensity ParticleDensity",
        "model": "SDE Hidden",
    },
)

__all__ = ["SDE", "Filter", "Hidden", "KalmanDensity", "ParticleDensity"]
