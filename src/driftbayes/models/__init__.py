"""The library: one stochastic model per file, and the register of them."""

from driftbayes.models._base import AbstractModel, Parameter
from driftbayes.models._named import OPTIONS, model_named
from driftbayes.models._prepare import Data, Needs, Preparation, preparation, prepare
from driftbayes.models.brownian import Brownian
from driftbayes.models.langevin import Langevin

__all__ = [
    "MODELS",
    "OPTIONS",
    "AbstractModel",
    "Brownian",
    "Data",
    "Langevin",
    "Needs",
    "Parameter",
    "Preparation",
    "model_named",
    "preparation",
    "prepare",
]

MODELS: dict[str, type[AbstractModel]] = {model.name: model for model in (Brownian, Langevin)}
