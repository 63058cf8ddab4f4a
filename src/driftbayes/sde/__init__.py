"""Any stochastic differential equation: particle filters, evidence and simulation."""

from typing import TYPE_CHECKING

from driftbayes.aliases import lazy

if TYPE_CHECKING:
    from driftbayes.sde.filter import Filter
    from driftbayes.sde.law import Hidden
    from driftbayes.sde.likelihood import EnsembleDensity, KalmanDensity, ParticleDensity
    from driftbayes.sde.model import SDE

__getattr__ = lazy(
    __name__,
    {
        "filter": "Filter",
        "law": "Hidden",
        "likelihood": "EnsembleDensity KalmanDensity ParticleDensity",
        "model": "SDE",
    },
)

__all__ = ["SDE", "EnsembleDensity", "Filter", "Hidden", "KalmanDensity", "ParticleDensity"]
