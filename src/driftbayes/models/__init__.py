"""The library: one stochastic model per file, and the register of them."""

from driftbayes.models._base import AbstractModel, Data, Parameter, prepare
from driftbayes.models.brownian import Brownian
from driftbayes.models.langevin import Langevin

__all__ = ["MODELS", "AbstractModel", "Brownian", "Data", "Langevin", "Parameter", "prepare"]

MODELS: dict[str, type[AbstractModel]] = {model.name: model for model in (Brownian, Langevin)}
