"""Any stochastic differential equation: particle filters, evidence and simulation."""

from typing import TYPE_CHECKING

from driftbayes._aliases import lazy

if TYPE_CHECKING:
    from driftbayes.sde._filter import Filter
    from driftbayes.sde._law import Hidden
    from driftbayes.sde._likelihood import EnsembleDensity, KalmanDensity, ParticleDensity
    from driftbayes.sde._model import SDE
    from driftbayes.sde._models.dissipation import fluctuating_dissipation
    from driftbayes.sde._models.friction import nonlinear_friction
    from driftbayes.sde._models.potential import double_well, in_potential
    from driftbayes.sde._models.random_flight import random_flight
    from driftbayes.sde._models.student import student_langevin

__getattr__ = lazy(
    __name__,
    {
        "_filter": "Filter",
        "_law": "Hidden",
        "_likelihood": "EnsembleDensity KalmanDensity ParticleDensity",
        "_model": "SDE",
        "_models.dissipation": "fluctuating_dissipation",
        "_models.friction": "nonlinear_friction",
        "_models.potential": "double_well in_potential",
        "_models.random_flight": "random_flight",
        "_models.student": "student_langevin",
    },
)

__all__ = [
    "SDE",
    "EnsembleDensity",
    "Filter",
    "Hidden",
    "KalmanDensity",
    "ParticleDensity",
    "double_well",
    "fluctuating_dissipation",
    "in_potential",
    "nonlinear_friction",
    "random_flight",
    "student_langevin",
]
