"""Any stochastic differential equation: particle filters, evidence and simulation."""

from typing import TYPE_CHECKING

from driftbayes.aliases import lazy

if TYPE_CHECKING:
    from driftbayes.sde.filter import Filter
    from driftbayes.sde.law import Hidden
    from driftbayes.sde.likelihood import EnsembleDensity, KalmanDensity, ParticleDensity
    from driftbayes.sde.model import SDE
    from driftbayes.sde.models.dissipation import fluctuating_dissipation
    from driftbayes.sde.models.friction import nonlinear_friction
    from driftbayes.sde.models.potential import double_well, in_potential
    from driftbayes.sde.models.random_flight import random_flight
    from driftbayes.sde.models.student import student_langevin

__getattr__ = lazy(
    __name__,
    {
        "filter": "Filter",
        "law": "Hidden",
        "likelihood": "EnsembleDensity KalmanDensity ParticleDensity",
        "model": "SDE",
        "models.dissipation": "fluctuating_dissipation",
        "models.friction": "nonlinear_friction",
        "models.potential": "double_well in_potential",
        "models.random_flight": "random_flight",
        "models.student": "student_langevin",
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
